"""Trained models of any kind: from a folder that an estimator saved, or from an arm of a comparison."""

from pathlib import Path

from ..config import from_dict
from ..errors import SpecError, StoreError, nearest
from ..report.results import read_record
from ..training.ensemble import single_network
from ..training.recipe import Recipe
from ..training.run_dir import RESULT, WEIGHTS, RunDir
from . import persistence
from .base import SequenceEstimator
from .classifiers import MultilabelClassifier, PositionClassifier, SequenceClassifier
from .predictor import ESTIMATORS, PRETRAINER
from .regressor import SequencePretrainer, SequenceRegressor

KINDS: dict[str, type[SequenceEstimator]] = {
    kind.__name__: kind
    for kind in (
        SequenceClassifier,
        SequenceRegressor,
        MultilabelClassifier,
        PositionClassifier,
        SequencePretrainer,
    )
}
"""Name of the class -> class, of all estimators."""
Cell = tuple[str, str, str, int]
"""Task (empty if there is only one), row, column and seed of a cell."""


def load(folder: Path, device: str = "auto", trust: tuple[str, ...] = ()) -> SequenceEstimator:
    """Return the model in a folder as the estimator that wrote it; see ``persistence.load``."""
    return persistence.load(folder, KINDS, device, trust)


def load_arm(experiment: Path, cell: Cell, trust: tuple[str, ...] = ()) -> SequenceEstimator:
    """Return the network of one cell and seed as an estimator, scored on the test split of its task.

    Raises:
        SpecError: if there is no such cell.
        StoreError: if the cell has not been run, or its weights were deleted.
    """
    folder = RunDir(experiment.parent / _last_stage(experiment, cell))
    if not folder.has(WEIGHTS):
        raise StoreError(f"{folder.path} has no weights; run the comparison again with --fresh, or elsewhere")
    plain = folder.read("recipe.json")
    plain.pop("format", None)
    recipe = from_dict(plain, trust)
    if not isinstance(recipe, Recipe):
        raise StoreError(f"{folder.path}/recipe.json holds no recipe")
    result = folder.read(RESULT)
    recipe, prefixes = single_network(recipe)
    objective = recipe.last.objective
    form = recipe.task.form
    tensors = folder.load(WEIGHTS, result.get("weights", ""))[0]
    networks = [
        persistence.load_network(recipe.model, objective, form, tensors, prefix) for prefix in prefixes
    ]
    kind = KINDS[ESTIMATORS[form.target.kind] if objective.labelled else PRETRAINER]
    estimator = kind(mixer=recipe.model.mixer, n_members=len(networks))
    estimator.set_classes(form)
    estimator.set_networks(recipe.task, [recipe] * len(networks), tuple(networks))
    estimator.validation_scores_ = [result["scores"]["val"]]
    estimator.note_scores(recipe.task)
    return estimator


def _last_stage(experiment: Path, cell: Cell) -> str:
    """Return the path of the folder of the last stage of a cell, relative to the runs folder."""
    name, row, column, seed = cell
    cells = {
        f"{task.label}: {found.row}/{found.column}, seed {found.seed}": found
        for task in read_record(experiment).tasks
        for found in task.cells
    }
    matches = {
        key: found
        for key, found in cells.items()
        if (found.row, found.column, found.seed) == (row, column, seed)
        and key.startswith(f"{name}:" if name else "")
    }
    if len(matches) > 1:
        raise SpecError(f"several tasks have {row}/{column}; give --task")
    if not matches:
        wanted = f"{name}: " * bool(name) + f"{row}/{column}, seed {seed}"
        raise SpecError(f"there is no cell {wanted}{nearest(wanted, cells)}")
    return next(iter(matches.values())).stages[-1]
