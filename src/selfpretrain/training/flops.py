"""FLOP counter: count the FLOPs of a pass, with formulas for operations that torch does not count."""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count, shape_wrapper

from ..data.spec import SequenceSpec
from ..objectives.base import Objective, ObjectiveBatch, loss_of
from ..system.distributed import alone

aten = torch.ops.aten


def count_step(
    network: nn.Module, objective: Objective, form: SequenceSpec, targets: ObjectiveBatch
) -> float:
    """Return the FLOPs of a forward and backward pass over a batch."""

    def loss() -> torch.Tensor:
        outputs = network(*targets.network_inputs())
        return loss_of(objective, outputs, targets, form)

    return count_flops(network, loss)


def count_flops(network: nn.Module, loss: Callable[[], torch.Tensor]) -> float:
    """Return the FLOPs of a loss and its gradients, which are dropped."""
    with alone(), torch.enable_grad(), _Counter() as counter:
        loss().backward()
    network.zero_grad(set_to_none=True)
    return float(counter.total)


class DispatchMode(TorchDispatchMode):
    """A mode that does not ask for the compiler, whose import takes two seconds."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class _Counter(DispatchMode):
    """The total of ``FlopCounterMode``, without importing the compiler."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.formulas = flop_formulas()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        formula = self.formulas.get(getattr(func, "overloadpacket", None))
        if formula is None and isinstance(func, torch._ops.OpOverload) and func not in _PRIMITIVES:
            with self:
                decomposed = func.decompose(*args, **kwargs)
            if decomposed is not NotImplemented:
                return decomposed
            _PRIMITIVES.add(func)
        out = func(*args, **kwargs)
        if formula is not None:
            self.total += formula(*args, **kwargs, out_val=out)
        return out


_PRIMITIVES: set[Any] = set()
"""Operations that torch does not decompose: asking again takes longer than most of them run."""


@functools.cache
def flop_formulas() -> dict[Any, Callable[..., int]]:
    """Return a formula for every operation with FLOPs, which takes its arguments and ``out_val``."""
    ours: dict[Any, Callable[..., int]] = {  # for operations that torch's counter misses or miscounts
        aten._scaled_dot_product_flash_attention_for_cpu: _attention(sdpa_flop_count, 3),
        aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention(sdpa_backward_flop_count, 4),
        aten._fft_r2c: _fft(2.5),
        aten._fft_c2r: _fft(2.5, inverse=True),
        aten._fft_c2c: _fft(5.0),
        aten.convolution_backward: _convolution_backward,
        aten.linalg_solve_triangular: _triangular,
        aten.mkldnn_rnn_layer: _recurrent(2),
        aten.mkldnn_rnn_layer_backward: _recurrent(4),
        aten._cudnn_rnn: _stacked(2),
        aten._cudnn_rnn_backward: _stacked(4),
    }
    return flop_registry | {packet: shape_wrapper(formula) for packet, formula in ours.items()}


def _attention(formula: Callable[..., int], tensors: int) -> Callable[..., int]:
    """Return torch's formula for a CPU attention kernel, from the shapes of its first tensors."""

    def count(*shapes: Any, attn_mask: Any = None, scale: Any = None, out_shape: Any = None) -> int:
        return formula(*shapes[:tensors])

    return count


def _convolution_backward(grad: Any, x: Any, weight: Any, *rest: Any, out_shape: Any = None) -> int:
    """Count the forward FLOPs for each requested gradient; torch ignores the groups in one of them."""
    _, _, _, _, transposed, _, _, requested = rest
    positions = math.prod((x if transposed else grad)[2:])
    return 2 * sum(requested[:2]) * x[0] * positions * math.prod(weight)


def _triangular(
    matrix: Any,
    right: Any,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out_shape: Any = None,
) -> int:
    """Count half a product with the matrix; one with its adjoint is solved for the gradient."""
    return matrix[-1] * math.prod(right)


def _recurrent(factor: int) -> Callable[..., int]:
    """Return the formula for a recurrent layer: both of its matrices at every position."""

    def formula(shape: Any, from_input: Any, from_state: Any, *rest: Any, out_shape: Any = None) -> int:
        return factor * math.prod(shape[:2]) * (math.prod(from_input) + math.prod(from_state))

    return formula


def _stacked(factor: int) -> Callable[..., int]:
    """Return the formula for cuDNN's stacked recurrent layers: all their matrices at every position."""

    def formula(shape: Any, weights: Any, *rest: Any, out_shape: Any = None) -> int:
        matrices = sum(math.prod(weight) for weight in weights if len(weight) == 2)
        return factor * math.prod(shape[:2]) * matrices

    return formula


def _fft(factor: float, inverse: bool = False) -> Callable[..., int]:
    """Return the formula for an FFT over some dimensions; ``inverse``: its size is that of the output."""

    def formula(shape: Any, dim: Any, *rest: Any, out_shape: Any = None) -> int:
        whole = out_shape if inverse else shape
        points = math.prod(whole[d] for d in dim)
        return round(factor * points * math.log2(max(points, 2)) * (math.prod(whole) // points))

    return formula
