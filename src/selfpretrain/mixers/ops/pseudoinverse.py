"""The Moore-Penrose pseudoinverse, by matrix products only."""

import torch
from jaxtyping import Float
from torch import Tensor

from ._exact import full_precision


def pseudoinverse(A: Float[Tensor, "*batch m m"], steps: int) -> Float[Tensor, "*batch m m"]:
    """Iterate Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4 from Z_0 = A^T / (|A|_1 |A|_inf), per matrix.

    Source: Xiong et al. (2021), Nystroemformer, eqs. 11-12, after Razavi et al. (2014).
    """
    eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    size = A.abs()
    norms = size.sum(-2).amax(-1) * size.sum(-1).amax(-1)
    with full_precision(A.device):
        Z = A.transpose(-1, -2) / norms[..., None, None]
        for _ in range(steps):
            AZ = A @ Z
            Z = 0.25 * Z @ (13 * eye - AZ @ (15 * eye - AZ @ (7 * eye - AZ)))
    return Z
