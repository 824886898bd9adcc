"""Save and load checkpoints: tensors, JSON state and a SHA-256 of both in one safetensors file, no pickle."""

import json
from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from ..errors import ForeignRun, StoreError
from ..system.files import (
    FORMAT,
    Json,
    damaged_message,
    explain_errors,
    format_message,
    sha256_of,
    write_bytes,
)


def save(path: Path, tensors: Mapping[str, Tensor], state: Json | None = None) -> str:
    """Write tensors and a state atomically as one file, and return the digest of both.

    Tensors that share memory, as tied weights do, are written one by one.

    Raises:
        StoreError: if the file cannot be written.
    """
    plain: dict[str, Tensor] = {}
    seen = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        memory = own.untyped_storage().data_ptr()
        plain[name] = own.clone() if memory in seen else own  # safetensors refuses shared memory
        seen.add(memory)
    text = json.dumps(state or {})
    digest = _digest(plain, text)
    metadata = {"format": str(FORMAT), "json": text, "sha256": digest}
    write_bytes(path, safetensors.torch.save(plain, metadata))
    return digest


def load(path: Path, digest: str = "", advice: str = "") -> tuple[dict[str, Tensor], Json]:
    """Read the tensors and the state that ``save`` has written.

    Args:
        digest: expected digest, as returned by ``save``; "": not checked.
        advice: what to do about a damaged file, for the error message.

    Raises:
        StoreError: if the file is damaged, or its digest differs.
        ForeignRun: if another version of this package wrote it in another layout.
    """
    try:
        with explain_errors(path, "read"), safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        state = json.loads(metadata.get("json", "{}"))
        known = metadata.get("sha256")
        if known and _digest(tensors, metadata["json"]) != known:
            raise ValueError("its content is not what was written")
        if known and digest and known != digest:
            raise ValueError("it is of another training than the result beside it")
    except (safetensors.SafetensorError, ValueError, RecursionError) as error:
        raise StoreError(damaged_message(path, error, advice)) from error
    if metadata.get("format") != str(FORMAT):
        raise ForeignRun(format_message(path, metadata.get("format")))
    return tensors, state


def digest(tensors: Mapping[str, Tensor]) -> str:
    """Return the digest with which ``save`` writes tensors without a state."""
    return _digest(tensors, json.dumps({}))


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """Return the SHA-256 of the names, types, shapes and bytes of tensors, and of a text."""
    parts = {
        f"{name} {tensor.dtype} {tuple(tensor.shape)}": (
            tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        )
        for name, tensor in sorted(tensors.items())
    }
    return sha256_of(text, parts)
