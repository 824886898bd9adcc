"""Base class of the scikit-learn estimators: from X and y to recipes, training and trained networks."""

import copy
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..api import Request, run_request
from ..data.containers import check_order, rows_of
from ..data.dataset import SequenceDataset, concatenated
from ..data.labels import doubts
from ..data.offsets import Offsets
from ..data.sequences import SequenceKind, Sequences
from ..data.spec import Classes, Reals, SequenceSpec, Target, Tokens, Values
from ..data.store import StoredDataset
from ..errors import DataError, NotFinite, SpecError, join_names
from ..report.results import ExperimentResults
from ..report.sequential import parse_seeds
from ..studies.compare import Comparison
from ..studies.recipes.defaults import small_arms
from ..system.hardware import torch_restored
from ..system.startup import catch_interrupt
from ..tasks.base import Task, load_task
from ..tasks.imported import Imported
from ..tasks.inspect import preview
from ..training import evaluate
from . import annotations, export, in_memory, inputs, persistence
from .annotations import Annotations
from .fitting import TaskFitting
from .in_memory import ASCII, InMemoryTask
from .inputs import Alphabet, on_scale
from .predictor import ESTIMATORS, Predictor, kind_of
from .scores import Score, bootstrap
from .settings import check_settings
from .simple import Answering, AveragePredictor
from .stopping import TimeLimit

NO_NUMBER = "the model gives no finite number"
FITTING = threading.RLock()
"""Held while an estimator is fitted: random numbers of networks are those of the process."""


def _renew_lock() -> None:
    """Make another lock in a process that was forked, where no thread will release it."""
    global FITTING  # noqa: PLW0603
    FITTING = threading.RLock()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_renew_lock)

UNSOUND = "are its values far from those in training, or is the network unsound?"


