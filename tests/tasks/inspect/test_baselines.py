"""Simple baselines: counting against a slow twin, known answers, determinism."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.importing.importer import import_arrays
from selfpretrain.data.spec import SPLITS, Classes, PositionClasses, SequenceSpec, Tokens, Values
from selfpretrain.errors import DataError
from selfpretrain.tasks.digits import Digits
from selfpretrain.tasks.imported import Imported
from selfpretrain.tasks.inspect import baselines, features, unlabelled
from selfpretrain.tasks.inspect.baselines import baseline_scores
from selfpretrain.tasks.inspect.unlabelled import ALL
from selfpretrain.tasks.listops import ListOps
from selfpretrain.tasks.stdlib import Stdlib

MORE = {baselines.KERNELS, "gradient boosting on statistics"}
"""What is also known of values."""


@pytest.fixture
def keep(tmp_path, monkeypatch):
    """Keeps arrays as a data set of one's own."""
    monkeypatch.setenv("SPT_DATA", str(tmp_path))

    def kept(x: np.ndarray, y: np.ndarray) -> Imported:
        import_arrays("mine", x, y)
        return Imported("mine")

    return kept


def logistic(x, y):
    return baselines.fit_grid(baselines.logistic_regressions(baselines.LOGISTIC), x, y, baselines.accuracy)


def test_runs_are_counted_as_by_hand():
    random = np.random.RandomState(0)
    rows = [random.randint(0, 3, n) for n in (1, 2, 3, 9, 5)]
    known = features.frequent_ngrams([features.ngrams(rows, 3)])
    counts = features.count_ngrams(rows, 3, known, chunk=2).toarray()
    edges = np.cumsum([0, *map(len, known)])
    for row, found in zip(rows, counts, strict=True):
        slow = Counter(tuple(row[i : i + n]) for n in range(1, 5) for i in range(len(row) - n + 1))
        assert found.sum() == sum(slow.values())
        for run, times in slow.items():
            code = int("".join(map(str, run)), 3)
            n = len(run) - 1
            assert found[edges[n] + np.searchsorted(known[n], code)] == times


def test_only_the_commonest_runs_are_kept_and_large_vocabularies_do_not_overflow(monkeypatch):
    codes = features.ngrams([np.array([2**20 - 1, 5, 2**20 - 1, 7])], 2**20)
    assert all(int(code.min()) >= 0 for code, _ in codes)
    assert len(codes) == 3  # four would not fit into 63 bits
    monkeypatch.setattr(features, "FEATURES", 5)
    rows = [np.array([0, 0, 0, 0, 1, 2])]
    known = features.frequent_ngrams([features.ngrams(rows, 3)])
    assert [k.tolist() for k in known] == [[0], [0], [0], []]
    assert sparse.issparse(features.count_ngrams(rows, 3, known))


def test_known_answers_on_digits():
    scores = baseline_scores(Digits())
    assert set(scores) == {
        "commonest class", "logistic regression on values", "nearest neighbour",
    } | MORE  # fmt: skip
    assert scores["commonest class"] == pytest.approx(0.1, abs=0.02)
    assert scores["logistic regression on values"] > 0.93
    assert scores["nearest neighbour"] > 0.95


def test_text_is_far_above_chance_and_deterministic():
    task = Stdlib(train=240, val=80, test=400)
    scores = baseline_scores(task)
    assert scores == baseline_scores(task)
    assert scores["commonest class"] == 0.125
    assert 0.3 < scores["logistic regression on 1-4-grams"] < 0.7


def test_the_root_operator_tells_a_third_of_listops():
    scores = baseline_scores(ListOps(60, 120, train=600, val=50, test=1000))
    assert scores["root operator"] == pytest.approx(0.36, abs=0.06)
    assert scores["root operator"] > scores["commonest class"]


def test_unequal_lengths_and_long_examples_are_summarised(keep, monkeypatch):
    scores = baseline_scores(Imported())
    assert set(scores) == {"commonest class", "logistic regression on mean, sd, min, max"} | MORE
    assert scores["logistic regression on mean, sd, min, max"] > 0.6
    monkeypatch.setattr(features, "PIXELS", 5)
    x, y = np.random.RandomState(0).rand(60, 6), np.arange(60) % 2
    scores = baseline_scores(keep(x + y[:, None], y))
    assert scores["logistic regression on mean, sd, min, max"] == 1


