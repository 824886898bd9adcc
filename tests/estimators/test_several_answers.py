"""Sets of labels, and a label per position: what is learned, refused, kept and scored."""

import copy

import numpy as np
import pytest
import torch
from sklearn import metrics
from sklearn.model_selection import GridSearchCV

from selfpretrain import MultilabelClassifier, PositionClassifier, SequenceClassifier
from selfpretrain.data import labels
from selfpretrain.data.containers import is_missing
from selfpretrain.data.dataset import sequences
from selfpretrain.errors import DataError, SpecError
from selfpretrain.estimators.scores import position_counts, position_measures, resamples, set_measures
from selfpretrain.tasks.base import load_task

ALONE = {"model": "network", "n_trials": 1}
SHORT = {"width": 16, "depth": 1, "epochs": 10, "pretrain_epochs": 1, "batch_size": 8, "mixer": "s4d"} | ALONE
TOY = {"scale": "smoke"}
random = np.random.RandomState(0)


def bursts(number):
    """Noise with a burst in two of three: where it is, and whether there is one and it is early."""
    rows, positions, sets = [], [], []
    for i in range(number):
        length = random.randint(24, 40)
        row, marks, told = random.randn(length) * 0.3, ["calm"] * length, []
        if i % 3:
            at = random.randint(0, length - 8)
            row[at : at + 8] += 2
            marks[at : at + 8] = ["burst"] * 8
            told = ["burst", "early"] if at < length // 3 else ["burst"]
        rows.append(row)
        positions.append(marks)
        sets.append(told)
    return rows, positions, sets


X, MARKS, SETS = bursts(75)
NEW, NEW_MARKS, NEW_SETS = bursts(40)


@pytest.fixture(scope="module")
def multilabel():
    return MultilabelClassifier(**SHORT).fit(X, SETS)


@pytest.fixture(scope="module")
def tagger():
    some = [None if i == 5 else row for i, row in enumerate(MARKS)]
    some[6] = [None, *MARKS[6][1:]]
    return PositionClassifier(**SHORT, n_members=2).fit(X, some)


def test_sets_of_labels_are_learned(multilabel):
    assert multilabel.classes_.tolist() == ["burst", "early"]
    probabilities = multilabel.predict_proba(NEW)
    assert probabilities.shape == (40, 2) and not np.allclose(probabilities.sum(1), 1)
    assert (multilabel.predict(NEW) == (probabilities > 0.5)).all()
    assert multilabel.predict_sets(NEW) == [multilabel.classes_[row > 0.5].tolist() for row in probabilities]
    assert [] in multilabel.predict_sets(NEW)
    assert multilabel.score(NEW, NEW_SETS) > 0.85


def test_unlabelled_examples_are_left_out_of_scores(multilabel):
    some = [None if i % 5 == 0 else row for i, row in enumerate(NEW_SETS)]
    labelled = [i for i, row in enumerate(some) if row is not None]
    groups = np.arange(len(NEW)) // 2
    found = multilabel.evaluate(NEW, some, groups=groups, draws=20)
    expected = multilabel.evaluate(
        [NEW[i] for i in labelled], [some[i] for i in labelled], groups=groups[labelled], draws=20
    )
    for measure, score in expected.items():
        assert vars(found[measure]) == pytest.approx(vars(score), abs=1e-4, nan_ok=True), measure


def test_measures_of_sets_are_those_of_scikit_learn(multilabel):
    found = multilabel.evaluate(NEW, NEW_SETS, draws=20)
    right = labels.sets_of(NEW_SETS, multilabel.classes_)[0]
    told, probabilities = multilabel.predict(NEW), multilabel.predict_proba(NEW)
    for measure, expected in {
        "micro F1": metrics.f1_score(right, told, average="micro"),
        "macro F1": metrics.f1_score(right, told, average="macro"),
        "exact match": metrics.accuracy_score(right, told),
        "average precision": metrics.average_precision_score(right, probabilities),
        "AUROC": metrics.roc_auc_score(right, probabilities),
    }.items():
        assert found[measure].value == pytest.approx(expected), measure
        assert found[measure].low <= expected <= found[measure].high
    assert found["micro F1"].value == multilabel.score(NEW, NEW_SETS)
    each = multilabel.by_class(NEW, NEW_SETS, draws=20)
    assert list(each) == ["burst", "early"]
    mean = np.mean([scores["average precision"].value for scores in each.values()])
    assert mean == pytest.approx(found["average precision"].value)
    nothing = set_measures(np.zeros((3, 2)), np.zeros((3, 2)))
    assert nothing["micro F1"] == 1.0 and np.isnan(nothing["AUROC"])


