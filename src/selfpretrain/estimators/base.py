"""What all estimators share: from X and y to a recipe, its training, and the networks it leaves."""

import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from ..data.examples import Examples
from ..data.importing.builder import moments
from ..data.prepared import PreparedSet
from ..data.schema import Form, Reals, Signal, Target, Tokens
from ..errors import DataError, SpecError, StageFailed
from ..mixers.base import Mixer
from ..registry import resolve
from ..runner.results import InFolders
from ..runner.run import run_recipes
from ..runner.workspace import Workspace
from ..studies.recipes.arms import Arms
from ..studies.recipes.defaults import denoiser, small, toys
from ..tasks.base import Task, load_task
from ..training import cost, evaluate
from ..training.recipe import Budget, Recipe, Stage
from . import sequences
from .given import hold
from .predictor import MEMORY, Predictor
from .said import Said
from .sequences import Kind, Sequences

LONG = 512
"""Positions from which on attention is not the mixer of choice, because its cost grows with their square."""
BATCH_POSITIONS = 1 << 16
"""Positions of a training batch, at most, where nobody says how large it is to be."""
USED, OVERHEAD = 0.8, 1.3
"""Share of a time limit that is planned for; what optimizer and validation add to both passes."""
CHECKS = 20
"""Validations where training may stop early."""


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Self-pretraining on all sequences, then finetuning on the labelled ones.

    Args:
        mixer: a name of `spt list mixers`; auto: attention for short sequences, s4d for long ones.
        objective: how to pretrain, of `spt list objectives`; None: training from scratch.
        scale: auto, or smoke for a few steps that prove nothing.
        width, depth, lr, epochs, pretrain_epochs: of network and stages; None: what the scale says.
        batch_size: examples per step; auto: by their length, and once half of it where memory ends.
        validation_fraction: share of the labelled examples, whole groups together, that weights are chosen
            by; 0, or fewer than 20 labelled ones: the last weights are kept.
        patience: stop after so many validations of 20 without a better score; 0: never.
        n_members: networks, differing by their seeds, whose answers are averaged.
        time_limit: minutes; training is planned to take less, and ended when they are over.
        signal: what numbers are; auto: values. Strings and bytes are text always.
        longer: what to do when asked about sequences longer than those of training.
        random_state: a number gives the same model every time; None another one.
        runs: a folder where finished stages are kept and found again; None: until this process ends.
    """

    mixer: str | Mixer = "auto"
    objective: str | None = "masked"
    scale: Literal["auto", "smoke"] = "auto"
    width: int | None = None
    depth: int | None = None
    dropout: float = 0.0
    lr: float | None = None
    epochs: float | None = None
    pretrain_epochs: float | None = None
    batch_size: int | Literal["auto"] = "auto"
    validation_fraction: float = 0.15
    patience: int = 0
    n_members: int = 1
    time_limit: float | None = None
    signal: Kind = "auto"
    longer: Literal["cut", "refuse"] = "cut"
    device: str = "auto"
    random_state: Any = 0
    runs: str | Path | None = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        sample_weight: Any = None,
        X_unlabelled: Any = None,
    ) -> Self:
        """Train on sequences, of which some may be unlabelled: y None or NaN, or in ``X_unlabelled``.

        Args:
            X: (n, L) or (n, L, C) numbers, a list of sequences, a column of texts or lists; or the name of
                a task or of imported data, which bring their own labels and splits.
            groups: (n,) what must not be divided between training and validation, e.g. patients.
            sample_weight: (n,) what each example counts in finetuning.
        """
        if isinstance(X, str | Task):
            task = load_task(X) if isinstance(X, str) else X
            self._adopt(task.form)
        else:
            found = self._read(X, reset=True).sound()
            targets, target = self._targets(y, len(found.rows))
            check_consistent_length(found.rows, targets, groups)
            weights = None if sample_weight is None else _check_sample_weight(sample_weight, targets)
            task = self._given(found, target, Said(targets, groups, weights), X_unlabelled)
        self._train(task)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """(n, width) one vector per sequence: what the head sees, pooled over positions."""
        return self._embeddings(self._usable(X))

    def positions(self, X: Any) -> list[np.ndarray]:
        """One vector per position (L, width), for every sequence."""
        return self.predictor_.positions(self._usable(X))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of what ``transform`` gives."""
        check_is_fitted(self)
        name = type(self).__name__.lower()
        return np.array([f"{name}{i}" for i in range(self.predictor_.model.width)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return "predictor_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.three_d_array = tags.input_tags.string = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_data", None)  # a model does not carry what it was trained on
        return state

    # What differs between the estimators.

    def _targets(self, y: Any, n: int) -> tuple[np.ndarray, Target]:
        """(n,) labels as numbers, and what they are."""
        raise NotImplementedError

    def _adopt(self, form: Form) -> None:
        """Take the classes of a task for one's own."""

    def _stages(self, arms: Arms, task: Task) -> tuple[Stage, ...]:
        """The stages of the recipe."""
        finetune = arms.finetune if self.objective else arms.scratch
        return (arms.pretrain, finetune) if self.objective else (finetune,)

    def _finish(self, task: Task) -> None:
        """What is left to do when the networks are trained."""

    # From X to sequences.

    def _read(self, X: Any, reset: bool) -> Sequences:
        rows = sequences.as_rows(X)
        if isinstance(rows, list):
            return sequences.read(rows, self.signal)
        how = {"ensure_all_finite": "allow-nan", "dtype": "numeric"}
        if getattr(rows, "ndim", 2) == 3:  # neither length nor channels are features of scikit-learn's kind
            return sequences.read(check_array(rows, allow_nd=True, **how), self.signal)
        return sequences.read(validate_data(self, rows, reset=reset, **how), self.signal)

    def _usable(self, X: Any) -> Examples:
        """The examples that are asked about: of a task those held out for the test.

        Raises:
            DataError: naming those that cannot be used.
        """
        check_is_fitted(self)
        if isinstance(X, str | Task):
            return evaluate.held_out(load_task(X) if isinstance(X, str) else X)
        return self._examples(self.readable(X).sound())

    def readable(self, X: Any) -> Sequences:
        """The sequences of X that the model can be asked about, and what is wrong with the others."""
        check_is_fitted(self)
        form = self.predictor_.form
        found = self._read(X, reset=False).fitting(form.signal, form.length, self.longer)
        if found.cut:
            said = f"{found.cut:,} of {found.given:,} sequences are cut to the {form.length:,} positions"
            _warn(f"{said} of the longest one in training; longer='refuse' makes that an error")
        return found

    def _examples(self, found: Sequences) -> Examples:
        return found.examples(self.predictor_.form.signal, np.full(len(found.rows), -1, dtype=np.int64))

    def _embeddings(self, data: Examples) -> np.ndarray:
        return self.predictor_.embeddings(data)

    # From sequences to a task.

    def _given(self, found: Sequences, target: Target, said: Said, X_unlabelled: Any) -> Task:
        if X_unlabelled is not None:
            found = sequences.joined(found, self._read(X_unlabelled, reset=False).sound())
        said = said.extended(len(found.rows))
        kept = said.counted  # an example of weight zero is as good as not there
        found, said = found.take(kept), said.take(kept)
        split = said.divided(self.validation_fraction, self._seed())
        signal = _signal(found, split == 0)
        length = int(found.lengths.max())
        examples = found.examples(signal, said.targets)
        examples = replace(examples, groups=said.group_numbers, weights=said.loss_weights(split == 0))
        if isinstance(target, Reals):
            known = said.targets[(split == 0) & said.labelled].astype(np.float64)
            spread = float(known.std()) if len(known) and known.std() > 0 else 1.0
            target = replace(target, centre=float(known.mean()) if len(known) else 0.0, spread=spread)
        self._data = PreparedSet(Form(signal, length, target), {}, examples, split)
        return hold(self._data)

    # From a task to networks.

    def _train(self, task: Task) -> None:
        workspace = replace(Workspace.of(self._runs(), self.device, "1"), quiet=True)
        recipes = self._recipes(task)
        try:
            run_recipes(recipes, workspace, tested=False)
        except StageFailed as error:
            if not isinstance(error.__cause__, MEMORY) or self.batch_size != "auto":
                raise
            recipes = [_halved(recipe) for recipe in recipes]
            run_recipes(recipes, workspace, tested=False)
        finished = InFolders(workspace)
        first = recipes[0]
        networks = tuple(finished.network(recipe).to(workspace.device) for recipe in recipes)
        self.recipes_ = recipes
        self.validation_scores_ = [finished.result(recipe)["scores"]["val"] for recipe in recipes]
        self.predictor_ = Predictor(first.model, first.last.objective, task.form, networks)
        self.task_ = task
        self._finish(task)

    def _recipes(self, task: Task) -> list[Recipe]:
        arms = self._arms(task)
        stages = tuple(self._fitted(stage, task) for stage in self._stages(arms, task))
        model = arms.model if self.objective else arms.scratch_model
        first = Recipe(task, model, stages, self._seed())
        if self.time_limit:
            first = _within(first, 60 * self.time_limit / self.n_members)
        return [replace(first, seed=first.seed + member) for member in range(self.n_members)]

    def _arms(self, task: Task) -> Arms:
        """Network and stages, as the scale and all that was set say."""
        name = self.mixer
        if name == "auto":
            name = "attention" if task.form.length <= LONG else "s4d"
        mixer = resolve("mixers", name)
        arms = small(task, mixer, denoiser(task, self.objective or "masked"))
        arms = toys(arms) if self.scale == "smoke" else arms
        width, depth = self.width or arms.model.width, self.depth or arms.model.depth
        model = replace(arms.model, width=width, depth=depth, dropout=self.dropout)
        finetune = _changed(arms.finetune, self.epochs, self.lr)
        scratch = _changed(arms.scratch, self.epochs, self.lr)
        return Arms(model, _changed(arms.pretrain, self.pretrain_epochs, None), finetune, model, scratch)

    def _fitted(self, stage: Stage, task: Task) -> Stage:
        """A stage with a batch that the data can fill, and the manner in which weights are chosen."""
        data = task.load("train")
        usable = int(data.labelled.sum()) if stage.objective.labelled else len(data)
        if not usable:
            raise DataError("no example has a label; SequencePretrainer trains without any")
        size = self.batch_size
        if size == "auto":
            size = max(1, min(stage.batch, BATCH_POSITIONS // task.form.length))
        stage = replace(stage, batch=min(size, usable))
        if _same(task):
            return replace(stage, select="last", evals=1)
        if self.patience and stage.objective.labelled:
            return replace(stage, patience=self.patience, evals=CHECKS)
        return stage

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _runs(self) -> Path:
        return Path(self.runs) if self.runs is not None else Path(_scratch_folder().name)


def _signal(found: Sequences, train: np.ndarray) -> Signal:
    if found.kind == "values":
        return moments(iter([found.flat]), found.lengths, train)
    return Tokens(sequences.BYTES if found.kind == "text" else int(found.flat.max()) + 1)


def _changed(stage: Stage, epochs: float | None, lr: float | None) -> Stage:
    stage = replace(stage, budget=Budget(epochs=epochs)) if epochs is not None else stage
    return replace(stage, optim=replace(stage.optim, lr=lr)) if lr is not None else stage


def _same(task: Task) -> bool:
    """Whether validation has no examples of its own."""
    return task.load("val").starts.equal(task.load("train").starts)


def _halved(recipe: Recipe) -> Recipe:
    return replace(recipe, stages=tuple(replace(s, batch=max(1, s.batch // 2)) for s in recipe.stages))


def _within(recipe: Recipe, seconds: float) -> Recipe:
    """The same recipe, with fewer steps where it would take longer on this machine, and a limit on each stage."""
    steps = [cost.plan(prefix).steps or 0 for prefix in recipe.prefixes()]
    takes = [OVERHEAD * n * cost.seconds_per_step(p) for n, p in zip(steps, recipe.prefixes(), strict=True)]
    share = min(1.0, USED * seconds / sum(takes))
    stages = []
    for stage, count, long in zip(recipe.stages, steps, takes, strict=True):
        limit = seconds * long / sum(takes) / 3600
        stages.append(replace(stage, budget=Budget(steps=max(1, round(count * share)), hours=limit)))
    return replace(recipe, stages=tuple(stages))


@cache
def _scratch_folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="selfpretrain-")


def _warn(said: str) -> None:
    import warnings

    warnings.warn(said, stacklevel=4)


def refuse_missing(y: Any, estimator: str) -> None:
    """Refuse to learn from labels that nobody has given.

    Raises:
        SpecError: in the words that scikit-learn expects.
    """
    if y is None:
        raise SpecError(f"{estimator} requires y to be passed, but the target y is None")
