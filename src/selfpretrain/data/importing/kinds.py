"""What sequences, labels and recordings can hold; `spt --help` needs no more of an import than this."""

from typing import Literal

Kind = Literal["auto", "text", "tokens", "values"]
"""What sequences hold."""
TargetKind = Literal["auto", "classes", "reals", "sets", "positions"]
"""What is to be predicted: one class, a number, any of several classes, or a class at every position."""
AudioFeatures = Literal["raw", "mel", "mfcc"]
"""Samples, energies of 64 mel bands every 10 ms, or 20 cepstral coefficients of these."""
MissingPolicy = Literal["refuse", "drop", "cut", "fill", "mask"]
"""What to do about values that are not known."""
