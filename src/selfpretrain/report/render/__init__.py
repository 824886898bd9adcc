"""One report, in one file per form: terminal, Markdown, HTML, LaTeX, CSV."""
