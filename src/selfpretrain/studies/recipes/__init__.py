"""Training recipes: our defaults, and those printed in papers with the source of every value."""
