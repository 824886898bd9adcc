"""The search of ``fit``: a few settings, tried by successive halving within a time limit.

With fewer than ``MANY`` labels, every setting is finetuned on folds of the labelled examples, so that each of
them is used for training and for validation; the networks of all folds together are the model. With more, one
validation split decides, and the first round has a third of the steps. Poolings are tried with the best of
the other settings, while time is left. Pretraining is shared by all trials with the same objective.
"""

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from ..data.dataset import SequenceDataset
from ..data.moments import fit_target
from ..data.spec import Classes, Reals
from ..data.store import StoredDataset
from ..errors import Interrupted
from ..objectives.common.heads import Pooling
from ..objectives.regress import Rescaled
from ..system.events import format_duration
from ..system.files import Json
from ..system.time_limit import TimeIsUp, until
from ..tasks.base import Task
from ..training.recipe import Recipe, Stage
from .annotations import FEW, clusters_of, labelled_only, val_groups
from .budgets import MANY
from .leaderboard import answers, errors_above, line, score, scored, sureness
from .predictor import Output, Predictor
from .settings import USED, EstimatorSettings, least_seconds, stage_seconds, step_seconds, too_short
from .simple import Answers, Candidate, Options, average_answers, finite
from .stopping import GRACE, TimeLimit
from .training import Outcome, Trainings, steps_of, title

FOLDS = 5
FIRST_FOLDS = 2  # folds of the first round
FIRST_SHARE = 1 / 3  # share of the steps of finetuning in the first round, if there are no folds
FINALISTS = 2  # settings that reach the second round
PRETRAINING = 0.6  # most of a time limit that pretraining takes, after which it ends
FINETUNING = 0.1
"""Share of a time limit, divided by the number of objectives, after which each finetuning ends."""
BEHIND = 2.0
"""Standard errors by which a simple method is ahead of all networks of a first round that is the last."""


@dataclass(eq=False)
class _Trial:
    settings: dict[str, Any]
    recipe: Recipe
    done: dict[int, Recipe] = field(default_factory=dict)  # by fold
    answers: dict[int, Answers] = field(default_factory=dict)
    score: float = -math.inf
    seconds: float = 0.0
    fold_seconds: float = math.inf  # least time of a fold with all steps: others may include pretraining
    round: str = ""  # the last one


