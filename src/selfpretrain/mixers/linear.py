"""Linear attention: softmax weights are replaced by products of positive features, and the cost grows with L.

y[t] = sum_s phi(q[t]).phi(k[s]) v[s] / sum_s phi(q[t]).phi(k[s]),  phi(x) = elu(x) + 1

Source: Katharopoulos et al. (2020), Transformers are RNNs, eqs. 5-7. What differs from it: nothing.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops.linear_attention import causal_linear_attention, linear_attention
from ..shapes import Valid
from ..shelf import Count, spec
from ._heads import Headed, Heads
from .base import Mixer, Place


@spec
class Linear(Mixer):
    """Attention with the feature map elu + 1."""

    positions = "sinusoidal"
    published: ClassVar[str] = "The LRA number came from code that does not mask padding."

    heads: Count = 4

    def build(self, place: Place) -> nn.Module:
        """The attention layer."""
        return LinearLayer(place, self.heads)


class LinearLayer(Heads):
    """The module of ``Linear``."""

    def mix(self, q: Headed, k: Headed, v: Headed, valid: Valid) -> Headed:
        """Sum up keys and values, then ask."""
        q, k = _features(q), _features(k)
        if valid is not None:
            k = k * valid[:, None, :, None]
        attend = causal_linear_attention if self.causal else linear_attention
        return attend(q, k, v.to(q))


def _features(x: Headed) -> Tensor:
    return F.elu(x.to(torch.promote_types(x.dtype, torch.float32))) + 1


mixer = Linear
