"""What is drawn is what is there: the right kind of picture, the right numbers."""

import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from selfpretrain.tasks.inspect import preview
from selfpretrain.tasks.inspect.preview import Preview, PreviewItem

RANDOM = np.random.RandomState(0)
CLASSES = {"train": np.array([0, 0, 0, 1]), "val": np.array([1]), "test": np.array([0, 1])}
LENGTHS = {"train": np.array([5, 9, 7, 8]), "val": np.array([6]), "test": np.array([30, 9])}


def view(*sequences, **changes):
    shown = tuple(PreviewItem(f"example {i}", sequence) for i, sequence in enumerate(sequences))
    return replace(Preview("a task", shown, CLASSES, LENGTHS, ("left", "right")), **changes)


VIEWS = {
    "text": view(np.array([0, 1, 2, 1] * 60), np.array([2]), symbols=("a", "\n", "☃")),
    "numbers": view(np.arange(40)),
    "image": view(*RANDOM.randint(256, size=(7, 64, 1)), levels=256, high=255.0),
    "colour": view(*RANDOM.randint(256, size=(2, 1024, 3)), levels=256, high=255.0),
    "wave": view(RANDOM.normal(size=(9000, 1)), RANDOM.normal(size=(50, 1))),
    "waves": view(RANDOM.normal(size=(300, 3)), np.zeros((1, 3))),
    "map": view(RANDOM.normal(size=(161, 20))),
    "reals": view(np.arange(9), names=(), targets={s: RANDOM.normal(size=9) for s in CLASSES}),
    "many classes": view(np.arange(9), names=tuple(map(str, range(99)))),
    "one length": view(np.arange(9), lengths={split: np.full(3, 9) for split in LENGTHS}),
}


@pytest.mark.parametrize("name", VIEWS)
def test_everything_can_be_printed(name):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(preview.render_text(VIEWS[name]))
    lines = console.export_text().splitlines()
    assert lines[0] == "a task" and "example 0" in "".join(lines)
    assert max(map(len, lines)) <= 80


def test_the_kind_follows_from_the_sequences():
    kinds = dict(text="text", numbers="text", colour="image", wave="wave", waves="wave", map="wave")
    assert {name: VIEWS[name].kind for name in kinds} == kinds
    pixels = VIEWS["image"]
    assert pixels.kind == "image"
    assert replace(pixels, levels=None).kind == "wave"
    assert replace(pixels, levels=65536).kind == "wave"
    assert view(*RANDOM.randint(9, size=(2, 65, 1)), levels=9).kind == "wave"


def test_an_image_is_upright():
    values = np.zeros((9, 1))
    values[1] = 255  # first row, second column
    assert VIEWS["image"].image(values).tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    rows = preview._lines(replace(VIEWS["image"], shown=(PreviewItem("", values),)), values)
    assert rows == ["  @@  ", "      ", "      "]


def test_tokens_are_written_in_one_line():
    text = VIEWS["text"]
    assert text.text(np.array([0, 1, 2])) == "a ☃"
    assert replace(text, symbols=("\x00",)).text(np.array([0])) == "·"
    assert VIEWS["numbers"].text(np.array([3, 14])) == "3 14"


@given(st.lists(st.integers(0, 10**6), min_size=1), st.booleans())
def test_every_value_is_in_one_bin(values, real):
    values = np.array(values, dtype=np.float64 if real else np.int64)
    edges = preview.bins(values)
    assert len(edges) <= preview.MAX_BINS + 1
    assert np.histogram(values, edges)[0].sum() == len(values)
    if not real:
        assert len(set(np.diff(edges))) == 1
        assert (edges % 1 == 0.5).all()
