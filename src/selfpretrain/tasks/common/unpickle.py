"""Read the pickled batches of CIFAR-10 without executing code from the pickle.

This is the only module that reads pickles. It builds arrays of bytes, lists and strings only, with the code
below; a pickle that names anything else raises an error.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import DataError


class _Array:
    """Placeholder for ``numpy.ndarray`` of uint8 during unpickling."""

    values: np.ndarray

    def __init__(self, *_: Any) -> None:
        """Ignore the arguments, which describe an empty array."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, data = state
        if dtype.code not in ("u1", b"u1") or fortran:
            raise pickle.UnpicklingError(f"an array of {dtype.code!r}, not of bytes")
        self.values = np.frombuffer(data, dtype=np.uint8).reshape(shape)


class _Dtype:
    """Placeholder for ``numpy.dtype`` during unpickling."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = code

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Ignore byte order and alignment, which do not apply to single bytes."""


def _encode(text: str, _: str) -> bytes:
    return text.encode("latin1")


KNOWN: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,  # NumPy's function for an empty array
    ("numpy._core.multiarray", "_reconstruct"): _Array,  # and its path since NumPy 2
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}
"""Names in a pickled array of bytes, and the safe replacement of each."""


class _Reader(pickle.Unpickler):
    """An unpickler that resolves the names in ``KNOWN`` only."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the safe replacement of a name."""
        if (module, name) not in KNOWN:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return KNOWN[module, name]


def read_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels (n, 32, 32, 3) and labels (n,) of one of the six files of CIFAR-10.

    Raises:
        DataError: if the file is damaged, or a pickle of something else.
    """
    try:
        with path.open("rb") as file:
            batch = _Reader(file, encoding="bytes").load()
        fields = {key.decode() if isinstance(key, bytes) else key: value for key, value in batch.items()}
        pixels = fields["data"].values.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        labels = np.array(fields["labels"], dtype=np.int64)
        if len(labels) != len(pixels):
            raise ValueError(f"{len(labels)} labels for {len(pixels)} images")
    except Exception as error:  # a damaged pickle can fail in any way
        raise DataError(f"{path} is not a batch of CIFAR-10 ({error}); get it again") from error
    return pixels, labels
