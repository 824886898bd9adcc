"""The estimators, one class for each kind of answer, and their loading.

They predict one class or several labels per sequence, one class at every position, a real number per
sequence, or, from pretraining alone, an embedding. A trained one comes from a folder that it saved or from an
arm of a comparison.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, confusion_matrix, r2_score
from sklearn.utils.validation import check_is_fitted

from ..config import from_dict
from ..data.containers import check_order
from ..data.dataset import SequenceDataset
from ..data.labels import classes_of, numbers_of, positions_of, sets_of, weights_of
from ..data.sequences import Sequences
from ..data.spec import Classes, ClassSets, PositionClasses, Reals, SequenceSpec, Target
from ..errors import DataError, SpecError, StoreError, nearest
from ..objectives.base import Objective
from ..objectives.classify import Classify
from ..objectives.multilabel import Multilabel
from ..objectives.token_classify import TokenClassify
from ..report.results import read_plan
from ..report.stage_results import RESTORED
from ..runner.run_dir import RESULT, WEIGHTS, RunDir
from ..studies.recipes.arms import ArmRecipes
from ..tasks.base import Task, load_task
from ..training.ensemble import single_network
from ..training.recipe import Recipe, Stage
from . import persistence, scores
from .annotations import labelled_only, refuse_unlabelled
from .base import SequenceEstimator
from .in_memory import has_val, offsets_of
from .predictor import ESTIMATORS, PRETRAINER
from .settings import Portion

ClassWeight = Mapping[Any, int | float] | Literal["balanced"] | None


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceClassifier(ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """Self-pretraining on all sequences, then one of K classes for each; see ``SequenceEstimator``.

    Args:
        class_weight: "balanced", or the weight of each class in the finetuning loss.
        label_smoothing: share of every label that is spread evenly over all classes, in [0, 1).
        calibrate: scale the logits of the network by the temperature with the lowest log loss on the
            validation split, if there is one; simple methods stay as they are.
    """

    _metrics = staticmethod(scores.class_measures)

    class_weight: ClassWeight = None
    label_smoothing: Portion = 0.0
    calibrate: bool = False

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability (n, K) of every class, in the order of ``classes_``."""
        return self._outputs(self._to_dataset(X))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class (n,) of every sequence."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy; if X is a task or its name, on the test split."""
        check_is_fitted(self)
        if isinstance(X, str | Task):
            self._check_task(X, y)
            X = labelled_only(self._to_dataset(X))
            y = self.classes_[X.targets.numpy()]
        else:
            refuse_unlabelled(y)
            check_order(X, {"y": y, "sample_weight": sample_weight})
        if self.classes_.dtype.kind == "O":  # accuracy_score takes no tuples, dates or several types
            found = self.predict_proba(X).argmax(1)
            return float(accuracy_score(self._encode(y), found, sample_weight=sample_weight))
        return float(super().score(X, y, sample_weight))

    def confusion(self, X: Any, y: Any = None) -> np.ndarray:
        """Return the confusion matrix (K, K): true classes in rows, predicted ones in columns."""
        y_true, probabilities, _ = self._evaluation_arrays(X, y)
        return confusion_matrix(y_true, probabilities.argmax(1), labels=np.arange(len(self.classes_)))

    def reliability(self, X: Any, y: Any = None) -> scores.Reliability:
        """Return the reliability curve, accuracy by confidence; its ``picture`` draws it."""
        y_true, probabilities, _ = self._evaluation_arrays(X, y)
        return scores.Reliability.of(y_true, probabilities)

    def table(self, data: SequenceDataset) -> dict[str, list[Any]]:
        """Return the columns of a prediction file: the most probable class and every probability."""
        probabilities = self._outputs(data)
        best = self.classes_[probabilities.argmax(1)].tolist()
        return {"prediction": best} | _columns(self.classes_, probabilities)

    def _scores_of(self, task: Task) -> dict[str, Any]:
        """Return the scores and the reliability curve on the test split of a task."""
        bins = [list(found) for found in self.reliability(task).bins]
        return super()._scores_of(task) | {"reliability": {"bins": bins}}

    def _encode(self, y: Any) -> np.ndarray:
        """Return the numbers (n,) of the true classes, -1 where unlabelled."""
        return classes_of(y, self.classes_)[0]

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        targets, self.classes_ = classes_of(y)
        if len(self.classes_) < 2:
            one = f"one class, {self.classes_.tolist()[0]!r}" if len(self.classes_) else "no label"
            raise SpecError(f"y holds {one}; there must be two classes or more to tell apart")
        return targets, Classes(tuple(map(str, self.classes_)))

    def _objective(self, task: Task) -> Objective:
        train = task.load("train")
        counts = np.bincount(train.targets[train.labelled].numpy(), minlength=len(self.classes_))
        balanced = (counts.sum() / (len(counts) * counts.clip(min=1))).tolist()
        weights = weights_of(self.class_weight, self.classes_, balanced)
        return Classify(weights=weights, smoothing=self.label_smoothing)

    def _adjust(self, task: Task) -> bool:
        """Set the temperature with the lowest log loss on the validation split, if ``calibrate`` is set."""
        if not (self.calibrate and has_val(task)):
            return False
        val = labelled_only(task.load("val"))
        y_true = val.targets.numpy()
        logits = self.predictor_.logits(val)

        def log_loss(log_temperature: float) -> float:
            scaled = replace(self.predictor_, temperature=float(np.exp(log_temperature)))
            with np.errstate(divide="ignore"):
                return float(-np.log(scaled.average(logits)[np.arange(len(y_true)), y_true]).mean())

        best = minimize_scalar(log_loss, bounds=(-3.0, 3.0), method="bounded")
        self.predictor_ = replace(self.predictor_, temperature=float(np.exp(best.x)))
        return True


