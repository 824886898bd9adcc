"""Import of labelled sequences from files, arrays and the Hugging Face hub."""

from typing import Literal

# Here and not next to ``ImportOptions``, whose module takes 0.3 s to import: ``--help`` needs only these.
Kind = Literal["auto", "text", "tokens", "values"]  # kinds of sequences: UTF-8 text, tokens, or real values
TargetKind = Literal["auto", "classes", "reals", "sets", "positions"]
"""What is predicted: one class, a number, a set of classes, or a class at every position."""
AudioFeatures = Literal["raw", "mel", "mfcc"]
"""Samples, energies of 64 mel bands every 10 ms, or 20 cepstral coefficients of these."""
MissingPolicy = Literal["refuse", "drop", "cut", "fill", "mask"]
"""Policies for missing values; see ``fill_missing``."""
