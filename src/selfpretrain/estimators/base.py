"""What all estimators share: from X and y to a recipe, its training, and the networks it leaves."""

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

from ..api import Request, carry_out
from ..data.dataset import SequenceDataset
from ..data.moments import moments, scaled, spans_without_value
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
from .in_memory import facts, hold, thirds
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
"""Which estimator suits which kind of target."""


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
        """Train on sequences, of which some may be unlabelled: y None or NaN, or in ``X_unlabelled``.

        Args:
            X: (n, L) or (n, L, C) numbers, a list of sequences, a column of texts or lists; or the name of
                a task or of imported data, which bring their own labels and splits.
            groups: (n,) what must not be divided between training and validation, e.g. patients.
            sample_weight: (n,) what each example counts in finetuning.
        """
        task = self._taken_in(X, y, groups, sample_weight, X_unlabelled)
        self.reading_: Json | None = None
        self._train(task)
        return self

    def compare(
        self, X: Any = None, y: Any = None, *, groups: Any = None, seeds: int = 3
    ) -> ExperimentResults:
        """Scratch, compute-matched scratch and self-pretraining on these data, each with so many seeds.

        Args:
            X: None: the data of the last fit. Of the labelled examples 15 % are held out for the test.
        """
        task = self.task_ if X is None else self._taken_in(X, y, groups, None, None)
        arms = self._arms(task := thirds(task, self._seed()))
        arms = replace(
            arms,
            pretrain=self._fitted(arms.pretrain, task),
            finetune=self._fitted(arms.finetune, task),
            scratch=self._fitted(arms.scratch, task),
        )
        return carry_out(Request(Compare(task, (arms,), seeds)), self._workspace())

    def evaluate(self, X: Any, y: Any = None, *, groups: Any = None, draws: int = 200) -> dict[str, Score]:
        """Every usual measure on examples that training has not seen, each with a bootstrap interval.

        Args:
            X: sequences; or the name of a task, for its test split.
            groups: (n,) what is drawn as a whole, e.g. patients.

        Raises:
            SpecError: if the model gives no answers.
        """
        raise SpecError(f"{type(self).__name__} gives vectors, no answers; there is nothing to evaluate")

    def note_scores(self, task: Task) -> None:
        """Take down for the card what the model scores on the test split of a task."""
        self.scores_["test"] = {name: asdict(score) for name, score in self.evaluate(task).items()}

    def save(self, folder: str | Path) -> Path:
        """Write the model into a folder: safetensors, JSON and a card."""
        from .persistence import save

        check_is_fitted(self)
        return save(self, folder)

    @classmethod
    def load(cls: type[E], folder: str | Path, device: str = "auto", trust: tuple[str, ...] = ()) -> E:
        """The model that ``save`` wrote, here or elsewhere.

        Raises:
            SpecError: if it is of another kind.
        """
        from .persistence import load

        return _checked(load(folder, device, trust), cls, folder)

    def explain(self, X: Any, shape: tuple[int, int] | None = None) -> "list[Explanation]":
        """How much every position contributed to the answers, with a picture; see ``explaining.explain``."""
        from .explain import explain

        return explain(self, X, shape)

    def export(self, path: str | Path, length: int | None = None) -> float:
        """Write the model as ``.onnx`` or ``.pt2`` of torch.export, see ``exporting.export``."""
        from .export import export

        check_is_fitted(self)
        return export(self, path, length)

    def push_to_hub(self, name: str, private: bool = False) -> str:
        """Publish the model on the Hugging Face hub as OWNER/NAME, with its card; where it is then."""
        from .hub import push

        check_is_fitted(self)
        return push(self, name, private)

    @classmethod
    def from_pretrained(cls: type[E], name: str, trust: tuple[str, ...] = ()) -> E:
        """A model of the hub, as OWNER/NAME, or in a folder."""
        from .hub import pull

        return _checked(pull(name, trust), cls, name)

    def transform(self, X: Any) -> np.ndarray:
        """(n, width) one vector per sequence: what the head sees, pooled over positions."""
        data = self._usable(X)
        return self.predictor_.embeddings(data)

    def positions(self, X: Any) -> list[np.ndarray]:
        """One vector per position (L, width), for every sequence."""
        data = self._usable(X)
        return self.predictor_.positions(data)

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
        for name in ("_data", "task_"):  # a model does not carry what it was trained on
            state.pop(name, None)
        return state

    # What differs between the estimators.

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        """(n, ...) labels as numbers, and what they are."""
        raise NotImplementedError

    def table(self, data: SequenceDataset) -> dict[str, list[Any]]:
        """The columns that a file of answers gets, with an entry for every example.

        Raises:
            SpecError: if the model gives no answers.
        """
        raise SpecError("this model predicts nothing: spt model embed gives the vectors of its sequences")

    def _adopt(self, form: SequenceSpec) -> None:
        """Take the classes of a task for one's own.

        Raises:
            SpecError: if its targets are of another kind.
        """
        suited = ESTIMATORS[form.target.kind]
        if suited != type(self).__name__:
            raise SpecError(f"this task's targets are {form.target.kind}; use {suited}")
        if not isinstance(form.target, Reals):
            self.classes_ = np.array(form.target.names)

    def _groups_of(self, X: Any, groups: Any) -> Any:
        """Those of a task's test split, or the ones that are given."""
        if not isinstance(X, str | Task):
            return groups
        known = self._usable(X).groups
        return None if known is None else known.numpy()

    def _finish(self, task: Task) -> None:
        """What is left to do when the networks are trained."""

    # From X to sequences.

    def _read(self, X: Any, reset: bool) -> Sequences:
        rows = inputs.as_rows(X)
        if isinstance(rows, list):
            return inputs.read(rows, self.signal)
        how = {"ensure_all_finite": "allow-nan", "dtype": "numeric"}
        if getattr(rows, "ndim", 2) == 3:  # neither length nor channels are features of scikit-learn's kind
            return inputs.read(check_array(rows, allow_nd=True, **how), self.signal)
        return inputs.read(validate_data(self, rows, reset=reset, **how), self.signal)

    def _usable(self, X: Any) -> SequenceDataset:
        """The examples that are asked about: of a task those held out for the test.

        Raises:
            DataError: naming those that cannot be used.
        """
        check_is_fitted(self)
        if isinstance(X, SequenceDataset):  # found usable before
            return X
        if isinstance(X, str | Task):
            return evaluate.held_out(load_task(X) if isinstance(X, str) else X)
        return self.examples(self.readable(X).sound())

    def readable(self, X: Any) -> Sequences:
        """The sequences of X that the model can be asked about, and what is wrong with the others."""
        check_is_fitted(self)
        form = self.predictor_.form
        found = X if isinstance(X, Sequences) else self._read(X, reset=False)
        found = found.fitting(form.signal, form.length, self.longer)
        if found.cut:
            said = f"{found.cut:,} of {found.given:,} sequences are cut to the {form.length:,} positions"
            _warn(f"{said} of the longest one in training; longer='refuse' makes that an error")
        return found

    def examples(self, found: Sequences) -> SequenceDataset:
        """What ``readable`` found, to be asked about; every method takes it for X."""
        return found.examples(self.predictor_.form.signal, np.full(len(found.rows), -1, dtype=np.int64))

    # From sequences to a task.

    def _given(self, found: Sequences, target: Target, annotations: Annotations, X_unlabelled: Any) -> Task:
        if X_unlabelled is not None:
            found = inputs.joined(found, self._read(X_unlabelled, reset=False).sound())
        annotations = annotations.extended(len(found.rows))
        kept = annotations.counted  # an example of weight zero is as good as not there
        found, annotations = found.take(kept), annotations.take(kept)
        split = annotations.divided(self.validation_fraction, self._seed())
        signal = _signal(found, split == 0)
        length = int(found.lengths.max())
        examples = found.examples(signal, annotations.targets)
        examples = replace(
            examples, groups=annotations.group_numbers, weights=annotations.loss_weights(split == 0)
        )
        if isinstance(target, Reals):
            target = scaled(target, annotations.targets[split == 0])
        unknown = spans_without_value(found.flat) if found.kind == "values" else []
        about = {"about": {"unknown": unknown}, "weights": annotations.weights}
        self._data = StoredDataset(SequenceSpec(signal, length, target), about, examples, split)
        return hold(self._data)

    def _taken_in(self, X: Any, y: Any, groups: Any, sample_weight: Any, X_unlabelled: Any) -> Task:
        """A task, from whatever ``fit`` was given."""
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
        return moments(iter([found.flat]), found.lengths, train)
    return Tokens(inputs.BYTES if found.kind == "text" else int(found.flat.max()) + 1)


def _checked(found: SequenceEstimator, kind: type[E], where: str | Path) -> E:
    if not isinstance(found, kind):
        raise SpecError(f"{where} holds a {type(found).__name__}, not a {kind.__name__}")
    return found


def _warn(said: str) -> None:
    warnings.warn(said, stacklevel=4)


def refuse_missing(y: Any, estimator: str) -> None:
    """Refuse to learn from labels that nobody has given.

    Raises:
        SpecError: in the words that scikit-learn expects.
    """
    if y is None:
        raise SpecError(f"{estimator} requires y to be passed, but the target y is None")
