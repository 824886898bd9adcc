"""Save and load trained estimators: weights as safetensors, everything else as JSON; nothing is pickled.

model.json           settings, network, input format, labels, scores, data, versions
weights.safetensors  the networks, prefixed with the number of the member; independent of the device
README.md            the model card, see ``card``
reliability.svg      reliability curve, for classifiers with test scores
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import __version__
from ..config import demand_trust, from_dict, to_dict
from ..data.labels import labels_from
from ..data.store import FORM
from ..errors import SelfPretrainError, SpecError, StoreError
from ..objectives.base import Objective
from ..runner.workspace import Workspace
from ..system.files import FORMAT, Json, damaged_message, read_json, write_text
from ..training.model import Model
from ..training.recipe import Recipe
from ..training.run_dir import WEIGHTS, RunDir
from .base import ESTIMATORS, SequenceEstimator
from .card import card
from .classifier import SequenceClassifier
from .multilabel import MultilabelClassifier
from .positions import PositionClassifier
from .predictor import Predictor
from .pretrainer import SequencePretrainer
from .regressor import SequenceRegressor
from .reliability import Reliability

FILE = "model.json"
AGAIN = "take the model again from its run (spt model take), or from a copy"
KINDS = {
    kind.__name__: kind
    for kind in (
        SequenceClassifier,
        SequenceRegressor,
        MultilabelClassifier,
        PositionClassifier,
        SequencePretrainer,
    )
}
ELSEWHERE = ("runs", "device", "random_state", "verbose")
"""Settings that are not saved, because they depend on the machine or the run."""


def save(estimator: SequenceEstimator, folder: str | Path) -> Path:
    """Write a trained estimator to a folder, creating it if needed.

    Raises:
        SpecError: if its labels are of a type that JSON cannot hold.
        StoreError: if the folder cannot be written.
    """
    place, predictor = RunDir.make(Path(folder)), estimator.predictor_
    tensors = {
        f"{i}.{name}": tensor.cpu()
        for i, network in enumerate(predictor.networks)
        for name, tensor in network.state_dict().items()
    }
    said = about(estimator) | {"weights": place.save(WEIGHTS, tensors)}
    place.write(FILE, said)
    write_text(place.path / "README.md", card(said))
    if found := estimator.scores_.get("reliability"):
        curve = Reliability(tuple((sure, hit, share) for sure, hit, share in found["bins"]))
        write_text(place.path / "reliability.svg", curve.picture())
    return place.path


def about(estimator: SequenceEstimator) -> Json:
    """Return the contents of ``model.json`` but for the digest of the weights."""
    predictor = estimator.predictor_
    settings = {k: v for k, v in estimator.get_params(deep=False).items() if k not in ELSEWHERE}
    weights = settings.get("class_weight")
    if weights and not isinstance(weights, str):
        settings["class_weight"] = None  # its labels may be no keys of JSON; the objective holds the numbers
    return {
        "format": FORMAT,
        "kind": type(estimator).__name__,
        "settings": to_dict(settings),
        "model": to_dict(predictor.model),
        "objective": to_dict(predictor.objective),
        "form": FORM.dump_python(predictor.form, mode="json"),
        "members": len(predictor.networks),
        "temperature": predictor.temperature,
        "classes": [_plain(label) for label in getattr(estimator, "classes_", [])],
        "features": getattr(estimator, "n_features_in_", None),
        "recipes": [to_dict(recipe) for recipe in getattr(estimator, "recipes_", [])],
        "scores": {"val": getattr(estimator, "validation_scores_", [])} | estimator.scores_,
        "data": estimator.data_facts_,
        "reading": estimator.reading_,
        "versions": {"selfpretrain": __version__, "torch": torch.__version__, "numpy": np.__version__},
    }


def about_of(folder: str | Path) -> Json:
    """Return the contents of the ``model.json`` of a folder.

    Raises:
        StoreError: if the folder holds no model, or a damaged one.
    """
    path = Path(folder) / FILE
    if not path.exists():
        raise StoreError(f"{folder} holds no model: there is no {FILE}; spt fit ... -o {folder} makes one")
    return read_json(path, advice=AGAIN)


def card_of(folder: str | Path) -> str:
    """Return the model card of the model in a folder, as Markdown.

    Raises:
        StoreError: if the folder holds no model, or a damaged one.
    """
    with _read(Path(folder)):
        return card(about_of(folder))


def load(folder: str | Path, device: str = "auto", trust: tuple[str, ...] = ()) -> SequenceEstimator:
    """Return the estimator that ``save`` wrote, on a device.

    Args:
        trust: packages whose mixers may be imported besides our own.

    Raises:
        StoreError: if the folder holds no model, or a damaged one.
        SpecError: if the model needs a package that is not trusted.
    """
    place, said = Path(folder), about_of(folder)
    with _read(place):
        estimator = _settled(said, device, trust)
        model, objective = from_dict(said["model"], trust), from_dict(said["objective"], trust)
        form = FORM.validate_python(_finite(said["form"]))
        tensors = RunDir(place).load(WEIGHTS, said["weights"], AGAIN)[0]
        members = {name.partition(".")[0] for name in tensors}
        if said["members"] != len(members):
            raise ValueError(f"members {said['members']!r}, but weights of {len(members)}")
        networks = tuple(_network(model, objective, form, tensors, f"{i}.") for i in range(len(members)))
        temperature = float(said["temperature"])
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature {temperature}")
        estimator.predictor_ = Predictor(model, objective, form, networks, temperature)
        if said["classes"]:
            estimator.classes_ = _classes(said["classes"], form.target)
        if not isinstance(said["reading"], dict | None):
            raise TypeError("reading")
        estimator.scores_, estimator.data_facts_ = dict(said["scores"]), dict(said["data"])
        estimator.reading_ = said["reading"]
        estimator.recipes_ = [from_dict(recipe, trust) for recipe in said["recipes"]]
        estimator.validation_scores_ = said["scores"]["val"]
        if said.get("features") is not None:
            estimator.n_features_in_ = int(said["features"])
    estimator.predictor_.to(Workspace.of(place, device, "1").device)
    return estimator


@contextmanager
def _read(folder: Path) -> Iterator[None]:
    """Convert any exception raised while reading a model into a one-line StoreError.

    Raises:
        StoreError: naming the file; errors of this package pass unchanged.
    """
    try:
        yield
    except SelfPretrainError:
        raise
    except Exception as error:  # the file may hold anything
        raise StoreError(damaged_message(folder / FILE, f"{type(error).__name__}: {error}", AGAIN)) from error


def _settled(said: Json, device: str, trust: tuple[str, ...]) -> SequenceEstimator:
    """Return an untrained estimator with the settings of a model; modules named in them must be trusted."""
    settings = {
        key: from_dict(value, trust) for key, value in said["settings"].items() if key not in ELSEWHERE
    }
    for value in settings.values():
        if isinstance(value, str) and ":" in value:
            demand_trust(value, trust)
    return KINDS[said["kind"]](**settings, device=device)


def _finite(plain: Any) -> Any:
    """Return parsed JSON unchanged; raise ValueError if it holds NaN or an infinite number."""
    if isinstance(plain, float) and not math.isfinite(plain):
        raise ValueError(f"a number is {plain}")
    for value in plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else ():
        _finite(value)
    return plain


def _classes(plain: list[Any], target: Any) -> np.ndarray:
    labels = [_label(label) for label in plain]
    if len(set(labels)) < len(labels):
        raise ValueError("two classes are equal")
    if len(labels) != target.outputs:
        raise ValueError(f"{len(labels)} classes, but {target.outputs} answers")
    return labels_from(labels)


def from_recipe(recipe: Recipe, tensors: dict[str, torch.Tensor]) -> SequenceEstimator:
    """Return the network after the last stage of a recipe as an estimator.

    Args:
        tensors: name -> weights of that network.
    """
    task, last = recipe.task, recipe.last
    name = ESTIMATORS[task.form.target.kind] if last.objective.labelled else SequencePretrainer.__name__
    estimator = KINDS[name](mixer=recipe.model.mixer)
    named = {f"0.{name}": tensor for name, tensor in tensors.items()}
    network = _network(recipe.model, last.objective, task.form, named, "0.")
    estimator.predictor_ = Predictor(recipe.model, last.objective, task.form, (network,))
    estimator._adopt(task.form)
    estimator.recipes_, estimator.scores_, estimator.reading_, estimator.task_ = [recipe], {}, None, task
    return estimator


def _network(model: Model, objective: Objective, form: Any, tensors: Any, prefix: str) -> Any:
    mine = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
    blocks = {name.split(".")[1] for name in mine if name.startswith("blocks.")}
    if len(blocks) != model.depth:
        raise ValueError(f"depth {model.depth}, but weights of {len(blocks)} blocks")
    _refuse_other_shapes(model, objective, form, mine)
    # The initial weights are overwritten below: do not let them advance the caller's random state.
    with torch.random.fork_rng(devices=[]):
        network = model.build(form, objective.head(form, model.width, model.pooling))
    network.load_state_dict(mine)
    return network.eval()


def _refuse_other_shapes(model: Model, objective: Objective, form: Any, tensors: Any) -> None:
    """Raise ValueError if weights have other shapes than the network, before it is allocated."""
    try:
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            outline = model.build(form, objective.head(form, model.width, model.pooling))
    except (RuntimeError, NotImplementedError, TypeError):  # some initialisations need real numbers
        return
    for name, parameter in outline.state_dict().items():
        if name in tensors and tensors[name].shape != parameter.shape:
            raise ValueError(
                f"{name} has shape {tuple(parameter.shape)}, its weights {tuple(tensors[name].shape)}"
            )


def _plain(label: Any) -> Any:
    """Return a label in a form that JSON can hold; tuples become {"tuple": [...]}."""
    label = label.item() if isinstance(label, np.generic) else label
    if isinstance(label, tuple):
        return {"tuple": [_plain(part) for part in label]}
    if isinstance(label, str | int | float | bool):
        return label
    raise SpecError(f"a label is {label!r}, a {type(label).__name__}; words, numbers and tuples can be saved")


def _label(plain: Any) -> Any:
    return tuple(_label(part) for part in plain["tuple"]) if isinstance(plain, dict) else plain