def test_a_linear_law_is_found_by_ridge_regression(keep):
    random = np.random.RandomState(0)
    x = random.standard_normal((400, 6))
    y = x @ np.arange(6) + 100
    scores = baseline_scores(keep(x, y))
    assert scores["ridge regression on values"] > 0.999
    assert -0.2 < scores["mean"] <= 0


def test_the_limit_and_missing_labels_are_honoured(monkeypatch):
    task = Stdlib(train=400, val=80, test=80, labels=80)
    assert len(baselines.labelled_examples(task, "train", 5000)) == 80
    assert len(baselines.labelled_examples(task, "train", 16)) == 16
    assert len(baselines.labelled_examples(task, "test", 16)) == 80
    some = baselines.labelled_examples(Stdlib(), "train", 1000).targets.bincount()
    assert some.min() > 90  # classes come in turn: picking every second one would lose half of them


def test_a_split_without_labels_is_refused(monkeypatch):
    task = Stdlib(train=80, val=80, test=80)
    load = Stdlib.load

    def blind(self, split):
        examples = load(self, split)
        examples.targets.fill_(-1)
        return examples

    monkeypatch.setattr(Stdlib, "load", blind)
    with pytest.raises(DataError, match="train split has no labelled"):
        baseline_scores(task)


def test_two_views_are_joined():
    a, b = sparse.csr_matrix(np.eye(3)), sparse.csr_matrix(np.eye(3)[[0, 2, 1]])
    joined = features.compare_views(a, b).toarray()
    np.testing.assert_array_equal(joined[:, :3], np.diag([1, 0, 0]))
    np.testing.assert_array_equal(joined[:, 3:], abs(np.eye(3) - np.eye(3)[[0, 2, 1]]))


def test_scores_are_those_of_the_test_split():
    """Answers are compared with test labels: a task whose test labels are shifted scores nothing."""
    task = Digits()
    y = {split: task.load(split).targets.numpy() for split in SPLITS}
    x = {split: torch.nn.functional.one_hot(torch.tensor(y[split])).numpy() for split in SPLITS}
    grid = baselines.logistic_regressions([1.0])
    assert baselines.fit_grid(grid, x, y, baselines.accuracy) == 1
    shifted = y | {"test": (y["test"] + 1) % 10}
    assert baselines.fit_grid(grid, x, shifted, baselines.accuracy) == 0


def cuts(flat: torch.Tensor, starts: list[int], lengths: list[int], targets: list[float]) -> SequenceDataset:
    return SequenceDataset(flat, torch.tensor([starts]), torch.tensor([lengths]), torch.tensor(targets))


windows = st.lists(st.tuples(st.integers(0, 90), st.integers(1, 9)), min_size=1, max_size=30)


@given(windows, windows)
def test_the_overlapping_example_is_the_nearest_by_brute_force(train, test):
    flat = torch.zeros(100)
    ours, theirs = (cuts(flat, *map(list, zip(*w, strict=True)), [0.0] * len(w)) for w in (train, test))
    for (start, length), found in zip(test, baselines.nearest_overlapping(ours, theirs), strict=True):
        gaps = [abs(start - other) for other, _ in train]
        near = [i for i, gap in enumerate(gaps) if gap == min(gaps)]
        shared = [i for i in near if max(start, train[i][0]) < min(start + length, sum(train[i]))]
        assert found in near if found >= 0 else len(shared) < len(near)
        if found >= 0:
            assert found in shared


def test_copies_are_scored_and_the_rest_gets_the_usual_answer():
    flat = torch.zeros(100, 1)
    train = cuts(flat, [0, 10, 40, 41], [10, 10, 10, 10], [1.0, 2.0, 3.0, float("nan")])
    test = cuts(flat, [4, 14, 80], [10, 10, 10], [1.0, 2.0, 2.0])  # copies 1 and 2; the mean of all is 2
    assert baselines.copy_score(train, test) == {"copy of an overlapping training example": 1.0}
    classes = cuts(flat, [0, 10, 40], [10, 10, 10], [1, 2, 2])
    assert baselines.copy_score(classes, cuts(flat, [4, 80], [10, 10], [1, 0])).popitem()[1] == 0.5


