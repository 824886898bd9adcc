"""From a task to networks: the training of the estimators, and what they keep."""

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from ..data.containers import Names
from ..data.offsets import Offsets
from ..data.spec import Values
from ..errors import Interrupted, StageFailed
from ..system.files import Json
from ..system.time_limit import until
from ..tasks.base import Task
from ..tasks.imported import Imported
from ..training.model import Network, count_parameters
from ..training.recipe import Recipe
from ..training.train import Stop, never
from . import leaderboard
from .annotations import FEW, labelled_only, val_groups
from .in_memory import InMemoryTask, facts, has_val, offsets_of
from .inputs import Alphabet, embed_unseen
from .predictor import PRETRAINER, Predictor, kind_of
from .scores import Score
from .search import Search, fold_data
from .settings import USED, EstimatorSettings, least_seconds, stage_seconds, step_seconds, too_short
from .simple import (
    Answers,
    AveragePredictor,
    Candidate,
    SimpleMethods,
    SimplePredictor,
    candidates_for,
    counts_help,
    finite,
)
from .stopping import GRACE, TimeLimit, all_right
from .training import Outcome, Trainings, title

SIMPLE = 0.3  # share of a time limit after which no simple method is begun
SIMPLE_ENDS = 0.5  # share of a time limit after which a simple method that was begun is given up
TOO_FEW = f"nothing is held out of fewer than {FEW} labelled examples, so nothing can be compared"


