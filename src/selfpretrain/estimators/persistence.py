"""Save and load trained estimators: weights as safetensors, everything else as JSON; nothing is pickled.

model.json           settings, network, input format, labels, scores, data, versions
weights.safetensors  the networks, prefixed with the number of the member; independent of the device
simple.safetensors   the simple method that predicts, alone or averaged with the networks, if one does
README.md            the model card, see ``card``
reliability.svg      reliability curve, for classifiers with test scores
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch

from .. import __version__
from ..config import demand_trust, from_dict, to_dict
from ..data.labels import labels_from
from ..data.spec import SequenceSpec
from ..data.store import FORM
from ..errors import SelfPretrainError, SpecError, StoreError
from ..objectives.base import Objective
from ..runner.workspace import Workspace
from ..system.files import FORMAT, Json, damaged_message, explain_output_errors, read_json, write_text
from ..training.model import Model, Network
from ..training.recipe import Recipe
from ..training.run_dir import WEIGHTS, RunDir
from .alphabet import Alphabet
from .card import card
from .predictor import ESTIMATORS, PRETRAINER, Predictor
from .scores import Reliability
from .simple import SimplePredictor

FILE = "model.json"
SIMPLE = "simple.safetensors"
AGAIN = "take the model again from its run (spt model take), or from a copy"
ELSEWHERE = ("runs", "device", "random_state", "verbose")
"""Settings that are not saved, because they depend on the machine or the run."""


@runtime_checkable
class FittedEstimator(Protocol):
    """What is saved of a trained estimator, besides ``classes_`` and ``n_features_in_`` if it has them."""

    predictor_: Predictor
    recipes_: list[Recipe]
    scores_: dict[str, Json]
    validation_scores_: list[Any]
    data_facts_: Json
    reading_: Json | None
    simple_: SimplePredictor | None
    averaged_: bool
    alphabet_: Alphabet | None
    leaderboard_: list[Json]
    trials_: list[Json]
    kept_: str

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings."""


E = TypeVar("E", bound=FittedEstimator)


def save(estimator: FittedEstimator, folder: str | Path) -> Path:
    """Write a trained estimator to a folder, creating it if needed.

    Raises:
        SpecError: if its labels are of a type that JSON cannot hold.
        StoreError: if the folder cannot be written.
    """
    place = RunDir(make_folder(folder))
    tensors = {
        f"{i}.{name}": tensor.cpu()
        for i, network in enumerate(estimator.predictor_.networks)
        for name, tensor in network.state_dict().items()
    }
    content = _content(estimator) | {"weights": place.save(WEIGHTS, tensors)}
    if simple := estimator.simple_:
        digest = place.save(SIMPLE, simple.tensors())
        content["simple"] = simple.about() | {"weights": digest, "averaged": estimator.averaged_}
    place.write(FILE, content)
    write_text(place.path / "README.md", card(content))
    if curve := estimator.scores_.get("reliability"):
        bins = tuple((confidence, accuracy, share) for confidence, accuracy, share in curve["bins"])
        write_text(place.path / "reliability.svg", Reliability(bins).picture())
    return place.path


def make_folder(folder: str | Path) -> Path:
    """Create the folder of a model if needed, and return its path.

    Raises:
        StoreError: if it cannot be created.
    """
    with explain_output_errors(Path(folder)):
        Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder)


def _content(estimator: FittedEstimator) -> Json:
    """Return the contents of ``model.json``, except the digest of the weights."""
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
        "recipes": [to_dict(recipe) for recipe in estimator.recipes_],
        "scores": {"val": estimator.validation_scores_} | estimator.scores_,
        "data": estimator.data_facts_,
        "reading": estimator.reading_,
        "alphabet": None if estimator.alphabet_ is None else asdict(estimator.alphabet_),
        "kept": estimator.kept_,
        "leaderboard": estimator.leaderboard_,
        "trials": estimator.trials_,
        "versions": {"selfpretrain": __version__, "torch": torch.__version__, "numpy": np.__version__},
    }


def _read(folder: str | Path) -> Json:
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
    content = _read(folder)
    with _report_damage(folder):
        return card(content)