def test_nothing_is_copied_where_nothing_is_shared():
    flat = torch.zeros(100)
    train, apart = cuts(flat, [0, 10], [10, 10], [1, 0]), cuts(flat, [20, 30], [10, 10], [1, 0])
    assert baselines.copy_score(train, apart) == {}
    elsewhere = cuts(torch.zeros(100), [0, 10], [10, 10], [1, 0])
    assert baselines.copy_score(train, elsewhere) == {}


def test_symbols_are_told_apart_by_their_places():
    """The first symbol decides."""
    random = np.random.RandomState(0)
    rows = random.randint(0, 2, (600, 8)).astype(np.uint8)
    rows[:, 1] = 1 - rows[:, 0]  # as many of each symbol, and runs of both orders, in both classes
    y = rows[:, 0].astype(np.int64)
    examples = SequenceDataset.from_array(rows, y)
    x = features.one_hot(examples, 2).toarray()
    assert (x.sum(1) == 8).all()
    np.testing.assert_array_equal(x[:, ::2], 1 - rows)
    splits = {"train": x[:300], "val": x[300:400], "test": x[400:]}
    labels = {"train": y[:300], "val": y[300:400], "test": y[400:]}
    assert logistic(splits, labels) == 1


def test_boosting_finds_what_is_not_linear():
    random = np.random.RandomState(0)
    x = random.uniform(-1, 1, (1500, 2))
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    splits = {"train": x[:1000], "val": x[1000:1200], "test": x[1200:]}
    labels = {"train": y[:1000], "val": y[1000:1200], "test": y[1200:]}
    grid = baselines.boosted_trees(baselines.BOOSTED)
    assert baselines.fit_grid(grid, splits, labels, baselines.accuracy) > 0.9
    assert logistic(splits, labels) < 0.7


class Constant:
    """A model that answers with the same class, whatever it is fitted on."""

    def __init__(self, answer):
        self.answer = answer

    def fit(self, x, y):
        return self

    def predict(self, x):
        return np.full(len(x), self.answer)


def test_a_grid_is_chosen_on_val_and_scored_on_test():
    x = dict.fromkeys(SPLITS, np.zeros((4, 1)))
    y = {"train": np.array([2, 2, 2, 2]), "val": np.array([1, 1, 1, 0]), "test": np.array([1, 0, 0, 0])}
    grid = [Constant(0), Constant(1), Constant(2)]
    assert baselines.fit_grid(grid, x, y, baselines.accuracy) == 0.25
    assert baselines.fit_grid(grid, x, y | {"val": np.array([0, 0, 1, 1])}, baselines.accuracy) == 0.75


def test_scores_of_sets_and_of_reals_at_their_edges():
    none = np.zeros((3, 2), dtype=np.int64)
    assert baselines.micro_f1(none, none) == 1
    assert baselines.micro_f1(none, none + 1) == 0
    assert baselines.micro_f1(np.array([[1], [1], [0]]), np.array([[1], [0], [1]])) == 0.5
    assert np.isnan(baselines.r2(np.full(3, 0.1), np.full(3, 0.1)))


def curves(lengths, random):
    """Fast or slow waves at any place: neither values at places nor their statistics tell them apart."""
    y = random.randint(0, 2, len(lengths))
    waves = [
        (np.sin(random.rand() * 6 + np.arange(n) * (0.5, 0.7)[k]) + 0.3 * random.randn(n)).astype(np.float32)
        for n, k in zip(lengths, y, strict=True)
    ]
    return SequenceDataset.from_sequences([wave[:, None] for wave in waves], y)


@pytest.mark.parametrize("equal", [True, False])
def test_kernels_tell_waves_apart_wherever_they_are(equal):
    random = np.random.RandomState(0)
    splits = {
        split: curves(np.full(n, 60) if equal else random.randint(20, 60, n), random)
        for split, n in {"train": 200, "val": 60, "test": 200}.items()
    }
    y = {split: examples.targets.numpy() for split, examples in splits.items()}
    x = features.minirocket(splits)
    assert all(part.min() >= 0 and part.max() <= 1 and len(part) == len(y[s]) for s, part in x.items())
    assert logistic(features.standardise(x), y) > 0.95
    form = SequenceSpec(Values(centre=(0.0,), spread=(1.0,)), 60, Classes(("slow", "fast")))
    _, plain = features.sequence_features(form, splits)
    assert logistic(plain, y) < 0.8


