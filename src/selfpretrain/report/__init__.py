"""Reports: results in, tables, figures and pages out. Nothing here imports torch or trains."""
