"""Frames, tensors, masked arrays, generators: each is read like a list of arrays, or refused in one line."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from selfpretrain.data.containers import rows_of
from selfpretrain.errors import DataError, SpecError
from selfpretrain.estimators.annotations import refuse_unlabelled
from selfpretrain.estimators.models import (
    PositionClassifier,
    SequenceClassifier,
    SequencePretrainer,
    SequenceRegressor,
)

N, L = 24, 9
SMALL = {"scale": "smoke", "mixer": "attention", "device": "cpu", "objective": None}


def sequences(channels=1, lengths=True):
    """Sequences (length, channels) of unequal lengths, or of equal ones."""
    random = np.random.default_rng(0)
    sizes = 5 + np.arange(N) % 5 if lengths else np.full(N, L)
    return [random.normal(size=(size, channels)) + i % 2 for i, size in enumerate(sizes)]


ONE = [x[:, 0] for x in sequences()]
TWO = sequences(2)
EVEN = np.stack(sequences(1, lengths=False))[:, :, 0]
LABELS = [("lo", "hi")[i % 2] for i in range(N)]


def pandas():
    return pytest.importorskip("pandas")


def panel(names):
    pd = pandas()
    frames = {i: pd.DataFrame({"a": x[:, 0], "b": x[:, 1]})[list(names)] for i, x in enumerate(TWO)}
    return pd.concat(frames, names=["series", "time"])


def nested(kinds):
    """A column of lists of each channel."""
    return {name: [x[:, k].tolist() for x in kinds] for k, name in enumerate("ab"[: kinds[0].shape[1]])}


def of_package(name, kind, *arguments):
    return getattr(pytest.importorskip(name), kind)(*arguments)


ONE_CHANNEL = {
    "tuple": lambda: tuple(ONE),
    "generator": lambda: (x for x in ONE),
    "values of a dict": lambda: dict(enumerate(ONE)).values(),
    "columns (length, 1)": lambda: [x[:, None] for x in ONE],
    "object array": lambda: np.array([*ONE, None], dtype=object)[:-1],
    "tensors": lambda: [torch.tensor(x, requires_grad=True) for x in ONE],
    "Arrow": lambda: pa.array([x.tolist() for x in ONE]),
    "chunked Arrow": lambda: pa.chunked_array([[x.tolist() for x in ONE[:9]], [x.tolist() for x in ONE[9:]]]),
    "Arrow table": lambda: pa.table({"x": [x.tolist() for x in ONE]}),
    "masked rows": lambda: [np.ma.masked_array([*x, -9999.0], [False] * len(x) + [True]) for x in ONE],
    "masked table": lambda: np.ma.masked_invalid(padded()),
    "NaN at the end": lambda: [*padded()],
    "pandas Series of lists": lambda: pandas().Series(ONE),
    "pandas frame of Series": lambda: pandas().DataFrame({"x": [pandas().Series(x) for x in ONE]}),
    "pandas Series by two levels": lambda: panel_of_one(None),
    "polars Series": lambda: of_package("polars", "Series", [x.tolist() for x in ONE]),
    "polars frame": lambda: of_package("polars", "DataFrame", {"x": [x.tolist() for x in ONE]}),
    "Hugging Face": lambda: pytest.importorskip("datasets").Dataset.from_dict(
        {"x": [x.tolist() for x in ONE]}
    ),
}


def padded():
    return np.stack([np.pad(x, (0, L - len(x)), constant_values=np.nan) for x in ONE])


def panel_of_one(name):
    pd = pandas()
    return pd.concat({i: pd.Series(x, name=name) for i, x in enumerate(ONE)}, names=["series", "time"])


TWO_CHANNELS = {
    "panel": lambda: panel(("a", "b")),
    "panel, columns swapped": lambda: panel(("b", "a")),
    "panel, moments backwards": lambda: (
        panel(("a", "b")).groupby(level=0, group_keys=False).apply(lambda x: x[::-1])
    ),
    "frames": lambda: [x for _, x in panel(("a", "b")).groupby(level=0)],
    "frames, columns swapped": lambda: [x[["b", "a"]] for _, x in panel(("a", "b")).groupby(level=0)],
    "nested": lambda: pandas().DataFrame(nested(TWO)),
    "nested, columns swapped": lambda: pandas().DataFrame(nested(TWO))[["b", "a"]],
    "nested Arrow, columns swapped": lambda: pa.table(nested(TWO)).select(["b", "a"]),
    "Arrow tables": lambda: [pa.table({"b": x[:, 1], "a": x[:, 0]}) for x in TWO],
    "polars": lambda: of_package("polars", "DataFrame", nested(TWO)),
    "polars frames": lambda: [of_package("polars", "DataFrame", {"b": x[:, 1], "a": x[:, 0]}) for x in TWO],
}


@pytest.fixture(scope="module")
def one():
    return SequenceClassifier(**SMALL).fit(ONE, LABELS)


@pytest.fixture(scope="module")
def two():
    return SequenceClassifier(**SMALL).fit([pa.table({"a": x[:, 0], "b": x[:, 1]}) for x in TWO], LABELS)


@pytest.mark.parametrize("kind", ONE_CHANNEL)
def test_a_sequence_per_element_is_read_like_a_list_of_arrays(kind, one):
    np.testing.assert_allclose(one.predict_proba(ONE_CHANNEL[kind]()), one.predict_proba(ONE), atol=1e-6)


@pytest.fixture(scope="module")
def loaded(two, tmp_path_factory):
    return SequenceClassifier.load(two.save(tmp_path_factory.mktemp("two")))


@pytest.mark.parametrize("kind", TWO_CHANNELS)
def test_channels_are_found_by_name_in_the_order_of_training(kind, two, loaded):
    expected = two.predict_proba(TWO)
    assert np.abs(expected - two.predict_proba([x[:, ::-1] for x in TWO])).max() > 1e-4, "they differ"
    for model in (two, loaded):
        np.testing.assert_allclose(model.predict_proba(TWO_CHANNELS[kind]()), expected, atol=1e-6)


def by_name():
    """A panel of series 0 to N - 1 that begins with the last one, and labels sorted by series."""
    order = [N - 1, *range(N - 1)]
    return panel(("a", "b")).loc[order], pandas().Series(LABELS, index=range(N)), order


def test_labels_in_another_order_than_the_sequences_of_a_panel_are_refused(two):
    X, y, order = by_name()
    aligned = y.loc[X.index.droplevel(-1).unique()]
    expected = SequenceClassifier(**SMALL)._as_task([TWO[i] for i in order], [LABELS[i] for i in order])
    assert SequenceClassifier(**SMALL)._as_task(X, aligned) == expected
    assert SequenceClassifier(**SMALL)._as_task(X, y.loc[order].to_numpy()) == expected
    assert two.score(X, aligned) == two.score(TWO, LABELS)
    advice = r"another order than X; give y\.loc\[X\.index\.droplevel\(-1\)\.unique\(\)\]"
    for use in (SequenceClassifier(**SMALL).fit, two.score, two.evaluate):
        with pytest.raises(DataError, match=advice):
            use(X, y)
    with pytest.raises(DataError, match="groups has the sequences of X in another order"):
        SequenceClassifier(**SMALL).fit(X, aligned, groups=pandas().Series(range(N)))
    with pytest.raises(DataError, match="sample_weight has the sequences of X in another order"):
        SequenceRegressor().score(X, np.arange(N), sample_weight=pandas().Series(range(N)))


def test_a_moment_that_a_panel_has_twice_is_refused(two):
    twice = pandas().concat([panel(("a", "b")), panel(("a", "b")).iloc[3:4]])
    with pytest.raises(DataError, match="sequence 0 of X has two rows at 3; number sequences"):
        two.predict(twice)


def test_channels_of_other_names_are_refused(two):
    other = [pa.table({"a": x[:, 0], "c": x[:, 1]}) for x in TWO]
    with pytest.raises(DataError, match=r"row 0: columns are a, c, but those of training.* are a, b"):
        two.predict(other)
    mixed = [pa.table({"a": x[:, 0], "b": x[:, 1]}) for x in TWO[:-1]] + other[-1:]
    with pytest.raises(DataError, match=f"row {N - 1}: columns are a, c"):
        SequenceClassifier(**SMALL).fit(mixed, LABELS)


def test_a_saved_model_knows_the_names_of_a_wide_frame(tmp_path):
    frame = pandas().DataFrame(EVEN, columns=[f"t{i}" for i in range(L)])
    model = SequenceClassifier(**SMALL).fit(frame, LABELS)
    loaded = SequenceClassifier.load(model.save(tmp_path / "model"))
    with pytest.raises(ValueError, match="same order"):
        loaded.predict(frame[frame.columns[::-1]])


def test_a_missing_cell_among_channels_is_a_missing_sequence():
    cells = np.empty((2, 2), dtype=object)
    cells[0], cells[1] = [[1, 2], [3, 4]], [np.nan, None]
    first, second = rows_of(cells)[0]
    assert first.tolist() == [[1, 3], [2, 4]] and second is None
    cells[1, 0] = [5, 6]
    with pytest.raises(DataError, match="row 1: column 1 has 0 positions, 0 has 2"):
        rows_of(cells)


@pytest.mark.parametrize("kind", ["bfloat16", "float64", "int16"])
def test_tensors_of_any_type_are_read(kind, one):
    tensor = torch.tensor(EVEN * 8).to(getattr(torch, kind))
    np.testing.assert_allclose(
        one.predict_proba(tensor), one.predict_proba(tensor.double().numpy()), atol=1e-6
    )


def test_text_columns_of_any_frame_are_texts():
    texts = ["abc" + "de"[i % 2] for i in range(N)]
    model = SequenceClassifier(**SMALL).fit(pa.table({"x": texts}), LABELS)
    expected = model.predict_proba(texts)
    for held in (np.array(texts), iter(texts), pa.array(texts), pa.table({"x": texts})):
        assert (model.predict_proba(held) == expected).all()


DATA = torch.utils.data.TensorDataset(torch.tensor(EVEN), torch.arange(N) % 2)
REFUSED = {
    "one sequence": (lambda: ONE[0], "X is one sequence of 5 numbers; put it in a list"),
    "one list": (lambda: [*ONE[0]], "X is one sequence of 5 numbers; put it in a list"),
    "one tensor": (lambda: torch.tensor(ONE[0]), "X is one sequence of 5 numbers; put it in a list"),
    "tensors and labels": (lambda: DATA, r"TensorDataset; give its tensors: X\.tensors\[0\], and"),
    "loader": (
        lambda: torch.utils.data.DataLoader(DATA),
        r"DataLoader; give its tensors: X\.dataset\.tensors",
    ),
    "loader of an array": (
        lambda: torch.utils.data.DataLoader(EVEN),
        r"DataLoader; give what it loads: X\.dataset",
    ),
    "subset": (lambda: torch.utils.data.Subset(DATA, [0, 1]), r"Subset; give \[x for x, _ in dataset\]"),
    "dict": (lambda: {"x": ONE, "y": LABELS}, "dict; give one of its entries.*: x, y"),
    "set": (lambda: {"ab", "cd"}, "a set has no order"),
    "labels beside sequences": (
        lambda: pa.table({"x": [x.tolist() for x in ONE], "label": LABELS}),
        r"column 'x' of X holds sequences beside other columns; give X\['x'\]",
    ),
    "words among numbers": (
        lambda: pa.table({f"t{i}": EVEN[:, i] for i in range(L)} | {"kind": LABELS}),
        "column 'kind' of X holds text beside other columns; .* leave it out",
    ),
    "channels of unequal lengths": (
        lambda: pa.table({"a": [[1.0, 2.0]] * N, "b": [[1.0, 2.0]] * (N - 1) + [[1.0]]}),
        f"row {N - 1}: column 'b' has 1 positions, 'a' has 2; channels of one sequence are equally long",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_line_that_says_what_to_give(kind, one):
    make, advice = REFUSED[kind]
    for use in (one.predict, lambda X: SequenceClassifier(**SMALL).fit(X, LABELS)):
        with pytest.raises(DataError, match=advice) as caught:
            use(make())
        assert "\n" not in str(caught.value)


def test_a_label_per_moment_of_a_panel_is_refused():
    X = [pa.table({"a": x[:, 0], "b": x[:, 1]}) for x in TWO]
    with pytest.raises(DataError, match=f"X has {N} sequences, but y has 166 entries; give one for each"):
        SequenceClassifier(**SMALL).fit(X, np.repeat(LABELS, [len(x) for x in TWO]))


def test_more_channels_than_positions_are_doubted(recwarn):
    model = SequencePretrainer(scale="smoke")
    model._as_task(np.stack(sequences(2, lengths=False)), None)
    assert not recwarn.list
    with pytest.warns(UserWarning, match=r"at most 2 positions of 9 channels.*X\.transpose\(0, 2, 1\)"):
        model._as_task(np.stack(sequences(2, lengths=False)).transpose(0, 2, 1), None)


def test_masked_values_are_never_looked_at(one):
    X = np.ma.masked_array(np.where(EVEN > 1.5, -9999.0, EVEN), EVEN > 1.5)
    expected = one.predict_proba(np.where(EVEN > 1.5, np.nan, EVEN))
    for held in (X, list(X), np.ma.masked_array(X.data[:, :, None], X.mask[:, :, None])):
        np.testing.assert_allclose(one.predict_proba(held), expected, atol=1e-6)


CODES = [None if i < 4 else i % 2 for i in range(N)]
LABELLED = {
    "list": lambda: CODES,
    "generator": lambda: iter(CODES),
    "masked": lambda: np.ma.masked_array([-9 if c is None else c for c in CODES], [c is None for c in CODES]),
    "Arrow": lambda: pa.array(CODES),
    "pandas Int64": lambda: pandas().Series(CODES, dtype="Int64"),
    "polars": lambda: of_package("polars", "Series", CODES),
}


@pytest.mark.parametrize("kind", LABELLED)
def test_missing_labels_of_any_kind_leave_integers_integers(kind):
    model = SequenceClassifier(**SMALL)
    task = model._as_task(ONE, LABELLED[kind]())
    assert model.classes_.tolist() == [0, 1] and model.classes_.dtype.kind == "i"
    assert int(task.data().whole.labelled.sum()) == N - 4
    with pytest.raises(DataError, match="4 labels of y are missing"):
        refuse_unlabelled(LABELLED[kind]())


def test_unlabelled_sequences_may_come_from_a_generator():
    expected, found = (
        SequenceClassifier(**SMALL)._as_task(ONE, LABELS, X_unlabelled=each)
        for each in (ONE[:5], iter(ONE[:5]))
    )
    assert found == expected


def test_masked_targets_are_missing():
    y = np.array([x.mean() for x in ONE])
    masked = np.ma.masked_array(np.where(np.arange(N) < 4, 1e9, y), np.arange(N) < 4)
    model = SequenceRegressor(**SMALL)
    assert model._as_task(ONE, masked) == model._as_task(ONE, np.where(np.arange(N) < 4, np.nan, y))
    assert model._as_task(ONE, masked) != model._as_task(ONE, y)


COLUMNS = {
    "Arrow": lambda: pa.array([i % 2 for i in range(N)]),
    "tensor": lambda: torch.arange(N) % 2,
    "column (n, 1)": lambda: (np.arange(N) % 2)[:, None],
}


@pytest.mark.filterwarnings("ignore:A column-vector")
@pytest.mark.parametrize("kind", COLUMNS)
def test_labels_that_fit_takes_are_evaluated(kind):
    model = SequenceClassifier(**SMALL).fit(ONE, COLUMNS[kind]())
    expected = model.evaluate(ONE, np.arange(N) % 2, draws=5)
    found = model.evaluate(ONE, COLUMNS[kind](), draws=5)
    assert found["accuracy"] == expected["accuracy"] and found["log loss"] == expected["log loss"]


def test_names_of_groups_may_have_several_parts(one):
    names = [("north", i // 2) if i % 8 < 4 else ("south", i // 2) for i in range(N)]
    numbers = np.unique([f"{place} {i:02}" for place, i in names], return_inverse=True)[1]
    task = SequenceClassifier(**SMALL)._as_task(ONE, LABELS, groups=names)
    held = task.data().whole.groups.numpy()
    assert len(np.unique(np.stack([held, numbers]), axis=1).T) == len(np.unique(numbers))
    assert not set(held[task.data().split == 0]) & set(held[task.data().split == 1])
    assert np.isfinite(one.evaluate(ONE, LABELS, groups=names, draws=5)["accuracy"].low)
    column = SequenceClassifier(**SMALL)._as_task(ONE, LABELS, groups=numbers[:, None])
    assert len(column.data().whole.groups) == N
    mixed = np.array([i // 2 if i % 4 < 2 else f"{i // 2}b" for i in range(N)], dtype=object)
    column = SequenceClassifier(**SMALL)._as_task(ONE, LABELS, groups=mixed)
    assert len(np.unique(column.data().whole.groups)) == len(set(mixed))
    with pytest.raises(DataError, match="groups has missing entries"):
        SequenceClassifier(**SMALL)._as_task(ONE, LABELS, groups=[(None, 1), *names[1:]])


def test_a_label_that_may_stand_for_a_missing_one_is_doubted(recwarn):
    SequenceClassifier(**SMALL)._as_task(ONE, np.arange(N) % 3)
    assert not [w for w in recwarn.list if "is a class" in str(w.message)]
    marks = [np.where(np.arange(len(x)) == 0, -100, np.arange(len(x)) % 2) for x in ONE]
    for kind, y, number in (
        (SequenceClassifier, np.arange(N) % 3 - 1, -1),
        (PositionClassifier, marks, -100),
    ):
        with pytest.warns(UserWarning, match=f"{number} is a class like 0 and 1; missing labels are NaN"):
            kind(**SMALL)._as_task(ONE, y)


def test_one_number_for_all_sequences_is_refused():
    for y in (np.full(N, 3.5), [3.5, *[None] * (N - 1)]):
        with pytest.raises(SpecError, match=r"y holds one number, 3\.5; there must be two or more"):
            SequenceRegressor(**SMALL)._as_task(ONE, y)


def test_weights_of_classes_come_back(tmp_path):
    weights = {"hi": 9, "lo": 0.5}
    model = SequenceClassifier(**SMALL, class_weight=weights).fit(ONE, LABELS)
    again = SequenceClassifier.load(model.save(tmp_path / "model"))
    assert again.class_weight == weights
    assert again.fit(ONE, LABELS).predictor_.objective == model.predictor_.objective
