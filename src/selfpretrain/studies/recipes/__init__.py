"""The recipes that papers print, as values with their sources."""