def test_scores_of_classes_resample_whole_groups(multilabel):
    groups = np.arange(40) // 10
    each = multilabel.by_class(NEW, NEW_SETS, groups=groups)["early"]
    right, told = labels.sets_of(NEW_SETS, multilabel.classes_)[0][:, 1], multilabel.predict(NEW)[:, 1]
    drawn = [metrics.f1_score(right[rows], told[rows]) for rows in resamples(40, groups, 200)]
    low, high = np.percentile(drawn, (2.5, 97.5))
    assert (each["F1"].low, each["F1"].high) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("names", "expected"),
    [(("a", "b"), (" ", ";")), (("light sleep", "deep sleep"), (";", ";")), (("a b;c", "d"), ("|", "|"))],
)
def test_labels_in_a_cell_can_be_told_apart_whatever_their_names(names, expected, multilabel, tagger):
    for model, sign in zip((tagger, multilabel), expected, strict=True):
        other = copy.copy(model)
        other.classes_ = np.array(names)
        told = other.predict(NEW) if model is tagger else other.predict_sets(NEW)
        cells = other.table(other._to_dataset(NEW))["prediction"]
        assert [cell.split(sign) if cell else [] for cell in cells] == [list(row) for row in told]


def test_a_model_of_pairs_answers_pairs_alone(tmp_path):
    task = load_task("imdb-pairs").tiny()
    model = SequenceClassifier(**TOY, signal="tokens").fit(task)
    assert model.predict_proba(task).shape == (80, 2)
    for number in (1, 2, 4):
        with pytest.raises(DataError, match="takes 2 sequences per example, and these have 1"):
            model.predict([[1, 2, 3]] * number)
    for vectors in (model.transform, model.positions):
        with pytest.raises(DataError, match="every example has 2 sequences, each with vectors of its own"):
            vectors(task)
    assert len(model.transform(sequences(task.load("test")))) == 160
    with pytest.raises(SpecError, match="a model of examples of 2 sequences cannot be exported"):
        model.export(tmp_path / "model.pt2")


def test_a_table_of_zeros_and_ones_says_the_same_as_sets():
    table = labels.sets_of(SETS, np.array(["burst", "early"]))[0]
    model = MultilabelClassifier(**TOY)
    by_table, by_sets = (model._as_task(X, given).data() for given in (table, SETS))
    assert torch.equal(by_table.whole.targets, by_sets.whole.targets)
    assert np.array_equal(by_table.split, by_sets.split)
    some = table.astype(float)
    some[:30] = np.nan
    few = model._as_task(X, some)
    assert model.classes_.tolist() == [0, 1]
    assert int(few.load("train").labelled.sum()) + len(few.load("val")) == 45


def test_nan_among_words_is_no_class():
    codes, classes = labels.classes_of(["b", float("nan"), "a"])
    assert classes.tolist() == ["a", "b"]
    assert codes.tolist() == [1, -1, 0]
    assert labels.sets_of([["b", float("nan")], ["a"]])[1].tolist() == ["a", "b"]


def test_a_missing_label_in_a_set_is_no_class():
    found, classes = labels.sets_of([["a", None], ["b", float("nan")], None, []])
    assert classes.tolist() == ["a", "b"]
    assert found.tolist() == [[1, 0], [0, 1], [-1, -1], [0, 0]]


def test_columns_of_a_table_are_names_of_labels():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pandas.DataFrame(labels.sets_of(SETS, np.array(["burst", "early"]))[0], columns=["b", "e"])
    model = MultilabelClassifier(**TOY)
    model._as_task(X, table)
    assert model.classes_.tolist() == ["b", "e"]


