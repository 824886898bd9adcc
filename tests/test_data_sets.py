"""The page of real data sets: its tables are those of what was measured, and its rules hold in them."""

import json
from pathlib import Path

import numpy as np
import pytest

from scripts import script
from selfpretrain.tasks.inspect.checks import ENOUGH

ROOT = Path(__file__).resolve().parents[1]
KEPT = json.loads((ROOT / "benchmarks" / "data_sets.json").read_text())


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return script("data_sets")


def test_every_set_has_every_arm_with_its_seeds_and_simple_methods(bench):
    assert len(KEPT) >= 6 and set(KEPT) <= set(bench.SETS)
    for entry in KEPT.values():
        assert {arm: len(found["accuracy"]) for arm, found in entry["arms"].items()} == dict.fromkeys(
            bench.ARMS.values(), bench.SEEDS
        )
        words = not entry["facts"]["channels"]
        assert set(entry["simple"]) == set(bench.OF_WORDS if words else bench.OF_VALUES)
        for against, gain in entry["gains"].items():
            means = [np.mean(entry["arms"][arm]["accuracy"]) for arm in ("SPT", against)]
            assert gain["difference"] == pytest.approx(means[0] - means[1])


def test_where_a_simple_method_suffices_no_network_is_clearly_better(bench):
    sufficed = [e for e in KEPT.values() if max(m["accuracy"] for m in e["simple"].values()) >= ENOUGH]
    assert sufficed
    for entry in sufficed:
        best = max(known["accuracy"] for known in entry["simple"].values())
        over = bench.accuracies(entry)["SPT"] - best
        assert over <= max(gain["half"] for gain in entry["gains"].values())


def test_with_every_sequence_labelled_pretraining_gained_nothing_for_certain():
    assert all(g["difference"] <= g["half"] for entry in KEPT.values() for g in entry["gains"].values())


def test_the_default_fit_is_within_one_point_of_the_best_method_of_every_set(bench):
    for entry in KEPT.values():
        others = {name: value for name, value in bench.accuracies(entry).items() if name != "fit"}
        assert entry["fit"]["accuracy"] >= max(others.values()) - 0.01


def test_methods_learn_what_can_be_learned(bench):
    random = np.random.RandomState(0)
    words = ["".join(random.choice(list("abc"), 6)) + end for end in ["x", "y"] * 20]
    labels = np.array(["x", "y"] * 20)
    for answer in bench.OF_WORDS.values():
        assert np.mean(answer(words[:30], labels[:30], words[30:]) == labels[30:]) == 1
    waves = [random.randn(random.randint(10, 20), 2) + 5 * (i % 2) for i in range(40)]
    for name, answer in bench.OF_VALUES.items():
        if name != "boosting":
            pytest.importorskip("aeon", reason="the peers' package is not installed")
        assert np.mean(answer(waves[:30], labels[:30], waves[30:]) == labels[30:]) > 0.9


def test_finished_sets_are_not_measured_again(bench, monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(bench, "KEPT", tmp_path / "kept.json")
    monkeypatch.setattr(bench, "SETS", {name: lambda name=name: made.append(name) for name in "abc"})
    monkeypatch.setattr(bench, "measured", lambda data: {"measured": True})
    monkeypatch.setattr(bench, "of_fit", lambda data: {"accuracy": 1.0})
    kept = {"a": {"measured": False, "fit": {"accuracy": 0.5}}}
    bench.measure(kept, ["a", "b"], minutes=1)
    assert made == ["b"] and json.loads((tmp_path / "kept.json").read_text()) == kept
    bench.measure(kept, ["c"], minutes=-1)
    assert made == ["b"] and "c" not in kept


def test_what_another_process_measured_meanwhile_is_kept(bench, monkeypatch, tmp_path):
    def measured(data):
        bench.KEPT.write_text('{"b": {}}')
        return {}

    monkeypatch.setattr(bench, "KEPT", tmp_path / "kept.json")
    monkeypatch.setattr(bench, "SETS", {"a": dict})
    monkeypatch.setattr(bench, "measured", measured)
    monkeypatch.setattr(bench, "of_fit", lambda data: {"accuracy": 1.0})
    bench.measure({}, ["a"], minutes=1)
    assert set(bench.finished()) == {"a", "b"}
