"""Studies, one module each: a question, and the recipes of the table that answers it."""
