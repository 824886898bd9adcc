"""Running a trained causal network along sequences without end, and taking its recurrences elsewhere.

A recurrent layer needs a state of constant size and nothing else of the past, so a million positions cost no
more memory than one chunk of them. The answers are those of the whole sequence at once.
"""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import SpecError
from ..mixers.base import Recurrence, Recurrent, State
from ..objectives._heads import PerPosition
from ..shapes import Inputs, Valid, Vectors
from .model import Network
from .stage_folder import Folder

CHUNK = 1024
"""Positions that go through the network together."""


class Stream:
    """A network as it goes along a batch of sequences, given piece by piece.

    The network must be in evaluation mode, and not be trained on while the stream is in use.

    Raises:
        SpecError: if a layer is not causal or has no state of constant size, or if positions end.
    """

    def __init__(self, network: Network, batch: int = 1) -> None:
        if network.training:
            raise SpecError("a stream needs a network without dropout: call network.eval() first")
        if network.embed.placed:
            raise SpecError(
                "learned and sinusoidal positions end somewhere; build the model with positions='none'"
            )
        self.network, self.batch = network, batch
        self._recurrences = [_recurrence(mixer) for mixer in _mixers(network)]
        self.reset()

    def reset(self) -> None:
        """Forget the past: new sequences begin."""
        self._states: list[State] = [layer.state(self.batch) for layer in self._recurrences]

    @torch.no_grad()
    def features(self, inputs: Inputs) -> Vectors:
        """What a head would see at the next positions.

        Raises:
            SpecError: if there are not as many sequences as the stream was made for.
        """
        if len(inputs) != self.batch:
            raise SpecError(f"a stream of {self.batch} sequences was given {len(inputs)}")
        return torch.cat([self._chunk(piece) for piece in inputs.split(CHUNK, dim=1)], dim=1)

    @torch.no_grad()
    def __call__(self, inputs: Inputs) -> Float[Tensor, "B L K"]:
        """The head's answers at the next positions.

        Raises:
            SpecError: if the head has one answer for a whole sequence.
        """
        if not isinstance(self.network.head, PerPosition):
            raise SpecError(
                "this head pools a whole sequence; use features(), or a head with answers per position"
            )
        return self.network.head(self.features(inputs)).unflatten(0, inputs.shape[:2])

    def _chunk(self, inputs: Inputs) -> Vectors:
        x = self.network.embed(inputs)
        for i, block in enumerate(self.network.blocks):

            def mix(x: Vectors, valid: Valid, i: int = i) -> Vectors:
                y, self._states[i] = self._recurrences[i].advance(x, self._states[i])
                return y

            x = block(x, mix=mix)
        return x if self.network.norm is None else self.network.norm(x)


def discretised(layer: nn.Module) -> dict[str, Tensor]:
    """The recurrence of a causal layer as plain tensors in double precision, without its gate.

    State space models with a matrix (S4, LSSL):  z[t] = A z[t-1] + B u[t],  y[t] = C z[t] + D u[t]
    per channel, with A (H, N, N), B and C (H, N), D (H), all real.

    The others:  z[t] = factor z[t-1] + u[t],  y[t] = Re sum_n weight_n z_n[t] + D u[t], with factor (H, N),
    or (1, N) where channels share it, and weight (H, N); complex numbers have a last axis of two.

    Layers made of cells, like LSTM, LRU or Mamba-2: all parameters of the cell, by name.

    Raises:
        SpecError: if the layer is not causal or has no state of constant size.
    """
    return _recurrence(layer).tensors()


def export(network: Network, path: Path) -> None:
    """Write ``discretised`` of every block's mixer as ``blocks.<i>.A`` and so on, in one safetensors file.

    Raises:
        SpecError: if a layer is not causal or has no state of constant size.
        StoreError: if the file cannot be written.
    """
    tensors = {
        f"blocks.{i}.{name}": tensor
        for i, mixer in enumerate(_mixers(network))
        for name, tensor in discretised(mixer).items()
    }
    Folder.make(path.parent).save(path.name, tensors)


def _mixers(network: Network) -> list[nn.Module]:
    return [block.get_submodule("mixer") for block in network.blocks]


def _recurrence(mixer: nn.Module) -> Recurrence:
    if not isinstance(mixer, Recurrent):
        raise SpecError(
            f"{type(mixer).__name__} has no state of constant size; a stream needs a mixer like s4 or dlr"
        )
    return mixer.recurrence()
