"""Networks of users that fail their checks, or answer NaN: fit says so, and never keeps the latter."""

import numpy as np
import pytest
import torch

from selfpretrain import SequenceClassifier, SequencePretrainer, SequenceRegressor
from selfpretrain.cli.app import run
from selfpretrain.errors import DataError, StageFailed

QUICK = {"width": 8, "depth": 1, "epochs": 1, "pretrain_epochs": 1, "n_trials": 1, "device": "cpu"}
QUICK |= {"exhaustive": True}
X = [np.random.default_rng(i).normal(size=8 + i % 5).astype(np.float32) + i % 2 for i in range(40)]
y = [i % 2 for i in range(40)]


def test_fit_warns_of_a_network_that_fails_its_checks():
    model = SequenceClassifier(mixer="own_networks:IgnoresMask", scale="smoke", device="cpu")
    with pytest.warns(UserWarning, match="ignoresmask: padding content: padding reaches real positions"):
        model.fit(X, y)


def test_the_command_prints_it(tmp_path, capsys):
    rows = [f"{' '.join(map(str, row.tolist()))},{label}" for row, label in zip(X, y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y", *rows]))
    flags = ["--mixer", "own_networks:IgnoresMask", "--scale", "smoke", "--device", "cpu", "--quiet"]
    places = ["-o", str(tmp_path / "model"), "--runs", str(tmp_path / "runs")]
    assert run(["fit", str(tmp_path / "t.csv"), *places, *flags]) == 0
    assert "note: ignoresmask: padding content" in capsys.readouterr().err


@pytest.mark.parametrize("n_trials", [1, 2])
@pytest.mark.filterwarnings("ignore:nanatpadding")
def test_a_network_whose_answers_are_nan_is_out(n_trials):
    model = SequenceClassifier(mixer="own_networks:NanAtPadding", **QUICK | {"n_trials": n_trials})
    with pytest.warns(UserWarning, match="the network is out: its answers are not finite for"):
        model.fit(X, y)
    assert model.simple_ and model.shares_[0] == 0 and "the network is out" in model.kept_
    assert not any("SPT" in row["name"] for row in model.leaderboard_)
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (SequenceClassifier, "its answers are not finite"),
        (SequenceRegressor, "its answers are not finite"),
        (SequencePretrainer, "its loss on validation is NaN"),
    ],
)
@pytest.mark.filterwarnings("ignore:alwaysnan")
def test_if_nothing_else_can_be_kept_it_is_an_error_of_one_line(kind, said):
    with pytest.raises(StageFailed, match=f"the network is out: {said}") as caught:
        kind(mixer="own_networks:AlwaysNan", model="network", scale="smoke", device="cpu").fit(X, y)
    assert "\n" not in str(caught.value)


def test_predictions_that_are_not_finite_are_an_error_that_names_the_sequence():
    model = SequenceClassifier(mixer="attention", scale="smoke", device="cpu").fit(X, y)
    with torch.no_grad():
        for parameter in model.predictor_.networks[0].parameters():
            parameter.fill_(torch.nan)
    for ask in (model.predict_proba, model.predict, model.transform):
        with pytest.raises(DataError, match="no finite number for 3 of 3 sequences, the first is number 0"):
            ask(X[:3])
