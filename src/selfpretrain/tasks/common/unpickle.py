"""The batches of CIFAR-10, which its authors publish as pickles, without running what a pickle may hold.

This is the one place that reads pickles. Only arrays of bytes, lists and strings are built, by code that
stands here; a pickle that names anything else is refused.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import DataError


class _Array:
    """Stands for an array of bytes while it is being read."""

    values: np.ndarray

    def __init__(self, *_: Any) -> None:
        """What an empty array is made from does not matter."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, data = state
        if dtype.code not in ("u1", b"u1") or fortran:
            raise pickle.UnpicklingError(f"an array of {dtype.code!r}, not of bytes")
        self.values = np.frombuffer(data, dtype=np.uint8).reshape(shape)


class _Dtype:
    """Stands for the dtype of an array."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = code

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Byte order and alignment mean nothing for single bytes."""


def _encode(text: str, _: str) -> bytes:
    return text.encode("latin1")


KNOWN: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,  # where NumPy's function that makes an empty array
    ("numpy._core.multiarray", "_reconstruct"): _Array,  # has lived
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}
"""The names in a pickled array of bytes, and what is made instead."""


class _Reader(pickle.Unpickler):
    """Knows these names and no others."""

    def find_class(self, module: str, name: str) -> Any:
        """Our own stand-in for a name."""
        if (module, name) not in KNOWN:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return KNOWN[module, name]


def read_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (n, 32, 32, 3) and labels (n,) of one of the six files of CIFAR-10.

    Raises:
        DataError: if the file is damaged, or a pickle of something else.
    """
    try:
        with path.open("rb") as file:
            batch = _Reader(file, encoding="bytes").load()
        named = {key.decode() if isinstance(key, bytes) else key: value for key, value in batch.items()}
        pixels = named["data"].values.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        labels = np.array(named["labels"], dtype=np.int64)
        if len(labels) != len(pixels):
            raise ValueError(f"{len(labels)} labels for {len(pixels)} images")
    except Exception as error:  # a damaged pickle can fail in any way
        raise DataError(f"{path} is not a batch of CIFAR-10 ({error}); get it again") from error
    return pixels, labels