@dataclass
class Search:
    """A search over the variants of an estimator's settings on one task."""

    estimator: EstimatorSettings
    task: Task
    trainings: Trainings
    limit: TimeLimit  # of the whole fit
    folds: Sequence[Task]
    counted: bool = False  # whether counts of n-grams help to label positions
    simple: Sequence[Candidate] = ()  # simple methods, which networks are to be better than
    trials: list[Json] = field(default_factory=list)
    begun: list[_Trial] = field(default_factory=list)
    scoring: float = 0.0  # most seconds that the answers of one network have taken

    def best(self) -> Outcome:
        """Try the settings, and return the best one, trained on all folds.

        Where no setting can be, the outcome says why; its networks are those of some folds, or not trained.
        """
        start = time.monotonic()
        try:
            trials = self._planned()
        except TimeIsUp as error:
            return self.trainings.untrained(self._first_recipe(), str(error))
        try:
            trials = self._first_rounds(trials)
            if ahead := self._ahead():
                return self._ended(ahead, start)
            finished = self._second_round(trials)
        except Interrupted:
            finished = [trial for trial in self.begun if len(trial.done) == len(self.folds)]
        if finished:
            return self._outcome(self._together(finished), self._options(finished), start)
        problem = f"the network was not trained on all folds: {self.limit.reason}"
        best = max(self.begun, key=lambda trial: trial.score, default=None)
        if best is None or not best.done:
            return self.trainings.untrained(self._first_recipe(), problem)
        return replace(self._outcome([best], None, start), problem=problem)

    def _first_rounds(self, trials: list[_Trial]) -> list[_Trial]:
        """Return the trials that are trained in the first round, or all if there is none."""
        first, second = _rounds(len(self.folds))
        rounds = len(trials) + len(self.estimator.poolings(self.task)) > 1
        for number, trial in enumerate(trials if rounds else ()):
            least = min((other.fold_seconds for other in trials[:number]), default=0.0)
            if least * (first + second) <= self.limit.left:
                self._first_round(trial)
        return [trial for trial in trials if trial.done] or trials

    def _ahead(self) -> str:
        """Return which simple method is so far ahead that the search ends, see ``BEHIND``; "" if none is.

        With one split the first round has too few steps to tell.
        """
        best = max(self.begun, key=lambda trial: trial.score, default=None)
        if best is None or self.estimator.exhaustive or len(self.folds) == 1:
            return ""
        sizes = [len(labelled_only(fold.load("val"))) for fold in self.folds]
        asked = np.repeat([fold in best.answers for fold in range(len(sizes))], sizes)
        groups = val_groups([self.folds[fold] for fold in sorted(best.answers)])
        for each in self.simple:
            same = tuple(answer[asked] for answer in each.answers)
            if errors_above(self._output, same, _joined(best.answers), groups) > BEHIND:
                return f"{each.name} is more than {BEHIND:.0f} standard errors better than those that were"
        return ""

    def _ended(self, ahead: str, start: float) -> Outcome:
        """Return the outcome of a search that ends with the first round: no network is a candidate."""
        best = max(self.begun, key=lambda trial: trial.score)
        recipes = list(best.done.values())
        networks = self._predictor(recipes).networks
        scores = [self.trainings.scores(recipe) for recipe in recipes]
        seconds = time.monotonic() - start
        left_out = self.left_out(ahead)
        return Outcome(recipes, networks, None, scores, seconds, self.trials, left_out=left_out)

    def _second_round(self, trials: list[_Trial]) -> list[_Trial]:
        """Try poolings, and return the trials that are trained on all folds with all steps."""
        trials = trials + self._with_poolings(trials, self.estimator.poolings(self.task))
        finalists = _finalists(trials)
        for number, trial in enumerate(finalists):
            missing = 1 if len(self.folds) == 1 else len(self.folds) - len(trial.done)
            if number == 0 or self.limit.left > missing * trial.fold_seconds:
                self._finetune(trial, range(len(self.folds)), 1.0, "second")
        # With one split, the first round has trained all trials, but with a share of their steps.
        full = (trial for trial in finalists if len(self.folds) > 1 or trial.round == "second")
        return [trial for trial in full if len(trial.done) == len(self.folds)]

    def _first_round(self, trial: _Trial) -> None:
        """Train a trial on the first folds, or with a share of its steps."""
        share = FIRST_SHARE if len(self.folds) == 1 else 1.0
        self._finetune(trial, range(min(FIRST_FOLDS, len(self.folds))), share, "first")

    def _with_poolings(self, trials: list[_Trial], poolings: Sequence[Pooling]) -> list[_Trial]:
        """Try other poolings with the best trial, then the best one with the best trial of other objectives.

        Each is tried only if time is left for it and for the second round.
        """
        of_objective: dict[Any, _Trial] = {}
        for trial in sorted(trials, key=lambda trial: -trial.score):
            of_objective.setdefault(trial.settings["objective"], trial)
        best, *others = of_objective.values()  # the best of every objective, the best first
        found = [_pooled(best, pooling) for pooling in poolings]
        found = [trial for trial in found if self._in_first_round(trial, trials)]
        top = max([best, *found], key=lambda trial: trial.score).recipe.model.pooling
        again = [_pooled(trial, top) for trial in others if trial.recipe.model.pooling != top]
        return found + [trial for trial in again if self._in_first_round(trial, trials)]

    def _in_first_round(self, trial: _Trial, others: list[_Trial]) -> bool:
        """Train a trial in the first round, and return True, if time is left for it and for the second.

        Args:
            others: trials that took as long.
        """
        first, second = _rounds(len(self.folds))
        members = (self.estimator.n_members - 1) * len(self.folds)
        seconds = min(other.fold_seconds for other in others)
        if seconds * (first + FINALISTS * second + members) > USED * self.limit.left:
            return False
        self._first_round(trial)
        return True

    def _first_recipe(self) -> Recipe:
        """Return the recipe of the first setting."""
        settings = self.estimator.variants(self.task, self.counted)[0]
        return self.estimator.with_variant(settings).recipe(self.task)

    def _possible(self, trials: list[_Trial]) -> list[_Trial]:
        """Return the first trials, of which the time allows at least one step of every training.

        Raises:
            TimeIsUp: if it does not allow that of one trial.
        """
        first = trials[0].recipe
        with until(self.limit.at(1.0) + GRACE, self.limit.interrupted):
            *before, last = least_seconds(first, self.limit.left, self._device, self.folds[0])
            step = step_seconds(first, self._device)
        folds = len(self.folds)

        def needed(number: int) -> float:
            objectives = {trial.settings["objective"] for trial in trials[:number]}
            once = min(FIRST_FOLDS, folds) * number if number > 1 else 0
            twice = min(FINALISTS, number) * (max(1, folds - FIRST_FOLDS) if once else folds)
            return len(objectives) * sum(before) + (once + twice) * last

        for number in range(len(trials), 0, -1):
            if needed(number) <= self.limit.left + (GRACE if number == 1 else 0.0):
                return trials[:number]
        raise TimeIsUp(too_short(step, needed(1), self.limit.seconds))

    def _planned(self) -> list[_Trial]:
        """Return the trials with their recipes, within the time limit; finetuning is shortened first.

        Raises:
            TimeIsUp: if the time does not allow a step of every training.
        """
        found = []
        for settings in self.estimator.variants(self.task, self.counted):
            found.append(_Trial(settings, self.estimator.with_variant(settings).recipe(self.task)))
        found = self._possible(found)
        left = USED * self.limit.left
        groups = list(dict.fromkeys(trial.settings["objective"] for trial in found))
        first = {trial.settings["objective"]: trial.recipe for trial in reversed(found)}
        one = {name: stage_seconds(first[name], self._device) for name in groups}
        rates = math.ceil(len(found) / len(groups))
        # Objectives that the time does not allow are left out from the last, then steps are left out.
        while len(groups) > 1 and sum(self._planned_seconds(one, groups, rates)) > 2 * left:
            groups.pop()
        found = [trial for trial in found if trial.settings["objective"] in groups]
        pretraining, finetuning = self._planned_seconds(one, groups, rates)
        longest = PRETRAINING * self.limit.seconds
        needed = min(pretraining, longest)
        pretraining, share = _divided(left, needed, finetuning)
        self.estimator.say(
            f"fit: {len(found)} settings, {len(self.folds)} validation split(s), at most "
            f"{format_duration(self.limit.left)}; pretraining takes about {format_duration(pretraining)}"
        )
        # Where time suffices, the limit is that of the whole fit: equal recipes share their finished stages.
        limit = longest if pretraining == needed else pretraining
        for trial in found:
            trial.recipe = self._limited(trial.recipe, limit / len(groups), share, len(groups))
        return found

    def _limited(self, recipe: Recipe, limit: float, share: float, groups: int) -> Recipe:
        """Return the recipe with a time limit for each stage, and a share of the steps of finetuning.

        Pretraining keeps its steps, and ends with its time: the seconds of a step are measured in a moment,
        and on a busy machine such a guess cut pretraining to half of what was possible.

        Args:
            limit: seconds of pretraining.
            groups: objectives among which the time limit is divided.
        """
        stages = []
        for prefix in recipe.prefixes():
            stage = prefix.last
            if stage.objective.labelled:
                budget = replace(stage.budget, hours=FINETUNING * self.limit.seconds / groups / 3600)
                budget = replace(budget, **_steps(prefix, share)) if share < 1 else budget
            else:
                budget = replace(stage.budget, hours=limit / 3600)
            stages.append(replace(stage, budget=budget))
        return replace(recipe, stages=tuple(stages))

    def _planned_seconds(
        self, one: dict[Any, list[float]], groups: list[Any], rates: int
    ) -> tuple[float, float]:
        """Return the seconds of pretraining and of finetuning of all trials in both rounds.

        Args:
            one: objective -> seconds of each stage of one recipe.
            rates: trials per objective.
        """
        trials = rates * len(groups)
        times = trainings(trials, len(self.folds)) + (self.estimator.n_members - 1) * len(self.folds)
        pretraining = sum((sum(one[name][:-1]) for name in groups), 0.0)
        return pretraining, times * sum(one[name][-1] for name in groups) / len(groups)

    def _finetune(self, trial: _Trial, folds: Iterable[int], share: float, round_name: str) -> None:
        """Train a trial on folds that it has not been trained on, and score it."""
        start = time.monotonic()
        if trial not in self.begun:
            self.begun.append(trial)
        for fold in folds:
            if fold in trial.done and len(self.folds) > 1:
                continue
            begun = time.monotonic()
            last = trial.recipe.last
            if share < 1:
                last = replace(last, budget=replace(last.budget, **_steps(trial.recipe, share)))
            task = self.folds[fold]
            if task is not self.task:
                batch = min(last.batch, int(task.load("train").labelled.sum()))
                last = replace(
                    last, source=task, batch=batch, select="last", evals=1, early_stopping_patience=0
                )
            (trial.done[fold],) = self.trainings.run([trial.recipe.with_last(self._in_time(last))])
            trained = time.monotonic()
            trial.answers[fold] = self._answers(trial.done[fold])
            self.scoring = max(self.scoring, time.monotonic() - trained)
            trial.fold_seconds = min(trial.fold_seconds, (time.monotonic() - begun) / share)
        trial.seconds += time.monotonic() - start
        joined = _joined(trial.answers)
        trial.score = score(self._output, joined) if finite(joined) else -math.inf
        trial.round = round_name
        self.estimator.say(self._progress(trial, share))
        row = {key: value for key, value in trial.settings.items() if value is not None}
        row |= {"round": round_name, "folds": len(trial.answers), "score": trial.score}
        if trial.recipe.last.objective.pools:
            row["pooling"] = trial.recipe.model.pooling
        row |= {"lr": trial.recipe.last.optim.lr, "seconds": round(trial.seconds, 1)}
        self.trials.append(row)

    def _in_time(self, stage: Stage) -> Stage:
        """Return a stage that leaves time for its validation and its answers, which take about as long."""
        hours = max(1.0, self.limit.left - 2 * self.scoring) / 3600
        if hours >= (stage.budget.hours or math.inf):
            return stage
        return replace(stage, budget=replace(stage.budget, hours=hours))

    def _progress(self, trial: _Trial, share: float) -> str:
        """Return a row of the leaderboard for a trial, on the folds so far."""
        last = trial.recipe.last
        pooling = f", {trial.recipe.model.pooling}" if last.objective.pools else ""
        part = f"{len(trial.answers)} of {len(self.folds)} folds" if len(self.folds) > 1 else ""
        part = f"{share:.0%} of the steps" if share < 1 else part
        name = f"{title([trial.recipe])}{pooling}, lr {last.optim.lr:.2g}{part and ': ' + part}"
        groups = val_groups([self.folds[fold] for fold in sorted(trial.answers)])
        row = scored(name, self.task.form.target, _joined(trial.answers), groups, len(trial.answers))
        return line(row | {"seconds": trial.seconds})

    def _answers(self, recipe: Recipe) -> Answers:
        val = recipe.task_of(recipe.last).load("val")
        return answers(self._predictor([recipe]), labelled_only(val))

    def _predictor(self, recipes: list[Recipe]) -> Predictor:
        networks = tuple(self.trainings.network(recipe) for recipe in recipes)
        for network in networks:
            if isinstance(network.head, Rescaled) and isinstance(self.task.form.target, Reals):
                network.head.rescale(self.task.form.target)  # trained in the units of its fold
        models = tuple(recipe.model for recipe in recipes)
        return Predictor(models, recipes[0].last.objective, self.task.form, networks)

    def _together(self, finished: list[_Trial]) -> list[_Trial]:
        """Return the best trial, or the two best if their average gives better probabilities."""
        best, *others = sorted(finished, key=lambda trial: -trial.score)
        pair = [best, *others[:1]]
        alone, both = (sureness(self._output, _answers_of(trials)) for trials in ([best], pair))
        return pair if both > alone else [best]

    def _options(self, finished: list[_Trial]) -> Options:
        """Return the answers that the choice was made from, of all trials of the first round.

        On a fold that a trial was not trained on, a finalist answers for it, which was chosen by other folds.
        With one split the first round is left out, whose networks had fewer steps.
        """
        begun = finished if len(self.folds) == 1 else self.begun
        begun = [trial for trial in begun if trial.answers]  # one may have been interrupted before its first
        trials = [trial for trial in begun if finite(_joined(trial.answers))] or finished
        found = []
        for trial in trials:
            same = [each for each in finished if each.settings["objective"] == trial.settings["objective"]]
            found.append(_joined((*same, *finished)[0].answers | trial.answers))
        sizes = [len(finished[0].answers[fold][0]) for fold in range(len(self.folds))]
        first = np.arange(len(self.folds)) < FIRST_FOLDS
        kinds = [trial.settings["objective"] for trial in trials]
        return Options(found, np.repeat(first, sizes), kinds, len(finished))

    def _outcome(self, trials: list[_Trial], options: Options | None, start: float) -> Outcome:
        first = [recipe for trial in trials for recipe in trial.done.values()]
        recipes = list(first)
        with suppress(Interrupted):  # the members so far are kept
            for member in range(1, self.estimator.n_members):
                recipes += self.trainings.run([replace(each, seed=each.seed + member) for each in first])
        networks = self._predictor(recipes).networks
        scores = [self.trainings.scores(recipe) for recipe in recipes]
        seconds = time.monotonic() - start
        found = Outcome(recipes, networks, _answers_of(trials), scores, seconds, self.trials, options)
        return replace(found, left_out=self.left_out())

    def left_out(self, unneeded: str = "") -> str:
        """Return how many settings were not trained, see ``TimeLimit.left_out``; "" if none."""
        settings = self.estimator.variants(self.task, self.counted)
        missing = len(settings) + len(self.estimator.poolings(self.task)) - len(self.begun)
        if missing <= 0:
            return ""
        objectives = {each["objective"] for each in settings}
        objectives -= {trial.settings["objective"] for trial in self.begun}
        *before, last = stage_seconds(self._first_recipe(), self._device)
        seconds = len(objectives) * sum(before) + trainings(missing, len(self.folds)) * last
        return self.limit.left_out(missing, seconds, unneeded)

    @property
    def _device(self) -> str:
        return self.trainings.workspace.device

    @property
    def _output(self) -> Output:
        return self.task.form.target.kind


