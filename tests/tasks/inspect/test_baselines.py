"""Simple baselines: known answers, determinism, which methods suit which data."""

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
from selfpretrain.tasks.inspect import baselines
from selfpretrain.tasks.inspect.baselines import baseline_scores, score
from selfpretrain.tasks.listops import ListOps
from selfpretrain.tasks.simple import methods, symbols
from selfpretrain.tasks.simple.cohesion import CohesionNumbers, CohesionWindows
from selfpretrain.tasks.simple.features import ALL, FlatValues, directions
from selfpretrain.tasks.simple.kernels import KernelShares
from selfpretrain.tasks.simple.methods import (
    ALPHAS,
    BOOSTED,
    HISTOGRAMS,
    LINEAR,
    LOGISTIC,
    RIDGE,
    TREES,
    Method,
    ModelKind,
)
from selfpretrain.tasks.simple.models import LinearModel
from selfpretrain.tasks.simple.symbols import NGrams, Places, Windows
from selfpretrain.tasks.stdlib import Stdlib

KERNELS = "ridge regression on kernels (MiniRocket)"
MORE = {KERNELS, "gradient boosting on statistics"}
"""What is also known of values."""


@pytest.fixture
def keep(tmp_path, monkeypatch):
    """Keeps arrays as a data set of one's own."""
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))

    def kept(x: np.ndarray, y: np.ndarray) -> Imported:
        import_arrays("mine", x, y)
        return Imported("mine")

    return kept


def parts_of(x, y, sizes):
    """Returns arrays as splits of these sizes."""
    examples = SequenceDataset.from_array(x, y)
    rows = torch.arange(len(y)).split(sizes)
    return {split: examples.take(part) for split, part in zip(SPLITS, rows, strict=True)}


def dataset(rows):
    return SequenceDataset.from_sequences(rows, np.zeros(len(rows), dtype=np.int64))


def weighted_by_hand(rows, known):
    """TF-IDF weights of all runs of up to four symbols, of rows by those of known rows."""
    counts, seen = (
        [Counter(tuple(row[i : i + n]) for n in range(1, 5) for i in range(len(row) - n + 1)) for row in some]
        for some in (rows, known)
    )
    runs = sorted({run for each in seen for run in each})
    idf = np.array([np.log((1 + len(seen)) / (1 + sum(run in each for each in seen))) + 1 for run in runs])
    x = np.array([[1 + np.log(each[run]) if run in each else 0 for run in runs] for each in counts]) * idf
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_runs_are_counted_as_by_hand(monkeypatch):
    random = np.random.RandomState(0)
    known, new = ([random.randint(0, 3, n) for n in lengths] for lengths in [(1, 2, 3, 9, 5), (4, 7)])
    monkeypatch.setattr(symbols, "CHUNK", 4)
    found = NGrams()
    found.fit(dataset(known))
    for rows in (known, new):
        x = found.transform(dataset(rows)).toarray()
        slow = weighted_by_hand(rows, known)
        assert x.shape == slow.shape
        np.testing.assert_allclose(x @ x.T, slow @ slow.T)
        np.testing.assert_allclose(np.sort(x), np.sort(slow))


def test_the_commonest_runs_are_kept_and_large_vocabularies_do_not_collide(monkeypatch):
    rows = [np.array([2**40 - 1, 5, 2**40 - 1, 7]), np.array([5, 2**40 - 1, 7, 6])]
    found = NGrams()
    found.fit(dataset(rows))
    assert len(found.codes) == len(
        {tuple(r[i : i + n]) for r in rows for n in range(1, 5) for i in range(5 - n)}
    )
    monkeypatch.setattr(symbols, "MAX_FEATURES", 4)
    found.fit(dataset(rows))
    assert len(found.codes) == 1  # 2**40 - 1, three times; five others are there twice each
    assert (found.transform(dataset(rows)) > 0).sum(1).ravel().tolist() == [[1, 1]]
    found.fit(dataset([np.arange(9)]))
    assert len(found.codes) == 9 + 8 + 7 + 6  # all are equally frequent


@pytest.mark.slow
def test_known_answers_on_digits():
    scores = baseline_scores(Digits())
    assert set(scores) == {
        "commonest class", "logistic regression on values", "nearest neighbour",
    } | MORE  # fmt: skip
    assert scores["commonest class"] == pytest.approx(0.1, abs=0.02)
    assert scores["logistic regression on values"] > 0.93
    assert scores["nearest neighbour"] > 0.95


def test_text_is_far_above_chance():
    scores = baseline_scores(Stdlib(train=240, val=80, test=400))
    assert scores["commonest class"] == 0.125
    assert 0.3 < scores["logistic regression on 1-4-grams"] < 0.7


