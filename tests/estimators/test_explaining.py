"""Pictures of what answers rested on: images, text and signals."""

import numpy as np
import pytest
import torch

from selfpretrain import SequenceClassifier, load_task
from selfpretrain.errors import SpecError
from selfpretrain.estimators.occlusion import LETTERS, LINES, Explanation, _stretches

TOY = {"scale": "smoke"}


def test_of_an_image_squares_are_hidden_and_all_of_it_is():
    model = SequenceClassifier(**TOY).fit("digits")
    (found,) = model.explain(load_task("digits").load("val").take(torch.arange(1)))
    assert found.shape == (8, 8) and found.answer in model.classes_
    picture = found.picture()
    assert picture.count("<image") >= 2  # the image, and its importance
    squares = [set(stretch.tolist()) for stretch in _stretches(12 * 20, (12, 20))]
    assert set().union(*squares) == set(range(240))
    assert {0, 1, 20, 21} in squares
    (other,) = model.explain(load_task("digits").load("val").take(torch.arange(1)), shape=(4, 16))
    assert other.shape == (4, 16)
    with pytest.raises(SpecError, match="sequence 0 has 64 positions, which are not 5 rows of 5"):
        model.explain("digits", shape=(5, 5))


def test_text_is_drawn_letter_by_letter_and_a_long_one_is_cut():
    text = "A $cat & ÿ" * 5
    importance = np.linspace(-1, 1, len(text))
    found = Explanation("pos", np.frombuffer(text.encode("latin-1"), np.uint8), importance, True)
    picture = found.picture()
    assert picture.count(">·</text>") == 5 and picture.count("$") >= 5
    long = np.full(LETTERS * LINES + 10, ord("x"), dtype=np.uint8)
    assert "and 10 letters more" in Explanation("pos", long, np.ones(len(long)), True).picture()


def test_signals_are_drawn_channel_by_channel_and_symbols_as_one():
    values = np.random.RandomState(0).randn(30, 3)
    picture = Explanation(1.5, values, values[:, 0], False).picture()
    assert "channel 2" in picture and ">1.5</text>" in picture
    assert "symbol" in Explanation("a", np.arange(5), np.ones(5), False).picture()