def _pooled(trial: _Trial, pooling: Pooling) -> _Trial:
    """Return a trial of the same settings with another pooling, which has not been trained."""
    recipe = replace(trial.recipe, model=replace(trial.recipe.model, pooling=pooling))
    return _Trial(trial.settings, recipe)


def _finalists(trials: list[_Trial]) -> list[_Trial]:
    """Return the trials of the second round: the best, and the best of another objective, if there is one."""
    best, *others = sorted(trials, key=lambda trial: -trial.score)
    others.sort(key=lambda trial: trial.settings["objective"] == best.settings["objective"])
    return [best, *others][:FINALISTS]


def trainings(trials: int, folds: int) -> float:
    """Return how many full finetunings both rounds take."""
    if trials == 1:
        return float(folds)
    first, second = _rounds(folds)
    return first * trials + second * min(FINALISTS, trials)


def _rounds(folds: int) -> tuple[float, float]:
    """Return how many full finetunings a trial takes in the first and in the second round."""
    first = min(FIRST_FOLDS, folds)
    return (FIRST_SHARE, 1.0) if folds == 1 else (float(first), float(folds - first))


def fold_data(data: StoredDataset, seed: int) -> list[StoredDataset]:
    """Return the labelled examples of train and val in folds; all other examples are left out.

    Form and statistics are those of the whole, so that one network can be finetuned on all of them; those of
    numbers to predict are of the fold's training labels. Copies of a sequence, and groups, are in one fold;
    if there are fewer of them than folds, there are as many folds. The list is empty if there are too few or
    enough labels, or one cluster of copies.
    """
    whole = data.whole
    rows = np.flatnonzero(whole.labelled.numpy() & np.isin(data.split, (0, 1)))
    if data.meta["about"].get("val_given") or not FEW <= len(rows) < MANY:
        return []
    labelled = whole.take(torch.from_numpy(rows))
    fold_of = _fold_of(labelled, isinstance(data.form.target, Classes), seed)
    found = []
    for fold in range(fold_of.max() + 1 if fold_of.any() else 0):
        split = np.full(len(data.split), -1, dtype=np.int64)
        split[rows] = fold_of == fold
        target = data.form.target
        if isinstance(target, Reals):
            target = fit_target(target, labelled.targets.numpy()[fold_of != fold])
        found.append(replace(data, form=replace(data.form, target=target), split=split))
    return found