def test_the_root_operator_tells_a_third_of_listops(monkeypatch):
    monkeypatch.setattr(baselines, "_suitable", lambda *given: [])  # shortcuts alone
    scores = baseline_scores(ListOps(60, 120, train=600, val=50, test=1000))
    assert scores["root operator"] == pytest.approx(0.36, abs=0.06)
    assert scores["root operator"] > scores["commonest class"]


def test_unequal_lengths_and_long_examples_are_summarised(keep, monkeypatch):
    scores = baseline_scores(Imported())
    assert set(scores) == {"commonest class", "logistic regression on mean, sd, min, max"} | MORE
    assert scores["logistic regression on mean, sd, min, max"] > 0.6
    monkeypatch.setattr(methods, "MAX_FLAT", 5)
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
    joined = NGrams().join_views(a, b).toarray()
    np.testing.assert_array_equal(joined[:, :3], np.diag([1, 0, 0]))
    np.testing.assert_array_equal(joined[:, 3:], abs(np.eye(3) - np.eye(3)[[0, 2, 1]]))


def test_scores_are_those_of_the_test_split():
    """Answers are compared with test labels: a task whose test labels are shifted scores nothing."""
    task = Digits()
    splits = {split: task.load(split) for split in SPLITS}
    one = Method(FlatValues, LINEAR, (0.01,))
    assert score(task.form, one, splits, splits["train"]) > 0.9
    splits["test"].targets.add_(1).remainder_(10)
    assert score(task.form, one, splits, splits["train"]) < 0.05


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
    splits = parts_of(rows, rows[:, 0].astype(np.int64), (300, 100, 200))
    found = Places()
    found.fit(splits["train"])
    x = found.transform(splits["test"]).toarray()
    assert x.shape == (200, 16)
    assert (x.sum(1) == 8).all()
    form = SequenceSpec(Tokens(2), 8, Classes(("a", "b")))
    assert score(form, Method(Places, LINEAR, LOGISTIC), splits, splits["train"]) == 1


def test_boosting_finds_what_is_not_linear():
    random = np.random.RandomState(0)
    x = random.uniform(-1, 1, (1500, 2))
    splits = parts_of(x[:, :, None], (x[:, 0] * x[:, 1] > 0).astype(np.int64), (1000, 200, 300))
    form = SequenceSpec(Values(), 2, Classes(("a", "b")))
    assert score(form, Method(FlatValues, HISTOGRAMS, TREES), splits, splits["train"]) > 0.9
    assert score(form, Method(FlatValues, LINEAR, LOGISTIC), splits, splits["train"]) < 0.7


def always(x, y, weights, target, answer):
    """Return a model that answers with the same class, whatever it is fitted on."""
    return LinearModel(np.zeros((x.shape[1], 3)), np.eye(3)[answer])


def test_boosting_takes_many_rows_of_which_one_is_alone_in_its_class():
    y = np.arange(10_001) % 2
    y[0] = 2
    model = HISTOGRAMS.fit(np.eye(3)[y], y, np.ones(len(y)), Classes(tuple("abc")), 5)
    assert model.scores(np.eye(3)[:2]).argmax(1).tolist() == [0, 1]


def test_a_setting_is_chosen_on_val_and_scored_on_test():
    form = SequenceSpec(Values(), 2, Classes(("a", "b", "c")))
    constant = Method(FlatValues, ModelKind("always the same", always), (0, 1, 2))
    for val, expected in (([1, 1, 1, 0], 0.25), ([0, 0, 1, 1], 0.75)):
        y = np.array([2, 2, 2, 2, *val, 1, 0, 0, 0])
        splits = parts_of(np.zeros((12, 2, 1)), y, (4, 4, 4))
        assert score(form, constant, splits, splits["train"]) == expected


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


WAVES = SequenceSpec(Values(), 60, Classes(("slow", "fast")))


@pytest.mark.parametrize("equal", [True, False])
def test_kernels_tell_waves_apart_wherever_they_are(equal):
    random = np.random.RandomState(0)
    splits = {
        split: curves(np.full(n, 60) if equal else random.randint(20, 60, n), random)
        for split, n in {"train": 200, "val": 60, "test": 200}.items()
    }
    assert score(WAVES, Method(KernelShares, RIDGE, ALPHAS), splits, splits["train"]) > 0.95
    plain = methods.FlatValues if equal else methods.Summary
    assert score(WAVES, Method(plain, LINEAR, LOGISTIC), splits, splits["train"]) < 0.8


