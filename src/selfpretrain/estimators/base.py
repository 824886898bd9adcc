"""Base class of the scikit-learn estimators: from X and y to recipes, training and trained networks."""

import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from ..api import Request, run_request
from ..data.dataset import SequenceDataset
from ..data.moments import fit_target, fit_values, nan_spans
from ..data.spec import Reals, SequenceSpec, Signal, Target, Tokens
from ..data.store import StoredDataset
from ..errors import SpecError, StageFailed
from ..report.results import ExperimentResults
from ..runner.experiment_dir import InFolders
from ..runner.run import run_recipes
from ..studies.compare import Compare
from ..system.files import Json
from ..tasks.base import Task, load_task
from ..training import evaluate
from . import inputs
from .annotations import Annotations
from .in_memory import facts, in_memory_task, with_test_split
from .inputs import Sequences
from .predictor import MEMORY, Predictor
from .scores import Score
from .settings import EstimatorSettings, halved

if TYPE_CHECKING:
    from .occlusion import Explanation

E = TypeVar("E", bound="SequenceEstimator")
ESTIMATORS = {
    "classes": "SequenceClassifier",
    "reals": "SequenceRegressor",
    "sets": "MultilabelClassifier",
    "positions": "PositionClassifier",
}
"""Kind of target -> name of the estimator for it."""


