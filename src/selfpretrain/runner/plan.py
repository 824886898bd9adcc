"""Planning: the stages of an experiment, named once, and which of them must be run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..config import to_dict
from ..errors import StoreError
from ..report.stage_results import RESTORED, read_stage
from ..system.files import Json
from ..training.cost import COUNTED, Cost
from ..training.recipe import Recipe, stage_id
from .experiment import Cell, Experiment, SeedsDue
from .run_dir import RESULT, WEIGHTS, RunDir
from .workspace import Workspace


@dataclass(frozen=True)
class PlannedStage:
    """One stage to run: the last one of its recipe."""

    id: str  # name of its folder
    recipe: Recipe
    parent: str | None = None  # id of the stage whose weights it starts from
    tested: bool = False  # whether it is scored on the test split
    starts: bool = False  # whether another stage starts from its weights
    cost: Cost | None = None  # None: not counted yet

    def counted(self) -> "PlannedStage":
        """Return the stage with its exact cost."""
        return self if self.cost else replace(self, cost=COUNTED.plan(self.recipe))


@dataclass(frozen=True)
class Plan:
    """An experiment whose cells know the ids of their stages, and every distinct stage once.

    An id is computed here, and handed down to whatever needs it.
    """

    experiment: Experiment
    stages: Mapping[str, PlannedStage]

    @classmethod
    def of(cls, experiment: Experiment) -> "Plan":
        """Name the stages of an experiment, each after the one that it starts from."""
        stages: dict[str, PlannedStage] = {}
        cells = []
        for cell in experiment.cells:
            ids: list[str] = []
            for prefix in cell.recipe.prefixes():
                stage = PlannedStage(stage_id(prefix), prefix, ids[-1] if ids else None)
                stages.setdefault(stage.id, stage)
                ids.append(stage.id)
            cells.append(replace(cell, stages=tuple(ids)))
        return cls(replace(experiment, cells=tuple(cells)), stages)

    def stages_of(self, cells: Iterable[Cell], tested: bool = True) -> list[PlannedStage]:
        """Return the distinct stages of some cells, each after the one that it starts from.

        Args:
            tested: whether the last stages are scored on the test split; False during tuning.
        """
        found: dict[str, PlannedStage] = {}
        for cell in cells:
            for name in cell.stages:
                stage = found.get(name, self.stages[name])
                last = name == cell.stages[-1]
                found[name] = replace(
                    stage, tested=stage.tested or (tested and last), starts=stage.starts or not last
                )
        return list(found.values())

    def with_seeds(self, due: SeedsDue) -> "Plan":
        """Return the plan with the first seeds of every task and row, as many as are due."""
        return replace(self, experiment=self.experiment.with_seeds(due))


def plan_recipes(recipes: Iterable[Recipe], tested: bool = True) -> list[PlannedStage]:
    """Return the distinct stages of some recipes, see ``Plan.stages_of``."""
    cells = tuple(Cell("", "", recipe) for recipe in recipes)
    if not cells:
        return []
    plan = Plan.of(Experiment("recipes", "", cells, ()))
    return plan.stages_of(plan.experiment.cells, tested)


def missing_stages(
    stages: list[PlannedStage], workspace: Workspace, bundled: frozenset[str] | None = frozenset()
) -> list[PlannedStage]:
    """Return the stages that must be run, including finished ones whose weights are missing but needed.

    Args:
        bundled: ids of stages with bundled results; None: restored results do not count either.
    """
    missing: dict[str, PlannedStage] = {}
    for stage in reversed(stages):  # a stage comes after the one it starts from
        folder = workspace.folder(stage.id)
        needed = any(other.parent == stage.id for other in missing.values())
        finished = folder.finished and not (bundled is None and folder.has(RESTORED))
        scores = read_result(stage, folder)["scores"] if finished else {}
        done = stage.id in (bundled or ()) or (finished and (not stage.tested or "test" in scores))
        if not done or (needed and not folder.has(WEIGHTS)):
            missing[stage.id] = stage
    return list(reversed(missing.values()))


def read_result(stage: PlannedStage, folder: RunDir) -> Json:
    """Return the result of a stage.

    Raises:
        StoreError: if it is damaged, belongs to another stage, or its predictions do not reproduce its score.
    """
    result = folder.read(RESULT)
    read_stage(folder.path)
    if result.get("recipe") != to_dict(stage.recipe):
        file = folder.path / RESULT
        raise StoreError(f"{file} is the result of another stage; delete this one file, and run again")
    return result


def chain_costs(stages: list[PlannedStage], costs: Mapping[str, float]) -> dict[str, float]:
    """Return the cost of every stage plus that of the longest chain of stages that depend on it."""
    chain = dict(costs)
    for stage in reversed(stages):  # a stage comes after the one it starts from
        if stage.parent and stage.parent in costs:
            chain[stage.parent] = max(chain[stage.parent], costs[stage.parent] + chain[stage.id])
    return chain
