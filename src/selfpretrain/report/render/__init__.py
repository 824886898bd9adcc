"""One report, in one file per form: terminal, Markdown, LaTeX, CSV."""