@dataclass(kw_only=True, eq=False, repr=False)
class MultilabelClassifier(ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """Self-pretraining on all sequences, then which of K classes each belongs to; see ``SequenceEstimator``.

    y is an array or table (n, K) of 0 and 1, or has a list or set of labels for every sequence, which may be
    empty. A row of NaN, or None instead of a set, is unlabelled.

    Args:
        class_weight: "balanced", or the loss weight of positive examples of each class; negatives have 1.
    """

    _metrics = staticmethod(scores.set_measures)

    class_weight: ClassWeight = None

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability (n, K) of every class on its own, in the order of ``classes_``."""
        return self._outputs(self._to_dataset(X))

    def predict(self, X: Any) -> np.ndarray:
        """Return indicators (n, K): 1 where the probability is above 0.5, else 0."""
        return (self.predict_proba(X) > 0.5).astype(np.int64)

    def predict_sets(self, X: Any) -> list[list[Any]]:
        """Return the predicted labels of every sequence, in the order of ``classes_``."""
        return [self.classes_[row > 0].tolist() for row in self.predict(X)]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return micro F1; if X is a task or its name, on the test split.

        Raises:
            SpecError: if sample_weight is given.
        """
        if sample_weight is not None:
            raise SpecError("micro F1 counts all examples alike; leave sample_weight out")
        y_true, probabilities, _ = self._evaluation_arrays(X, y)
        return scores.set_measures(y_true, probabilities)["micro F1"]

    def by_class(
        self, X: Any, y: Any = None, *, groups: Any = None, draws: int = 200
    ) -> dict[Any, dict[str, scores.Score]]:
        """Return F1, AUROC and average precision of every class, with intervals; see ``evaluate``."""
        y_true, probabilities, groups = self._evaluation_arrays(X, y, groups)
        of_class = scores.measures_of_class
        return {
            label: scores.bootstrap(of_class, (y_true[:, k], probabilities[:, k]), groups, draws)
            for k, label in enumerate(self.classes_.tolist())
        }

    def table(self, data: SequenceDataset) -> dict[str, list[Any]]:
        """Return the columns of a prediction file: labels separated by semicolons, and every probability."""
        probabilities = self._outputs(data)
        sign = _separator(self.classes_, ";|,")
        labels = [sign.join(map(str, self.classes_[row > 0.5])) for row in probabilities]
        return {"prediction": labels} | _columns(self.classes_, probabilities)

    def _scores_of(self, task: Task) -> dict[str, Any]:
        """Return the scores on the test split of a task, overall and per class."""
        classes = {
            str(label): {name: asdict(score) for name, score in measured.items()}
            for label, measured in self.by_class(task).items()
        }
        return super()._scores_of(task) | {"classes": classes}

    def _encode(self, y: Any) -> np.ndarray:
        """Return indicators (n, K) of the true labels, -1 where unlabelled."""
        return sets_of(y, self.classes_)[0]

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        targets, self.classes_ = sets_of(y)
        if not (targets > 0).any():
            raise SpecError("y holds no label; there must be some to learn from")
        return targets, ClassSets(tuple(map(str, self.classes_)))

    def _objective(self, task: Task) -> Objective:
        train = task.load("train")
        positive = (train.targets[train.labelled] > 0).double().mean(0).clamp(min=1e-6)
        balanced = ((1 - positive) / positive).clamp(min=1e-3).tolist()
        return Multilabel(weights=weights_of(self.class_weight, self.classes_, balanced))


@dataclass(kw_only=True, eq=False, repr=False)
class PositionClassifier(SequenceEstimator):
    """Self-pretraining on all sequences, then one of K classes at every position; see ``SequenceEstimator``.

    For tagging, segmentation, and finding genes or events in a recording. y has one label per position of
    every sequence; the positions of text are its bytes. A label may be None where it is unknown, and so may
    all labels of a sequence.

    Args:
        class_weight: "balanced", or the loss weight of positions of each class in finetuning.
    """

    _metrics = staticmethod(scores.position_measures)

    class_weight: ClassWeight = None

    def _uses_signs(self) -> bool:
        """Return False: every position has a label, and signs would not."""
        if self.signs is True:
            raise SpecError("signs=True: labels belong to positions, and signs have none; leave it at 'auto'")
        return False

    def predict_proba(self, X: Any) -> list[np.ndarray]:
        """Return class probabilities (length, K) of every sequence, in the order of ``classes_``."""
        return self._outputs(self._to_dataset(X))

    def predict(self, X: Any) -> list[np.ndarray]:
        """Return the most probable class of every position (length,), for every sequence."""
        return [self.classes_[probabilities.argmax(1)] for probabilities in self.predict_proba(X)]

    def score(self, X: Any, y: Any = None) -> float:
        """Return accuracy over all positions; if X is a task or its name, on the test split."""
        counts, losses, _ = self._evaluation_arrays(X, y)
        return scores.position_measures(counts, losses)["accuracy"]

    def table(self, data: SequenceDataset) -> dict[str, list[Any]]:
        """Return the columns of a prediction file, with as many entries in a cell as there are positions.

        These are the most probable classes, separated by spaces, and every probability.
        """
        sign = _separator(self.classes_, " ;|,")
        found = self._outputs(data)
        best = [sign.join(map(str, self.classes_[probabilities.argmax(1)])) for probabilities in found]
        cells = np.array(
            [[" ".join(map("{:.4g}".format, p)) for p in each.T] for each in found], dtype=object
        )
        return {"prediction": best} | _columns(self.classes_, cells)

    def _true_and_predicted(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the counts (n, 3, K) and summed log losses (n,) of ``position_counts``."""
        check_is_fitted(self)
        if not isinstance(X, str | Task | SequenceDataset):
            X = self._read_new(X)  # whole: what is cut has labels, too
        data = self._to_dataset(X)
        if isinstance(X, str | Task):
            y_true = data.targets.numpy()
        else:
            given = X.lengths if isinstance(X, Sequences) else data.lengths[0].numpy()
            y_true = positions_of(y, given, self.classes_)[0]
        return scores.position_counts(y_true, self._outputs(data))

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        targets, self.classes_ = positions_of(y, found.lengths)
        if len(self.classes_) < 2:
            raise SpecError(f"y holds {len(self.classes_)} classes; there must be two or more to tell apart")
        return targets, PositionClasses(tuple(map(str, self.classes_)))

    def _objective(self, task: Task) -> Objective:
        known = task.load("train").targets.numpy()
        counts = np.bincount(known[known >= 0], minlength=len(self.classes_)).clip(min=1)
        balanced = (counts.sum() / (len(counts) * counts)).tolist()
        return TokenClassify(weights=weights_of(self.class_weight, self.classes_, balanced))


def _separator(classes: np.ndarray, signs: str) -> str:
    """Return the first sign that no class contains, so that labels in one cell can be told apart."""
    names = "".join(map(str, classes))
    return next((sign for sign in signs if sign not in names), signs[0])


def _columns(classes: np.ndarray, probabilities: np.ndarray) -> dict[str, list[Any]]:
    """Return the columns of the probabilities (n, K) in a prediction file, numbers or texts."""
    names = list(map(str, classes))
    if len(set(names)) < len(names):  # 1 and "1"
        names = list(map(repr, classes.tolist()))
    return {f"p({name})": column for name, column in zip(names, probabilities.T.tolist(), strict=True)}


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceRegressor(RegressorMixin, SequenceEstimator):  # type: ignore[misc]
    """Self-pretraining on all sequences, then a real number for each; see ``SequenceEstimator``."""

    _metrics = staticmethod(scores.real_measures)

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted numbers (n,), in the units of y."""
        data = self._to_dataset(X)
        return self._outputs(data)[:, 0] + self.offsets_.target

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R2; if X is a task or its name, on the test split."""
        if not isinstance(X, str | Task):
            refuse_unlabelled(y)
            check_order(X, {"sample_weight": sample_weight})
        y_true, predicted, _ = self._evaluation_arrays(X, y)
        return float(r2_score(y_true, predicted, sample_weight=sample_weight))

    def table(self, data: SequenceDataset) -> dict[str, list[Any]]:
        """Return the column of a prediction file: the number."""
        return {"prediction": self.predict(data).tolist()}

    def _true_and_predicted(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return true and predicted numbers (n,); of a task, on its test split."""
        data = self._to_dataset(X)
        if not isinstance(X, str | Task):
            return numbers_of(y), self.predict(data)
        offset = offsets_of(load_task(X) if isinstance(X, str) else X).target
        return data.targets.numpy().astype(np.float64) + offset, self.predict(data)

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        targets = numbers_of(y)
        if not np.isfinite(targets).any():
            raise DataError("y holds no number; there must be some to learn from")
        if np.nanmin(targets) == np.nanmax(targets):
            raise SpecError(
                f"y holds one number, {np.nanmin(targets):g}; there must be two or more to tell apart"
            )
        return targets, Reals()


@dataclass(kw_only=True, eq=False, repr=False)
class SequencePretrainer(SequenceEstimator):
    """Self-pretraining on sequences; ``transform`` returns their embeddings. Labels are ignored."""

    def set_classes(self, form: SequenceSpec) -> None:
        """Accept a task with any kind of target, because labels are ignored."""

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        return np.full(len(found.rows), np.nan, dtype=np.float32), Reals()

    def _stages(self, arms: ArmRecipes, task: Task) -> tuple[Stage, ...]:
        if not self.objective:
            raise SpecError("SequencePretrainer needs an objective, e.g. masked")
        return (arms.pretrain,)


Cell = tuple[str, str, str, int]  # task (empty if there is only one), row, column and seed of a cell


KINDS: dict[str, type[SequenceEstimator]] = {
    kind.__name__: kind
    for kind in (
        SequenceClassifier,
        SequenceRegressor,
        MultilabelClassifier,
        PositionClassifier,
        SequencePretrainer,
    )
}
"""Name of the class -> class, of all estimators."""


def load(folder: Path, device: str = "auto", trust: tuple[str, ...] = ()) -> SequenceEstimator:
    """Return the model in a folder as the estimator that wrote it; see ``persistence.load``."""
    return persistence.load(folder, KINDS, device, trust)


def load_arm(experiment: Path, cell: Cell, trust: tuple[str, ...] = ()) -> SequenceEstimator:
    """Return the network of one cell and seed as an estimator, scored on the test split of its task.

    Raises:
        SpecError: if there is no such cell.
        StoreError: if the cell has not been run, or its weights were deleted.
    """
    folder = RunDir(experiment.parent / _last_stage(experiment, cell))
    if not folder.finished:
        raise StoreError(f"{folder.path} has not finished; run the same command again")
    if not folder.has(WEIGHTS):
        how = "run the study with --fresh" if folder.has(RESTORED) else f"delete its {RESULT}, and run again"
        raise StoreError(f"{folder.path} has no weights; {how}")
    plain = folder.read("recipe.json")
    plain.pop("format", None)
    recipe = from_dict(plain, trust)
    if not isinstance(recipe, Recipe):
        raise StoreError(f"{folder.path}/recipe.json holds no recipe")
    result = folder.read(RESULT)
    recipe, prefixes = single_network(recipe)
    objective = recipe.last.objective
    form = recipe.task.form
    tensors = folder.load(WEIGHTS, result.get("weights", ""))[0]
    networks = [
        persistence.load_network(recipe.model, objective, form, tensors, prefix) for prefix in prefixes
    ]
    kind = KINDS[ESTIMATORS[form.target.kind] if objective.labelled else PRETRAINER]
    estimator = kind(mixer=recipe.model.mixer, n_members=len(networks))
    estimator.set_classes(form)
    estimator.set_networks(recipe.task, [recipe] * len(networks), tuple(networks))
    estimator.validation_scores_ = [result["scores"]["val"]]
    estimator.note_scores(recipe.task)
    return estimator


def _last_stage(experiment: Path, cell: Cell) -> str:
    """Return the path of the folder of the last stage of a cell, relative to the runs folder."""
    name, row, column, seed = cell
    cells = {
        f"{task.name}: {found.row}/{found.column}, seed {found.seed}": (task, found)
        for task in read_plan(experiment).tasks
        for found in task.cells
    }
    matches = [
        (task, found)
        for task, found in cells.values()
        if (found.row, found.column, found.seed) == (row, column, seed) and name in ("", task.name)
    ]
    if len(matches) > 1:
        raise SpecError(f"several tasks have {row}/{column}; give --task")
    if not matches:
        wanted = f"{name}: " * bool(name) + f"{row}/{column}, seed {seed}"
        raise SpecError(f"there is no cell {wanted}{nearest(wanted, cells)}")
    ((task, found),) = matches
    if task.folds > 1:
        said = f"{row}/{column}, seed {seed} has {task.folds} networks, one per fold"
        raise SpecError(f"{said}, and none has seen all groups; selfpretrain fit trains one on all of them")
    return found.folders[-1]
