"""Weights of a network that the user brought, written by its own names, for use outside of this package."""

from pathlib import Path

import safetensors.torch

from ..errors import SpecError
from ..mixers.common.foreign_module import ForeignModule
from ..registry import name_of
from ..system.files import write_bytes
from .predictor import Predictor


def save_backbone(predictor: Predictor, path: str | Path) -> str:
    """Write the weights of the first network's backbone as ``.safetensors``, and return what they are.

    Those of a whole backbone have the names of its own ``state_dict``; those of layers that are stacked have
    the number of their block before them, like those of an ``nn.ModuleList``. Embedding, head and, around
    layers, our norms and MLPs are not written.

    Raises:
        SpecError: if the mixer is one of this package, or the file is not called ``.safetensors``.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise SpecError(f"{path.name}: weights are written to a file called .safetensors")
    found = [block.mixer for block in predictor.networks[0].blocks]
    layers = [layer for layer in found if isinstance(layer, ForeignModule)]
    if not layers:
        mixer = name_of(predictor.model.mixer)
        raise SpecError(f"{mixer} is a mixer of this package; -o FOLDER saves the whole model")
    whole = predictor.model.mixer.whole
    tensors = {
        name if whole else f"{number}.{name}": weight.detach().cpu().clone()  # tied weights share memory
        for number, layer in enumerate(layers)
        for name, weight in layer.own_weights().items()
    }
    write_bytes(path, safetensors.torch.save(tensors, {"format": "pt"}))
    stacked = "" if whole else f"nn.ModuleList of {len(layers)} times "
    return f"{len(tensors)} tensors of {stacked}{layers[0].origin}"
