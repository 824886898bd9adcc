"""Simple methods: features of sequences, linear models and trees on them, and the one list of both."""