def test_kernels_take_several_channels_and_do_not_see_padding():
    random = np.random.RandomState(0)
    sequences = [random.rand(n, 3).astype(np.float32) for n in (30, 12, 30, 25)]
    together = SequenceDataset.from_sequences(sequences, np.array([0, 1, 0, 1]))
    found = KernelShares()
    found.fit(together)
    x = found.compute(together)
    assert x.min() >= 0 and x.max() <= 1
    alone = found.compute(together.take(torch.tensor([1])))
    differ = np.abs(alone[0] - x[1]) > 1e-6  # by rounding at a threshold taken from here
    assert differ.mean() < 0.01
    assert len(np.unique(x, axis=0)) == 4


def suitable(form, lengths, labelled=100, unlabelled=False):
    found = methods.simple_methods(form, labelled, torch.tensor(lengths), unlabelled)
    return [each.name(form.target) for each in found if each.baseline]


def test_kernels_are_left_out_where_they_take_long_or_find_no_room(monkeypatch):
    assert KERNELS not in suitable(WAVES, [5] * 4)
    assert KERNELS in suitable(WAVES, [50] * 4)
    monkeypatch.setattr(methods, "WORK", 1000)
    assert KERNELS not in suitable(WAVES, [50] * 4)


def test_kernels_learn_their_thresholds_from_all_sequences():
    every = methods.simple_methods(WAVES, 10, torch.full((300,), 60), unlabelled=True)
    (of_all,) = [each for each in every if each.name(WAVES.target) == f"{KERNELS}, {ALL}"]
    random = np.random.RandomState(0)
    everything = curves(np.full(300, 60), random)
    labelled = everything.take(torch.arange(10))
    found = of_all.measured(everything).fitted(labelled)
    expected = KernelShares()
    expected.fit(everything)
    alone = KernelShares()
    alone.fit(labelled)
    for (_, levels), (_, same), (_, other) in zip(
        found.thresholds, expected.thresholds, alone.thresholds, strict=True
    ):
        assert torch.equal(levels, same) and not torch.equal(levels, other)
    assert (found.mean == expected.mean).all() and not (found.mean == alone.mean).all()
    assert of_all.name(WAVES.target) in suitable(WAVES, [60] * 4, unlabelled=True)
    assert not any(name.endswith(ALL) for name in suitable(WAVES, [60] * 4))


def test_methods_that_see_all_sequences_are_there_if_some_have_no_label(monkeypatch, tmp_path):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
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
    alone, linear = (Method(kind, LINEAR, (0.01, 1.0, 100.0)) for kind in (Windows, CohesionWindows))
    least = score(form, alone, splits, everything)
    for of_all in (linear, Method(CohesionNumbers, BOOSTED, (2, 5))):
        assert score(form, of_all, splits, everything) > least + 0.05
        named = of_all.name(form.target)
        assert named.endswith(ALL)
        assert named in suitable(form, [40], unlabelled=True) and named not in suitable(form, [40])


def test_a_single_feature_has_one_direction():
    rows = [np.zeros(1, np.uint8)] * 6
    features = directions(NGrams)
    features.fit(dataset(rows))
    assert features.transform(dataset(rows)).shape == (6, 1)


def test_so_many_positions_are_fitted(monkeypatch):
    fitted = []

    def fit(x, y, weights, target, setting):
        fitted.append((len(x), len(y), len(weights)))
        return LinearModel(np.zeros((1, 2)), np.zeros(2))

    y = np.array([[0, 1, -1, 1], [1, 1, 0, 1]])
    examples = SequenceDataset.from_array(np.zeros((2, 4, 1)), y)
    form = SequenceSpec(Values(), 4, PositionClasses(("a", "b")))
    for most, expected in ((5, 5), (8, 7)):
        monkeypatch.setattr(methods, "POSITIONS", most)
        Method(Windows, ModelKind("", fit), ()).fitted(form, np.zeros((8, 1)), examples, 1.0)
        assert fitted.pop() == (expected,) * 3


def test_values_of_all_sequences_are_used_and_wide_ones_are_not_self_trained(monkeypatch):
    task = Digits(train=300, labels=30)
    self_trained = "self-trained logistic regression on values, all sequences"
    directions = "logistic regression on directions of values, all sequences"
    tried, every = {self_trained, directions, f"{KERNELS}, {ALL}"}, baselines._suitable
    monkeypatch.setattr(
        baselines, "_suitable", lambda *given: [m for m in every(*given) if m.name(task.form.target) in tried]
    )
    scores = baseline_scores(task)
    assert min(scores[name] for name in tried) > 0.7
    assert self_trained in suitable(task.form, [64] * 4, unlabelled=True)
    monkeypatch.setattr(methods, "MAX_SELF_TRAINED", 10)
    found = suitable(task.form, [64] * 4, unlabelled=True)
    assert self_trained not in found and directions in found
