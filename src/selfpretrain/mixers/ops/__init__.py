"""Arithmetic without parameters: plain PyTorch, no state."""
