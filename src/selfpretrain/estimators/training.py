"""The training of recipes in a fit, and what it came to: networks and their answers on validation.

Finished stages are kept in memory, or in a folder of runs.
"""

import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from ..data.dataloader import BatchSampler
from ..errors import DoesNotFit, StageFailed
from ..registry import name_of
from ..runner.experiment import Finished
from ..runner.run import run_recipes
from ..runner.stage import ONE_THREAD_BELOW
from ..runner.workspace import Workspace
from ..system.events import Event, emit
from ..system.files import Json
from ..system.progress import show_stages
from ..training import cost
from ..training.mixer_checks import check_recipes
from ..training.model import Network, count_parameters
from ..training.recipe import Recipe, Stage, build_network, measured, training_data
from ..training.train import TrainingData, prepare_training, train
from ..training.transfer import transfer_weights
from .predictor import MEMORY_ERRORS
from .simple import Answers, Options


@dataclass(frozen=True)
class Outcome:
    """The networks that were trained."""

    recipes: list[Recipe]  # one of every network
    networks: tuple[Network, ...]
    answers: Answers | None = None  # on validation; None without examples there, or a trained network
    scores: list[Json] = field(default_factory=list)  # validation scores of every network
    seconds: float = 0.0  # that training took
    trials: list[Json] = field(default_factory=list)  # settings that were tried
    options: Options | None = None  # the answers of all of them; None: there was no choice
    problem: str = ""  # why the network is not a candidate; empty if it is one
    trained: bool = True  # whether the networks have been trained at all
    left_out: str = ""  # which settings were not trained, why, and how long they would take; empty: none


def title(recipes: list[Recipe]) -> str:
    """Return what the networks of some recipes are, e.g. "SPT (masked), attention"."""
    first = [recipe.stages[0].objective for recipe in recipes]
    objectives = " and ".join(dict.fromkeys(map(name_of, first)))
    name = "scratch" if first[0].labelled else f"SPT ({objectives})"
    return f"{name}, {name_of(recipes[0].model.mixer)}"


