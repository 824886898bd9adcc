"""Renderers of a report, one module per format: terminal, Markdown, HTML, LaTeX, CSV."""
