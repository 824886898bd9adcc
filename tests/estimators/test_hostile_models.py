"""Models that somebody made by mistake or on purpose: refused in one line, and nothing of theirs is run."""

import json
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

from hostile import TENSOR_HARMS
from selfpretrain.cli.app import run
from selfpretrain.errors import DataError, SpecError, StoreError
from selfpretrain.estimators import leaderboard
from selfpretrain.estimators.models import PositionClassifier, SequenceClassifier, load
from selfpretrain.estimators.simple import SimpleMethods, candidates_for
from selfpretrain.system.files import read_json, write_json
from selfpretrain.training import checkpoint

X = np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32)
AGAIN = "take the model again from its run"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    kind = SequenceClassifier(mixer="attention", objective=None, scale="smoke", device="cpu")
    return kind.fit(X, np.arange(30) % 2).save(folder)


@pytest.fixture
def model(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "model")
    return tmp_path / "model"


def changed(model, change):
    content = read_json(model / "model.json")
    change(content)
    write_json(model / "model.json", content)


HARMS = {
    "no models": lambda it: it.update(models=[]),
    "more models than weights": lambda it: it.update(models=it["models"] * 2),
    "depth of millions": lambda it: it["models"][0].update(depth=10**6),
    "depth of thousands": lambda it: it["models"][0].update(depth=10**4),
    "another width": lambda it: it["models"][0].update(width=10**6),
    "temperature 0": lambda it: it.update(temperature=0),
    "temperature NaN": lambda it: it.update(temperature=float("nan")),
    "temperature below 0": lambda it: it.update(temperature=-1.0),
    "moments that are none": lambda it: it["form"]["signal"].update(centre=[float("nan")]),
    "no spread": lambda it: it["form"]["signal"].update(spread=[float("inf")]),
    "equal classes": lambda it: it.update(classes=[1, 1]),
    "classes 3": lambda it: it.update(classes=3),
    "three classes": lambda it: it.update(classes=[0, 1, 2]),
    "deep classes": lambda it: it.update(classes=[[[[[1]]]]]),
    "a kind of lists": lambda it: it.update(kind=[]),
    "recipes 3": lambda it: it.update(recipes=3),
    "scores 3": lambda it: it.update(scores=3),
    "reading 3": lambda it: it.update(reading=3),
    "no form": lambda it: it.pop("form"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_harm_is_refused_in_one_line(model, harm, tmp_path, capsys):
    changed(model, HARMS[harm])
    np.save(tmp_path / "new.npy", X)
    code = run(["predict", str(model), str(tmp_path / "new.npy"), "-o", str(tmp_path / "out.csv")])
    told = capsys.readouterr().err
    assert code in (1, 2) and told.count("\n") == 1 and "unforeseen" not in told, told
    assert str(model) in told or "depth" in told
    assert run(["model", "show", str(model)]) in (0, 1)
    assert "unforeseen" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["model.json", "weights*.safetensors"])
@pytest.mark.parametrize("how", ["a bit", "a folder"])
def test_who_has_a_damaged_model_is_not_sent_to_delete_it(model, name, how):
    (path,) = model.glob(name)
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.unlink()
    if how == "a folder":
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(StoreError) as caught:
        load(model)
    assert "delete" not in str(caught.value) and str(path) in str(caught.value)
    assert how == "a folder" or AGAIN in str(caught.value)


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """A module on the path that leaves a trace when it is imported."""
    (tmp_path / "evilmod.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w')\nEvil = lambda: None\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "trace"
    sys.modules.pop("evilmod", None)


def test_a_module_that_settings_name_is_imported_with_trust_alone(model, evil):
    changed(model, lambda it: it["settings"].update(mixer="evilmod:Evil"))
    with pytest.raises(SpecError, match="add --trust evilmod"):
        load(model).fit(X, np.arange(30) % 2)
    assert not evil.exists()
    assert load(model, trust=("evilmod",)).mixer == "evilmod:Evil"


def test_showing_a_card_imports_nothing(model, evil, capsys):
    changed(model, lambda it: it["models"][0]["mixer"].update({"is": "evilmod:Evil"}))
    assert run(["model", "show", str(model)]) == 0
    assert "evil" in capsys.readouterr().out and not evil.exists()


def test_settings_say_nothing_of_where_runs_are_kept_here(model, tmp_path):
    changed(model, lambda it: it["settings"].update(runs=str(tmp_path / "elsewhere"), device="cuda:7"))
    assert load(model, "cpu").runs is None


def test_a_recipe_of_a_billion_blocks_is_refused(tmp_path, capsys):
    plain = {
        "is": "selfpretrain.training.recipe:Recipe",
        "task": {"is": "selfpretrain.tasks.digits:Digits"},
        "model": {
            "is": "selfpretrain.training.model:Model",
            "mixer": {"is": "selfpretrain.mixers.attention:Attention"},
            "depth": 10**9,
        },
        "stages": [
            {
                "is": "selfpretrain.training.recipe:Stage",
                "objective": {"is": "selfpretrain.objectives.classify:Classify"},
                "budget": {"is": "selfpretrain.training.recipe:Budget", "steps": 1},
            }
        ],
    }
    for depth, width in ((10**9, 16), (10**4, 8192)):
        plain["model"] |= {"depth": depth, "width": width}
        (tmp_path / "recipe.json").write_text(json.dumps(plain))
        assert run(["run", str(tmp_path / "recipe.json"), "--runs", str(tmp_path / "runs"), "--quiet"]) == 2
        told = capsys.readouterr().err
        assert "depth" in told or "this machine has" in told


TEXTS = ["".join("aeiou"[(i * j + j) % 5] for j in range(6)) + "ab"[i % 2] for i in range(30)]
KINDS_OF_DATA = {
    "values": (SequenceClassifier, X, [i % 2 for i in range(30)]),
    "long values": (SequenceClassifier, np.tile(X, 2), [i % 2 for i in range(30)]),
    "symbols": (SequenceClassifier, TEXTS, [i % 2 for i in range(30)]),
    "positions of symbols": (PositionClassifier, TEXTS, [list("abcdefg") for _ in TEXTS]),
    "positions of values": (PositionClassifier, X, [[i % 2] * 8 for i in range(30)]),
}


def simple_models(name: str, folder: Path) -> tuple[Any, list[Path]]:
    """Save one model for each simple method that suits some data; return the data and the folders."""
    kind, x, y = KINDS_OF_DATA[name]
    estimator = kind(mixer="attention", width=8, depth=1, objective=None, scale="smoke", device="cpu").fit(
        x, y
    )
    data = estimator.task_.load("train")
    form = estimator.predictor_.form
    quality = lambda found: leaderboard.quality(estimator.predictor_.output, found)  # noqa: E731
    methods = SimpleMethods(form, [(data, data)], data, leaderboard.answers, quality)
    places = []
    for method in candidates_for(form, data):
        estimator.simple_, estimator.shares_ = (methods.validated(method).model,), (0.0, 1.0)
        places.append(estimator.save(folder / f"{name} {len(places)}"))
    return x, places


@pytest.fixture(scope="module")
def simple(tmp_path_factory):
    """The data of a kind and the folders of its models, made once; to be read only."""
    return cache(lambda name: simple_models(name, tmp_path_factory.mktemp("simple")))


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of the simple method in a folder."""
    (file,) = folder.glob("simple-*.safetensors")
    with safe_open(file, "pt") as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118


def with_tensors(model: Path, tensors: dict[str, torch.Tensor], folder: Path) -> Path:
    """Return a copy of a model whose simple method has other tensors, all digests included."""
    shutil.copytree(model, folder, dirs_exist_ok=True)
    digest = checkpoint.digest(tensors)
    checkpoint.save(folder / f"simple-{digest[:12]}.safetensors", tensors)
    changed(folder, lambda content: content["simple"].update(weights=digest))
    return folder


def answered(folder: Path, x: Any) -> str:
    """Return "" if a model predicts numbers, or else says in one line why not; else what is wrong."""
    try:
        found = load(folder).predict_proba(x)
    except (StoreError, DataError) as error:
        return "" if str(folder) in str(error) and "\n" not in str(error) else str(error)
    except Exception as error:
        return repr(error)
    return "" if all(np.isfinite(each).all() for each in found) else "not finite"


@pytest.mark.parametrize("harms", [1, pytest.param(len(TENSOR_HARMS), marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", KINDS_OF_DATA)
def test_a_harmed_tensor_of_a_simple_method_is_refused_or_harmless(name, harms, simple, tmp_path):
    x, models = simple(name)
    wrong = []
    for model in models:
        tensors = tensors_of(model)
        assert answered(with_tensors(model, tensors, tmp_path / "same"), x) == ""
        for number, tensor in enumerate(tensors):
            for i in range(number, number + harms):
                harm, done = list(TENSOR_HARMS.items())[i % len(TENSOR_HARMS)]
                found = {tensor: done(tensors[tensor])} if done(tensors[tensor]) is not None else {}
                rest = {other: value for other, value in tensors.items() if other != tensor}
                said = answered(with_tensors(model, rest | found, tmp_path / "harmed"), x)
                wrong += [(model.name, tensor, harm, said)] if said else []
    assert not wrong, wrong[:5]


@pytest.mark.parametrize("harm", ["short", "long", "NaN"])
def test_predict_refuses_a_harmed_simple_method_in_one_line(harm, simple, tmp_path, capsys):
    x, models = simple("symbols")
    tensors = tensors_of(models[0])
    folder = with_tensors(
        models[0], tensors | {"0.coef": TENSOR_HARMS[harm](tensors["0.coef"])}, tmp_path / "m"
    )
    (tmp_path / "new.csv").write_text("\n".join(["x", *x]))
    assert run(["predict", str(folder), str(tmp_path / "new.csv"), "-o", str(tmp_path / "out.csv")]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "is damaged" in said and "unforeseen" not in said
    assert not (tmp_path / "out.csv").exists()


def test_weights_of_a_network_that_are_not_finite_are_refused(model):
    tensors, _ = checkpoint.load(next(model.glob("weights-*.safetensors")))
    name = next(iter(tensors))
    tensors[name] = torch.full_like(tensors[name], torch.nan)
    digest = checkpoint.digest(tensors)
    checkpoint.save(model / f"weights-{digest[:12]}.safetensors", tensors)
    changed(model, lambda content: content.update(weights=digest))
    with pytest.raises(StoreError, match="not finite"):
        load(model)