class SequenceEstimator(TransformerMixin, TaskFitting):  # type: ignore[misc]
    """Self-pretraining on all sequences, then finetuning on the labelled ones.

    Attributes:
        leaderboard_: candidates from the best to the worst: name, metric, score on validation with a 95 %
            interval, seconds, parameters. By these scores the best is chosen; so they are optimistic.
        kept_: what predicts, as text: the average, the network or a simple method.
        kept_score_: its score, corrected for the choice, with a 95 % interval; None: nothing was held out, as
            of fewer than 20 labels, of which usual simple methods predict.
        trials_: settings of networks that were tried: score, seconds and round.
        trained_: whether the network was trained; False where no step fits into the time limit, a simple
            method makes no error on validation, or nothing is held out of fewer than 20 labels.
        left_out_: which settings of networks were not trained, why, and about how long they would take.
        interrupted_: whether Ctrl-C ended this fit: the best so far is kept; pressed again, it raises
            KeyboardInterrupt, as it does before anything is fitted.
        simple_: the simple methods that predict, whose answers are averaged; none: the network does.
        shares_: weights, in what predicts, of the network and of every method in ``simple_``.
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        sample_weight: Any = None,
        X_unlabelled: Any = None,
    ) -> Self:
        """Train on sequences, some of which may be unlabelled.

        Args:
            X: (n, L) or (n, L, C) numbers, a list of sequences, or a column of texts or lists; or the name of
                a task or of imported data, or a data set in memory, which have their own labels and splits.
            y: (n, ...) labels; None or NaN where unknown.
            groups: (n,) group of each example, e.g. its patient; a group is never split between training and
                validation.
            sample_weight: (n,) weight of each example in the finetuning loss.
            X_unlabelled: more sequences without labels, for pretraining only.
        """
        check_settings(self)
        said = "stopping: the best so far is kept; Ctrl-C again stops at once"
        with FITTING, _restored_if_it_fails(self.__dict__), torch_restored():
            self.seed_ = self._draw_seed()
            task = self._as_task(X, y, groups, sample_weight, X_unlabelled)
            with catch_interrupt(said) as interrupted:
                limit = TimeLimit.of(self.minutes, interrupted)
                folds = self._folds(task)
                simple = self._simple_candidates(task, folds, limit)
                usual = self._usual_methods(task, limit)
                found = self._train(task, folds, limit, simple, usual)
                if interrupted() and not (simple or usual or found.trained):
                    raise KeyboardInterrupt
                self._keep_best(self._become(task, found), simple, folds, usual)
        self.interrupted_ = interrupted()
        if self.interrupted_ and (usual or not found.problem):  # a problem has been warned of
            warnings.warn("fit was interrupted: the best so far is kept", stacklevel=2)
        if self.left_out_:
            self.say(self.left_out_)
        return self

    def compare(
        self, X: Any = None, y: Any = None, *, groups: Any = None, seeds: int | str = 3
    ) -> ExperimentResults:
        """Compare scratch, compute-matched scratch and self-pretraining on these data.

        A task keeps its own splits; of arrays, 15 % of the labelled examples are the test split. Network and
        budgets are those of ``compare``, fixed in advance; the other settings are those of ``fit``.

        Args:
            X: as for ``fit``; None: the data of the last ``fit``.
            seeds: number of seeds of each arm; "auto", or a range such as "4..12": as many as the verdict
                needs.

        Raises:
            SpecError: without X, if the model was not fitted in this process, or y or groups are given.
        """
        check_settings(self)
        if X is None:
            annotations.refuse_beside("the last fit", y, groups)
        other = copy.copy(self)  # a fitted model keeps the classes and symbols that it was trained on
        other.seed_ = self._draw_seed()
        task = vars(self).get("task_") if X is None else other._as_task(X, y, groups)
        if task is None:
            raise SpecError("this model does not hold the data of its training: give compare X and y")
        task = in_memory.with_test_split(task, other.seed_)
        arms = other._arms(task, small_arms)
        pretrain, finetune, scratch = (
            other._fit_to_data(stage, task) for stage in (arms.pretrain, arms.finetune, arms.scratch)
        )
        if objective := other._objective(task):  # with the weights of classes
            finetune, scratch = (replace(stage, objective=objective) for stage in (finetune, scratch))
        arms = replace(arms, pretrain=pretrain, finetune=finetune, scratch=scratch)
        most, design = parse_seeds(seeds)
        workspace = self._workspace()
        if self.runs is None:
            workspace = replace(workspace, runs=Path(_scratch_folder().name))
        with FITTING:
            return run_request(Request(Comparison((task,), ((arms,),), most), design=design), workspace)

    def evaluate(self, X: Any, y: Any = None, *, groups: Any = None, draws: int = 200) -> dict[str, Score]:
        """Return the usual metrics on held-out examples, each with a 95 % bootstrap interval.

        SequenceClassifier: accuracy, balanced accuracy, macro F1, MCC, AUROC, average precision, log loss and
        ECE. SequenceRegressor: R2, MAE and RMSE, in the units of y. MultilabelClassifier: micro and macro F1,
        exact match, mean AUROC and average precision over classes, log loss. PositionClassifier: accuracy,
        balanced accuracy, macro F1, MCC and log loss over positions.

        Args:
            X: sequences; or the name of a task, for its test split.
            groups: (n,) group of each example, e.g. its patient; groups are resampled as a whole.
            draws: number of bootstrap resamples.

        Raises:
            SpecError: if the model makes no predictions, or y or groups are given beside a task.
        """
        y_true, outputs, groups = self._evaluation_arrays(X, y, groups)
        return bootstrap(self._metrics, (y_true, outputs), groups, draws)

    def note_scores(self, task: Task) -> None:
        """Store the scores on the test split of a task in ``scores_``, for the model card.

        Where the model gives no finite number for one of its sequences, warn of it, and store none.
        """
        try:
            self.scores_ |= self._scores_of(task)
        except NotFinite as error:
            warnings.warn(f"the test split is not scored: {error}", stacklevel=2)

    def _scores_of(self, task: Task) -> dict[str, Any]:
        """Return what the model card says of the test split of a task."""
        return {"test": {name: asdict(score) for name, score in self.evaluate(task).items()}}

    def save(self, folder: str | Path) -> Path:
        """Write the model to a folder: weights as safetensors, settings as JSON, and a model card."""
        check_is_fitted(self)
        return persistence.save(self, folder)

    def save_backbone(self, path: str | Path) -> str:
        """Write the weights of a network of your own by its own names, see ``export.save_backbone``."""
        return export.save_backbone(self._trained, path)

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto", trust: tuple[str, ...] = ()) -> Self:
        """Load a model that ``save`` wrote, on this or another machine.

        Args:
            trust: packages whose mixers may be imported besides our own.

        Raises:
            SpecError: if the folder holds another kind of estimator.
        """
        return persistence.load(folder, {kind_of(cls): cls}, device, trust)

    def export(self, path: str | Path, length: int | None = None) -> float:
        """Export the model as ``.onnx`` or as ``.pt2`` (torch.export); see ``export.export``."""
        check_is_fitted(self)
        if self.simple_:
            names = " and ".join(each.name for each in self.simple_)
            name = f"an average with {names}" if isinstance(self.answering, AveragePredictor) else names
            raise SpecError(f"{name} cannot be exported; fit with model='network', or save it")
        for note in self.offsets_.notes() + (self.alphabet_.notes() if self.alphabet_ else []):
            warnings.warn(f"of the exported model, {note}", stacklevel=2)
        return export.export(self.predictor_, path, length)

    def push_to_hub(self, name: str, private: bool = False) -> str:
        """Publish the model and its card on the Hugging Face hub as OWNER/NAME, and return its URL."""
        with tempfile.TemporaryDirectory() as folder:
            return persistence.upload(self.save(folder), name, private)

    @classmethod
    def from_pretrained(cls, name: str, trust: tuple[str, ...] = ()) -> Self:
        """Load a model from the Hugging Face hub (OWNER/NAME) or from a folder."""
        return cls.load(persistence.download(name), trust=trust)

    def transform(self, X: Any) -> np.ndarray:
        """Return one embedding per sequence (n, width): pooled over positions, as the head sees them."""
        data = _one_each(self._to_dataset(X))
        return np.asarray(_checked(self._trained.embeddings(data)))

    def positions(self, X: Any) -> list[np.ndarray]:
        """Return the embeddings (L, width) of the positions of every sequence."""
        data = _one_each(self._to_dataset(X))
        signed = self.alphabet_ is not None and self.alphabet_.signs
        inner = slice(1, -1) if signed else slice(None)  # without signs
        return [vectors[inner] for vectors in _checked(self._trained.position_embeddings(data))]

    @property
    def _trained(self) -> Predictor:
        """Return the network."""
        check_is_fitted(self)
        if not self.trained_:
            raise SpecError(
                "the network of this model was not trained; fit again with exhaustive=True or more minutes"
            )
        return self.predictor_

    def _outputs(self, data: SequenceDataset) -> Any:
        """Return probabilities (n, K) or numbers (n, 1), or probabilities (L, K) for every sequence."""
        model = self.answering
        if data.views != model.form.views:
            raise DataError(
                f"the model takes {model.form.views} sequences per example, and these have {data.views}; "
                f"give it a task of such examples"
            )
        positions = model.output == "positions"
        found = model.position_probabilities(data) if positions else model.probabilities(data)
        return _checked(found)

    @property
    def answering(self) -> Answering:
        """Return what predicts: the network, a simple method, or an average of these."""
        pairs = zip((self.predictor_, *self.simple_), self.shares_, strict=True)
        members, shares = zip(*((member, share) for member, share in pairs if share), strict=True)
        return members[0] if len(members) == 1 else AveragePredictor(members, shares)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names (width,) of the columns that ``transform`` returns."""
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
        state.pop("task_", None)  # a model does not carry what it was trained on
        return state

    # Hooks that subclasses override; those for the objective and the stages are in the settings.

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        """Encode labels as numbers (n, ...), and describe them as a target."""
        raise NotImplementedError

    def _true_and_predicted(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return true labels and outputs, one row per example; of a task, on its test split."""
        if not self._predicts:
            raise SpecError(f"{type(self).__name__} predicts nothing; there is nothing to evaluate")
        data = self._to_dataset(X)
        y_true = data.targets.numpy() if isinstance(X, str | Task) else self._encode(y)
        return y_true, self._outputs(data)

    def _encode(self, y: Any) -> np.ndarray:
        """Return true labels as the metrics take them."""
        raise NotImplementedError

    @staticmethod
    def _metrics(y_true: np.ndarray, outputs: np.ndarray, /) -> dict[str, float]:
        """Return the usual metrics by name."""
        raise NotImplementedError

    def table(self, data: SequenceDataset) -> dict[str, list[Any]]:
        """Return the columns of a CSV file of predictions, with one entry per example.

        Raises:
            SpecError: if the model makes no predictions.
        """
        raise SpecError(
            "this model predicts nothing: selfpretrain model embed gives the vectors of its sequences"
        )

    def set_classes(self, form: SequenceSpec) -> None:
        """Set ``classes_`` from a task.

        Raises:
            SpecError: if the targets of the task need another estimator.
        """
        suited = ESTIMATORS[form.target.kind]
        if suited != kind_of(type(self)):
            raise SpecError(f"this task's targets are {form.target.kind}; use {suited}")
        if not isinstance(form.target, Reals):
            self.classes_ = np.array(form.target.names)

    def _check_task(self, X: str | Task, *given: Any) -> None:
        """Check that a task has the classes of training, and that no labels or groups are given beside it."""
        annotations.refuse_beside("a task", *given)
        check_is_fitted(self)
        task = load_task(X) if isinstance(X, str) else X
        theirs, ours = (getattr(each.form.target, "names", ()) for each in (task, self.predictor_))
        if self._predicts and theirs != ours:
            shown, known = (join_names(names, 5) or "none" for names in (theirs, ours))
            raise SpecError(f"the classes of this task are {shown}; those of training are {known}")

    def _evaluation_arrays(self, X: Any, y: Any, groups: Any = None) -> tuple[np.ndarray, np.ndarray, Any]:
        """Return true labels, outputs and groups of the labelled examples; of a task, on its test split."""
        if isinstance(X, str | Task):
            self._check_task(X, y, groups)
        elif self._predicts:
            annotations.refuse_missing(y, type(self).__name__)
            check_order(X, {"y": y, "groups": groups})
        y_true, outputs = self._true_and_predicted(X, y)
        if isinstance(X, str | Task):
            of_test = evaluate.load_test(load_task(X) if isinstance(X, str) else X).groups
            groups = None if of_test is None else of_test.numpy()
        else:
            annotations.check_lengths(len(outputs), y_true, groups)
            groups = annotations.group_column(groups)
        # Of positions these are counts, those of true classes first.
        known = y_true[:, 0].any(1) if y_true.ndim == 3 else Annotations(y_true).labelled
        if not known.any():
            raise DataError("y holds no label; there is nothing to evaluate")
        return y_true[known], outputs[known], None if groups is None else groups[known]

    # From X to sequences.

    def _read_new(self, X: Any) -> Sequences:
        """Return sequences to predict, read as those of training were."""
        filled = (self.reading_ or {}).get("missing") == "fill"
        return self._read(X, False, self.offsets_.values, filled)

    def _read(
        self, X: Any, reset: bool, offsets: tuple[float, ...] | None = None, filled: bool = False
    ) -> Sequences:
        rows, names = rows_of(X, None if reset else vars(self).get("channels_"))
        if reset:
            self.channels_ = names
        # Neither length nor channels of (n, L, C) are features as scikit-learn counts them. A fit on lists
        # keeps the features of the fit before: scikit-learn's check of classifiers asks for it.
        how = {"ensure_all_finite": "allow-nan", "dtype": "numeric"}
        if not isinstance(rows, list) and getattr(rows, "ndim", 2) == 3:
            rows = check_array(rows, allow_nd=True, **how)
        elif not isinstance(rows, list):
            rows = validate_data(self, rows, reset=reset, **how)
        return inputs.read(rows, self.signal, offsets, filled)

    def _to_dataset(self, X: Any) -> SequenceDataset:
        """Return the examples to predict: those of X, or the test split of a task."""
        check_is_fitted(self)
        if isinstance(X, SequenceDataset):  # already checked
            return X
        if isinstance(X, str | Task):
            return self._test_split(load_task(X) if isinstance(X, str) else X)
        return self.examples(self.readable(X).sound())

    def _test_split(self, task: Task) -> SequenceDataset:
        """Return the test split of a task, with the levels and symbols of training."""
        self._check_signal(task)
        if self.alphabet_ is not None and isinstance(task, Imported):
            data = task.unclipped("test")  # symbols that training lacks become unknown
        else:
            data = evaluate.load_test(task)
        data = in_memory.moved(data, in_memory.offsets_of(task), self.offsets_)
        if self.alphabet_ is None or isinstance(task, InMemoryTask) or data.views > 1:
            return self._within(data)
        kind: SequenceKind = "tokens" if self.alphabet_.shift else "text"
        found = Sequences(kind, concatenated(data), data.lengths[0].numpy(), np.arange(len(data)))
        examples = self.examples(self.readable(found).sound())
        return replace(examples, targets=data.targets, groups=data.groups)

    def _check_signal(self, task: Task) -> None:
        """Refuse a task of other channels than those of training; where symbols have no alphabet, of more."""
        ours, theirs = self.predictor_.form.signal, task.form.signal
        if isinstance(ours, Values):
            suits = isinstance(theirs, Values) and ours.channels == theirs.channels
        else:
            suits = isinstance(theirs, Tokens) and (self.alphabet_ is not None or theirs.vocab <= ours.vocab)
        if not suits:
            given, known = (preview.signal(form) for form in (task.form, self.predictor_.form))
            raise SpecError(f"a position of this task has {given}, one of training {known}")

    def _within(self, data: SequenceDataset) -> SequenceDataset:
        """Return examples cut to the positions of training, or refuse longer ones."""
        length = self.predictor_.form.length
        if not (count := int((data.lengths > length).any(0).sum())):
            return data
        if self.longer == "refuse":
            raise DataError(f"{count:,} sequences are longer than the {length:,} positions of training")
        self._warn_of_cut(count, len(data), length)
        return replace(data, lengths=data.lengths.clamp(max=length))

    def _warn_of_cut(self, count: int, given: int, length: int) -> None:
        warnings.warn(
            f"{count:,} of {given:,} sequences are cut to the {length:,} positions of the longest one in "
            "training; longer='refuse' (--longer refuse) makes that an error",
            stacklevel=4,  # the caller of predict, by way of _to_dataset
        )

    def readable(self, X: Any, first: int | None = 0) -> Sequences:
        """Return the sequences of X that the model accepts, and for each other row why it does not.

        Args:
            first: number of the first row in the warning of unknown symbols; None: no such warning.
        """
        check_is_fitted(self)
        form = self.predictor_.form
        found = X if isinstance(X, Sequences) else self._read_new(X)
        alphabet = self.alphabet_
        known = alphabet is not None or self.data_facts_["signal"] == "text"
        others = isinstance(form.signal, Tokens) and form.signal != Tokens(len(ASCII))
        if found.kind == "text" and others and not known:
            raise DataError("the model takes the numbers of its task's symbols, not text; give these")
        length = form.length - (alphabet.signs if alphabet else 0)
        if alphabet:
            found = alphabet.shifted(found)
            if first is not None and (note := alphabet.lacks(found, first)):
                warnings.warn(note, stacklevel=3)
            found = alphabet.with_unknown(found)
        found = found.fitting(form.signal, length, self.longer)
        if note := on_scale(found, form.signal):
            warnings.warn(note, stacklevel=3)
        if found.cut:
            self._warn_of_cut(found.cut, found.given, length)
        return alphabet.with_signs(found) if alphabet else found

    def examples(self, found: Sequences) -> SequenceDataset:
        """Return the sequences that ``readable`` found as a dataset, which every method accepts as X."""
        return found.examples(self.predictor_.form.signal, np.full(len(found.rows), -1, dtype=np.int64))

    # From sequences to a task.

    def _as_task(
        self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None, X_unlabelled: Any = None
    ) -> Task:
        """Return the task for the arguments of ``fit``: a task itself, its name, or arrays."""
        if isinstance(X, str | Task | StoredDataset):
            annotations.refuse_beside("a task", y, groups, sample_weight, X_unlabelled)
            if self.validation_fraction != type(self).validation_fraction:
                said = "validation_fraction divides arrays, and a task or a file has splits of its own"
                raise SpecError(f"{said}; leave it out")
            for name in ("n_features_in_", "feature_names_in_"):  # of a fit on arrays before
                self.__dict__.pop(name, None)
        if isinstance(X, str | Task):
            task = load_task(X) if isinstance(X, str) else X
            self.set_classes(task.form)
            self.alphabet_ = self.channels_ = None
            return task
        if isinstance(X, StoredDataset):
            self.set_classes(X.form)
            kind: Literal["text", "tokens"] = "text" if self.signal == "text" else "tokens"
            self.channels_ = None
            data, self.alphabet_ = in_memory.in_alphabet(X, kind, self._uses_signs())
            return InMemoryTask(data)
        check_order(X, {"y": y, "groups": groups, "sample_weight": sample_weight})
        found = self._read(X, reset=True).sound()
        if self._predicts:
            annotations.refuse_missing(y, type(self).__name__)
        targets, target = self._targets(y, found)
        annotations.check_lengths(len(found.rows), targets, groups)
        targets, offset = annotations.reals(targets, target)
        weights = sample_weight
        if weights is not None:
            weights = _check_sample_weight(weights, targets, ensure_non_negative=True)
        given = Annotations(targets, annotations.group_column(groups), weights)
        X_unlabelled = list(X_unlabelled) if isinstance(X_unlabelled, Iterator) else X_unlabelled
        if X_unlabelled is not None and len(X_unlabelled):
            found = inputs.joined(found, self._read(X_unlabelled, False, found.offsets).sound())
            given = given.extended(len(found.rows))
        for note in found.doubts() + doubts(vars(self).get("classes_", np.zeros(0))):
            warnings.warn(note, stacklevel=3)  # the caller of fit
        kept = given.counted  # scikit-learn: weight 0 must equal removing the example
        if isinstance(target, Classes) and len(np.unique(given.targets[given.labelled & kept])) < 2:
            raise SpecError("y holds one class where weights are not 0; there must be two or more classes")
        found = found.take(kept)
        alphabet = Alphabet.of(found.kind, self._uses_signs())
        offsets = Offsets(found.offsets, offset)
        split = (self.validation_fraction, self._seed())
        data, self.alphabet_ = in_memory.training_data(
            found, alphabet, target, given.take(kept), offsets, *split
        )
        return InMemoryTask(data)


@contextmanager
def _restored_if_it_fails(attributes: dict[str, Any]) -> Iterator[None]:
    """Restore the attributes of an estimator if this block fails.

    The classes of a fit that failed must not name the answers of the network that an earlier one trained.
    """
    before = dict(attributes)
    try:
        yield
    except BaseException:
        attributes.clear()
        attributes.update(before)
        raise


@cache
def _scratch_folder() -> "tempfile.TemporaryDirectory[str]":
    """Return a folder of this process for comparisons that are not to be kept."""
    return tempfile.TemporaryDirectory(prefix="selfpretrain-")


def _one_each(data: SequenceDataset) -> SequenceDataset:
    """Return examples, which must be of one sequence each."""
    if data.views > 1:
        raise DataError(
            f"every example has {data.views} sequences, each with vectors of its own; give the sequences one "
            f"by one (selfpretrain.data.dataset.sequences)"
        )
    return data


def _checked(found: Any) -> Any:
    """Return the outputs for every sequence, which must be finite."""
    wrong = [row for row, outputs in enumerate(found) if not np.isfinite(outputs).all()]
    if wrong:
        said = f"{NO_NUMBER} for {len(wrong):,} of {len(found):,} sequences, the first is number {wrong[0]}"
        raise NotFinite(f"{said}; {UNSOUND}", wrong)
    return found
