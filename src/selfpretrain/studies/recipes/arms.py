"""How one architecture is trained in each arm of a comparison."""

from dataclasses import replace

from ...data.schema import Classes
from ...errors import SpecError
from ...objectives.base import Objective
from ...objectives.classify import Classify
from ...objectives.regress import Regress
from ...spec import amend, spec
from ...tasks.base import Task
from ...training import cost
from ...training.model import Model
from ...training.recipe import Budget, Recipe, Stage


@spec
class Arms:
    """One architecture, and how each of its arms is trained."""

    model: Model  # of self-pretraining
    pretrain: Stage
    finetune: Stage
    scratch_model: Model  # of both arms from scratch; the same up to dropout
    scratch: Stage  # of the arm without compensation; the tied arm's budget follows from the cost of SPT

    def amended(self, path: str, text: str) -> "Arms":
        """The same with one setting changed; ``model`` and ``mixer`` mean those of all arms.

        A budget has one unit, so naming another one replaces it.
        """
        word, _, rest = path.partition(".")
        if rest.startswith("budget."):
            return amend(self, f"{word}.budget", f'{{"{rest.removeprefix("budget.")}": {text}}}')
        if word == "mixer":
            return self.amended(f"model.{path}", text)
        if word == "model":
            return replace(
                self, model=amend(self.model, rest, text), scratch_model=amend(self.scratch_model, rest, text)
            )
        return amend(self, path, text)


def tied(task: Task, arms: Arms) -> Stage:
    """Training from scratch with the compute of pretraining and finetuning together.

    Raises:
        SpecError: if their budgets are in seconds.
    """
    before = arms.pretrain
    if not arms.model.mixer.denoises:  # it has none: what it would cost is that of as many labelled steps
        before = replace(before, objective=arms.finetune.objective)
    spt = Recipe(task, arms.model, (before, arms.finetune))
    if any(stage.budget.seconds for stage in spt.stages):
        raise SpecError("compute cannot be tied to a budget in seconds; give steps, epochs or FLOPs")
    evals = arms.pretrain.evals + arms.finetune.evals
    return replace(arms.scratch, budget=Budget(flops=cost.total(spt)), evals=evals)


def supervised(task: Task) -> Objective:
    """The objective that a task's labels ask for."""
    return Classify() if isinstance(task.form.target, Classes) else Regress()
