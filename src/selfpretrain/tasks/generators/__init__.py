"""Generators of synthetic examples: NumPy and Numba, no torch."""
