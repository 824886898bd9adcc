"""Laws every task obeys; a file dropped on the shelf is tested without being named."""

import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from selfpretrain import registry
from selfpretrain.data.importing.importer import import_arrays
from selfpretrain.data.spec import SPLITS, Classes, PositionClasses, Reals, Tokens, Values
from selfpretrain.errors import DataError
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.s4d import S4D
from selfpretrain.studies.recipes.defaults import denoising_objective, small_arms
from selfpretrain.tasks.base import Task
from selfpretrain.tasks.digits import Digits
from selfpretrain.tasks.genes import Genes
from selfpretrain.tasks.imported import Imported
from selfpretrain.tasks.paths import Paths
from selfpretrain.tasks.recall import Recall
from selfpretrain.tasks.stdlib import Stdlib
from selfpretrain.tasks.text import Text


def find(name: str) -> type[Task]:
    return registry.find("tasks", name)


def fields(kind: type[Task]) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def tiny(name: str) -> Task:
    return find(name)().tiny()


@pytest.fixture(scope="module", params=registry.names("tasks"))
def task(request):
    return tiny(request.param)


@pytest.fixture
def offline(monkeypatch):
    def refuse(*_):
        raise AssertionError("a tiny task went to the network")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)


def test_loads_offline_and_splits_are_disjoint(task, offline):
    assert task.card.source and task.card.licence
    digests = [task.load(split).digests() for split in SPLITS]
    assert all(digests)
    assert sum(len(set(d)) for d in digests) == len(set().union(*digests))
    assert task.load("val").labelled.any() and task.load("test").labelled.any()


def test_forms_are_measured_on_the_training_split(task):
    form, train = task.form, task.load("train")
    if isinstance(form.signal, Values):
        inputs = [train.sequence(row, view) for row in range(len(train)) for view in range(train.views)]
        values = np.concatenate(inputs).astype(np.float64)
        spread = values.std(0)
        assert np.allclose(values.mean(0), form.signal.centre, atol=0.02 * spread.max(), rtol=0.01)
        assert np.allclose(spread, form.signal.spread, rtol=0.02)
    if isinstance(form.target, Reals):
        known = train.targets[train.labelled].double()
        assert form.target.centre == pytest.approx(float(known.mean()), rel=1e-5)
        assert form.target.spread == pytest.approx(float(known.std(correction=0)), rel=1e-5)


def test_settings_of_its_own_exist(task):
    for mixer in (Attention(), S4D()):
        small_arms(task, mixer, denoising_objective(task, task.denoising))


def test_splits_are_reproducible(task):
    again = tiny(registry.name_of(task))
    for split in SPLITS:
        assert task.load(split).digests() == again.load(split).digests()
        assert torch.equal(task.load(split).targets.nan_to_num(-9), again.load(split).targets.nan_to_num(-9))


def test_groups_never_span_splits(task):
    groups = [task.load(split).groups for split in SPLITS]
    if groups[0] is None:
        pytest.skip("no groups")
    train, val, test = (set(g.tolist()) for g in groups)
    assert not (train & val or train & test or val & test)


def test_targets_are_what_was_declared(task):
    for split in SPLITS:
        targets = task.load(split).targets
        if isinstance(task.form.target, Classes):
            assert targets.dtype == torch.int64
            assert -1 <= int(targets.min()) <= int(targets.max()) < len(task.form.target.names)
            assert len(targets[targets >= 0].unique()) >= 2
        elif isinstance(task.form.target, PositionClasses):
            assert targets.dtype == torch.int16
            assert targets.shape == (len(targets), task.form.length)
            assert -1 <= int(targets.min()) <= int(targets.max()) < len(task.form.target.names)
            assert len(targets[targets >= 0].unique()) >= 2
        else:
            assert targets.dtype == torch.float32
            assert not targets.isinf().any()
            assert targets[targets.isfinite()].std() > 0


def test_sequences_are_what_was_declared(task):
    signal = task.form.signal
    for split in SPLITS:
        examples = task.load(split)
        assert examples.views == task.form.views
        assert 1 <= int(examples.lengths.min()) <= int(examples.lengths.max()) <= task.form.length
        inputs = examples.batch(torch.arange(min(len(examples), 64))).inputs
        if isinstance(signal, Tokens):
            assert inputs.dtype == torch.int64
            assert 0 <= int(inputs.min()) <= int(inputs.max()) < signal.vocab
            continue
        assert inputs.dtype == torch.float32
        assert inputs.shape[-1] == signal.channels
        assert inputs.isfinite().all()
        if signal.levels is not None:  # which are evenly spaced
            level = (inputs - signal.low) / (signal.high - signal.low) * (signal.levels - 1)
            assert torch.allclose(level, level.round(), atol=1e-4)
            assert 0 <= level.round().min() <= level.round().max() <= signal.levels - 1


