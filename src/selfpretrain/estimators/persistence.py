"""Saved estimators: writing, loading, the model card, and the Hugging Face hub.

Weights are written as safetensors, everything else as JSON; nothing is pickled. The names of weights contain
a part of their digest, which ``model.json`` holds: files of an older model in the folder are valid until the
new ``model.json`` replaces the old one, and are removed afterwards.

model.json             settings, network, input format, labels, scores, data, versions
weights-X.safetensors  the networks, prefixed with the number of the member; independent of the device
simple-X.safetensors   the simple methods that predict, prefixed with their number, if any do
README.md              the model card, see ``card``
reliability.svg        reliability curve, for classifiers with test scores
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from .. import __version__
from ..config import demand_trust, from_dict, to_dict
from ..data.labels import labels_from
from ..data.offsets import Offsets
from ..data.spec import SequenceSpec, Values
from ..data.store import FORM
from ..errors import SelfPretrainError, SpecError, StoreError
from ..mixers.common.hf_model import PREFIX
from ..objectives.base import Objective
from ..registry import import_extra
from ..runner.run_dir import WEIGHTS, RunDir
from ..runner.workspace import Workspace
from ..system import files
from ..system.files import Json
from ..tasks.simple.checks import check_columns, check_tensors
from ..training import checkpoint
from ..training.model import Model, Network
from .card import card
from .fitting import TaskFitting
from .inputs import Alphabet
from .predictor import ESTIMATORS, PRETRAINER, Predictor, kind_of
from .scores import Reliability, Score
from .simple import SimplePredictor

FILE = "model.json"
SIMPLE = "simple.safetensors"
AGAIN = "take the model again from its run (selfpretrain model take), or from a copy"
ELSEWHERE = ("runs", "device", "random_state", "verbose")
"""Settings that are not saved, because they depend on the machine or the run."""
PLAIN: dict[str, tuple[str, Any]] = {
    "trained": ("trained_", bool),
    "data": ("data_facts_", dict),
    "reading": ("reading_", dict | None),
    "kept": ("kept_", str),
    "leaderboard": ("leaderboard_", list),
    "trials": ("trials_", list),
    "left_out": ("left_out_", str),
}
"""Key of ``model.json`` -> attribute that is saved as it is, and its type."""
OLDER = ["weights-*.safetensors", "simple-*.safetensors", "reliability.svg"]
"""Files of an older model on the hub, which a new one removes unless it has them."""
LEFT = 3600.0
"""Age in seconds at which a temporary file in the folder of a model is one that a killed process left."""


E = TypeVar("E", bound=TaskFitting)


def save(estimator: TaskFitting, folder: str | Path) -> Path:
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
    content = _content(estimator) | {"weights": _save_tensors(place, WEIGHTS, tensors)}
    if estimator.simple_:
        of_simple = {
            f"{i}.{name}": tensor
            for i, simple in enumerate(estimator.simple_)
            for name, tensor in simple.tensors().items()
        }
        content["simple"] = {
            "members": [simple.about() for simple in estimator.simple_],
            "shares": estimator.shares_,
            "weights": _save_tensors(place, SIMPLE, of_simple),
        }
    place.write(FILE, content)  # from here on, the model is the new one
    files.write_text(place.path / "README.md", card(content))
    if curve := estimator.scores_.get("reliability"):
        bins = tuple((confidence, accuracy, share) for confidence, accuracy, share in curve["bins"])
        files.write_text(place.path / "reliability.svg", Reliability(bins).picture())
    _remove_older(place, content)
    return place.path


def _save_tensors(place: RunDir, name: str, tensors: Mapping[str, torch.Tensor]) -> str:
    """Write tensors to the file of a model that has their digest in its name, and return the digest."""
    digest = checkpoint.digest(tensors)
    return place.save(_file(name, digest), tensors)


def _file(name: str, digest: str) -> str:
    """Return the name of the file of weights with some digest, e.g. "weights-1a2b3c4d5e6f.safetensors"."""
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise ValueError(f"{digest!r} is not a digest")
    stem, _, kind = name.partition(".")
    return f"{stem}-{digest[:12]}.{kind}"


def _remove_older(place: RunDir, content: Json) -> None:
    """Remove what an older model has left in the folder of a model."""
    digests = {WEIGHTS: content["weights"], SIMPLE: content.get("simple", {}).get("weights", "")}
    used = {_file(name, digest) for name, digest in digests.items() if digest}
    for path in place.path.glob("*.safetensors"):
        if re.fullmatch(r"(weights|simple)-[0-9a-f]{12}\.safetensors", path.name) and path.name not in used:
            place.drop(path.name)
    if "reliability" not in content["scores"]:
        place.drop("reliability.svg")
    with files.explain_output_errors(place.path):
        files.remove_leftovers(place.path, min_age=LEFT)


def _load_tensors(folder: str | Path, name: str, digest: str) -> dict[str, torch.Tensor]:
    """Return the tensors that a model has in a file."""
    return RunDir(Path(folder)).load(_file(name, digest), digest, AGAIN)[0]


def make_folder(folder: str | Path) -> Path:
    """Create the folder of a model if needed, and return its path.

    Raises:
        StoreError: if it cannot be created, or has a README.md that no model has written.
    """
    if (Path(folder) / "README.md").exists() and not (Path(folder) / FILE).exists():
        raise StoreError(f"{folder} has a README.md, which the card would replace; name another folder")
    with files.explain_output_errors(Path(folder)):
        Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder)


def _content(estimator: TaskFitting) -> Json:
    """Return the contents of ``model.json``, except the digest of the weights."""
    predictor = estimator.predictor_
    settings = {
        name: value.item() if isinstance(value, np.generic) else value  # JSON has no numbers of NumPy
        for name, value in estimator.get_params(deep=False).items()
        if name not in ELSEWHERE
    }
    weights = settings.get("class_weight")
    pairs = None
    if weights and not isinstance(weights, str):  # its labels may not be keys of JSON
        pairs = [[_plain(label), float(weight)] for label, weight in weights.items()]
        settings["class_weight"] = None
    return {
        "format": files.FORMAT,
        "kind": kind_of(type(estimator)),
        "settings": to_dict(settings),
        "class_weight": pairs,
        "models": [to_dict(model) for model in predictor.models],
        "objective": to_dict(predictor.objective),
        "form": FORM.dump_python(predictor.form, mode="json"),
        "temperature": predictor.temperature,
        "classes": [_plain(label) for label in getattr(estimator, "classes_", [])],
        "features": getattr(estimator, "n_features_in_", None),
        "recipes": [to_dict(recipe) for recipe in estimator.recipes_],
        "scores": {"val": estimator.validation_scores_} | estimator.scores_,
        "alphabet": None if estimator.alphabet_ is None else asdict(estimator.alphabet_),
        "offsets": asdict(estimator.offsets_),
        "channels": estimator.channels_ and [_name(name) for name in estimator.channels_],
        "feature_names": [_name(name) for name in getattr(estimator, "feature_names_in_", ())],
        "kept_score": None if estimator.kept_score_ is None else asdict(estimator.kept_score_),
        "versions": {"selfpretrain": __version__, "torch": torch.__version__, "numpy": np.__version__},
    } | {key: getattr(estimator, name) for key, (name, _) in PLAIN.items()}


def _read(folder: str | Path) -> Json:
    """Return the contents of the ``model.json`` of a folder."""
    path = Path(folder) / FILE
    if not path.exists():
        raise StoreError(
            f"{folder} holds no model: there is no {FILE}; selfpretrain fit ... -o {folder} makes one"
        )
    return files.read_json(path, advice=AGAIN, otherwise="fit or take it again with this version")


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
        settings = {k: from_dict(v, trust) for k, v in content["settings"].items() if k not in ELSEWHERE}
        for value in settings.values():
            if isinstance(value, str) and ":" in value and not value.startswith(f"{PREFIX}:"):  # code
                demand_trust(value, trust)
        if pairs := content.get("class_weight"):
            settings["class_weight"] = {_label(label): float(weight) for label, weight in pairs}
        estimator = kinds[kind](**settings, device=device)
        estimator.predictor_ = _predictor(content, folder, trust)
        for key, (name, type_) in PLAIN.items():
            if not isinstance(content[key], type_):
                raise TypeError(key)
            setattr(estimator, name, content[key])
        estimator.interrupted_ = False
        estimator.simple_ = _simple(content, folder, estimator.predictor_.form)
        estimator.shares_ = _shares(content, len(estimator.simple_))
        estimator.alphabet_ = Alphabet.load(content["alphabet"], estimator.predictor_.form.signal)
        estimator.offsets_ = Offsets.load(content["offsets"])
        names = content["channels"]
        estimator.channels_ = names and [_label(name) for name in names]
        signal = estimator.predictor_.form.signal
        channels = signal.channels if isinstance(signal, Values) else 0
        if any(each and len(each) != channels for each in (estimator.offsets_.values, names)):
            raise ValueError(f"offsets or names for other channels than the {channels} of the network")
        found = content["kept_score"]
        estimator.kept_score_ = None if found is None else Score(**found)
        if content["classes"]:
            classes = _classes(content["classes"], estimator.predictor_.form.target)
            estimator.__dict__["classes_"] = classes
        estimator.scores_ = dict(content["scores"])
        estimator.validation_scores_ = content["scores"]["val"]
        estimator.recipes_ = [from_dict(recipe, trust) for recipe in content["recipes"]]
        if content["features"] is not None:
            estimator.__dict__["n_features_in_"] = int(content["features"])
        if content["feature_names"]:
            estimator.__dict__["feature_names_in_"] = np.array(content["feature_names"], dtype=object)
    estimator.predictor_.to(Workspace.of(Path(folder), device, "1").device)
    return estimator


@contextmanager
def _report_damage(folder: str | Path) -> Iterator[None]:
    """Convert any exception raised while reading a model into a one-line StoreError."""
    try:
        yield
    except SelfPretrainError:
        raise
    except Exception as error:  # the file may hold anything
        reason = f"{type(error).__name__}: {error}"
        raise StoreError(files.damaged_message(Path(folder) / FILE, reason, AGAIN)) from error


def _simple(content: Json, folder: str | Path, form: SequenceSpec) -> tuple[SimplePredictor, ...]:
    """Return the simple methods that were kept."""
    about = content.get("simple")
    if not about:
        return ()
    tensors = _load_tensors(folder, SIMPLE, about["weights"])
    found = []
    for i, member in enumerate(about["members"]):
        own = _with_prefix(tensors, f"{i}.")
        check_tensors(own)
        found.append(SimplePredictor.load(form, member, own))
        check_columns(form, found[-1].features, found[-1].model)
    return tuple(found)


def _shares(content: Json, simple: int) -> tuple[float, ...]:
    """Return the weights of the network and of the simple methods in what predicts."""
    if not simple:
        return (1.0,)
    shares = tuple(float(share) for share in content["simple"]["shares"])
    if len(shares) != 1 + simple or min(shares) < 0 or not math.isclose(sum(shares), 1, rel_tol=1e-6):
        raise ValueError(f"shares {shares} of {simple} simple methods and a network")
    return shares


def _with_prefix(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Return the tensors whose names begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def _predictor(content: Json, folder: str | Path, trust: tuple[str, ...]) -> Predictor:
    """Build the networks of a model, with the weights in its folder."""
    models = tuple(from_dict(model, trust) for model in content["models"])
    objective = from_dict(content["objective"], trust)
    form = FORM.validate_python(_finite(content["form"]))
    tensors = _load_tensors(folder, WEIGHTS, content["weights"])
    members = {name.partition(".")[0] for name in tensors}
    if len(models) != len(members):
        raise ValueError(f"{len(models)} models, but weights of {len(members)}")
    temperature = float(content["temperature"])
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature {temperature}")
    networks = tuple(load_network(model, objective, form, tensors, f"{i}.") for i, model in enumerate(models))
    return Predictor(models, objective, form, networks, temperature)


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
    weights = _with_prefix(tensors, prefix)
    blocks = {name.split(".")[1] for name in weights if name.startswith("blocks.")}
    if len(blocks) != model.depth:
        raise ValueError(f"depth {model.depth}, but weights of {len(blocks)} blocks")
    _refuse_other_shapes(model, objective, form, weights)
    # The initial weights are overwritten below: do not let them advance the caller's random state.
    with torch.random.fork_rng(devices=[]):
        network = model.build(form, objective.head(form, model.width, model.pooling))
    network.load_state_dict(weights)
    for name, parameter in network.named_parameters():
        if not parameter.isfinite().all():
            raise ValueError(f"{name} holds numbers that are not finite")
    return network.eval()


def _refuse_other_shapes(model: Model, objective: Objective, form: Any, tensors: Any) -> None:
    """Raise ValueError if weights have other shapes than the network, before it is allocated."""
    try:
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            outline = model.build(form, objective.head(form, model.width, model.pooling))
    except Exception:  # some initialisations need real numbers
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
    said = f"a label is {label!r}, a {type(label).__name__}; words, numbers and tuples can be saved"
    raise SpecError(f"{said}: first set classes_ = np.array([str(label) for label in classes_])")


def _name(name: Any) -> Any:
    """Return the name of a channel in a form that JSON can hold: of other types, its text."""
    return _plain(name) if isinstance(name, str | int | float | tuple | np.generic) else str(name)


def _label(plain: Any) -> Any:
    return tuple(_label(part) for part in plain["tuple"]) if isinstance(plain, dict) else plain


def upload(folder: Path, name: str, private: bool = False) -> str:
    """Publish a saved model as OWNER/NAME, and return the URL of the commit.

    Raises:
        SpecError: if the extra is not installed.
        StoreError: if the hub rejects it or cannot be reached.
    """
    api = import_extra("huggingface_hub", "the hub", "hf").HfApi()
    with _short_errors(f"{name} was not published"):
        repository = api.create_repo(name, private=private, exist_ok=True)
        return str(api.upload_folder(repo_id=repository.repo_id, folder_path=folder, delete_patterns=OLDER))


def download(name: str) -> Path:
    """Return the folder of a saved model: ``name`` itself if it is a folder, else a download of OWNER/NAME.

    Raises:
        SpecError: if the extra is not installed.
        StoreError: if the hub has no model of that name or cannot be reached.
    """
    if Path(name).is_dir():
        return Path(name)
    hub = import_extra("huggingface_hub", "the hub", "hf")
    with _short_errors(f"{name} cannot be downloaded"):
        return Path(hub.snapshot_download(name))


@contextmanager
def _short_errors(failure: str) -> Iterator[None]:
    """Convert any exception of the library into a one-line StoreError."""
    try:
        yield
    except Exception as error:  # the library has one for each reason of network and server
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise StoreError(f"{failure}: {reason}") from error
