"""An experiment: a grid of (row, column, seed) cells, and the recipe behind each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from typing import Literal

from ..errors import SpecError, nearest
from ..registry import file_name_of, name_of
from ..report.paper_numbers import PaperNumber
from ..report.sequential import SequentialDesign
from ..report.stage_results import read_log
from ..system.files import Json, digest_of
from ..tasks.base import Task
from ..training.model import Network
from ..training.recipe import Recipe, build_network, stage_id
from .run_dir import LOG, RESULT, WEIGHTS, RunDir
from .workspace import Workspace

SeedsDue = Mapping[tuple[int, str], int]
"""Number of seeds by number of the task and row."""


@dataclass(frozen=True)
class Cell:
    """A recipe and its place in the table; cells of the same row and column (usually seeds) are averaged."""

    row: str
    column: str
    recipe: Recipe
    label: str = ""  # the paper's name of the task, if it is replaced by another one
    reported: PaperNumber | None = None  # the paper's number for this cell
    fold: int = 0  # cross-validation fold; folds of a row, column and seed are pooled
    stages: tuple[str, ...] = ()  # ids of its stages, which a plan sets


@dataclass(frozen=True)
class Finished:
    """Networks, results and logs of finished recipes in a workspace.

    Recipes are those of the study, with seeds from 0 on; those that were run begin at ``first_seed``, and
    may have been tuned.

    Raises:
        StoreError: from its methods, if a recipe has not been run, or its weights were deleted.
    """

    workspace: Workspace
    due: frozenset[str] | None = None  # ids of the last stages that were due; None: all are due
    first_seed: int = 0
    tuned: Mapping[str, Recipe] = field(default_factory=dict)  # by the id of the recipe that was tuned

    def is_due(self, recipe: Recipe) -> bool:
        """Return whether a recipe was run at all; False for seeds that were never due."""
        return self.due is None or stage_id(self.as_run(recipe)) in self.due

    def network(self, recipe: Recipe) -> Network:
        """Return the trained network in eval mode."""
        network = build_network(self.as_run(recipe))
        network.load_state_dict(self._folder(recipe).load(WEIGHTS)[0])
        return network.eval()

    def result(self, recipe: Recipe) -> Json:
        """Return scores, steps and cost of the last stage."""
        return self._folder(recipe).read(RESULT)

    def log(self, recipe: Recipe) -> list[Json]:
        """Return the training log of the last stage, one dict per line."""
        folder = self._folder(recipe)
        return read_log(folder.path / LOG, folder.read(RESULT).get("files", {}))

    def as_run(self, recipe: Recipe) -> Recipe:
        """Return the recipe with the seed and the tuned hyperparameters that it was run with."""
        shifted = replace(recipe, seed=recipe.seed + self.first_seed)
        return self.tuned.get(stage_id(shifted), shifted) if self.tuned else shifted

    def _folder(self, recipe: Recipe) -> RunDir:
        return self.workspace.stage(self.as_run(recipe))


MAX_NAME = 100
"""Longest part of a folder's name that is made of names of tasks."""