def test_spec_survives_json_and_shortcuts_answer_every_example(task):
    again = type(task)(**json.loads(json.dumps(dataclasses.asdict(task))))
    assert again == task
    assert hash(again) == hash(task)
    assert again.version() == task.version()
    val = task.load("val")
    for cue in task.shortcuts().values():
        integers = cue(val)
        assert integers.shape == (len(val),)
        assert not integers.is_floating_point()


def test_label_budget_is_nested_and_stratified(task):
    if "labels" not in fields(task):
        pytest.skip("no label budget")
    if not isinstance(task.form.target, Classes):
        pytest.skip("a budget of classes")
    classes = len(task.form.target.names)
    full = task.load("train")
    before = torch.zeros(len(full), dtype=torch.bool)
    for labels in (classes, 3 * classes, 5 * classes):
        some = dataclasses.replace(task, labels=labels).load("train")
        assert some.digests() == full.digests()
        assert int(some.labelled.sum()) == labels
        assert torch.equal(some.targets[some.labelled], full.targets[some.labelled])
        assert not (before & ~some.labelled).any()
        counts = some.targets[some.labelled].bincount(minlength=classes)
        share = full.targets[full.labelled].bincount(minlength=classes) / full.labelled.sum()
        assert (counts - labels * share).abs().max() <= 1.5
        before = some.labelled


NESTED = ["digits", "listops", "paths", "recall", "selective-copying", "state-tracking", "stdlib"]
"""Tasks whose number of training examples may be chosen, and changes no example."""


@pytest.mark.parametrize("name", NESTED)
def test_fewer_training_examples_are_the_first_of_more(name):
    task = tiny(name)
    some = dataclasses.replace(task, train=task.train // 2)
    assert some.load("train").digests() == task.load("train").digests()[: task.train // 2]
    assert all(some.load(split).digests() == task.load(split).digests() for split in SPLITS[1:])


FROZEN = {
    Digits(): "d6a9ed935115752b",
    Stdlib(): "487cc18dad4bb891",
    Paths(train=300, val=100, test=100): "fc486bcbd92f031f",
}


@pytest.mark.parametrize("task", FROZEN, ids=registry.name_of)
def test_data_never_change(task):
    """Others would change every published figure."""
    digests = [digest for split in SPLITS for digest in task.load(split).digests()]
    assert hashlib.sha256("".join(digests).encode()).hexdigest()[:16] == FROZEN[task]


def test_another_seed_divides_digits_otherwise():
    assert Digits(split_seed=1).load("val").digests() != Digits().load("val").digests()


FROM_FILES = {name: kind for name in registry.names("tasks") if "made_up" in fields(kind := find(name))}
FROM_FILES.pop("image-patches", None)  # whose pictures are those of another task, and kept in memory


@pytest.mark.parametrize("name", FROM_FILES)
def test_missing_files_are_asked_for_in_one_line(name, home, monkeypatch):
    kind = FROM_FILES[name]
    generated = getattr(kind(), "source", None) == "generated"
    if "places" in vars(kind):  # folders of a Linux distribution may have them
        monkeypatch.setattr(kind, "places", tuple(p for p in kind.places if not Path(p).is_absolute()))
    get = f"run `selfpretrain data get {name}( --release)?`" if kind.downloads else "place it in"
    with pytest.raises(DataError, match=get) as caught:
        (kind(source="lra") if generated else kind()).load("train")
    assert "\n" not in str(caught.value)
    assert not list((home / "prepared").glob("*-*[!k]"))  # nothing but the lock


def test_smoke_runs_take_any_label_budget(home, random):
    import_arrays("mine", random.rand(60, 8), [0, 1] * 30)
    for task in (Text(labels=1_000), Genes(loci=100), Imported("mine", labels=40), Recall(labels=5_000)):
        train = task.tiny().load("train")
        assert (
            0
            < int(train.labelled.any(-1).sum() if train.labelled.ndim > 1 else train.labelled.sum())
            <= len(train)
        )
    assert Imported("mine", rows=30, longest=4).tiny() == Imported("mine", rows=30, held=50, longest=4)