class SequenceEstimator(EstimatorSettings):
    """Self-pretraining on all sequences, then finetuning on the labelled ones."""

    def fit(
        self: E,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        sample_weight: Any = None,
        X_unlabelled: Any = None,
    ) -> E:
        """Train on sequences, some of which may be unlabelled.

        Args:
            X: (n, L) or (n, L, C) numbers, a list of sequences, or a column of texts or lists; or the name of
                a task or of imported data, which have their own labels and splits.
            y: (n, ...) labels; None or NaN where unknown.
            groups: (n,) group of each example, e.g. its patient; a group is never split between training and
                validation.
            sample_weight: (n,) weight of each example in the finetuning loss.
            X_unlabelled: more sequences without labels, for pretraining only.
        """
        task = self._taken_in(X, y, groups, sample_weight, X_unlabelled)
        self.reading_: Json | None = None
        self._train(task)
        return self

    def compare(
        self, X: Any = None, y: Any = None, *, groups: Any = None, seeds: int = 3
    ) -> ExperimentResults:
        """Compare scratch, compute-matched scratch and self-pretraining on these data.

        A task keeps its own splits; of arrays, 15 % of the labelled examples are the test split.

        Args:
            X: as for ``fit``; None: the data of the last ``fit``.
            seeds: number of seeds of each arm.
        """
        task = self.task_ if X is None else self._taken_in(X, y, groups, None, None)
        arms = self._arms(task := with_test_split(task, self._seed()))
        arms = replace(
            arms,
            pretrain=self._fitted(arms.pretrain, task),
            finetune=self._fitted(arms.finetune, task),
            scratch=self._fitted(arms.scratch, task),
        )
        return run_request(Request(Compare(task, (arms,), seeds)), self._workspace())

    def evaluate(self, X: Any, y: Any = None, *, groups: Any = None, draws: int = 200) -> dict[str, Score]:
        """Return the usual metrics on held-out examples, each with a bootstrap interval.

        Args:
            X: sequences; or the name of a task, for its test split.
            groups: (n,) group of each example, e.g. its patient; groups are resampled as a whole.
            draws: number of bootstrap resamples.

        Raises:
            SpecError: if the model makes no predictions.
        """
        raise SpecError(f"{type(self).__name__} gives vectors, no answers; there is nothing to evaluate")

    def note_scores(self, task: Task) -> None:
        """Store the scores on the test split of a task in ``scores_``, for the model card."""
        self.scores_["test"] = {name: asdict(score) for name, score in self.evaluate(task).items()}

    def save(self, folder: str | Path) -> Path:
        """Write the model to a folder: weights as safetensors, settings as JSON, and a model card."""
        from .persistence import save

        check_is_fitted(self)
        return save(self, folder)

    @classmethod
    def load(cls: type[E], folder: str | Path, device: str = "auto", trust: tuple[str, ...] = ()) -> E:
        """Load a model that ``save`` wrote, on this or another machine.

        Args:
            trust: packages whose mixers may be imported besides our own.

        Raises:
            SpecError: if the folder holds another kind of estimator.
        """
        from .persistence import load

        return _checked(load(folder, device, trust), cls, folder)

    def explain(self, X: Any, shape: tuple[int, int] | None = None) -> "list[Explanation]":
        """Return the contribution of every position to the predictions; see ``explain.explain``."""
        from .explain import explain

        return explain(self, X, shape)

    def export(self, path: str | Path, length: int | None = None) -> float:
        """Export the model as ``.onnx`` or as ``.pt2`` (torch.export); see ``export.export``."""
        from .export import export

        check_is_fitted(self)
        return export(self, path, length)

    def push_to_hub(self, name: str, private: bool = False) -> str:
        """Publish the model and its card on the Hugging Face hub as OWNER/NAME, and return its URL."""
        from .hub import push

        check_is_fitted(self)
        return push(self, name, private)

    @classmethod
    def from_pretrained(cls: type[E], name: str, trust: tuple[str, ...] = ()) -> E:
        """Load a model from the Hugging Face hub (OWNER/NAME) or from a folder."""
        from .hub import pull

        return _checked(pull(name, trust), cls, name)

    def transform(self, X: Any) -> np.ndarray:
        """Return one embedding per sequence (n, width): pooled over positions, as the head sees them."""
        data = self._usable(X)
        return self.predictor_.embeddings(data)

    def positions(self, X: Any) -> list[np.ndarray]:
        """Return the embeddings (L, width) of the positions of every sequence."""
        data = self._usable(X)
        return self.predictor_.positions(data)

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
        for name in ("_data", "task_"):  # a model does not carry what it was trained on
            state.pop(name, None)
        return state

    # Hooks that subclasses override.

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        """Encode labels as numbers (n, ...), and describe them as a target."""
        raise NotImplementedError

    def table(self, data: SequenceDataset) -> dict[str, list[Any]]:
        """Return the columns of a CSV file of predictions, with one entry per example.

        Raises:
            SpecError: if the model makes no predictions.
        """
        raise SpecError("this model predicts nothing: spt model embed gives the vectors of its sequences")

    def _adopt(self, form: SequenceSpec) -> None:
        """Set ``classes_`` from a task.

        Raises:
            SpecError: if the targets of the task need another estimator.
        """
        suited = ESTIMATORS[form.target.kind]
        if suited != type(self).__name__:
            raise SpecError(f"this task's targets are {form.target.kind}; use {suited}")
        if not isinstance(form.target, Reals):
            self.classes_ = np.array(form.target.names)

    def _groups_of(self, X: Any, groups: Any) -> Any:
        """Return the groups (n,) of the test split if X is a task, else ``groups`` as given."""
        if not isinstance(X, str | Task):
            return groups
        known = self._usable(X).groups
        return None if known is None else known.numpy()

    def _finish(self, task: Task) -> None:
        """Do what remains after training, e.g. calibrate."""

    # From X to sequences.

    def _read(self, X: Any, reset: bool) -> Sequences:
        rows = inputs.as_rows(X)
        if isinstance(rows, list):
            return inputs.read(rows, self.signal)
        how = {"ensure_all_finite": "allow-nan", "dtype": "numeric"}
        # Neither length nor channels of (n, L, C) are features as scikit-learn counts them.
        if getattr(rows, "ndim", 2) == 3:
            return inputs.read(check_array(rows, allow_nd=True, **how), self.signal)
        return inputs.read(validate_data(self, rows, reset=reset, **how), self.signal)

    def _usable(self, X: Any) -> SequenceDataset:
        """Return the examples to predict: those of X, or the test split of a task.

        Raises:
            DataError: naming the sequences that cannot be used.
        """
        check_is_fitted(self)
        if isinstance(X, SequenceDataset):  # already checked
            return X
        if isinstance(X, str | Task):
            return evaluate.load_test(load_task(X) if isinstance(X, str) else X)
        return self.examples(self.readable(X).sound())

    def readable(self, X: Any) -> Sequences:
        """Return the sequences of X that the model accepts, and for each other row why it does not."""
        check_is_fitted(self)
        form = self.predictor_.form
        found = X if isinstance(X, Sequences) else self._read(X, reset=False)
        found = found.fitting(form.signal, form.length, self.longer)
        if found.cut:
            said = f"{found.cut:,} of {found.given:,} sequences are cut to the {form.length:,} positions"
            _warn(f"{said} of the longest one in training; longer='refuse' makes that an error")
        return found

    def examples(self, found: Sequences) -> SequenceDataset:
        """Return the sequences that ``readable`` found as a dataset, which every method accepts as X."""
        return found.examples(self.predictor_.form.signal, np.full(len(found.rows), -1, dtype=np.int64))

    # From sequences to a task.

    def _given(self, found: Sequences, target: Target, annotations: Annotations, X_unlabelled: Any) -> Task:
        if X_unlabelled is not None:
            found = inputs.joined(found, self._read(X_unlabelled, reset=False).sound())
        annotations = annotations.extended(len(found.rows))
        kept = annotations.counted  # scikit-learn: weight 0 must equal removing the example
        found, annotations = found.take(kept), annotations.take(kept)
        split = annotations.divided(self.validation_fraction, self._seed())
        signal = _signal(found, split == 0)
        length = int(found.lengths.max())
        examples = found.examples(signal, annotations.targets)
        examples = replace(
            examples, groups=annotations.group_numbers, weights=annotations.loss_weights(split == 0)
        )
        if isinstance(target, Reals):
            target = fit_target(target, annotations.targets[split == 0])
        unknown = nan_spans(found.flat) if found.kind == "values" else []
        about = {"about": {"unknown": unknown}, "weights": annotations.weights}
        self._data = StoredDataset(SequenceSpec(signal, length, target), about, examples, split)
        return in_memory_task(self._data)

    def _taken_in(self, X: Any, y: Any, groups: Any, sample_weight: Any, X_unlabelled: Any) -> Task:
        """Return the task for the arguments of ``fit``: a task itself, its name, or arrays."""
        if isinstance(X, str | Task):
            task = load_task(X) if isinstance(X, str) else X
            self._adopt(task.form)
            return task
        found = self._read(X, reset=True).sound()
        targets, target = self._targets(y, found)
        check_consistent_length(found.rows, targets, groups)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, targets)
        return self._given(found, target, Annotations(targets, groups, weights), X_unlabelled)

    # From a task to networks.

    def _train(self, task: Task) -> None:
        workspace = self._workspace()
        recipes = self._recipes(task)
        try:
            run_recipes(recipes, workspace, tested=False)
        except StageFailed as error:
            # Out of memory: halve the batch once, but only if its size was our choice.
            if not isinstance(error.__cause__, MEMORY) or self.batch_size != "auto":
                raise
            recipes = [halved(recipe) for recipe in recipes]
            run_recipes(recipes, workspace, tested=False)
        finished = InFolders(workspace)
        first = recipes[0]
        networks = tuple(finished.network(recipe).to(workspace.device) for recipe in recipes)
        self.recipes_ = recipes
        self.validation_scores_ = [finished.result(recipe)["scores"]["val"] for recipe in recipes]
        self.predictor_ = Predictor(first.model, first.last.objective, task.form, networks)
        self.task_, self.data_facts_ = task, facts(task)
        self.scores_: dict[str, Json] = {}
        self._finish(task)


def _signal(found: Sequences, train: np.ndarray) -> Signal:
    if found.kind == "values":
        return fit_values(iter([found.flat]), found.lengths, train)
    return Tokens(inputs.BYTES if found.kind == "text" else int(found.flat.max()) + 1)


def _checked(found: SequenceEstimator, kind: type[E], where: str | Path) -> E:
    if not isinstance(found, kind):
        raise SpecError(f"{where} holds a {type(found).__name__}, not a {kind.__name__}")
    return found


def _warn(said: str) -> None:
    warnings.warn(said, stacklevel=4)


def refuse_missing(y: Any, estimator: str) -> None:
    """Raise an error if y is missing.

    Raises:
        SpecError: with the message that scikit-learn's estimator checks expect.
    """
    if y is None:
        raise SpecError(f"{estimator} requires y to be passed, but the target y is None")