@dataclass(frozen=True, eq=False)
class Trainings:
    """Trains recipes and keeps their networks in memory; recipes share equal first stages.

    Args:
        finished: networks and validation scores of finished stages; recipes need not be hashable.
    """

    workspace: Workspace  # for device, threads, stop and whether progress is shown; its folder is not used
    halves: bool = False  # whether half a batch is tried, once, where memory runs out
    finished: list[tuple[Recipe, Network, dict[str, float]]] = field(default_factory=list)

    def run(self, recipes: list[Recipe]) -> list[Recipe]:
        """Train the stages that are not finished, and return the recipes whose batch may have been halved.

        Raises:
            Interrupted: when asked to stop; finished stages are kept.
            StageFailed: if an unexpected error occurred.
        """
        try:
            self._train(recipes)
            return recipes
        except StageFailed as error:
            out_of_memory = isinstance(error, DoesNotFit) or isinstance(error.__cause__, MEMORY_ERRORS)
            if not (self.halves and out_of_memory):
                raise
        # Not above: while an error is handled, its traceback keeps the tensors that filled the memory.
        recipes = [with_half_batch(recipe) for recipe in recipes]
        self._train(recipes)
        return recipes

    def _train(self, recipes: list[Recipe]) -> None:
        """Train the stages that are not finished, one after the other."""
        missing = self._missing(recipes)
        for problem in check_recipes(missing):
            warnings.warn(problem, stacklevel=3)  # the caller of run
        shown = {} if self.workspace.quiet else {str(number): each for number, each in enumerate(missing)}
        stages = sum(len(recipe.stages) for recipe in recipes)
        costs = {name: cost.plan(recipe).flops for name, recipe in shown.items()}
        titles = {name: recipe.title for name, recipe in shown.items()}
        with show_stages(costs, stages, self.workspace.quiet, titles):
            for number, recipe in enumerate(missing):
                with cost.as_stage_failure(recipe):
                    emit(Event("start", str(number)))
                    stage, network, data = self._prepare(recipe)
                    trained = train(
                        stage,
                        network,
                        data,
                        seed=recipe.seed,
                        number=len(recipe.stages),
                        slow=recipe.model.mixer.slow(),
                        log=partial(_log, str(number)),
                        stop=self.workspace.stop,
                    )
                self.finished.append((recipe, network.eval(), trained.scores))
                emit(Event("end", str(number), 1.0, 1.0, {"val": trained.scores}))

    def has(self, recipe: Recipe) -> bool:
        """Return whether the last stage of a recipe is finished."""
        return any(recipe == each for each, _, _ in self.finished)

    def network(self, recipe: Recipe) -> Network:
        """Return the network of a finished recipe."""
        return next(network for each, network, _ in self.finished if recipe == each)

    def scores(self, recipe: Recipe) -> dict[str, float]:
        """Return the validation scores of a finished recipe."""
        return next(scores for each, _, scores in self.finished if recipe == each)

    def untrained(self, recipe: Recipe, problem: str) -> Outcome:
        """Return the outcome of no training: a network with its initial weights, and why it has them."""
        network = build_network(recipe).to(self.workspace.device).eval()
        return Outcome([recipe], (network,), problem=problem, trained=False)

    def _missing(self, recipes: list[Recipe]) -> list[Recipe]:
        """Return a recipe for every stage that is not finished, each after the one that it starts from."""
        missing: list[Recipe] = []
        for prefix in (prefix for recipe in recipes for prefix in recipe.prefixes()):
            if prefix not in missing and not self.has(prefix):
                missing.append(prefix)
        return missing

    def _prepare(self, recipe: Recipe) -> tuple[Stage, Network, TrainingData]:
        """Return the last stage of a recipe, the network that it starts from, and its data."""
        device = self.workspace.device
        examples = training_data(recipe)
        network = build_network(recipe)
        parameters = count_parameters(network)
        torch.set_num_threads(self.workspace.threads if parameters > ONE_THREAD_BELOW else 1)
        if len(recipe.stages) > 1:
            before = self.network(recipe.upto(len(recipe.stages) - 2))
            transfer_weights(before.state_dict(), network, recipe.last.transfer)
        network.to(device)
        prepared = measured(recipe, examples)
        stage, data, _ = prepare_training(prepared, network, examples, steps_of(recipe), device)
        return stage, network, data


class StoredTrainings(Trainings):
    """Trainings whose stages are in the folder of the workspace: a killed fit goes on from checkpoints."""

    def _train(self, recipes: list[Recipe]) -> None:
        run_recipes(recipes, self.workspace, tested=False)

    def has(self, recipe: Recipe) -> bool:
        """Return whether the last stage of a recipe is finished."""
        return self.workspace.stage(recipe).finished

    def network(self, recipe: Recipe) -> Network:
        """Return the network of a finished recipe."""
        return Finished(self.workspace).network(recipe).to(self.workspace.device)

    def scores(self, recipe: Recipe) -> dict[str, float]:
        """Return the validation scores of a finished recipe."""
        scores: dict[str, float] = Finished(self.workspace).result(recipe)["scores"]["val"]
        return scores


def _log(name: str, kind: str, progress: float, numbers: dict[str, Any]) -> None:
    """Send a line of the log of a stage to the progress display."""
    emit(Event(kind, name, progress, 1.0, numbers))


def steps_of(recipe: Recipe) -> int | None:
    """Return the number of steps of a recipe's last stage; None if its budget is in seconds."""
    budget = recipe.last.budget
    if budget.flops:
        return cost.plan(recipe).steps
    if budget.epochs is None:
        return budget.in_steps(1)
    longest = training_data(recipe).longest
    return budget.in_steps(BatchSampler(longest, recipe.last.batch, recipe.seed).per_epoch)


def with_half_batch(recipe: Recipe) -> Recipe:
    """Return the recipe with half the batch size, at least 1."""
    stages = tuple(replace(stage, batch=max(1, stage.batch // 2)) for stage in recipe.stages)
    return replace(recipe, stages=stages)
