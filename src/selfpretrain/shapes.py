"""Axis letters of tensor annotations; every annotation in the package uses these.

B  batch: sequences (examples times views)      n  examples in a split
L  length: positions of a sequence              T  positions of all sequences, concatenated
D  width of the network                         C  channels of a value
H  heads of attention, or kernels of an SSM     N  states of an SSM
K  classes, or outputs of a head                V  vocabulary

Annotations are checked at run time in the tests, not in production.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Vectors = Float[Tensor, "B L D"]
"""One vector per position: the input and output of every layer."""

PaddingMask = Bool[Tensor, "B L"] | None
"""True at real positions, False at padding; None if there is no padding."""

PositionMask = Bool[Tensor, "B L"] | None
"""True at the positions that an objective masks; None if it masks none."""

Answered = Bool[Tensor, "B L"] | Int[Tensor, "asked"] | None
"""Positions that need an output: a mask, or flat indices b L + t; None: one output per sequence."""

Inputs = Int[Tensor, "B L"] | Float[Tensor, "B L C"]
"""Tokens, or values of C channels."""
