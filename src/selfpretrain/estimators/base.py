"""Base class of the scikit-learn estimators: from X and y to recipes, training and trained networks."""

import copy
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
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
from ..errors import DataError, SpecError, StageFailed
from ..registry import name_of
from ..report.results import ExperimentResults
from ..report.sequential import parse_seeds
from ..runner.experiment_dir import InFolders
from ..runner.run import run_recipes
from ..studies.compare import Compare
from ..studies.recipes.defaults import small_arms
from ..system.files import Json
from ..system.progress import write_line
from ..tasks.base import Task, load_task
from ..training import evaluate
from ..training.model import Network
from ..training.recipe import Recipe
from . import export, inputs, leaderboard, occlusion, persistence
from .in_memory import (
    Annotations,
    InMemoryTask,
    divided,
    facts,
    in_alphabet,
    in_memory_task,
    refuse_missing,
    val_groups,
    with_test_split,
)
from .inputs import Alphabet, Sequences, embed_unseen
from .predictor import ESTIMATORS, MEMORY_ERRORS, OUTPUTS, Predictor
from .scores import Score, bootstrap
from .search import USED, Search, fold_data
from .settings import MINUTES, EstimatorSettings, check_settings, has_val, with_half_batch
from .simple import (
    Answering,
    Answers,
    AveragePredictor,
    SimpleCandidate,
    SimpleMethods,
    SimplePredictor,
    counts_help,
)

SIMPLE = 0.2
"""Share of a time limit after which no simple method is begun."""
SIMPLE_ENDS = 0.4
"""Share of a time limit after which a simple method that was begun is given up."""

E = TypeVar("E", bound="SequenceEstimator")