@pytest.mark.slow
def test_rare_labels_may_count_more():
    few = SHORT | {"epochs": 4, "objective": None}
    plain, heavy = (
        MultilabelClassifier(**few, class_weight=how).fit(X, SETS).predict_proba(NEW)
        for how in (None, {"early": 30})
    )
    assert heavy[:, 1].mean() > plain[:, 1].mean() + 0.1
    for kind, y in ((MultilabelClassifier, SETS), (PositionClassifier, MARKS)):
        low, high = sorted(kind(**TOY, class_weight="balanced").fit(X, y).predictor_.objective.weights)
        assert high > 1.5 * low


@pytest.mark.slow
def test_settings_of_several_labels_are_searched(tmp_path):
    grid = {"epochs": [1, 2]}
    search = GridSearchCV(MultilabelClassifier(**SHORT | {"runs": str(tmp_path)}), grid, cv=2, refit=False)
    search.fit(X, labels.sets_of(SETS, np.array(["burst", "early"]))[0])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    stages = [path.name.split("-")[2] for path in (tmp_path / "stages").iterdir()]
    assert stages.count("multilabel") == 4 and stages.count("masked") == 2


def test_classes_of_positions_are_learned(tagger):
    found, probabilities = tagger.predict(NEW), tagger.predict_proba(NEW)
    assert [len(row) for row in found] == [len(row) for row in NEW]
    assert all(
        (row == tagger.classes_[p.argmax(1)]).all() for row, p in zip(found, probabilities, strict=True)
    )
    assert np.allclose(np.concatenate(probabilities).sum(1), 1)
    assert tagger.score(NEW, NEW_MARKS) > 0.9
    assert tagger.transform(NEW).shape == (40, 16)


def test_measures_of_positions_are_those_of_scikit_learn(tagger):
    found = tagger.evaluate(NEW, NEW_MARKS, draws=20)
    right, told = np.concatenate(NEW_MARKS), np.concatenate(tagger.predict(NEW))
    for measure, expected in {
        "accuracy": metrics.accuracy_score(right, told),
        "balanced accuracy": metrics.balanced_accuracy_score(right, told),
        "macro F1": metrics.f1_score(right, told, average="macro"),
        "MCC": metrics.matthews_corrcoef(right, told),
        "log loss": metrics.log_loss(right, np.concatenate(tagger.predict_proba(NEW))),
    }.items():
        assert found[measure].value == pytest.approx(expected), measure
        assert found[measure].low <= expected <= found[measure].high
    unknown = position_counts(np.full((1, 2), -1), [np.array([[0.3, 0.7], [0.2, 0.8]])])
    assert np.isnan(position_measures(*unknown)["accuracy"])


def test_what_is_not_known_is_not_learned_from(tagger):
    whole = tagger.task_.data().whole
    assert whole.labelled.tolist() == [i != 5 for i in range(75)]
    assert whole.targets[6, :2].tolist() == [-1, tagger.classes_.tolist().index(MARKS[6][1])]
    assert (whole.targets[7, len(X[7]) :] == -1).all()


def test_letters_and_padded_tables_have_labels_at_positions():
    words = PositionClassifier(**SHORT | {"epochs": 25}).fit(["abcab", "aabbc"] * 20, ["XYZXY", "XXYYZ"] * 20)
    assert "".join(words.predict(["cabba"])[0]) == "ZXYYX"
    padded = np.array([[1.0, 2.0, 3.0, np.nan]] * 30)
    table = PositionClassifier(**TOY).fit(
        padded, np.array([[0, 1, 0, 1]] * 30), X_unlabelled=[np.ones(6)] * 5
    )
    assert table.task_.data().whole.targets[0].tolist() == [0, 1, 0]
    assert len(table.predict([np.ones(6)])[0]) == 6


@pytest.mark.parametrize("kind", [MultilabelClassifier, PositionClassifier])
def test_saved_and_loaded_they_answer_the_same_to_the_bit(kind, multilabel, tagger, tmp_path):
    model = {MultilabelClassifier: multilabel, PositionClassifier: tagger}[kind]
    again = kind.load(model.save(tmp_path / "model"))
    pairs = zip(again.predict_proba(NEW), model.predict_proba(NEW), strict=True)
    assert all((one == other).all() for one, other in pairs)
    assert again.classes_.tolist() == model.classes_.tolist()
    assert "burst" in (tmp_path / "model" / "README.md").read_text()


