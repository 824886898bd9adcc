"""The papers' data as far as a plan needs them: what sequences look like, and how many there are.

Typed from the papers and the releases that they name. ``outlined()`` puts them where data are not prepared,
so that what an experiment would cost is known before anything is downloaded, generated or written. Every
sequence is as long as can be: of texts, the real ones cost less.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from ..data.examples import Examples
from ..data.schema import SPLITS, Classes, Form, Reals, Split, Tokens, Values
from ..errors import DataError
from ..registry import name_of
from .base import Task


@dataclass(frozen=True)
class Outline:
    """Form and number of examples of a task; no hash, and no symbols."""

    digest: ClassVar[str] = ""
    meta: ClassVar[Mapping[str, None]] = {"symbols": None}

    form: Form
    train: int
    val: int
    test: int

    def examples(self, split: Split) -> Examples:
        """A split whose examples are all one sequence of zeros."""
        number = {"train": self.train, "val": self.val, "test": self.test}[split]
        signal = self.form.signal
        shape = (self.form.length, signal.channels) if isinstance(signal, Values) else (self.form.length,)
        flat = torch.zeros(shape, dtype=torch.uint8)
        lengths = torch.full((self.form.views, number), self.form.length)
        targets = torch.arange(number) % 2
        if isinstance(self.form.target, Reals):
            targets = targets.float()
        elif not self.form.target.single:
            targets = torch.zeros(self.form.target.shape(number, self.form.length), dtype=torch.int16)
        return Examples(flat, lengths * 0, lengths, targets)


def _classes(number: int) -> Classes:
    return Classes(tuple(map(str, range(number))))


PIXELS = Values(levels=256, low=0.0, high=255.0, centre=(120.0,), spread=(60.0,))
COLOURS = Values(3, levels=256, low=0.0, high=255.0, centre=(120.0,) * 3, spread=(60.0,) * 3)
SIGNALS = Values(2, centre=(0.0,) * 2, spread=(1.0,) * 2)
PAPERS = {
    "listops": Outline(Form(Tokens(15), 1_999, _classes(10)), 96_000, 2_000, 2_000),
    "text": Outline(Form(Tokens(136), 4_096, _classes(2)), 22_500, 2_500, 25_000),
    "text-test": Outline(Form(Tokens(136), 4_096, _classes(2)), 25_000, 25_000, 25_000),
    "retrieval": Outline(Form(Tokens(97), 4_000, _classes(2), views=2), 147_086, 18_090, 17_437),
    "image": Outline(Form(PIXELS, 1_024, _classes(10)), 45_000, 5_000, 10_000),
    "scifar": Outline(Form(COLOURS, 1_024, _classes(10)), 45_000, 5_000, 10_000),
    "pathfinder": Outline(Form(PIXELS, 32**2, _classes(2)), 160_000, 20_000, 20_000),
    "pathx": Outline(Form(PIXELS, 128**2, _classes(2)), 160_000, 20_000, 20_000),
    "pathx256": Outline(Form(PIXELS, 256**2, _classes(2)), 160_000, 20_000, 20_000),
    "speech": Outline(Form(Values(), 16_000, _classes(35)), 84_843, 9_981, 11_005),
    "speech-10": Outline(Form(Values(), 16_000, _classes(10)), 24_482, 5_246, 5_247),
    "speech-mfcc": Outline(Form(Values(20), 161, _classes(10)), 24_482, 5_246, 5_247),
    "bidmc": Outline(Form(SIGNALS, 4_000, Reals("HR")), 5_538, 1_200, 1_200),
}
_wanted: ContextVar[bool] = ContextVar("outlined", default=False)


@contextmanager
def outlined() -> Iterator[None]:
    """Let the papers' tasks be told from outlines where their data are not prepared."""
    before = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(before)


def outline(task: Task) -> Outline | None:
    """What stands for a task whose data are not prepared, if they are not to be now.

    Raises:
        DataError: if they are not to be, and no paper tells what they look like.
    """
    if not _wanted.get():
        return None
    name, settings = name_of(task), vars(task)
    said = ("features", "selection", "words")
    names = (*(f"{name}-{settings.get(it, '')}" for it in said), name)
    if found := next((PAPERS[it] for it in names if it in PAPERS), None):
        return replace(found, **{split: settings[split] for split in SPLITS if split in settings})
    raise DataError(f"{name} is not prepared yet, and a dry run prepares nothing: run `spt data make {name}`")
