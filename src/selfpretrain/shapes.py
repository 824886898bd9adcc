"""The legend of axis letters; every tensor annotation in the package uses these and no others.

B  batch: sequences (examples times views)      n  examples in a split
L  length: positions of a sequence              T  positions of all sequences, end to end
D  width of the network                         C  channels of a value
H  heads of attention, or kernels of an SSM     N  states of an SSM
K  classes, or answers of a head                V  vocabulary

Annotations are checked at run time in the tests, not in production.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Vectors = Float[Tensor, "B L D"]
"""One vector per position: what travels between layers."""

PaddingMask = Bool[Tensor, "B L"] | None
"""Which positions are real; None when all of them are."""

PositionMask = Bool[Tensor, "B L"] | None
"""Which positions an objective conceals; None when none is."""

Answered = Bool[Tensor, "B L"] | Int[Tensor, "asked"] | None
"""Where an answer per position is wanted: a mask, or b L + t in reading order; None: one per sequence."""

Inputs = Int[Tensor, "B L"] | Float[Tensor, "B L C"]
"""Tokens, or values of C channels."""
