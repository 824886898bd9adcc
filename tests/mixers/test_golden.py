"""Layers against numbers that published code gave for the same weights and the same sequences.

``golden/about.json`` says of every file how it was made: repository, commit and call, run in double precision
on parameters that single precision holds. Names are those of our parameters; ``start.*`` is what the
published code starts from.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from selfpretrain import registry
from selfpretrain.mixers.base import LayerContext

GOLDEN = Path(__file__).parent / "golden"
ABOUT = json.loads((GOLDEN / "about.json").read_text())


def test_every_golden_file_is_told_about():
    assert {path.stem for path in GOLDEN.glob("*.npz")} == set(ABOUT)


@torch.no_grad()
@pytest.mark.parametrize("name", ABOUT)
def test_is_what_the_published_code_gives(name):
    about = ABOUT[name]
    with np.load(GOLDEN / f"{name}.npz", allow_pickle=False) as file:
        golden = {key: torch.from_numpy(file[key]) for key in file.files}
    mixer = registry.find("mixers", about["mixer"])(**about["settings"])
    layer = mixer.build(LayerContext(about["width"], about["length"], about["causal"])).double()
    for key, start in part(golden, "start").items():
        found = layer.get_parameter(key)
        torch.testing.assert_close(found, start.to(found), rtol=1e-5, atol=2e-4)
    layer.load_state_dict({key: value.double() for key, value in part(golden, "weights").items()})
    if "kernel" in golden:
        found, expected = layer.kernel(about["length"]), golden["kernel"]
    else:
        found, expected = layer(golden["x"].double()), golden["y"]
    assert (found - expected).abs().max() < about["tolerance"] * expected.abs().max()


def part(golden, word):
    """What is kept under a word."""
    return {key.partition(".")[2]: value for key, value in golden.items() if key.startswith(f"{word}.")}