def _fold_of(labelled: SequenceDataset, one: bool, seed: int) -> np.ndarray:
    """Return (n,) the fold of every labelled example: clusters are whole, and classes alike if they can be.

    Args:
        one: whether the target is one class.
    """
    clusters = clusters_of(labelled)
    folds = min(FOLDS, clusters.max() + 1)
    classes = labelled.targets.numpy() if one else np.zeros(len(labelled), dtype=np.int64)
    alike = one and np.unique(classes, return_counts=True)[1].min() >= FOLDS
    fold_of = np.zeros(len(labelled), dtype=np.int64)
    if folds < 2:
        return fold_of
    copies = clusters.max() + 1 < len(labelled)
    shuffled = {"shuffle": True, "random_state": seed}
    splitter: Any
    if labelled.groups is not None or (copies and not alike):
        splitter = GroupKFold(folds)
    elif copies:
        splitter = StratifiedGroupKFold(folds, **shuffled)
    else:
        splitter = (StratifiedKFold if alike else KFold)(folds, **shuffled)
    whole = clusters if copies or labelled.groups is not None else None
    for fold, (_, val) in enumerate(splitter.split(fold_of, classes, whole)):
        fold_of[val] = fold
    return fold_of


def _divided(left: float, pretraining: float, finetuning: float) -> tuple[float, float]:
    """Return the seconds of pretraining that the seconds left allow, and the share of finetuning's steps.

    Finetuning is halved before pretraining is shortened, and both alike from there: few labels are fitted
    without an error after a third of its epochs, and pretraining is what they lack.
    """
    share = min(1.0, left / (pretraining + finetuning / 2))
    return share * pretraining, min(1.0, (left - share * pretraining) / finetuning)


def _steps(recipe: Recipe, share: float) -> dict[str, Any]:
    """Return a share of the steps of a recipe's last stage, as fields of a budget."""
    steps = steps_of(recipe) or 1
    return {"steps": max(1, round(share * steps)), "epochs": None, "flops": None}


def _answers_of(trials: list[_Trial]) -> Answers:
    """Return the answers of a trial on all folds, or of the average of several."""
    return average_answers([_joined(trial.answers) for trial in trials])


def _joined(parts: dict[int, Answers]) -> Answers:
    y_true, outputs = zip(*(parts[fold] for fold in sorted(parts)), strict=True)
    return np.concatenate(y_true), np.concatenate(outputs)
