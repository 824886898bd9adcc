"""Generators of synthetic examples, in NumPy and Numba without torch."""
