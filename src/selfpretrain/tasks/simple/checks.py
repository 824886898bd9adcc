"""Checks of simple methods that are read from a file, which may hold anything: each raises ValueError."""

import numpy as np
import torch

from ...data.dataset import SequenceDataset
from ...data.spec import SequenceSpec, Values
from .features import Features, Numbers, State
from .models import LinearModel, SavedModel, Trees

POSITIONS = 64  # maximum number of positions of the sequences that are tried
WHOLE = (torch.int64,)
DOUBLE = (torch.float64,)
KINDS = {
    **dict.fromkeys(("codes", "feature", "left", "right", "root", "output"), (WHOLE, 1)),
    **dict.fromkeys(("idf", "mean", "spread", "unit", "bias", "threshold", "value"), (DOUBLE, 1)),
    **dict.fromkeys(("coef", "edges"), (DOUBLE, 2)),
    "answers": ((torch.float32, torch.float64), 2),  # shares of classes, or numbers
}
"""Name of a tensor -> what its elements may be, and its dimensions; others are free in both."""
EQUAL = (
    ("codes", "idf"),
    ("mean", "spread"),
    ("feature", "threshold", "left", "right", "value"),
    ("root", "output"),
)
"""Tensors of equal length."""


def check_tensors(tensors: State) -> None:
    """Check the tensors of one simple method: finite numbers, kinds, dimensions, and equal lengths."""
    state = {name.removeprefix("features."): tensor for name, tensor in tensors.items()}
    for name, tensor in state.items():
        kind = "codes" if name.startswith("codes of ") else "value" if name.startswith("values of ") else name
        if not tensor.isfinite().all():
            raise ValueError(f"{name} holds numbers that are not finite")
        types, dimensions = KINDS.get(kind, ((tensor.dtype,), tensor.ndim))
        if tensor.dtype not in types or tensor.ndim != dimensions:
            raise ValueError(f"{name} is of {tensor.dtype} with {tensor.ndim} dimensions")
        if kind == "codes" and (np.diff(tensor.numpy().view(np.uint64)) == 0).any():
            raise ValueError(f"{name} are not distinct")
        if name in ("spread", "unit") and not (tensor > 0).all():
            raise ValueError(f"{name} is not above 0")
    tables = [name.removeprefix("codes of ") for name in state if name.startswith("codes of ")]
    for names in (*EQUAL, *((f"codes of {table}", f"values of {table}") for table in tables)):
        if len({tuple(state[name].shape) for name in names if name in state}) > 1:
            raise ValueError(f"{' and '.join(names)} have different lengths")


def check_columns(form: SequenceSpec, features: Features, model: SavedModel) -> None:
    """Check that features can be computed for the sequences of a form, and that the model takes as many."""
    length = min(form.length, POSITIONS)
    numbers = isinstance(form.signal, Values)
    shape = (2, length, form.signal.channels) if isinstance(form.signal, Values) else (2, length)
    rows = np.zeros(shape, dtype=np.float32 if numbers else np.int64)
    x = features.transform(SequenceDataset.from_array(rows, np.full(2, -1, dtype=np.int64)))
    columns = x.shape[1]
    if isinstance(features, Numbers) and len(features.mean) != columns:
        raise ValueError(f"means of {len(features.mean)} features, but there are {columns}")
    if isinstance(model, Trees):
        inside = (model.root >= 0) & (model.root < len(model.feature))
        fits = bool((model.feature < columns).all() and inside.all())
    else:
        fits = isinstance(model, LinearModel) and len(model.coef) == columns
    if not fits:
        raise ValueError(f"the weights are not those of {columns} features")
    if not np.isfinite(model.scores(x)).all():
        raise ValueError("the answers are not finite")