@dataclass(frozen=True)
class Experiment:
    """A study as the runner sees it: cells, and how to report them."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    contrasts: tuple[tuple[str, str], ...]  # (treatment, control) columns; the main contrast first
    scale: str = "small"
    first_seed: int = 0
    about: Mapping[str, str] = field(default_factory=dict)  # text sections of the report, by title
    notes: tuple[str, ...] = ()
    figure: Literal["bars", "lines"] = "bars"  # of scores in the report; bars: points with their intervals
    measure: Callable[[Finished], list[Json]] = lambda finished: []  # further measurements, shown as curves
    lasting: bool = False  # whether the folder is named by name and scale only, not by the cells
    trials: tuple[str, ...] = ()  # ids of the stages with which its hyperparameters were tuned
    share: float = 1.0  # of every budget, to end within a time limit
    digest: str = ""  # of the experiment before it was shortened; it then replaces the hash of the cells
    design: SequentialDesign | None = None  # when to stop adding seeds; the cells are those of all seeds

    def __post_init__(self) -> None:
        if not self.cells:
            why = "; ".join(self.notes)
            raise SpecError(f"{self.name}: nothing can be run at the {self.scale} scale: {why}")

    @property
    def folder(self) -> str:
        """Name of a planned experiment's folder; unless ``lasting``, it ends with a hash of the cells.

        In a sequential design, of those of the first analysis, so that the name does not depend on results.
        """
        if self.lasting:
            return f"{self.name}-{self.scale}"
        named = list(dict.fromkeys(file_name_of(cell.recipe.task) for cell in self.cells))
        tasks = "+".join(named)
        if len(tasks) > MAX_NAME:
            tasks = f"{named[0][:MAX_NAME]}-and-{len(named) - 1}-more"
        if self.digest:
            return f"{self.name}-{tasks}-{self.digest}"
        cells = self.first_analysis
        prints = "\n".join(f"{c.row}|{c.column}|{c.stages[-1].rpartition('-')[2]}" for c in cells)
        if self.design:
            prints += f"\n{self.design}"
        return f"{self.name}-{tasks}-{digest_of(prints.encode())[:10]}"

    @property
    def first_analysis(self) -> tuple[Cell, ...]:
        """Return the cells that are run in any case: of a design, those of the first interim analysis."""
        if self.design is None:
            return self.cells
        return tuple(cell for cell in self.cells if self._seed_index(cell) < self.design.first)

    def with_seeds(self, due: SeedsDue) -> "Experiment":
        """Return the experiment with the first seeds of every task and row, as many as are due."""
        kept = {
            id(cell)
            for number, cells in enumerate(self.by_task())
            for cell in cells
            if self._seed_index(cell) < due[number, cell.row]
        }
        return replace(self, cells=tuple(cell for cell in self.cells if id(cell) in kept))

    def headline_cells(self) -> list[Cell]:
        """Return the cells of the first contrast of every task, seed by seed, the treatment first."""
        found = []
        for cells in self.by_task():
            columns = self.contrasts_of(cells)[0]
            found += [(cell, columns.index(cell.column)) for cell in cells if cell.column in columns]
        return [cell for cell, _ in sorted(found, key=lambda pair: (pair[0].recipe.seed, pair[1]))]

    def contrasts_of(self, cells: Sequence[Cell]) -> tuple[tuple[str, str], ...]:
        """Return the contrasts between columns that these cells of a task have; all if there is none."""
        columns = {cell.column for cell in cells}
        possible = tuple(pair for pair in self.contrasts if columns.issuperset(pair))
        return possible or self.contrasts

    def _seed_index(self, cell: Cell) -> int:
        return cell.recipe.seed - self.first_seed

    def by_task(self) -> list[list[Cell]]:
        """Return the cells grouped by task, with all folds of a task together, in order."""
        groups: dict[Task, list[Cell]] = {}
        for cell in self.cells:
            groups.setdefault(cell.recipe.task.parts()[0], []).append(cell)
        return list(groups.values())

    def select_cells(self, only: str | None) -> list[Cell]:
        """Return the cells of ``ROW/COLUMN`` or ``TASK/ROW/COLUMN``; ``ROW`` alone selects all columns.

        Every part may contain ``*``; a task is found by its label or its name.

        Raises:
            SpecError: if no cell matches.
        """
        if only is None:
            return list(self.cells)
        parts = [part.strip() for part in only.split("/")]
        task, row, column = parts if len(parts) == 3 else ("*", parts[0], "/".join(parts[1:]) or "*")
        cells = [c for c in self.cells if fnmatch(c.row, row) and fnmatch(c.column, column)]
        cells = [c for c in cells if any(fnmatch(each, task) for each in (c.label, name_of(c.recipe.task)))]
        if not cells:
            tasks = {name for c in self.cells for name in (c.label, name_of(c.recipe.task))}
            of_task = any(fnmatch(name, parts[0]) for name in tasks)
            if of_task and len(parts) < 3 and not any(fnmatch(c.row, parts[0]) for c in self.cells):
                raise SpecError(f"--only {only}: for all of this task, {parts[0]}/*/*")
            places = list(dict.fromkeys(f"{cell.row}/{cell.column}" for cell in self.cells))
            raise SpecError(f"--only {only}: there is no such row and column{nearest(only, places)}")
        return cells
