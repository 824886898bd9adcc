"""Choosing learning rate and batch size of every cell by validation, from one grid for all arms."""

import itertools
from dataclasses import replace

from ..spec import Count, Positive, spec
from ..training.recipe import Budget, Recipe, Stage
from ..training.stage_folder import Folder
from .plan import Cell, jobs
from .run import perform
from .workspace import Machine

SEED = 1_000
"""The seed that choices are made with; no table reports it."""


@spec
class Grid:
    """What is tried. Source: Amos et al. (2024), appendix C.1: log-spaced, by validation."""

    lr: tuple[Positive, ...] = (1e-3, 5e-4, 1e-4)
    batch: tuple[Count, ...] = (8, 32, 128)

    def settings(self) -> list[tuple[float, int]]:
        """Every combination."""
        return list(itertools.product(self.lr, self.batch))


def tuned(cells: list[Cell], machine: Machine, grid: Grid) -> tuple[list[Cell], list[str]]:
    """The same cells with the last stage's settings that did best on validation, and what was chosen.

    Every row and column of a task chooses for itself from the same grid, so all arms get as many trials;
    pretraining stays as it is. The test split is not read.
    """
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(f"{cell.recipe.task}|{cell.row}|{cell.column}", []).append(cell)
    trials = {
        (name, setting): with_setting(replace(some[0].recipe, seed=SEED), setting)
        for name, some in groups.items()
        for setting in grid.settings()
    }
    perform(jobs([Cell("", "", recipe) for recipe in trials.values()], machine.bench, tested=False), machine)
    chosen, said = [], []
    for name, some in groups.items():
        scores = {s: _score(trials[name, s], machine) for s in grid.settings()}
        best = max(scores, key=lambda s: scores[s])
        chosen += [replace(cell, recipe=with_setting(cell.recipe, best)) for cell in some]
        where = f"{some[0].row}, {some[0].column}"
        said.append(
            f"{where}: learning rate {best[0]:g} and batch {best[1]}, of {len(scores)} settings tried "
            f"with seed {SEED}, which is not reported"
        )
    order = {id(cell): i for i, cell in enumerate(cells)}
    flat = [cell for some in groups.values() for cell in some]
    return [new for _, new in sorted(zip(flat, chosen, strict=True), key=lambda p: order[id(p[0])])], said


def with_setting(recipe: Recipe, setting: tuple[float, int]) -> Recipe:
    """The recipe with another learning rate and batch in its last stage, and as many examples as before."""
    lr, batch = setting
    last = replace(
        recipe.last,
        optim=replace(recipe.last.optim, lr=lr),
        batch=batch,
        budget=_as_many(recipe.last, batch),
    )
    return replace(recipe, stages=(*recipe.stages[:-1], last))


def _as_many(stage: Stage, batch: int) -> Budget:
    if stage.budget.steps is None:
        return stage.budget
    return Budget(steps=max(1, round(stage.budget.steps * stage.batch / batch)))


def _score(recipe: Recipe, machine: Machine) -> float:
    return float(Folder(machine.bench.folder(recipe)).read("result.json")["scores"]["val"]["score"])