class SequenceEstimator(EstimatorSettings):
    """Self-pretraining on all sequences, then finetuning on the labelled ones.

    Attributes:
        leaderboard_: candidates from the best to the worst: name, metric, score on validation with a 95 %
            interval, seconds, parameters. By these scores the best is chosen; so they are optimistic.
        kept_: what predicts, as text: the average, the network or a simple method.
        kept_score_: its score, corrected for the choice, with a 95 % interval; None: nothing was held out.
        trials_: settings of networks that were tried: score, seconds and round.
        simple_: the simple methods that predict, whose answers are averaged; none: the network does.
        averaged_: whether the predictions of the network are averaged with those of ``simple_``.
    """

    predictor_: Predictor
    recipes_: list[Recipe]
    simple_: tuple[SimplePredictor, ...]
    averaged_: bool
    alphabet_: Alphabet | None
    leaderboard_: list[Json]
    trials_: list[Json]
    kept_: str
    kept_score_: Score | None

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
                a task or of imported data, or a data set in memory, which have their own labels and splits.
            y: (n, ...) labels; None or NaN where unknown.
            groups: (n,) group of each example, e.g. its patient; a group is never split between training and
                validation.
            sample_weight: (n,) weight of each example in the finetuning loss.
            X_unlabelled: more sequences without labels, for pretraining only.
        """
        check_settings(self.get_params(deep=False))
        self.seed_ = self._draw_seed()
        self._train(self._as_task(X, y, groups, sample_weight, X_unlabelled))
        return self

    def compare(
        self, X: Any = None, y: Any = None, *, groups: Any = None, seeds: int | str = 3
    ) -> ExperimentResults:
        """Compare scratch, compute-matched scratch and self-pretraining on these data.

        A task keeps its own splits; of arrays, 15 % of the labelled examples are the test split. Network and
        budgets are those of ``spt compare``, fixed in advance; the other settings are those of ``fit``.

        Args:
            X: as for ``fit``; None: the data of the last ``fit``.
            seeds: number of seeds of each arm; "auto", or a range such as "4..12": as many as the verdict
                needs.
        """
        check_settings(self.get_params(deep=False))
        other = copy.copy(self)  # a fitted model keeps the classes and symbols that it was trained on
        other.seed_ = self._draw_seed()
        task = self.task_ if X is None else other._as_task(X, y, groups)
        task = with_test_split(task, other.seed_)
        arms = other._arms(task, small_arms)
        arms = replace(
            arms,
            pretrain=other._fit_to_data(arms.pretrain, task),
            finetune=other._fit_to_data(arms.finetune, task),
            scratch=other._fit_to_data(arms.scratch, task),
        )
        most, looks = parse_seeds(seeds)
        return run_request(Request(Compare(task, (arms,), most), looks=looks), self._workspace())

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
            SpecError: if the model makes no predictions.
        """
        y_true, outputs, groups = self._evaluation_arrays(X, y, groups)
        return bootstrap(self._metrics, (y_true, outputs), groups, draws)

    def note_scores(self, task: Task) -> None:
        """Store the scores on the test split of a task in ``scores_``, for the model card."""
        self.scores_["test"] = {name: asdict(score) for name, score in self.evaluate(task).items()}

    def save(self, folder: str | Path) -> Path:
        """Write the model to a folder: weights as safetensors, settings as JSON, and a model card."""
        check_is_fitted(self)
        return persistence.save(self, folder)

    def save_backbone(self, path: str | Path) -> str:
        """Write the weights of a network of your own by its own names, see ``backbone.save_backbone``."""
        check_is_fitted(self)
        return export.save_backbone(self.predictor_, path)

    @classmethod
    def load(cls: type[E], folder: str | Path, device: str = "auto", trust: tuple[str, ...] = ()) -> E:
        """Load a model that ``save`` wrote, on this or another machine.

        Args:
            trust: packages whose mixers may be imported besides our own.

        Raises:
            SpecError: if the folder holds another kind of estimator.
        """
        return persistence.load(folder, {cls.__name__: cls}, device, trust)

    def explain(self, X: Any, shape: tuple[int, int] | None = None) -> list[occlusion.Explanation]:
        """Return the contribution of every position to the predictions; see ``occlusion.explain``."""
        data = self._to_dataset(X)
        masked = all(any(s.objective.masks_inputs for s in recipe.stages) for recipe in self.recipes_)
        masked = masked and not self.simple_
        found = occlusion.explain(self.answering, data, vars(self).get("classes_"), masked, shape)
        inner = self._inner()
        return [
            replace(each, sequence=each.sequence[inner], importance=each.importance[inner]) for each in found
        ]

    def export(self, path: str | Path, length: int | None = None) -> float:
        """Export the model as ``.onnx`` or as ``.pt2`` (torch.export); see ``export.export``."""
        check_is_fitted(self)
        if self.simple_:
            names = " and ".join(each.name for each in self.simple_)
            name = f"an average with {names}" if isinstance(self.answering, AveragePredictor) else names
            raise SpecError(f"{name} cannot be exported; fit with model='network', or save it")
        return export.export(self.predictor_, path, length)

    def push_to_hub(self, name: str, private: bool = False) -> str:
        """Publish the model and its card on the Hugging Face hub as OWNER/NAME, and return its URL."""
        with tempfile.TemporaryDirectory() as folder:
            return persistence.upload(self.save(folder), name, private)

    @classmethod
    def from_pretrained(cls: type[E], name: str, trust: tuple[str, ...] = ()) -> E:
        """Load a model from the Hugging Face hub (OWNER/NAME) or from a folder."""
        return cls.load(persistence.download(name), trust=trust)

    def transform(self, X: Any) -> np.ndarray:
        """Return one embedding per sequence (n, width): pooled over positions, as the head sees them."""
        data = self._to_dataset(X)
        return self.predictor_.embeddings(data)

    def positions(self, X: Any) -> list[np.ndarray]:
        """Return the embeddings (L, width) of the positions of every sequence."""
        data = self._to_dataset(X)
        inner = self._inner()
        return [vectors[inner] for vectors in self.predictor_.position_embeddings(data)]

    @property
    def answering(self) -> Answering:
        """Return what predicts: the network, a simple method, or an average of these."""
        network = (self.predictor_,) if self.averaged_ or not self.simple_ else ()
        members = (*network, *self.simple_)
        return members[0] if len(members) == 1 else AveragePredictor(members)

    def _inner(self) -> slice:
        """Return the positions of a sequence without its signs."""
        signed = self.alphabet_ is not None and self.alphabet_.signs
        return slice(1, -1) if signed else slice(None)

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

    # Hooks that subclasses override; those for the objective and the stages are in the settings.

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        """Encode labels as numbers (n, ...), and describe them as a target."""
        raise NotImplementedError

    def _true_and_predicted(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return true labels and outputs, one row per example; of a task, on its test split.

        Raises:
            SpecError: if the model makes no predictions.
        """
        raise SpecError(f"{type(self).__name__} predicts nothing; there is nothing to evaluate")

    @staticmethod
    def _metrics(y_true: np.ndarray, outputs: np.ndarray, /) -> dict[str, float]:
        """Return the usual metrics by name."""
        raise NotImplementedError

    def table(self, data: SequenceDataset) -> dict[str, list[Any]]:
        """Return the columns of a CSV file of predictions, with one entry per example.

        Raises:
            SpecError: if the model makes no predictions.
        """
        raise SpecError("this model predicts nothing: spt model embed gives the vectors of its sequences")

    def set_classes(self, form: SequenceSpec) -> None:
        """Set ``classes_`` from a task.

        Raises:
            SpecError: if the targets of the task need another estimator.
        """
        suited = ESTIMATORS[form.target.kind]
        if suited != type(self).__name__:
            raise SpecError(f"this task's targets are {form.target.kind}; use {suited}")
        if not isinstance(form.target, Reals):
            self.classes_ = np.array(form.target.names)

    def _adjust(self, task: Task) -> bool:
        """Adjust the predictor after training, e.g. calibrate it on the val split; return whether it did."""
        return False

    def _evaluation_arrays(self, X: Any, y: Any, groups: Any = None) -> tuple[np.ndarray, np.ndarray, Any]:
        """Return true labels, outputs and groups of the labelled examples; of a task, on its test split.

        Raises:
            DataError: if no example has a label.
        """
        if self._predicts and not isinstance(X, str | Task):
            refuse_missing(y, type(self).__name__)
        y_true, outputs = self._true_and_predicted(X, y)
        if isinstance(X, str | Task):
            of_test = self._to_dataset(X).groups
            groups = None if of_test is None else of_test.numpy()
        known = Annotations(y_true).labelled
        if not known.any():
            raise DataError("y holds no label; there is nothing to evaluate")
        return y_true[known], outputs[known], None if groups is None else np.asarray(groups)[known]

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

    def _to_dataset(self, X: Any) -> SequenceDataset:
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
        alphabet = self.alphabet_
        length = form.length - (alphabet.signs if alphabet else 0)
        found = alphabet.with_unknown(alphabet.shifted(found)) if alphabet else found
        found = found.fitting(form.signal, length, self.longer)
        if found.cut:
            # Level 3 is the caller of predict, by way of _to_dataset.
            warnings.warn(
                f"{found.cut:,} of {found.given:,} sequences are cut to the {length:,} positions of the "
                "longest one in training; longer='refuse' makes that an error",
                stacklevel=3,
            )
        return alphabet.with_signs(found) if alphabet else found

    def examples(self, found: Sequences) -> SequenceDataset:
        """Return the sequences that ``readable`` found as a dataset, which every method accepts as X."""
        return found.examples(self.predictor_.form.signal, np.full(len(found.rows), -1, dtype=np.int64))

    # From sequences to a task.

    def _as_task(
        self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None, X_unlabelled: Any = None
    ) -> Task:
        """Return the task for the arguments of ``fit``: a task itself, its name, or arrays."""
        if isinstance(X, str | Task):
            task = load_task(X) if isinstance(X, str) else X
            self.set_classes(task.form)
            self.alphabet_ = None
            return task
        if isinstance(X, StoredDataset):
            self.set_classes(X.form)
            kind: Literal["text", "tokens"] = "text" if self.signal == "text" else "tokens"
            self._data, self.alphabet_ = in_alphabet(X, kind, self._uses_signs())
            return in_memory_task(self._data)
        found = self._read(X, reset=True).sound()
        targets, target = self._targets(y, found)
        check_consistent_length(found.rows, targets, groups)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, targets, ensure_non_negative=True)
        annotations = Annotations(targets, None if groups is None else np.asarray(groups), weights)
        if X_unlabelled is not None and len(X_unlabelled):
            found = inputs.joined(found, self._read(X_unlabelled, reset=False).sound())
            annotations = annotations.extended(len(found.rows))
        kept = annotations.counted  # scikit-learn: weight 0 must equal removing the example
        found = found.take(kept)
        self.alphabet_ = Alphabet.of(found.kind, self._uses_signs())
        if self.alphabet_ is not None:
            found = self.alphabet_.with_signs(self.alphabet_.shifted(found))
        self._data = self._training_data(found, target, annotations.take(kept))
        return in_memory_task(self._data)

    def _training_data(self, found: Sequences, target: Target, annotations: Annotations) -> StoredDataset:
        """Return sequences with their annotations, split into train and val, with the statistics of train."""
        split = divided(annotations, found, self.validation_fraction, self._seed())
        train = split == 0
        signal: Signal
        if self.alphabet_ is None:
            signal = fit_values(iter([found.flat]), found.lengths, train)
        else:
            self.alphabet_ = self.alphabet_.fit(found.take(train))
            found = self.alphabet_.with_unknown(found)
            signal = Tokens(self.alphabet_.vocab)
        if isinstance(target, Reals):
            target = fit_target(target, annotations.targets[train])
        examples = replace(
            found.examples(signal, annotations.targets),
            groups=annotations.group_numbers,
            weights=annotations.loss_weights(train),
        )
        unknown = nan_spans(found.flat) if found.kind == "values" else []
        meta = {"about": {"unknown": unknown}, "weights": annotations.weights}
        return StoredDataset(SequenceSpec(signal, int(found.lengths.max()), target), meta, examples, split)

    # From a task to networks.

    def _train(self, task: Task) -> None:
        start = time.monotonic()
        seconds = 60.0 * (self.time_limit or MINUTES)
        workspace = self._workspace()
        held = self._folds(task)  # referenced until the end, because tasks refer to them by their digests
        folds: list[Task] = [*map(in_memory_task, held)] or [task]
        simple = self._simple_candidates(task, folds, start, seconds)
        trials: list[Json] = []
        if self._searches(task):
            counted = self.objective == "auto" and counts_help(
                self._simple_methods(task, folds), _labelled(task.load("train"))
            )
            search = Search(self, task, workspace, self._run, seconds, start + seconds, folds, counted)
            found = search.best()
            trials = found.trials
            self.set_networks(task, found.recipes, found.networks)
            self.validation_scores_ = found.scores
            answers: Answers | None = found.answers
            options: leaderboard.Options | None = found.options
            took = found.seconds
        else:
            elapsed = time.monotonic() - start
            # The whole limit if its reserve covers the time so far: stages with equal limits are shared.
            left = seconds if elapsed < (1 - USED) * seconds else seconds - elapsed
            answers, took = self._train_once(task, left)
            options = None
        self.trials_ = trials
        self._embed_unseen(task)
        adjusted = self._adjust(task)
        if adjusted:
            answers = leaderboard.answers(self.predictor_, _labelled(task.load("val")))
        if answers is not None:
            self._keep_best(answers, options, took, simple, folds)
        if adjusted and self.simple_:
            said = "calibrate scales the network alone, and simple methods predict here; see model='network'"
            warnings.warn(said, stacklevel=3)  # the caller of fit

    def _train_once(self, task: Task, seconds: float) -> tuple[Answers | None, float]:
        """Train the first setting, and return its answers on validation, if any, and the seconds it took.

        Args:
            seconds: what is left of the time limit.
        """
        start = time.monotonic()
        workspace = self._workspace()
        recipes = self._run(self._recipes(task, max(1.0, seconds)))
        finished = InFolders(workspace)
        networks = tuple(finished.network(recipe).to(workspace.device) for recipe in recipes)
        self.set_networks(task, recipes, networks)
        self.validation_scores_ = [finished.result(recipe)["scores"]["val"] for recipe in recipes]
        took = time.monotonic() - start
        if not recipes[0].last.objective.labelled or not has_val(task):
            return None, took
        return leaderboard.answers(self.predictor_, _labelled(task.load("val"))), took

    def _run(self, recipes: list[Recipe]) -> list[Recipe]:
        """Train recipes; if memory runs out, halve the batch once, but only if its size was our choice."""
        workspace = self._workspace()
        try:
            run_recipes(recipes, workspace, tested=False)
        except StageFailed as error:
            if not isinstance(error.__cause__, MEMORY_ERRORS) or self.batch_size != "auto":
                raise
            recipes = [with_half_batch(recipe) for recipe in recipes]
            run_recipes(recipes, workspace, tested=False)
        return recipes

    def _searches(self, task: Task) -> bool:
        """Return whether several settings, or one on several folds, are tried."""
        free = self.scale == "auto" and self.n_trials != 1
        return free and isinstance(task, InMemoryTask) and self._predicts and has_val(task)

    def _folds(self, task: Task) -> list[StoredDataset]:
        """Return the folds of a task in memory; empty where one validation split decides."""
        one = not self._searches(task) or self.patience != "auto" or vars(self).get("calibrate")
        return [] if one or not isinstance(task, InMemoryTask) else fold_data(task.data(), self._seed())

    def _simple_methods(self, task: Task, folds: Sequence[Task]) -> SimpleMethods:
        """Return the simple methods for a task, to be validated on its folds."""
        pairs = [(_labelled(fold.load("train")), _labelled(fold.load("val"))) for fold in folds]
        weights = getattr(self._objective(task), "weights", ())
        quality = partial(leaderboard.quality, OUTPUTS[task.form.target.kind])
        return SimpleMethods(task.form, pairs, task.load("train"), leaderboard.answers, quality, weights)

    def _simple_candidates(
        self, task: Task, folds: Sequence[Task], start: float, seconds: float
    ) -> list[SimpleCandidate]:
        """Fit the simple methods that suit the task, unless the network is kept in any case.

        Args:
            seconds: time limit of the whole fit, which began at ``start``.
        """
        skipped = self.model == "network" or self.scale == "smoke" or not self._predicts
        if skipped or not has_val(task):
            return []
        whole = _labelled(task.load("train"))
        if isinstance(task, InMemoryTask):
            data = task.data()
            rows = np.flatnonzero(data.whole.labelled.numpy() & np.isin(data.split, (0, 1)))
            whole = data.whole.take(torch.from_numpy(rows))
        methods = self._simple_methods(task, folds)
        return methods.candidates(whole, start + SIMPLE * seconds, start + SIMPLE_ENDS * seconds)

    def _keep_best(
        self,
        answers: Answers,
        options: leaderboard.Options | None,
        seconds: float,
        simple: list[SimpleCandidate],
        folds: Sequence[Task],
    ) -> None:
        """Set ``leaderboard_``, ``kept_``, ``kept_score_``, ``simple_`` and ``averaged_``."""
        parameters = sum(p.numel() for p in self.predictor_.networks[0].parameters())
        first = [recipe.stages[0].objective for recipe in self.recipes_]
        objectives = " and ".join(dict.fromkeys(map(name_of, first)))
        name = "scratch" if first[0].labelled else f"SPT ({objectives})"
        name = f"{name}, {name_of(self.recipes_[0].model.mixer)}"
        parameters *= len(self.predictor_.networks)
        network = leaderboard.Candidate(name, self.predictor_, answers, seconds, parameters, options)
        verdict = leaderboard.judge(network, simple, val_groups(folds), len(folds))
        kept = verdict.kept
        members = kept.model.members if isinstance(kept.model, AveragePredictor) else (kept.model,)
        self.simple_ = tuple(each for each in members if isinstance(each, SimplePredictor))
        self.averaged_ = 0 < len(self.simple_) < len(members)
        self.leaderboard_ = verdict.table
        self.kept_score_ = verdict.score
        self.kept_ = leaderboard.kept_line(self.leaderboard_, kept.name, name, self.kept_score_)
        if self.verbose:
            write_line(leaderboard.text(self.leaderboard_, kept.name))

    def _embed_unseen(self, task: Task) -> None:
        if self.alphabet_ is not None:
            seen = task.load("train")
            for network in self.predictor_.networks:
                embed_unseen(network, seen)

    @property
    def _predicts(self) -> bool:
        """Return whether the estimator predicts labels."""
        return type(self).__name__ in ESTIMATORS.values()

    def set_networks(self, task: Task, recipes: list[Recipe], networks: tuple[Network, ...]) -> None:
        """Become the estimator of networks that were trained on a task, one by each recipe."""
        first = recipes[0]
        models = tuple(recipe.model for recipe in recipes)
        self.predictor_ = Predictor(models, first.last.objective, task.form, networks)
        self.simple_ = ()
        self.averaged_ = False
        self.alphabet_ = vars(self).get("alphabet_")
        self.recipes_ = recipes
        self.task_ = task
        self.data_facts_ = facts(task)
        self.reading_: Json | None = None
        self.scores_: dict[str, Json] = {}
        self.leaderboard_ = []
        self.trials_ = []
        self.kept_ = ""
        self.kept_score_ = None


def _labelled(examples: SequenceDataset) -> SequenceDataset:
    return examples.take(examples.labelled.nonzero()[:, 0])