class TaskFitting(EstimatorSettings):
    """What ``fit`` does with a task, within a time limit; and what a trained estimator is made of.

    These attributes are saved, with ``classes_`` and ``n_features_in_`` where an estimator has them.
    """

    predictor_: Predictor
    recipes_: list[Recipe]
    scores_: dict[str, Json]
    validation_scores_: list[Any]
    data_facts_: Json
    reading_: Json | None
    trained_: bool
    simple_: tuple[SimplePredictor, ...]
    shares_: tuple[float, ...]
    alphabet_: Alphabet | None
    offsets_: Offsets
    channels_: Names | None
    leaderboard_: list[Json]
    trials_: list[Json]
    kept_: str
    kept_score_: Score | None
    left_out_: str
    interrupted_: bool  # of this fit: not saved

    def _adjust(self, task: Task) -> bool:
        """Adjust the predictor after training, e.g. calibrate it on the val split; return whether it did."""
        return False

    def _train(
        self,
        task: Task,
        folds: Sequence[Task],
        limit: TimeLimit,
        simple: Sequence[Candidate],
        usual: Sequence[SimplePredictor],
    ) -> Outcome:
        """Train networks, unless validation can show no gain over simple methods, or it was interrupted."""
        trainings = self._trainings(limit.is_up)
        if limit.interrupted():
            problem = f"the network was not trained: {limit.reason}"
            return trainings.untrained(self.recipe(task), problem)
        searches = self._searches(task)
        why = TOO_FEW if usual else all_right(simple, folds)
        if why and not self.exhaustive:
            with until(limit.end, limit.interrupted):
                if searches:
                    said = Search(self, task, trainings, limit, folds).left_out(why)
                else:
                    takes = sum(stage_seconds(self.recipe(task), trainings.workspace.device))
                    said = limit.left_out(1, takes, why)
            return replace(trainings.untrained(self.recipe(task), ""), left_out=said)
        if not searches:
            return self._train_once(task, limit, trainings)
        counted = self.objective == "auto" and counts_help(
            self._simple_methods(task, folds, limit.interrupted),
            labelled_only(task.load("train")),
            limit.at(SIMPLE_ENDS),
        )
        return Search(self, task, trainings, limit, folds, counted, simple).best()

    def _train_once(self, task: Task, limit: TimeLimit, trainings: Trainings) -> Outcome:
        """Train the first setting, as far as the time allows."""
        start = time.monotonic()
        elapsed = start - limit.start
        # The whole limit if its reserve covers the time so far: stages with equal limits are shared.
        seconds = limit.seconds - (0.0 if elapsed < (1 - USED) * limit.seconds else elapsed)
        first = self.recipe(task)
        device = trainings.workspace.device
        with until(start + seconds + GRACE, limit.interrupted):
            auto = self.scale == "auto"
            needed = self.n_members * sum(least_seconds(first, seconds, device)) if auto else 0.0
            step = step_seconds(first, device) if auto else 0.0
        if needed > max(1.0, seconds) + GRACE:
            return trainings.untrained(first, too_short(step, needed, seconds))
        recipes = self._recipes(task, max(1.0, seconds))
        try:
            recipes = trainings.run(recipes)
        except Interrupted:
            recipes = [recipe for recipe in recipes if trainings.has(recipe)]
            if not recipes:
                return trainings.untrained(first, f"the network was not trained: {limit.reason}")
        networks = tuple(trainings.network(recipe) for recipe in recipes)
        scores = [trainings.scores(recipe) for recipe in recipes]
        last = recipes[0].last
        answers = None
        # Pretraining alone is not compared with anything: its loss is all that shows an unsound network.
        unsound = not last.objective.labelled and any(math.isnan(each.get("loss", 0.0)) for each in scores)
        problem = "the network is out: its loss on validation is NaN" if unsound else ""
        if last.objective.labelled and has_val(task):
            predictor = Predictor(tuple(r.model for r in recipes), last.objective, task.form, networks)
            answers = leaderboard.answers(predictor, labelled_only(task.load("val")))
        return Outcome(recipes, networks, answers, scores, time.monotonic() - start, problem=problem)

    def _searches(self, task: Task) -> bool:
        """Return whether several settings, or one on several folds, are tried."""
        free = self.scale == "auto" and self.n_trials != 1
        return free and isinstance(task, InMemoryTask) and self._predicts and has_val(task)

    def _folds(self, task: Task) -> list[Task]:
        """Return the folds of a task in memory; the task alone where its own validation split decides."""
        if not isinstance(task, InMemoryTask):
            return [task]
        one = not self._searches(task) or self.patience != "auto" or vars(self).get("calibrate")
        folds = [] if one else fold_data(task.data(), self._seed())
        if not folds and (note := task.data().meta["about"].get("not by class")):
            warnings.warn(note, stacklevel=3)  # the caller of fit
        return [InMemoryTask(data) for data in folds] or [task]

    def _simple_methods(self, task: Task, folds: Sequence[Task], stop: Stop = never) -> SimpleMethods:
        """Return the simple methods for a task, to be validated on its folds."""
        pairs = [(labelled_only(fold.load("train")), labelled_only(fold.load("val"))) for fold in folds]
        weights = getattr(self._objective(task), "weights", ())
        quality = partial(leaderboard.quality, task.form.target.kind)
        everything = task.load("train")
        shared = (everything, leaderboard.answers, quality, weights, stop)
        return SimpleMethods(task.form, pairs, *shared)

    def _simple_candidates(self, task: Task, folds: Sequence[Task], limit: TimeLimit) -> list[Candidate]:
        """Validate the simple methods that suit the task, unless the network is kept in any case.

        Those that may be kept are fitted again on all labelled examples, as far as the time allows.
        """
        if not (self._tries_simple and has_val(task)):
            return []
        whole = labelled_only(task.load("train"))
        if isinstance(task, InMemoryTask):
            data = task.data()
            rows = np.flatnonzero(data.whole.labelled.numpy() & np.isin(data.split, (0, 1)))
            whole = data.whole.take(torch.from_numpy(rows))
        methods = self._simple_methods(task, folds, limit.interrupted)
        found: list[Candidate] = []
        for each in methods.candidates(whole, limit.at(SIMPLE), limit.at(SIMPLE_ENDS)):
            (row,) = leaderboard.rows([each], val_groups(folds), len(folds))
            if not found:
                self.say(f"scores on validation, as they come:\n{leaderboard.heading(row)}")
            self.say(leaderboard.line(row))
            found.append(each)
        suitable = len(candidates_for(task.form, whole))
        if len(found) < suitable and not limit.interrupted():
            number = f"{suitable - len(found)} of {suitable} simple methods"
            self.say(f"not tried: {number}, which do not fit into their part of the time limit")
        best = {each.name for each in leaderboard.best_of([each for each in found if finite(each.answers)])}
        final = [
            methods.refitted(each, whole, limit.end) if each.name in best else replace(each, refit=None)
            for each in found
        ]
        if any(each.refit for each in final):
            said = f"some methods have not learned from the examples of validation: {limit.reason}"
            warnings.warn(said, stacklevel=3)  # the caller of fit
        return final

    @property
    def _tries_simple(self) -> bool:
        """Return whether simple methods may be kept."""
        return self.model != "network" and self.scale != "smoke" and self._predicts

    def _usual_methods(self, task: Task, limit: TimeLimit) -> tuple[SimplePredictor, ...]:
        """Fit the usual simple methods where labels are too few to hold any out; elsewhere there are none."""
        if not self._tries_simple or has_val(task):
            return ()
        labelled = labelled_only(task.load("train"))
        if not 0 < len(labelled) < FEW:
            return ()
        return self._simple_methods(task, [], limit.interrupted).usual(labelled, limit.at(SIMPLE))

    def _become(self, task: Task, found: Outcome) -> Outcome:
        """Take the networks that were trained, calibrate them, and return what they came to then."""
        self.set_networks(task, found.recipes, found.networks)
        self.trained_ = found.trained
        self.validation_scores_ = found.scores
        self.trials_ = found.trials
        self.left_out_ = found.left_out
        if self.alphabet_ is not None:
            embed_unseen(self.predictor_.networks, task.load("train"))
        problem = found.problem or nan_problem(found.answers)
        answers = found.answers
        if found.trained and not problem and self._adjust(task):
            answers = leaderboard.answers(self.predictor_, labelled_only(task.load("val")))
        return replace(found, answers=answers, problem=problem)

    def _keep_best(
        self, found: Outcome, simple: list[Candidate], folds: Sequence[Task], usual: Sequence[SimplePredictor]
    ) -> None:
        """Set ``leaderboard_``, ``kept_``, ``kept_score_``, ``simple_`` and ``shares_``."""
        if usual:
            self.simple_ = tuple(usual)
            self.shares_ = (0.0, *[1 / len(usual)] * len(usual))
            self.kept_ = f"kept: {leaderboard.average_name([each.name for each in usual])}; {TOO_FEW}"
            self.say(self.kept_)
            return
        answers = found.answers
        network = None
        if answers is not None:
            members = self.predictor_.networks
            parameters = len(members) * count_parameters(members[0])
            about = (found.seconds, parameters, found.options)
            network = Candidate(title(self.recipes_), self.predictor_, answers, *about)
        verdict = choose(network, simple, found.problem, val_groups(folds), len(folds))
        if verdict is None:
            return
        model = verdict.kept.model
        average = model if isinstance(model, AveragePredictor) else AveragePredictor((model,), (1.0,))
        self.simple_ = tuple(each for each in average.members if isinstance(each, SimplePredictor))
        alone = len(self.simple_) == len(average.members)
        self.shares_ = (0.0, *average.shares) if alone else average.shares
        self.leaderboard_ = verdict.table
        self.kept_score_ = verdict.score
        self.kept_ = f"{verdict.line}; {found.problem}" if found.problem else verdict.line
        self.say(leaderboard.text(self.leaderboard_, verdict.kept.name))
        if self.simple_ and self.predictor_.temperature != 1.0:
            said = "calibrate scales the network alone, and simple methods predict here; see model='network'"
            warnings.warn(said, stacklevel=3)  # the caller of fit

    @property
    def _predicts(self) -> bool:
        """Return whether the estimator predicts labels."""
        return kind_of(type(self)) != PRETRAINER

    def set_networks(self, task: Task, recipes: list[Recipe], networks: tuple[Network, ...]) -> None:
        """Become the estimator of networks that were trained on a task, one by each recipe."""
        first = recipes[0]
        models = tuple(recipe.model for recipe in recipes)
        self.predictor_ = Predictor(models, first.last.objective, task.form, networks)
        self.trained_ = True
        self.simple_ = ()
        self.shares_ = (1.0,)
        self.alphabet_ = vars(self).get("alphabet_")
        self.channels_ = vars(self).get("channels_")
        self.offsets_ = offsets_of(task)
        self.recipes_ = recipes
        self.task_ = task
        self.data_facts_ = facts(task)
        self._note_reading(task)
        self.scores_ = {}
        self.leaderboard_ = []
        self.trials_ = []
        self.kept_ = ""
        self.kept_score_ = None
        self.left_out_ = ""
        self.interrupted_ = False

    def _note_reading(self, task: Task) -> None:
        """Note how files to predict are read, if the data were imported: by their columns.

        By these names a frame in Python is put in order, or refused.
        """
        about = task.data().meta["about"] if isinstance(task, InMemoryTask | Imported) else {}
        reading = about.get("reading")  # data imported before this was noted have none
        self.reading_ = reading if reading and reading["missing"] != "mask" else None
        columns = (self.reading_ or {}).get("sequence", [])
        if self.reading_ and self.reading_["form"] == "wide":
            self.__dict__["feature_names_in_"] = np.array(columns, dtype=object)
        elif isinstance(task.form.signal, Values) and len(columns) > 1:
            self.channels_ = columns


