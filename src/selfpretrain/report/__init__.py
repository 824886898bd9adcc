"""Reports: read results, write tables, figures and pages. Nothing here imports torch or trains."""