def test_kernels_take_several_channels_and_do_not_see_padding():
    random = np.random.RandomState(0)
    sequences = [random.rand(n, 3).astype(np.float32) for n in (30, 12, 30, 25)]
    together = SequenceDataset.from_sequences(sequences, np.array([0, 1, 0, 1]))
    x = features.minirocket({"train": together, "test": together})
    again = features.minirocket({"train": together, "test": together.take(torch.tensor([1]))})
    differ = np.abs(again["test"][0] - x["test"][1]) > 1e-6  # by rounding at a threshold taken from here
    assert differ.mean() < 0.01
    assert len(np.unique(x["train"], axis=0)) == 4


def test_kernels_are_left_out_where_they_take_long_or_find_no_room(monkeypatch):
    short = SequenceDataset.from_array(np.zeros((4, 5, 1), np.float32), np.array([0, 1, 0, 1]))
    assert features.minirocket({"train": short}) is None
    long = SequenceDataset.from_array(np.zeros((4, 50, 1), np.float32), np.array([0, 1, 0, 1]))
    assert features.minirocket({"train": long}) is not None
    monkeypatch.setattr(features, "ROCKET_WORK", 1000)
    assert features.minirocket({"train": long}) is None


def test_methods_that_see_all_sequences_are_there_if_some_have_no_label(monkeypatch, tmp_path):
    monkeypatch.setenv("SPT_DATA", str(tmp_path))
    random = np.random.RandomState(0)
    kinds = random.randint(0, 2, 600)
    # Each kind has 200 symbols, of which a sequence shows twelve: with six labels most have not been seen.
    x = [200 * kind + random.choice(200, 12, replace=False) for kind in kinds]
    split = ["train"] * 400 + ["val"] * 100 + ["test"] * 100
    y = [None if 6 <= i < 400 else str(kind) for i, kind in enumerate(kinds)]
    import_arrays("few", x, y, split=split)
    scores = baseline_scores(Imported("few"))
    seen = {name: score for name, score in scores.items() if name.endswith(ALL)}
    assert {name.split(" on ")[0] for name in seen} == {
        "logistic regression",
        "self-trained logistic regression",
    }
    alone = scores["logistic regression on 1-4-grams"]
    assert max(seen.values()) > alone + 0.05
    assert baseline_scores(Imported("few")) == scores
    every = [str(kind) for kind in kinds]
    import_arrays("all", x, every, split=split)
    assert not any(name.endswith(ALL) for name in baseline_scores(Imported("all")))


def test_labels_of_positions_get_what_unlabelled_sequences_say():
    """Words of an invented language: where they end is in the sequences without a label."""
    random = np.random.RandomState(0)
    words = [list(random.randint(0, 30, random.randint(2, 5))) for _ in range(60)]
    drawn = [[words[i] for i in random.randint(0, 60, 8)] for _ in range(900)]
    x = [np.array([symbol for word in row for symbol in word]) for row in drawn]
    y = np.full((900, 40), -1)
    for i, row in enumerate(drawn):
        ends = [position == len(word) - 1 for word in row for position in range(len(word))]
        y[i, : len(ends)] = ends
    form = SequenceSpec(Tokens(30), 40, PositionClasses(("in", "end")))
    parts = {"train": slice(6), "val": slice(700, 800), "test": slice(800, 900)}
    splits = {split: SequenceDataset.from_sequences(x[rows], y[rows]) for split, rows in parts.items()}
    y[6:700] = -1
    everything = SequenceDataset.from_sequences(x[:700], y[:700])
    grid = baselines.logistic_regressions(baselines.LOGISTIC_SEVERAL)
    ((name, *method),) = unlabelled.methods(form, splits, everything, grid, 10_000)
    pairs = {split: features.position_features(form, examples) for split, examples in splits.items()}
    alone = logistic(*({split: pair[i] for split, pair in pairs.items()} for i in range(2)))
    assert name.endswith(ALL)
    assert baselines.fit_grid(*method, baselines.accuracy) > alone + 0.05
    assert not unlabelled.methods(form, splits, splits["train"], grid, 10_000)
    ((_, _, x, y_of),) = unlabelled.methods(form, splits, everything, grid, 50)
    assert x["train"].shape[0] == len(y_of["train"]) == 50


def test_wide_values_are_not_self_trained(monkeypatch):
    task = Digits(train=300, labels=30)
    named = "self-trained logistic regression on values, all sequences"
    assert named in baseline_scores(task)
    monkeypatch.setattr(unlabelled, "WIDEST", 10)
    assert named not in baseline_scores(task)
