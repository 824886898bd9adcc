"""Training recipes: our defaults, and those reported in papers with the source of every value."""
