"""Every flaw that is put into clean data is found, and clean data are called fine."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from imports import add_sequences
from selfpretrain.config import spec
from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.near_duplicates import shared_fraction
from selfpretrain.data.spec import SPLITS, Classes, Reals, SequenceSpec, Tokens, Values
from selfpretrain.data.store import DatasetWriter
from selfpretrain.tasks.base import Card, Task
from selfpretrain.tasks.common.stored import Prepared
from selfpretrain.tasks.inspect.checks import advice, check_data

N, LENGTH = 120, 160
FORM = SequenceSpec(Tokens(50), LENGTH, Classes(("a", "b", "c")))
FORMS, DATA = {}, {}


@spec
class Given(Task):
    """Examples as they are given."""

    card = Card(source="made here", licence="none needed")

    key: str = ""

    @property
    def form(self):
        """As given."""
        return FORMS[self.key]

    def load(self, split):
        """As given."""
        return DATA[self.key][split]


def sequences(seed, values=False):
    random = np.random.default_rng(seed)
    if values:
        return [random.normal(size=(LENGTH, 1)).astype(np.float32).cumsum(0) for _ in range(N)]
    return [random.integers(0, 50, LENGTH - i % 9).astype(np.uint8) for i in range(N)]


def clean(values=False):
    """Sequences and classes of every split."""
    return {split: (sequences(i, values), np.arange(N) % 3) for i, split in enumerate(SPLITS)}


def findings(parts, form=FORM, groups=None, whole=None):
    splits = whole or {split: SequenceDataset.from_sequences(*part) for split, part in parts.items()}
    for split, of_split in (groups or {}).items():
        splits[split] = replace(splits[split], groups=torch.tensor(of_split))
    FORMS["x"], DATA["x"] = form, splits
    return list(check_data(Given("x"), compare=False))


def levels(found):
    return {finding.what: finding.level for finding in found if finding.level != "fine"}


def measured(parts):
    flat = np.concatenate(parts["train"][0]).astype(np.float64)
    return replace(FORM, signal=Values(centre=(float(flat.mean()),), spread=(float(flat.std()),)))


def test_clean_data_are_fine_and_torn_groups_and_unknown_tokens_are_not():
    found = findings(clean())
    assert levels(found) == {}
    assert {"examples", "labels", "groups", "copies", "tokens"} <= {finding.what for finding in found}
    assert levels(findings(clean(), replace(FORM, signal=Tokens(49)))) == {"tokens": "wrong"}
    parts = clean(values=True)
    assert levels(findings(parts, measured(parts))) == {}
    groups = {"train": range(N), "val": range(N, 2 * N), "test": range(2 * N, 3 * N)}
    assert levels(findings(clean(), groups=groups)) == {}
    assert levels(findings(clean(), groups=groups | {"test": range(N)})) == {"groups": "wrong"}
    assert levels(findings(clean(), groups=groups | {"test": [3] * N})) == {"groups": "note"}


@pytest.mark.parametrize(("copies", "level"), [(1, "note"), (12, "wrong")])
def test_copies_of_training_examples_are_counted(copies, level):
    parts = clean()
    parts["test"][0][:copies] = parts["train"][0][7 : 7 + copies]
    found = {finding.what: finding for finding in findings(parts)}
    assert found["copies"].level == level
    assert found["copies"].said.startswith(f"{copies} of 240")


def test_other_copies_and_contradictions_are_notes():
    parts = clean()
    parts["test"][0][0] = parts["val"][0][0]
    parts["train"][0][5] = parts["train"][0][4]
    expected = {"copies in val and test", "copies within training", "contradictions"}
    found = levels(findings(parts))
    assert expected <= set(found)
    assert {found[what] for what in expected} == {"note"}


@pytest.mark.parametrize("values", [False, True])
def test_shifted_windows_are_found_wherever_they_are_stored(values):
    parts = clean(values)
    for i in range(30):
        parts["val"][0][i] = np.concatenate([parts["train"][0][i][20:], parts["val"][0][i][:20]])
    found = levels(findings(parts, measured(parts) if values else FORM))
    assert found["similar sequences"] == "wrong"
    assert "copies" not in found


def test_windows_that_share_stored_positions_are_found():
    flat = torch.from_numpy(np.random.default_rng(0).integers(0, 50, 20_000).astype(np.uint8))
    lengths, y = torch.full((1, 40), 160), torch.arange(40) % 3

    def windows(first, stride):
        return SequenceDataset(flat, first + stride * torch.arange(40)[None], lengths, y)

    apart = {"train": windows(0, 160), "val": windows(6400, 160), "test": windows(12_800, 160)}
    assert levels(findings({}, whole=apart)) == {}
    touching = apart | {"test": windows(6399 - 39 * 160, 160)}
    found = {finding.what: finding for finding in findings({}, whole=touching)}
    assert found["overlapping windows"].level == "wrong"
    assert found["overlapping windows"].said.startswith("40 of 80")


def test_slightly_changed_values_are_found():
    parts = clean(values=True)
    for i in range(20):
        parts["test"][0][i] = (parts["train"][0][i] + np.float32(0.01)) * np.float32(1.03)
    found = levels(findings(parts, measured(parts)))
    assert found == {"near copies": "wrong"}


def test_odd_labels_are_found():
    parts = clean()
    parts["train"][1][parts["train"][1] == 2] = 1
    assert levels(findings(parts)) == {
        "classes that training lacks": "wrong",
        "classes with less than 10 in training": "note",
    }
    parts = clean()
    parts["test"][1][:] = -1
    parts["train"][1][:5] = -1
    found = findings(parts)
    assert levels(found) == {"labels": "wrong", "classes that val or test lacks": "note"}
    assert "5 of train have none" in " ".join(finding.said for finding in found)


def test_real_labels_that_never_change_are_found():
    form = replace(FORM, target=Reals())
    parts = {split: (x, np.linspace(0, 1, N, dtype=np.float32)) for split, (x, _) in clean().items()}
    assert levels(findings(parts, form)) == {}
    parts["val"][1][:] = 1.0
    assert levels(findings(parts, form)) == {"mean and spread of labels": "wrong"}


def test_odd_values_are_found():
    parts = clean(values=True)
    form = measured(parts)
    parts["val"][0][3][5] = np.nan
    assert levels(findings(parts, form)) == {"values": "wrong"}
    parts = clean(values=True)
    parts["val"][0][3][:] = 2.5
    assert levels(findings(parts, form)) == {"constant sequences": "note"}
    bounded = replace(form, signal=replace(form.signal, levels=3, low=-1.0, high=1.0))
    assert levels(findings(clean(values=True), bounded)) == {"values": "wrong"}
    moved = replace(
        form, signal=replace(form.signal, centre=(form.signal.centre[0] + 5 * form.signal.spread[0],))
    )
    assert levels(findings(clean(values=True), moved)) == {"standardised values": "wrong"}


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_simple_method_is_tried_on_values_that_are_not_finite(value):
    parts = clean(values=True)
    FORMS["odd"] = measured(parts)
    parts["train"][0][3][5] = value
    DATA["odd"] = {split: SequenceDataset.from_sequences(*part) for split, part in parts.items()}
    assert levels(check_data(Given("odd"))) == {"values": "wrong", "simple methods": "note"}


def test_an_empty_split_ends_the_search():
    parts = clean() | {"val": ([np.zeros(3, np.uint8)], np.array([0]))}
    whole = {split: SequenceDataset.from_sequences(*part) for split, part in parts.items()}
    whole["val"] = whole["val"].take(torch.tensor([], dtype=torch.int64))
    assert levels(findings({}, whole=whole)) == {"examples": "wrong"}


def test_two_views_are_one_example():
    def pairs(first, second):
        flat = np.concatenate(first + second)
        lengths = torch.tensor([[len(s) for s in first], [len(s) for s in second]])
        starts = lengths.flatten().cumsum(0).view(2, -1) - lengths
        return SequenceDataset(torch.from_numpy(flat), starts, lengths, torch.arange(len(first)) % 3)

    a, b, c = (sequences(i) for i in range(3))
    form = replace(FORM, views=2)
    apart = {"train": pairs(a, b), "val": pairs(b, a), "test": pairs(a[1:] + a[:1], b)}
    found = {finding.what: finding for finding in findings({}, form, whole=apart)}
    assert found["copies"].level == "fine"  # other pairs, although of the same sequences
    assert found["similar sequences"].level == "wrong"
    same = {finding.what: finding for finding in findings({}, form, whole=apart | {"test": pairs(a, b)})}
    assert same["copies"].said.startswith("120 of 240")
    clean = {split: pairs(x, x[1:] + x[:1]) for split, x in zip(SPLITS, (a, b, c), strict=True)}
    assert levels(findings({}, form, whole=clean)) == {}


@spec
class Kept(Prepared):
    """A prepared set of the toys of this file."""

    card = Card(source="made here", licence="none needed")

    def write(self, out: DatasetWriter) -> SequenceSpec:
        """The clean sequences."""
        for i, (x, y) in enumerate(clean().values()):
            add_sequences(out, x, y, np.full(len(y), i))
        return FORM


def test_changed_files_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    task = Kept()
    assert levels(check_data(task, compare=False)) == {}
    with (task.folder / "split.npy").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    assert levels(check_data(task, compare=False))["files"] == "wrong"


def test_simple_methods_are_scored():
    parts = {
        split: ([np.full(20, y, np.uint8) for y in range(3)] * 20, np.arange(60) % 3) for split in SPLITS
    }
    FORMS["easy"] = FORM
    DATA["easy"] = {split: SequenceDataset.from_sequences(*part) for split, part in parts.items()}
    found = {finding.what: finding for finding in check_data(Given("easy"))}
    assert found["commonest class"].said == "accuracy 0.333"
    assert found["logistic regression on 1-4-grams"].level == "note"
    assert found["what to try"].said.startswith("use logistic regression on 1-4-grams: it scores 1.000")


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ((60, 0, {"boosting": 0.95}), "use boosting: it scores 0.950"),
        ((60, 61, {"boosting": 0.949}), "compare SPT with boosting (0.949): 61 sequences have no label"),
        (
            (60, 61, {"boosting": 0.6, "a": 0.5, "directions, all sequences": 0.55}),
            "compare SPT with boosting (0.600) and directions, all sequences (0.550): 61 sequences have no",
        ),
        ((99, 99, {"boosting": 0.7}), "begin with boosting (0.700), and compare networks with 5 seeds"),
        (
            (100, 0, {"boosting": 0.7, "guess": 0.3}),
            "begin with boosting (0.700), then compare SPT with matched scratch: it leaves room",
        ),
    ],
)
def test_what_to_try_has_a_reason(known, said):
    assert advice(*known).startswith(said)


def test_guessing_is_never_what_to_try():
    parts = {split: (sequences(i), np.zeros(N, dtype=int)) for i, split in enumerate(SPLITS)}
    FORMS["one"] = FORM
    DATA["one"] = {split: SequenceDataset.from_sequences(*part) for split, part in parts.items()}
    found = {finding.what for finding in check_data(Given("one"))}
    assert "commonest class" in found and "what to try" not in found


def test_runs_in_common():
    random = np.random.default_rng(0)
    a, b = random.integers(0, 9, (2, 500)).astype(np.uint8)
    assert shared_fraction(a, a) == 1.0
    assert shared_fraction(a, b) == 0.0
    assert shared_fraction(a[:400], a[100:]) == pytest.approx((300 - 23) / (400 - 23))
    wide = random.normal(size=(90, 3)).astype(np.float32)
    assert shared_fraction(wide, wide[10:]) == 1.0
