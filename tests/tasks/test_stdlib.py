"""The snapshot of the standard library: balance, no leak between splits, licence beside it."""

import numpy as np
import pydantic
import pytest

from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import SpecError
from selfpretrain.tasks.stdlib import SNAPSHOT, Stdlib

WHOLE = Stdlib(train=6000)


def windows(split) -> list[bytes]:
    return [bytes(row) for row in WHOLE.load(split).flat.numpy().reshape(-1, 64)]


def test_windows_of_squeezed_ascii_occur_once_and_are_balanced():
    for split, each in (("train", 750), ("val", 125), ("test", 250)):
        assert WHOLE.load(split).targets.bincount().tolist() == [each] * 8
    assert Stdlib(train=80).load("train").targets.bincount().tolist() == [10] * 8
    everything = [window for split in SPLITS for window in windows(split)]
    assert len(set(everything)) == len(everything) == 9000
    for window in everything:
        assert window.isascii() and window.decode().isprintable() and b"  " not in window


def test_files_belong_to_one_split_and_one_package():
    with np.load(SNAPSHOT, allow_pickle=False) as arrays:
        sources, packages = arrays["sources"], arrays["packages"]
        for source, label in set(zip(arrays["source"].tolist(), arrays["label"].tolist(), strict=True)):
            assert str(sources[source]).startswith(f"{packages[label]}/")
        assert len(set(zip(arrays["source"].tolist(), arrays["split"].tolist(), strict=True))) == len(
            set(arrays["source"].tolist())
        )


def test_the_snapshot_is_small_and_carries_its_licence():
    assert SNAPSHOT.stat().st_size < 600_000
    text = SNAPSHOT.with_name("_stdlib.LICENSE.txt").read_text(encoding="utf-8")
    assert "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2" in text
    with np.load(SNAPSHOT, allow_pickle=False) as arrays:
        assert f"Python {arrays['python']}" in " ".join(text.split())


def test_too_many_or_too_few_labels_are_refused():
    with pytest.raises(pydantic.ValidationError, match="lower it"):
        Stdlib(train=80, labels=81)
    with pytest.raises(SpecError, match="at least 8"):
        Stdlib(labels=5).load("train")
