"""Networks of the library transformers (extra ``hf``): fresh ones, and checkpoints on this machine."""

import contextlib
import functools
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ...errors import SpecError

KIND: dict[str, Any] = {"attn_implementation": "sdpa", "dtype": torch.float32}
"""Of every network: torch's attention takes masks of booleans; checkpoints may be in half precision."""
POOLER = "pooler"
"""The part of some networks that answers for a whole sequence; nobody asks it."""


def gpt_neox(width: int, layers: int, heads: int) -> Any:
    """A fresh GPT-NeoX as Pythia is one: positions turn a quarter of each head, and at least a pair.

    Raises:
        SpecError: if the library is not installed.
    """
    size = width // heads
    turned = max(2, size // 8 * 2) / size
    config = _library().GPTNeoXConfig(
        vocab_size=1,  # tokens are looked up elsewhere
        bos_token_id=None,
        eos_token_id=None,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": turned},
    )
    return _library().AutoModel.from_config(config, **KIND)


def at_hand(checkpoint: str | None) -> bool:
    """Whether the library is installed and, if one is named, a checkpoint is on this machine."""
    try:
        library = _library()
        with _explained(checkpoint or ""):
            if checkpoint:
                library.AutoConfig.from_pretrained(checkpoint, local_files_only=True)
            return True
    except SpecError:
        return False


def fresh(checkpoint: str) -> Any:
    """A fresh network of a checkpoint's sizes.

    Raises:
        SpecError: if the checkpoint is not on this machine, or the library cannot make it.
    """
    library = _library()
    with _explained(checkpoint):
        config = library.AutoConfig.from_pretrained(checkpoint, local_files_only=True)
        return library.AutoModel.from_config(config, **KIND)


def trained(checkpoint: str) -> Any:
    """A network with the weights of a checkpoint, all of them.

    Raises:
        SpecError: if the checkpoint is not on this machine, has no safetensors, or lacks weights.
    """
    library = _library()
    with _explained(checkpoint):
        network, told = library.AutoModel.from_pretrained(
            checkpoint, local_files_only=True, use_safetensors=True, output_loading_info=True, **KIND
        )
    missing = [name for name in told["missing_keys"] if not name.startswith(POOLER)]
    if missing:
        raise SpecError(
            f"{checkpoint} has no weights for {missing[0]} and {len(missing) - 1} more; use another"
        )
    return network


def written(checkpoint: str, symbols: tuple[str, ...]) -> Float[Tensor, "V D"]:
    """For every symbol the vector of the token that it is, or the mean of those that write it.

    Raises:
        SpecError: if the checkpoint is not on this machine, or comes without its tokens.
    """
    table = trained(checkpoint).get_input_embeddings().weight.detach()
    with _explained(checkpoint):
        tokens = _library().AutoTokenizer.from_pretrained(checkpoint, local_files_only=True)
    found = [tokens(symbol, add_special_tokens=False)["input_ids"] for symbol in symbols]
    return torch.stack([table[ids or slice(None)].mean(0) for ids in found])  # of none: the mean of all


def without_tokens(network: Any, name: str) -> tuple[nn.Module, int, int]:
    """A network that takes vectors only, their size, and the size of those it answers with.

    Raises:
        SpecError: if it never looks tokens up, or reads one sequence to write another.
    """
    table, config = network.get_input_embeddings(), network.config
    if config.is_encoder_decoder or not isinstance(table, nn.Embedding):
        raise SpecError(f"{name} is not one network from tokens to vectors; use another checkpoint")
    network.set_input_embeddings(None)  # it would be neither used nor trained
    if POOLER in dict(network.named_children()):
        setattr(network, POOLER, None)
    config.use_cache = False
    return network, table.embedding_dim, config.hidden_size


@functools.cache
def _library() -> Any:
    try:
        library = importlib.import_module("transformers")
    except ImportError as error:
        raise SpecError("pythia needs the library transformers: pip install 'selfpretrain[hf]'") from error
    library.utils.logging.disable_progress_bar()
    return library


@contextlib.contextmanager
def _explained(checkpoint: str) -> Iterator[None]:
    """What the library says of a checkpoint, in one line."""
    try:
        yield
    except (OSError, ValueError, ImportError, KeyError) as error:
        if isinstance(error, OSError) and not Path(checkpoint).exists():
            how = f"run `hf download {checkpoint}` where there is a network, or name a folder"
            raise SpecError(f"the checkpoint {checkpoint} is not on this machine: {how}") from error
        said = (str(error).splitlines() or [""])[0]
        raise SpecError(f"the checkpoint {checkpoint} cannot be used: {said}") from error