@pytest.mark.parametrize(
    ("kind", "y", "said"),
    [
        (MultilabelClassifier, ["burst"] * 75, "every sequence needs a list of labels, not 'burst'"),
        (MultilabelClassifier, np.full((75, 2), 3), "a table of labels holds 0 and 1, not '3'"),
        (MultilabelClassifier, [[0, 1, 1]] * 75, "row 0: it has a label twice; is y a table of 0 and 1?"),
        (MultilabelClassifier, [[]] * 75, "y holds no label"),
        (PositionClassifier, [["calm"]] * 75, "labels for .* positions; there must be one for each"),
        (PositionClassifier, MARKS[:3], "labels for 3 sequences, but there are 75"),
        (PositionClassifier, [1] * 75, "every sequence needs a list of labels, not '1'"),
        (PositionClassifier, [["calm"] * len(x) for x in X], "y holds 1 classes; there must be two"),
    ],
)
def test_labels_that_cannot_be_used_are_named(kind, y, said):
    with pytest.raises((DataError, SpecError), match=said):
        kind(**TOY).fit(X, y)


class Frame:
    """A table as pandas has it, which gives the names of its columns when it is iterated."""

    ndim, columns = 2, ()

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows

    def __array__(self, dtype=None, copy=None):
        return np.array(self.rows, dtype)

    def __iter__(self):
        return iter(self.columns)

    def __getitem__(self, name):
        return [row[self.columns.index(name)] for row in self.rows]


def test_columns_of_a_table_of_labels_are_found_by_their_names():
    known, classes = labels.sets_of(Frame(["late", "early"], [[1, 0], [0, 0]]))
    assert classes.tolist() == ["late", "early"] and known.tolist() == [[1, 0], [0, 0]]
    permuted, unnamed = Frame(["early", "late"], [[0, 1], [0, 0]]), Frame([0, 1], [[1, 0], [0, 0]])
    for other in (permuted, unnamed, known):
        assert labels.sets_of(other, classes)[0].tolist() == known.tolist()
    assert labels.sets_of(known, np.array([1, 0]))[0].tolist() == known.tolist()  # an array has no names


def test_a_table_of_labels_of_positions_may_have_names_of_columns():
    found, classes = labels.positions_of(Frame(["x", "y"], [["a", "b"], ["b", None]]), np.array([2, 1]))
    assert classes.tolist() == ["a", "b"] and found.tolist() == [[0, 1], [1, -1]]


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([1, "1", 2], [1, 2, "1"]),
        (["a", 1, "a"], [1, "a"]),
        ([1.5, "1.5", None], [1.5, "1.5"]),
        (["nan", float("nan"), "a"], ["a", "nan"]),
        ([1, 2.0, 1], [1.0, 2.0]),
        ([2**53, 2**53 + 1, float("nan")], [2**53, 2**53 + 1]),
        ([2**63, 2**63 + 1, -1], [-1, 2**63, 2**63 + 1]),
    ],
)
def test_labels_of_several_types_stay_different(y, classes):
    codes, found = labels.classes_of(y)
    assert found.tolist() == classes
    assert [None if code < 0 else classes[code] for code in codes] == [
        None if is_missing(x) else x for x in y
    ]


def test_times_are_no_numbers_of_nanoseconds():
    given = np.array(["2026-01-02", "2026-01-01", "NaT"], "M8[ns]")  # as a column of pandas has them
    codes, found = labels.classes_of(given)
    assert codes.tolist() == [1, 0, -1] and found.tolist() == given[[1, 0]].astype("M8[us]").tolist()


def test_labels_of_positions_may_be_a_list_of_tensors_and_a_set_is_no_list():
    found, classes = labels.positions_of([torch.tensor([4, 2]), np.array([2])], np.array([2, 1]))
    assert classes.tolist() == [2, 4] and found.tolist() == [[1, 0], [0, -1]]
    for take in (labels.classes_of, labels.numbers_of, labels.sets_of):
        with pytest.raises(DataError, match="2 labels are a set, which has no order; give a list"):
            take({0.5, 2.0})


@pytest.mark.parametrize("y", [SETS, MARKS, np.zeros((75, 2), int)])
def test_a_classifier_of_one_label_says_who_takes_several(y):
    with pytest.raises(DataError, match="MultilabelClassifier takes a set for each, PositionClassifier one"):
        SequenceClassifier(**TOY).fit(X, y)


