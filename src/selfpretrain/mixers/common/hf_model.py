"""Models of Hugging Face transformers (extra ``hf``), randomly initialised from a config, as mixers.

y = W_2 model(W_1 x);  W_1 and W_2 only where the network is not as wide as the model

The model is any ``AutoModel`` that accepts input embeddings, and runs as the library runs it: a decoder stays
causal in a bidirectional network, an encoder becomes a decoder in a causal one. Its config is part of the
mixer, so that recipes do not depend on the file. Nothing is downloaded.
"""

import inspect
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...config import spec
from ...registry import import_extra
from ...shapes import PaddingMask, Vectors
from ..base import ForeignModule, LayerContext, Mixer, check_length
from .pythia_weights import remove_token_embedding, translate_errors
from .transformers_layer import LIBRARY, offline

PREFIX = "hf-model"
LONGEST = ("max_position_embeddings", "n_positions", "max_seq_len")
"""Settings of the library for the number of positions that a model has embeddings for."""

NOT_ARCHITECTURE = ("transformers_version", "architectures", "dtype", "torch_dtype", "_name_or_path")
"""Settings of a config that do not change the network."""


@spec
class HfModel(Mixer):
    """A complete network of transformers with the architecture of a config."""

    whole = True

    name: str  # of the folder or file of the config
    config: str  # settings that differ from the library's defaults, as JSON

    def build(self, context: LayerContext) -> nn.Module:
        """Return the model, with projections if its width differs from the network's."""
        return HfModule(context, self)

    def libraries(self, device: str) -> dict[str, str]:
        """Return the version of transformers."""
        return {LIBRARY: version(LIBRARY)}


class HfModule(ForeignModule):
    """The module of ``HfModel``.

    Raises:
        SpecError: if the library cannot build it, or it has fewer positions than the sequences.
    """

    def __init__(self, context: LayerContext, settings: HfModel) -> None:
        with translate_errors(settings.name), offline():
            library = _library()
            plain = json.loads(settings.config)
            config = library.AutoConfig.for_model(plain.pop("model_type"), **plain)
            if context.causal:
                config.is_decoder = True
            model = library.AutoModel.from_config(config, dtype=torch.float32)
        module, input_width, output_width = remove_token_embedding(model, settings.name)
        super().__init__(module, f"AutoModel.from_config of {settings.name}, but for the token embedding")
        D = context.width
        self.enter = nn.Identity() if input_width == D else nn.Linear(D, input_width)  # W_1
        self.leave = nn.Identity() if output_width == D else nn.Linear(output_width, D)  # W_2
        self.longest = next((value for each in LONGEST if (value := getattr(config, each, None))), None)
        self.masked = "attention_mask" in inspect.signature(module.forward).parameters
        check_length(context.length, self.longest or context.length)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Apply all layers of the model."""
        check_length(x.shape[1], self.longest or x.shape[1])
        u = x if padding_mask is None else x * padding_mask[..., None]
        arguments: dict[str, Any] = {"inputs_embeds": self.enter(u)}
        if self.masked and padding_mask is not None:
            arguments["attention_mask"] = padding_mask.long()
        return self.leave(self.module(**arguments).last_hidden_state)


def read_model(source: str) -> HfModel:
    """Return the mixer of a folder with a ``config.json``, of such a file, or of a local checkpoint.

    Raises:
        SpecError: if there is no such config, or the library is not installed.
    """
    library = _library()
    with translate_errors(source), offline():
        config = library.AutoConfig.from_pretrained(source, local_files_only=True)
    path = Path(source)
    name = path.parent.name if path.name == "config.json" else path.stem
    settings = {key: value for key, value in config.to_diff_dict().items() if key not in NOT_ARCHITECTURE}
    return HfModel(name or config.model_type, json.dumps(settings, sort_keys=True))


def _library() -> Any:
    return import_extra(LIBRARY, PREFIX, "hf")