def nan_problem(answers: Answers | None) -> str:
    """Return why a network with some answers on validation cannot be kept; empty if it can."""
    if answers is None or finite(answers):
        return ""
    wrong = (~np.isfinite(answers[1]).reshape(len(answers[1]), -1).all(1)).sum()
    return (
        f"the network is out: its answers are not finite for {wrong} of {len(answers[1])} validation examples"
    )


def choose(
    network: Candidate | None,
    simple: list[Candidate],
    problem: str,
    groups: np.ndarray | None,
    folds: int,
) -> leaderboard.Verdict | None:
    """Choose among the network, simple methods and averages; None if there are no candidates to compare.

    Args:
        network: None if it has no answers on validation.
        problem: why the network is not a candidate; it is kept for want of another if its answers are finite.
        groups: (n,) groups of the validation examples.
        folds: number of folds of which they are.

    Raises:
        StageFailed: if there is a problem, and nothing else to keep.
    """
    sound = [each for each in simple if finite(each.answers)]
    if problem:
        if not sound and (network is None or not finite(network.answers)):
            raise StageFailed(f"{problem}; there is no other model to keep")
        warnings.warn(problem, stacklevel=4)  # the caller of fit
        if sound:
            network = None
        else:
            groups = None  # its answers are those on some folds
    if network is None and not sound:
        return None
    return leaderboard.judge(network, sound, groups, folds)