def load(
    folder: str | Path,
    kinds: Mapping[str, Callable[..., E]],
    device: str = "auto",
    trust: tuple[str, ...] = (),
) -> E:
    """Return the estimator that ``save`` wrote, on a device.

    Args:
        kinds: name of the class -> class, of the estimators that are accepted.
        trust: packages whose mixers may be imported besides our own.

    Raises:
        StoreError: if the folder holds no model, or a damaged one.
        SpecError: if the model is of another kind, or needs a package that is not trusted.
    """
    content = _read(folder)
    with _report_damage(folder):
        kind = content["kind"]
        if kind not in kinds and kind in (*ESTIMATORS.values(), PRETRAINER):
            raise SpecError(f"{folder} holds a {kind}, not a {' or '.join(kinds)}")
        estimator = kinds[kind](**_settings(content, trust), device=device)
        estimator.predictor_ = _predictor(content, folder, trust)
        estimator.simple_ = _simple(content, folder, estimator.predictor_.form)
        estimator.averaged_ = bool(estimator.simple_ and content["simple"].get("averaged", False))
        estimator.alphabet_ = Alphabet.load(content.get("alphabet"), estimator.predictor_.form.signal)
        estimator.kept_ = str(content.get("kept", ""))
        estimator.leaderboard_ = list(content.get("leaderboard", []))
        estimator.trials_ = list(content.get("trials", []))
        if content["classes"]:
            classes = _classes(content["classes"], estimator.predictor_.form.target)
            vars(estimator)["classes_"] = classes
        if not isinstance(content["reading"], dict | None):
            raise TypeError("reading")
        estimator.reading_ = content["reading"]
        estimator.scores_ = dict(content["scores"])
        estimator.validation_scores_ = content["scores"]["val"]
        estimator.data_facts_ = dict(content["data"])
        estimator.recipes_ = [from_dict(recipe, trust) for recipe in content["recipes"]]
        if content.get("features") is not None:
            vars(estimator)["n_features_in_"] = int(content["features"])
    estimator.predictor_.to(Workspace.of(Path(folder), device, "1").device)
    return estimator


@contextmanager
def _report_damage(folder: str | Path) -> Iterator[None]:
    """Convert any exception raised while reading a model into a one-line StoreError.

    Raises:
        StoreError: naming the file; errors of this package pass unchanged.
    """
    try:
        yield
    except SelfPretrainError:
        raise
    except Exception as error:  # the file may hold anything
        reason = f"{type(error).__name__}: {error}"
        raise StoreError(damaged_message(Path(folder) / FILE, reason, AGAIN)) from error


def _settings(content: Json, trust: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings of an estimator; modules named in them must be trusted."""
    settings = {
        key: from_dict(value, trust) for key, value in content["settings"].items() if key not in ELSEWHERE
    }
    for value in settings.values():
        if isinstance(value, str) and ":" in value:
            demand_trust(value, trust)
    return settings


def _simple(content: Json, folder: str | Path, form: SequenceSpec) -> SimplePredictor | None:
    """Return the simple method that was kept, or None."""
    about = content.get("simple")
    if not about:
        return None
    tensors = RunDir(Path(folder)).load(SIMPLE, about["weights"], AGAIN)[0]
    return SimplePredictor.load(form, about, tensors)


def _predictor(content: Json, folder: str | Path, trust: tuple[str, ...]) -> Predictor:
    """Build the networks of a model, with the weights in its folder."""
    model = from_dict(content["model"], trust)
    objective = from_dict(content["objective"], trust)
    form = FORM.validate_python(_finite(content["form"]))
    tensors = RunDir(Path(folder)).load(WEIGHTS, content["weights"], AGAIN)[0]
    members = {name.partition(".")[0] for name in tensors}
    if content["members"] != len(members):
        raise ValueError(f"members {content['members']!r}, but weights of {len(members)}")
    temperature = float(content["temperature"])
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature {temperature}")
    networks = tuple(load_network(model, objective, form, tensors, f"{i}.") for i in range(len(members)))
    return Predictor(model, objective, form, networks, temperature)


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


def load_network(
    model: Model, objective: Objective, form: Any, tensors: Mapping[str, torch.Tensor], prefix: str = ""
) -> Network:
    """Build a network, and load those tensors into it whose names begin with a prefix.

    Raises:
        ValueError: if the tensors are those of another network.
    """
    weights = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
    blocks = {name.split(".")[1] for name in weights if name.startswith("blocks.")}
    if len(blocks) != model.depth:
        raise ValueError(f"depth {model.depth}, but weights of {len(blocks)} blocks")
    _refuse_other_shapes(model, objective, form, weights)
    # The initial weights are overwritten below: do not let them advance the caller's random state.
    with torch.random.fork_rng(devices=[]):
        network = model.build(form, objective.head(form, model.width, model.pooling))
    network.load_state_dict(weights)
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
