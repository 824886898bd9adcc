"""Recipes, the network, the training loop, evaluation and cost."""
