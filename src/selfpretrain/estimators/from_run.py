"""Load one trained network of a finished experiment as an estimator."""

from pathlib import Path

from ..config import from_dict
from ..errors import SpecError, StoreError, nearest
from ..report.results import read_record
from ..training.recipe import Recipe
from ..training.run_dir import WEIGHTS, RunDir
from .base import SequenceEstimator
from .in_memory import facts
from .persistence import from_recipe

Place = tuple[str, str, str, int]
"""Task (empty if there is only one), row, column and seed of a cell."""


def take(experiment: Path, place: Place, trust: tuple[str, ...] = ()) -> SequenceEstimator:
    """Return the network of one cell and seed as an estimator, scored on the test split of its task.

    Raises:
        SpecError: if there is no such cell.
        StoreError: if the cell has not been run, or its weights were deleted.
    """
    name, row, column, seed = place
    cells = {
        f"{task.label}: {cell.row}/{cell.column}, seed {cell.seed}": cell
        for task in read_record(experiment).tasks
        for cell in task.cells
    }
    found = {
        key: cell
        for key, cell in cells.items()
        if (cell.row, cell.column, cell.seed) == (row, column, seed)
        and key.startswith(f"{name}:" if name else "")
    }
    if len(found) > 1:
        raise SpecError(f"several tasks have {row}/{column}; give --task")
    if not found:
        asked = f"{name}: {row}/{column}, seed {seed}"
        raise SpecError(f"there is no cell {asked}{nearest(asked, cells)}")
    folder = RunDir(experiment.parent / next(iter(found.values())).stages[-1])
    if not folder.has(WEIGHTS):
        raise StoreError(f"{folder.path} has no weights; run the comparison again with --fresh, or elsewhere")
    plain = folder.read("recipe.json")
    plain.pop("format", None)
    recipe = from_dict(plain, trust)
    if not isinstance(recipe, Recipe):
        raise StoreError(f"{folder.path}/recipe.json holds no recipe")
    result = folder.read("result.json")
    estimator = from_recipe(recipe, folder.load(WEIGHTS, result.get("weights", ""))[0])
    estimator.validation_scores_ = [result["scores"]["val"]]
    estimator.data_facts_ = facts(recipe.task)
    estimator.note_scores(recipe.task)
    return estimator
