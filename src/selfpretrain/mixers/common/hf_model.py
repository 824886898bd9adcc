"""Models of Hugging Face transformers (extra ``hf``) as mixers, randomly initialised or from checkpoints.

y = W_2 model(W_1 x);  W_1 and W_2 only where the network is not as wide as the model

``HfModel`` is any ``AutoModel`` that accepts input embeddings, and runs as the library runs it: a decoder
stays causal in a bidirectional network, an encoder becomes a decoder in a causal one if the library can make
it one (BERT, RoBERTa, ELECTRA; of others ``check`` says that they see the future). Its config is part of the
mixer, so that recipes do not depend on the file. Nothing is downloaded.
"""

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import inspect
import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ...config import spec
from ...errors import SelfPretrainError, SpecError, install
from ...registry import import_extra
from ...shapes import PaddingMask, Vectors
from ..base import ForeignModule, LayerContext, Mixer, check_length
from .transformers_layer import LIBRARY, offline

PREFIX = "hf-model"
LONGEST = ("max_position_embeddings", "n_positions", "max_seq_len")
"""Settings of the library for the number of positions that a model has embeddings for."""

NOT_ARCHITECTURE = ("transformers_version", "architectures", "dtype", "torch_dtype", "_name_or_path")
"""Settings of a config that do not change the network."""
NETWORK_OPTIONS: dict[str, Any] = {"attn_implementation": "sdpa", "dtype": torch.float32}
"""Arguments for every network: SDPA accepts boolean masks; checkpoints may be in half precision."""
CONFIG = "config.json"  # file of a checkpoint with its architecture
READ = (CONFIG, "*.safetensors", "pytorch_model*.bin", "tokenizer*", "vocab*", "merges.txt", "*.model")
"""Files of a checkpoint that the library reads."""
POOLER = "pooler"  # name of the module that pools a sequence in some networks; it is not used


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
        library = import_extra(LIBRARY, PREFIX, "hf")
        with translate_errors(settings.name), offline():
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
        longest = next((value for each in LONGEST if (value := getattr(config, each, None))), None)
        # Position embeddings of RoBERTa and its kin start behind the index of padding.
        table = getattr(getattr(module, "embeddings", None), "position_embeddings", None)
        padding = getattr(table, "padding_idx", None)
        self.longest = longest if longest is None or padding is None else longest - padding - 1
        self.masked = "attention_mask" in inspect.signature(module.forward).parameters
        check_length(context.length, self.longest or context.length)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Apply all layers of the model."""
        check_length(x.shape[1], self.longest or x.shape[1])
        u = x if padding_mask is None else x * padding_mask[..., None]  # for models without attention masks
        arguments: dict[str, Any] = {"inputs_embeds": self.enter(u)}
        if self.masked and padding_mask is not None:
            arguments["attention_mask"] = padding_mask.long()
        return self.leave(self.module(**arguments).last_hidden_state)


def read_model(source: str) -> HfModel:
    """Return the mixer of a folder with a ``config.json``, of such a file, or of a local checkpoint."""
    library = import_extra(LIBRARY, PREFIX, "hf")
    with translate_errors(source), offline():
        config = library.AutoConfig.from_pretrained(source, local_files_only=True)
    path = Path(source)
    name = path.parent.name if path.name == "config.json" else path.name.removesuffix(".json")
    settings = {key: value for key, value in config.to_diff_dict().items() if key not in NOT_ARCHITECTURE}
    return HfModel(name or config.model_type, json.dumps(settings, sort_keys=True))


def gpt_neox(width: int, layers: int, heads: int) -> Any:
    """Return a randomly initialised GPT-NeoX like Pythia: rotary positions on a quarter of each head."""
    size = width // heads
    rotary_share = max(2, size // 8 * 2) / size  # an even number of dimensions
    config = _import_transformers().GPTNeoXConfig(
        vocab_size=1,  # the embedding is outside this network
        bos_token_id=None,
        eos_token_id=None,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "partial_rotary_factor": rotary_share,
        },
    )
    return _import_transformers().AutoModel.from_config(config, **NETWORK_OPTIONS)


def is_available(checkpoint: str | None) -> bool:
    """Return whether the library is installed and the checkpoint, if any, is on this machine."""
    if importlib.util.find_spec(LIBRARY) is None:  # not imported, which takes a second
        return False
    if not checkpoint or Path(checkpoint, CONFIG).is_file():
        return True
    return _cached(checkpoint) is not None


def _cached(checkpoint: str) -> Path | None:
    """Return the config of a checkpoint of the hub, if it is on this machine."""
    hub = importlib.import_module("huggingface_hub")
    found = hub.try_to_load_from_cache(checkpoint, CONFIG)
    return Path(found) if isinstance(found, str) else None


def version_of(checkpoint: str, weights: bool) -> str:
    """Return the commit of a checkpoint of the hub, or a hash of its files in a folder; "" if there is none.

    Args:
        weights: whether all of it is used; else it is the config.
    """
    folder = Path(checkpoint)
    if not folder.is_dir():
        cached = _cached(checkpoint) if is_available(checkpoint) else None
        return cached.parent.name if cached else ""
    files = sorted({file for pattern in (READ if weights else (CONFIG,)) for file in folder.glob(pattern)})
    stats = [(file, file.stat()) for file in files]
    parts = [f"{file.name} {_digest(file, stat.st_size, stat.st_mtime_ns)}" for file, stat in stats]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@functools.lru_cache(maxsize=64)
def _digest(file: Path, size: int, modified: int) -> str:
    """Return the SHA-256 of a file of some size and time of modification."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def build_from_config(checkpoint: str) -> Any:
    """Return a randomly initialised network with the architecture of a checkpoint."""
    library = _import_transformers()
    with translate_errors(checkpoint):
        config = library.AutoConfig.from_pretrained(checkpoint, local_files_only=True)
        return library.AutoModel.from_config(config, **NETWORK_OPTIONS)


