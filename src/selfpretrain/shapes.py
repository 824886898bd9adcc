"""Axis letters and shared tensor types; every tensor annotation in the package uses these letters only.

B  batch: sequences (examples times views)      n  examples in a split
L  length: positions of a sequence              T  positions of all sequences, end to end
D  width of the network                         C  channels of a value
H  heads of attention, or kernels of an SSM     N  states of an SSM
K  classes, or outputs of a head                V  vocabulary

Annotations are checked at run time in the tests, not in production.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Vectors = Float[Tensor, "B L D"]
"""Activations between layers: one vector per position."""

PaddingMask = Bool[Tensor, "B L"] | None
"""Padding mask: True at real positions, like ``attention_mask`` of Hugging Face; None: no padding.

Real positions come first in every sequence, padding follows them: causal attention relies on it.
``key_padding_mask`` of PyTorch is the opposite."""

PositionMask = Bool[Tensor, "B L"] | None
"""Mask of positions: True where an objective masks the input, or computes the loss; None: no mask."""

LossMask = Bool[Tensor, "B L"] | Int[Tensor, "positions"] | None
"""Positions with an output: a mask, or flat indices b L + t in ascending order; None: one per sequence."""

Inputs = Int[Tensor, "B L"] | Float[Tensor, "B L C"]
"""Network inputs: token ids, or values of C channels."""