def test_unknown_labels_are_refused_when_scores_are_asked_for(multilabel, tagger):
    with pytest.raises(SpecError, match="label 'saw' is not one of the 2 classes"):
        multilabel.evaluate(NEW, [["saw"]] * 40)
    with pytest.raises(SpecError, match="label 'saw' is not one of the 2 classes"):
        tagger.score(NEW[:1], [["saw"] * len(NEW[0])])


@pytest.mark.slow
def test_a_task_goes_to_the_estimator_that_suits_it():
    import several

    for target, kind in {"sets": MultilabelClassifier, "positions": PositionClassifier}.items():
        task = several.majority(target)
        with pytest.raises(SpecError, match=f"targets are {target}; use {kind.__name__}"):
            SequenceClassifier(**TOY).fit(task)
        assert 0 <= kind(**TOY).fit(task).score(task) <= 1


@pytest.mark.slow
def test_comparisons_have_simple_methods_beside_them(tmp_path):
    import several
    from selfpretrain.report.analysis import over_examples
    from selfpretrain.tasks.inspect.baselines import baseline_scores

    model = MultilabelClassifier(**TOY | {"runs": str(tmp_path)}).fit(X, SETS)
    results = model.compare(seeds=2)
    rows, (task,) = results.to_rows(), results.tasks
    control, treatment = (list(task.at("attention", column).values()) for column in ("scratch", "SPT"))
    assert over_examples(task, treatment, control) > 0  # predictions were kept, and give the scores again
    assert {row["column"] for row in rows} == {"scratch", "scratch (matched)", "SPT"}
    assert all(row["score"] == row["test_micro F1"] for row in rows)
    told = baseline_scores(several.Several(target="positions"))
    assert told["logistic regression on the 4 positions on either side"] >= told["commonest class"]


@pytest.mark.filterwarnings("ignore:.*cut to the")
def test_where_sequences_are_cut_so_are_the_labels_of_their_positions(tagger):
    length = tagger.predictor_.form.length
    long = [np.concatenate([x, x]) for x in NEW]
    labels_of_all = [marks * 2 for marks in NEW_MARKS]
    cut = [x[:length] for x in long], [marks[:length] for marks in labels_of_all]
    found, expected = tagger.evaluate(long, labels_of_all, draws=5), tagger.evaluate(*cut, draws=5)
    assert found == expected and tagger.score(long, labels_of_all) == expected["accuracy"].value
    with pytest.raises(DataError, match=r"row 0: 3 labels for .* positions"):
        tagger.score(long, [["calm"] * 3] * 40)


def test_sequences_without_a_label_at_any_position_are_not_resampled(tagger):
    some = [marks if i % 2 else None for i, marks in enumerate(NEW_MARKS)]
    found = tagger.evaluate(NEW, some, groups=np.arange(40) // 4, draws=20)
    expected = tagger.evaluate(NEW[1::2], some[1::2], groups=np.arange(20) // 2, draws=20)
    for measure, score in expected.items():
        assert vars(found[measure]) == pytest.approx(vars(score), abs=1e-4), measure
    with pytest.raises(DataError, match="y holds no label"):
        tagger.evaluate(NEW, [None] * 40)


def test_a_table_of_other_labels_is_refused():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pandas.DataFrame(np.arange(60).reshape(30, 2) % 3 % 2, columns=["b", "e"])
    classes = labels.sets_of(table)[1]
    same = labels.sets_of(table[["e", "b"]], classes)[0]
    np.testing.assert_array_equal(same, labels.sets_of(table.to_numpy(), classes)[0])
    with pytest.raises(DataError, match="y has a column 'c', which is not one of the 2 classes"):
        labels.sets_of(table.rename(columns={"b": "c"}), classes)
    with pytest.raises(DataError, match="several columns of y have the same name"):
        labels.sets_of(table.rename(columns={"b": "e"}))


def test_a_table_as_lists_is_not_taken_for_sets():
    rows = [[1, 0], [0, 1], [0, 1]]
    for classes in (None, np.array([0, 1])):
        with pytest.raises(DataError, match="every sequence has both labels, 0 and 1; is y a table"):
            labels.sets_of(rows, classes)
    assert labels.sets_of([[1, 0], [1], None])[0].tolist() == [[1, 1], [0, 1], [-1, -1]]