def load_pretrained(checkpoint: str) -> Any:
    """Return a network with all weights of a checkpoint.

    Raises:
        SpecError: if the checkpoint is not on this machine, has no safetensors, or lacks weights.
    """
    library = _import_transformers()
    with translate_errors(checkpoint):
        network, loading_info = library.AutoModel.from_pretrained(
            checkpoint,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
            **NETWORK_OPTIONS,
        )
    missing = [name for name in loading_info["missing_keys"] if not name.startswith(POOLER)]
    if missing:
        raise SpecError(
            f"{checkpoint} has no weights for {missing[0]} and {len(missing) - 1} more; use another"
        )
    return network


def symbol_embeddings(checkpoint: str, symbols: tuple[str, ...]) -> Float[Tensor, "V D"]:
    """Return the mean token embedding of every symbol's text, in a checkpoint."""
    table = load_pretrained(checkpoint).get_input_embeddings().weight.detach()
    with translate_errors(checkpoint):
        tokenizer = _import_transformers().AutoTokenizer.from_pretrained(checkpoint, local_files_only=True)
    token_ids = [tokenizer(symbol, add_special_tokens=False)["input_ids"] for symbol in symbols]
    return torch.stack([table[ids or slice(None)].mean(0) for ids in token_ids])  # no token: the mean of all


def remove_token_embedding(network: Any, name: str) -> tuple[nn.Module, int, int]:
    """Remove the token embedding of a network; return the network and its input and output widths.

    Raises:
        SpecError: if it has no token embedding, or is an encoder-decoder.
    """
    table = network.get_input_embeddings()
    config = network.config
    if config.is_encoder_decoder or not isinstance(table, nn.Embedding):
        raise SpecError(f"{name} is not one network from tokens to vectors; use another checkpoint")
    network.set_input_embeddings(None)  # it would be neither used nor trained
    if POOLER in dict(network.named_children()):
        setattr(network, POOLER, None)
    config.use_cache = False
    return network, table.embedding_dim, config.hidden_size


@functools.cache
def _import_transformers() -> Any:
    try:
        library = importlib.import_module("transformers")
    except ImportError as error:
        raise SpecError(f"pythia needs the library transformers: {install('hf')}") from error
    library.utils.logging.disable_progress_bar()
    return library


@contextlib.contextmanager
def translate_errors(checkpoint: str) -> Iterator[None]:
    """Convert errors of the library about a checkpoint into a one-line SpecError."""
    try:
        yield
    except SelfPretrainError:
        raise
    except Exception as error:  # the library has kinds of its own
        if isinstance(error, OSError) and not Path(checkpoint).exists():
            advice = f"run `hf download {checkpoint}` where there is a network, or name a folder"
            raise SpecError(f"the checkpoint {checkpoint} is not on this machine: {advice}") from error
        message = " ".join(str(error).strip().split("\n\n")[0].split())
        raise SpecError(f"the checkpoint {checkpoint} cannot be used: {message}") from error
