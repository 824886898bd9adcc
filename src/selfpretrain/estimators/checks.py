"""Checks of the estimators' settings in ``fit``: words, and numbers in their range."""

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from ..errors import SpecError
from ..mixers.base import Mixer, Positions
from ..objectives.common.heads import Pooling
from ..training.recipe import Precision
from .inputs import Kind

WORDS: dict[str, tuple[str, ...]] = {
    "model": ("best", "network"),
    "pooling": ("auto", *get_args(Pooling)),
    "position_encoding": ("auto", *get_args(Positions)),
    "scale": ("auto", "smoke"),
    "signal": get_args(Kind),
    "longer": ("cut", "refuse"),
    "precision": ("auto", *get_args(Precision)),
}
"""Setting -> words that it takes."""
RANGES = {
    "width": (1, 1e6),
    "depth": (1, 1e4),
    "dropout": (0, 0.99),
    "mask_rate": (1e-6, 1),
    "lr": (1e-9, 1e3),
    "finetune_lr": (1e-9, 1e3),
    "pretrain_lr": (1e-9, 1e3),
    "epochs": (1e-9, 1e9),
    "pretrain_epochs": (1e-9, 1e9),
    "batch_size": (1, 1e9),
    "n_trials": (1, 100),
    "validation_fraction": (0, 0.9),
    "patience": (0, 1e6),
    "n_members": (1, 1000),
    "time_limit": (1e-6, 1e6),
    "label_smoothing": (0, 0.99),
}
"""Setting -> smallest and largest number that it takes."""
NONE = ("width", "depth", "mask_rate", "lr", "pretrain_lr", "epochs", "pretrain_epochs", "time_limit")
"""Settings that may be None."""
AUTO = ("finetune_lr", "batch_size", "n_trials", "patience")
"""Numbers that may be "auto"."""
WHOLE = ("width", "depth", "batch_size", "n_trials", "patience", "n_members")
"""Numbers that must be whole."""
FLAGS = {"signs": (True, False, "auto"), "calibrate": (True, False)}
"""Setting -> values that it takes, of those that switch something on or off."""
KINDS: dict[str, tuple[Any, str]] = {
    "mixer": (str | Mixer, "'auto', a name from `spt list mixers`, or a mixer"),
    "objective": (str | None, "'auto', a name from `spt list objectives`, or None"),
    "device": (str, "'auto', 'cpu', 'cuda' or 'cuda:1'"),
}
"""Setting -> types that it takes, and what they are."""


def check_settings(settings: Mapping[str, Any]) -> None:
    """Check the values of settings; names of mixers and objectives are checked when they are looked up.

    Raises:
        SpecError: naming a setting with a wrong value, and what it takes.
    """
    for name, words in (WORDS | FLAGS).items():
        if name in settings and settings[name] not in words:
            raise SpecError(f"{name}={settings[name]!r} is not offered; use {_listed(words)}")
    for name, (kinds, said) in KINDS.items():
        if not isinstance(settings[name], kinds):
            raise SpecError(f"{name}={settings[name]!r} is not offered; use {said}")
    weights = settings.get("class_weight")
    if not (isinstance(weights, Mapping) or weights in (None, "balanced")):
        raise SpecError(f"class_weight={weights!r} is not offered; use 'balanced', a dict or None")
    for name, (low, high) in RANGES.items():
        if name in settings:
            _check_number(name, settings[name], low, high)


def _check_number(name: str, value: Any, low: int | float, high: int | float) -> None:
    if (value is None and name in NONE) or (value == "auto" and name in AUTO):
        return
    kinds = int | np.integer if name in WHOLE else int | float | np.number
    number = isinstance(value, kinds) and not isinstance(value, bool)
    if not number or not low <= value <= high:
        kind = "whole number" if name in WHOLE else "number"
        other = " or 'auto'" if name in AUTO else " or None" if name in NONE else ""
        raise SpecError(f"{name}={value!r} is not offered; use a {kind} from {low:g} to {high:g}{other}")


def _listed(words: tuple[Any, ...]) -> str:
    return ", ".join(map(repr, words))
