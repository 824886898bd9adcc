"""One's own arrays: every form that is kept, and every mistake with its message."""

import numpy as np
import pytest
import torch

from selfpretrain.data.importing import importer
from selfpretrain.data.importing.importer import import_arrays
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.paths import imported_datasets
from selfpretrain.data.spec import SPLITS, Classes, Reals, Tokens
from selfpretrain.errors import DataError

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def bring(tmp_path):
    def bring(settings=None, **arrays):
        np.savez(tmp_path / "mine.npz", **arrays)
        return importer.import_data(
            importer.plan_import(str(tmp_path / "mine.npz"), ImportOptions(**settings or {})), "mine"
        )

    return bring


def sound(random, n=60, length=12) -> dict[str, np.ndarray]:
    """Arrays without a mistake."""
    return {"x": random.randint(0, 9, (n, length)), "y": np.arange(n) % 3}


def sizes(made) -> list[int]:
    return [len(made.examples(split)) for split in SPLITS]


def test_tokens_and_classes(bring, random):
    arrays = sound(random)
    made = bring(**arrays)
    assert made.form.signal == Tokens(9)
    assert made.form.target == Classes(("0", "1", "2"))
    assert made.form.length == 12
    assert made.whole.flat.dtype == torch.uint8
    assert sizes(made) == [42, 9, 9]
    assert made.split.tolist() != bring({"split_seed": 1}, **arrays).split.tolist()
    cut = bring({"length": 5}, **arrays)
    assert cut.form.length == 5 and "60 sequences are cut to 5 positions" in cut.meta["about"]["notes"]
    names = bring(x=random.rand(60, 5), y=np.arange(60) % 12).form.target.names
    assert names == tuple(map(str, range(12))), "in the order of numbers"


def test_values_keep_their_channels_and_are_measured_on_train(bring, random):
    x = random.standard_normal((60, 10, 3)) * [1, 5, 0] + [0, 7, 2]
    made = bring(x=x, y=np.arange(60) % 2)
    signal, examples = made.form.signal, made.examples("train")
    train = examples.batch(torch.arange(len(examples))).inputs.reshape(-1, 3)
    assert signal.channels == 3
    np.testing.assert_allclose(signal.centre, train.mean(0), atol=1e-4)
    np.testing.assert_allclose(signal.spread[:2], train.std(0, correction=0)[:2], rtol=1e-4)
    assert signal.spread[2] == 1  # never changes
    assert signal.low == pytest.approx(float(train.min()))
    assert signal.high == pytest.approx(float(train.max()))


def test_a_far_centre_does_not_blur_the_spread(bring, random):
    x = (random.randint(0, 2, (60, 10)) + 30_000).astype(float)
    made = bring(x=x, y=np.arange(60) % 2)
    assert made.form.signal.spread[0] == pytest.approx(0.5, rel=0.01)
    assert made.whole.flat.dtype == torch.int16


def test_bytes_read_as_values_have_256_levels_and_a_matrix_one_channel(bring, random):
    x = random.randint(0, 256, (40, 7), dtype=np.uint8)
    made = bring({"kind": "values"}, x=x, y=np.arange(40) % 2)
    signal = made.form.signal
    assert (signal.channels, signal.levels, signal.low, signal.high) == (1, 256, 0, 255)
    assert sorted(made.whole.flat.flatten().tolist()) == sorted(x.flatten().tolist())
    made = bring(x=random.rand(40, 7), y=np.arange(40) % 2)
    assert made.examples("val").batch(torch.arange(3)).inputs.shape == (3, 7, 1)


def test_padding_is_never_looked_at(bring, random):
    x, lengths = random.rand(40, 9), random.randint(1, 10, 40)
    x[np.arange(9) >= lengths[:, None]] = np.nan
    made = bring(x=x, y=np.arange(40) % 2, lengths=lengths)
    assert made.whole.flat.isfinite().all()
    assert made.whole.lengths[0].tolist() == lengths.tolist()


def test_real_numbers(random):
    y = np.r_[random.rand(50) * 4 + 10, [np.nan] * 10]
    made = import_arrays("mine", random.rand(60, 5), y)
    train = made.examples("train")
    assert isinstance(made.form.target, Reals)
    assert made.form.target.centre == pytest.approx(float(train.targets.nanmean()), rel=1e-5)
    assert int((~train.labelled).sum()) == 10  # unlabelled sequences serve training only
    np.testing.assert_allclose(made.whole.targets, y, rtol=1e-6)


def test_labels_are_what_they_look_like_unless_somebody_says_otherwise(bring, random):
    def target(y, how="auto"):
        return type(bring({"target": how}, x=random.rand(len(y), 5), y=y).form.target)

    assert target(np.arange(600) % 30) is Classes
    assert target(np.arange(600) % 2 / 1.0) is Classes
    assert target(np.arange(600) % 2 / 2.0) is Reals
    assert target(np.arange(600)) is Reals  # more kinds than there may be classes
    assert target(np.arange(600) % 30, "reals") is Reals
    assert target((np.arange(600) % 30).astype("U2"), "reals") is Reals
    assert target(np.arange(900) % 300, "classes") is Classes


NAN = float("nan")


@pytest.mark.parametrize(
    ("labels", "names", "nothings"),
    [
        ([0, 5], ("0", "5"), (None, NAN)),
        ([-1, 1], ("-1", "1"), (None, NAN)),
        ([0.0, 5.0], ("0", "5"), (None, NAN)),
        (["b", "a"], ("a", "b"), (None, NAN, "")),
        ([True, False], ("false", "true"), (None, NAN)),
        ([-7, 2.5], None, (None, NAN)),
        ([-7, 250], ("-7", "250"), (None, NAN)),
    ],
)
def test_a_missing_label_may_be_none_as_in_fit(labels, names, nothings, random):
    for nothing in nothings:
        y = [nothing if i < 12 else labels[i % 2] for i in range(60)]
        for given in (y, np.array(y, dtype=object)):
            made = import_arrays("mine", random.rand(60, 5), given)
            assert made.form.target == Classes(names) if names else isinstance(made.form.target, Reals)
            assert (~made.whole.labelled).tolist() == [True] * 12 + [False] * 48
            assert (made.split[:12] == 0).all()
            assert "12 sequences have no label; they serve pretraining" in made.meta["about"]["notes"]


NEGATIVE = {
    "two classes": (np.arange(60) % 2 * 2 - 1, "auto", ("-1", "1")),
    "three classes": (np.arange(60) % 3 - 1, "auto", ("-1", "0", "1")),
    "other classes": (np.arange(60) % 3 - 2, "classes", ("-2", "-1", "0")),
    "degrees": (np.arange(60) - 20, "reals", None),
    "few degrees": (np.arange(60) % 5 - 1, "reals", None),
    "positions": ((np.arange(300) % 3 - 1).reshape(60, 5), "positions", ("-1", "0", "1")),
}


@pytest.mark.parametrize("of", [np.int8, np.int64, float, str, list, "npz"])
@pytest.mark.parametrize("kind", NEGATIVE)
def test_minus_one_is_a_label_like_others(kind, of, bring, random):
    y, target, names = NEGATIVE[kind]
    x = random.rand(60, 5)
    if of == "npz":
        made = bring({"target": target}, x=x, y=y)
    else:
        given = y.tolist() if of is list else y.astype(of)
        made = import_arrays("mine", x, given, options=ImportOptions(target=target))
    assert made.whole.labelled.all()
    if names is None:
        assert made.whole.targets.tolist() == y.tolist()
    else:
        assert made.form.target.names == names
        assert made.whole.targets.tolist() == np.searchsorted(np.unique(y), y).tolist()
    doubted = any("-1 is a class like 0 and 1" in note for note in made.meta["about"]["notes"])
    assert doubted == (kind in ("three classes", "positions") and of in (np.int8, np.int64, list, "npz"))


@pytest.mark.parametrize("target", ["classes", "reals", "positions", "sets"])
def test_masked_labels_are_missing(target, random):
    y = np.arange(60) % 2 if target in ("classes", "reals") else np.arange(60)[:, None] % [2, 3, 2] % 2
    hidden = np.broadcast_to((np.arange(60) < 6).reshape(60, *[1] * (y.ndim - 1)), y.shape)
    options = ImportOptions(target=target)
    made = import_arrays("mine", random.rand(60, 3), np.ma.masked_array(y, hidden), options=options)
    assert made.whole.labelled.tolist() == [False] * 6 + [True] * 54
    assert made.whole.targets[6:].tolist() == y[6:].tolist()


def test_masked_values_are_missing(random):
    hidden = np.broadcast_to(np.arange(12) > 9, (60, 12))
    x = np.ma.masked_array(np.where(hidden, -9999.0, random.rand(60, 12)), hidden)
    for held in (x, list(x)):
        with pytest.raises(DataError, match="sequence 0: position 10 is missing"):
            import_arrays("mine", held, np.arange(60) % 2)
        made = import_arrays("mine", held, np.arange(60) % 2, options=ImportOptions(missing="cut"))
        assert made.form.length == 10 and made.whole.flat.min() >= 0
    with pytest.raises(DataError, match="masked integers, and tokens are never missing"):
        import_arrays("mine", np.ma.masked_equal(random.randint(0, 5, (60, 4)), 3), np.arange(60) % 2)


def test_arrays_of_another_byte_order_are_read(bring, random):
    x, y = random.rand(60, 5), np.arange(60) % 3
    expected = bring(x=x, y=y)
    made = bring(x=x.astype(">f8"), y=y.astype(">i4"), groups=np.arange(60).astype(">i8"))
    assert (made.whole.flat == expected.whole.flat).all()
    assert (made.whole.targets == expected.whole.targets).all()


def test_labels_may_be_one_column(bring, random):
    x, y = random.rand(60, 5), np.arange(60) % 3
    assert (bring(x=x, y=y[:, None]).whole.targets == bring(x=x, y=y).whole.targets).all()


def test_arrays_of_splits_and_capitals_are_read(bring, random):
    x, y = random.rand(60, 5), np.arange(60) % 3
    expected = bring(x=x, y=y)
    assert bring(X=x, Y=y).digest == bring(X=x, y=y).digest == expected.digest
    made = bring(X_train=x[:40], y_train=y[:40], X_test=x[40:], y_test=y[40:])
    assert (made.split[40:] == 2).all() and (made.split[:40] < 2).all()
    assert (made.whole.flat == expected.whole.flat).all()
    made = bring(x_train=x[:30], y_train=y[:30], x_val=x[30:45], y_val=y[30:45], x_test=x[45:], y_test=y[45:])
    assert made.split.tolist() == [0] * 30 + [1] * 15 + [2] * 15
    made = bring(x_train=x[:40], y_train=y[:40], x_test=x[40:, :3], y_test=y[40:])
    assert made.whole.lengths[0].tolist() == [5] * 40 + [3] * 20


def test_more_channels_than_positions_are_doubted(bring, random):
    notes = bring(x=random.rand(60, 2, 9), y=np.arange(60) % 2).meta["about"]["notes"]
    assert any("at most 2 positions of 9 channels" in note for note in notes)
    notes = bring(x=random.rand(60, 9, 2), y=np.arange(60) % 2).meta["about"]["notes"]
    assert not any("channels" in note for note in notes)


def test_texts_and_single_numbers_are_refused():
    refused = ((["one", "two"], "import texts from a table"), ([1, 2], "put it in a list"))
    for x, reason in refused:
        with pytest.raises(DataError, match=reason):
            import_arrays("mine", x, ["a", "b"])
    with pytest.raises(DataError, match="y is None; give a label for each sequence, None or NaN where it is"):
        import_arrays("mine", np.eye(2), None)


def test_labels_of_two_kinds_are_refused(random):
    for nothing in (None, NAN):
        with pytest.raises(DataError, match="y mixes kinds of things"):
            import_arrays("mine", random.rand(60, 5), ["a", 1, nothing] * 20)


def test_a_missing_group_is_refused_and_no_group_of_its_own(random):
    for groups in ([None, *range(1, 60)], [None, *map(str, range(59))], ["", *["ab"] * 59]):
        with pytest.raises(DataError, match="sequence 0: groups is empty; every sequence needs one"):
            import_arrays("mine", random.rand(60, 5), np.arange(60) % 2, groups=groups)


def test_splits_may_be_padded_to_lengths_of_their_own(bring, random):
    widths = {"train": 12, "test": 9}
    n = {"train": 40, "test": 20}
    held = {f"x_{split}": random.rand(n[split], width) for split, width in widths.items()}
    lengths = {f"lengths_{split}": random.randint(2, width, n[split]) for split, width in widths.items()}
    held |= {f"y_{split}": random.randint(0, 2, (n[split], width)) for split, width in widths.items()}
    for made in (
        bring({"target": "positions"}, **held, **lengths),
        bring({"target": "positions"}, **held),
    ):
        rows = [made.whole.sequence(row).ravel() for row in range(60)]
        full = [*held["x_train"], *held["x_test"]]
        assert all(np.allclose(row, x[: len(row)]) for row, x in zip(rows, full, strict=True))
        targets = made.whole.targets.numpy()
        both = zip(targets, [*held["y_train"], *held["y_test"]], rows, strict=True)
        assert all((y[: len(row)] == given[: len(row)]).all() for y, given, row in both)
    assert [len(row) for row in rows] == [12] * 40 + [9] * 20


def test_a_test_file_of_arrays_is_divided_and_grouped_like_that_of_training(tmp_path, random):
    def said(train, test):
        for name, more in {"a": train, "b": test}.items():
            np.savez(tmp_path / f"{name}.npz", **sound(random), **more)
        read = ImportOptions(test=str(tmp_path / "b.npz"))
        with pytest.raises(DataError) as caught:
            importer.plan_import(str(tmp_path / "a.npz"), read)
        return str(caught.value)

    groups = {"groups": np.arange(60) // 4}
    for train, test in ((groups, {}), ({}, groups)):
        assert "has group; both need it, or neither" in said(train, test)
    for split in (np.arange(60) % 3, ["train", "", "TEST"] * 20):
        assert "leave --test out" in said({"split": split}, {})


def test_the_ending_of_a_file_of_arrays_may_be_in_capitals(tmp_path, random):
    arrays = sound(random)
    for name in ("mine.npz", "DATA.NPZ"):
        with (tmp_path / name).open("wb") as file:
            np.savez(file, **arrays)
    found = [importer.import_to_memory(importer.plan_import(str(file))) for file in tmp_path.iterdir()]
    assert found[0].digest == found[1].digest


def test_given_splits_are_kept_and_val_is_taken_from_train_where_there_is_none(bring, random):
    names = np.array(["train", "val", "test"])[np.arange(60) // 20]
    x = np.arange(60)[:, None] * np.ones((1, 4), dtype=int)
    for split in (names, np.arange(60) // 20):
        made = bring(x=x, y=np.arange(60) % 2, split=split)
        assert made.split.tolist() == (np.arange(60) // 20).tolist()
        assert made.meta["about"]["val_given"] is True
        assert made.with_split(made.split).meta["about"]["val_given"] is False  # somebody else's split
    made = bring(**sound(random, 100), split=np.where(np.arange(100) < 80, "train", "test"))
    assert sizes(made) == [68, 12, 20]
    assert (made.split[80:] == 2).all()
    assert any("no val split: 12 examples" in note for note in made.meta["about"]["notes"])
    assert made.meta["about"]["val_given"] is False
    assert bring(**sound(random, 100)).meta["about"]["val_given"] is False
    split, groups = ["train"] * 20 + ["val"] * 10 + ["test"] * 10, [i // 10 for i in range(40)]
    lengths = random.randint(1, 8, 40)
    made = import_arrays("mine", random.rand(40, 8), [0, 1] * 20, lengths, groups, split)
    assert sizes(made) == [20, 10, 10]
    assert set(made.examples("test").groups.tolist()) == {3}


@pytest.mark.parametrize(("number", "fewest"), [(3, 1), (6, 1), (10, 2), (15, 3), (40, 5)])
def test_val_and_test_hold_several_groups(bring, random, number, fewest):
    """One person's windows say nothing of other persons, and that there are few is said."""
    made = bring(x=random.rand(600, 4), y=np.arange(600) % 3, groups=np.arange(600) * number // 600)
    held = [len(made.examples(split).groups.unique()) for split in SPLITS]
    assert sum(held) == number and min(held) >= fewest and held[0] >= number // 3
    few = [f"{split} holds {count}" for split, count in zip(SPLITS, held, strict=True) if count < 5]
    said = f"of {number} groups {', '.join(few)}; scores rest on so few"
    assert (said in made.meta["about"]["notes"]) == bool(few) == (number < 40)
    if number == 40:
        np.testing.assert_allclose(np.array(sizes(made)) / 600, [0.7, 0.15, 0.15], atol=0.05)


def test_equal_sequences_share_a_split_or_are_left_out_in_other_groups(bring, random):
    def divided(made):
        digests = [set(made.examples(split).digests()) for split in SPLITS]
        assert sum(map(len, digests)) == len(set().union(*digests))
        return sum(map(len, digests))

    x = np.repeat(random.randint(0, 9, (30, 8)), 4, axis=0)
    made = bring(x=x, y=np.arange(120) % 2)
    assert divided(made) == 30 and sum(sizes(made)) == 120
    x = np.tile(random.randint(0, 9, (100, 8)), (2, 1))
    made = bring(x=x, y=np.arange(200) % 2, groups=np.arange(200) // 5)
    assert divided(made) == 100
    assert any("copies of sequences that another group" in note for note in made.meta["about"]["notes"])


def test_a_class_of_two_is_trained_on_only_and_that_is_said(bring, random):
    y = np.r_[np.zeros(40), np.ones(40), [2, 2]].astype(int)
    made = bring(x=random.rand(82, 5), y=y)
    assert made.split[80:].tolist() == [0, 0]
    said = "class '2' (2 examples) is not in val and test: it is trained on, but not scored there"
    assert said in made.meta["about"]["notes"]


def test_overlapping_windows_are_noticed(bring, random):
    recording = random.rand(4000).astype(np.float32)
    windows = np.stack([recording[i * 12 : i * 12 + 100] for i in range(300)])
    apart = random.rand(300, 100)
    for x, expected in ((windows, True), (apart, False)):
        made = bring(x=x, y=np.arange(300) % 2)
        assert any("overlapping windows" in note for note in made.meta["about"]["notes"]) == expected


@pytest.mark.parametrize("stride", [None, 5])
def test_windows_are_cut_and_stay_with_their_sequence(bring, random, stride):
    x, lengths = random.rand(60, 40), np.r_[7, np.full(59, 40)]
    made = bring({"window": 10, "stride": stride}, x=x, y=np.arange(60) % 2, lengths=lengths)
    count = 1 + 59 * (4 if stride is None else 7)
    assert made.form.length == 10
    assert len(made.split) == count
    np.testing.assert_allclose(made.whole.sequence(2)[:, 0], x[1, (stride or 10) :][:10], rtol=1e-6)
    groups = [set(made.examples(split).groups.tolist()) for split in SPLITS]
    assert sum(map(len, groups)) == len(set().union(*groups)) == 60


def test_an_npy_file_with_labels_beside_it(tmp_path, random):
    arrays = sound(random)
    path = tmp_path / "waves.npy"
    np.save(path, arrays["x"])
    with pytest.raises(DataError, match=r"save the array 'y' as waves\.y\.npy"):
        importer.plan_import(str(path))
    np.save(tmp_path / "waves.y.npy", arrays["y"])
    made = importer.import_data(importer.plan_import(str(path)), "mine")
    assert made.whole.targets.tolist() == arrays["y"].tolist()


def test_missing_values_are_cut_filled_dropped_or_marked(bring, random):
    x = np.r_[[[1, 2, 3, 4], [5, 6, np.nan, np.nan], [7, 8, 9, 1]], random.rand(57, 4)]
    for missing, expected in {
        "cut": [[1, 2, 3, 4], [5, 6], [7, 8, 9, 1]],
        "fill": [[1, 2, 3, 4], [5, 6, 6, 6], [7, 8, 9, 1]],
        "drop": [[1, 2, 3, 4], [7, 8, 9, 1]],
    }.items():
        made = bring({"missing": missing}, x=x, y=np.arange(60) % 3)
        assert [made.whole.sequence(i)[:, 0].tolist() for i in range(len(expected))] == expected
    x = np.r_[[[np.nan, 2, np.nan, 4], [np.nan] * 4], random.rand(58, 4)]
    made = bring({"missing": "mask"}, x=x, y=np.arange(60) % 2)
    assert made.whole.sequence(0).tolist() == [[2, 0], [2, 1], [3, 0], [4, 1]], "interpolated"
    assert made.form.signal.channels == 2
    np.testing.assert_allclose(made.whole.sequence(1), [[made.form.signal.centre[0], 0]] * 4, rtol=1e-5)


MISTAKES = {
    "y missing": (lambda a: {"x": a["x"], "labels": a["y"]}, "has no array 'y'; known: x, labels"),
    "capitals of both": (lambda a: a | {"X": a["x"]}, "unknown array 'X'; did you mean 'x'"),
    "a split without y": (
        lambda a: {"x_train": a["x"], "y_train": a["y"], "x_test": a["x"]},
        "the arrays of split 'test' are incomplete: each needs x and y",
    ),
    "unknown": (lambda a: a | {"length": a["y"]}, "unknown array 'length'; did you mean 'lengths'"),
    "objects": (lambda a: a | {"y": a["y"].astype(object)}, r"Python objects.*importer\.import_arrays"),
    "complex": (lambda a: a | {"x": a["x"] * 1j}, "complex128; it must hold integers"),
    "flat": (lambda a: a | {"x": a["x"].ravel()}, r"shape \(720,\); it must be \(n, L\)"),
    "negative token": (
        lambda a: a | {"x": a["x"] - 1},
        r"sequence 0: position \d+ is -1, not a token.*--kind values",
    ),
    "huge token": (lambda a: a | {"x": a["x"] + (1 << 40)}, r"sequence 0: position 0 is .* not a token"),
    "nan": (
        lambda a: a | {"x": np.where((a["x"] == 3) & (np.arange(60) > 7)[:, None], np.nan, 1.0)},
        r"sequence \d+: position \d+ is missing.*--missing drop",
    ),
    "overflow": (lambda a: a | {"x": np.where(a["x"] == 3, 1e300, 1.0)}, "beyond float32"),
    "short y": (lambda a: a | {"y": a["y"][:50]}, r"`y` has shape \(50,\), but there are 60 sequences"),
    "y of complex": (lambda a: a | {"y": a["y"] * 1j}, "y is complex128"),
    "sets of -1 and 1": (
        lambda a: a | {"y": a["y"][:, None] % 2 * 2 - np.ones((1, 2), dtype=int)},
        "sequence 0: columns of labels hold 0 and 1, not -1",
    ),
    "one class": (lambda a: a | {"y": a["y"] * 0}, "only class '0'"),
    "no label": (lambda a: a | {"y": a["y"] * np.nan}, "holds no label"),
    "one negative class": (lambda a: a | {"y": a["y"] * 0 - 1}, "only class '-1'"),
    "infinite y": (lambda a: a | {"y": np.r_[np.arange(59) / 2, np.inf]}, "sequence 59: y is 'inf', which"),
    "constant y": (lambda a: a | {"y": np.full(60, 0.5)}, "all training targets are equal"),
    "too long": (lambda a: a | {"lengths": np.full(60, 13)}, r"lengths\[0\] is 13, but rows of x have 12"),
    "empty": (lambda a: a | {"lengths": np.arange(60) % 12}, "sequence 0: there is no sequence"),
    "float lengths": (lambda a: a | {"lengths": np.ones(60)}, "`lengths` must be one row of integers"),
    "few lengths": (lambda a: a | {"lengths": np.ones(9, dtype=int)}, "9 lengths for 60 sequences"),
    "both": (lambda a: a | {"lengths": a["y"], "offsets": a["y"]}, "give one of them"),
    "offsets": (lambda a: a | {"x": a["x"].ravel(), "offsets": np.arange(60)}, "rise from 0 to 720"),
    "split word": (lambda a: a | {"split": np.full(60, "tran")}, "'tran'; did you mean 'train'"),
    "split number": (lambda a: a | {"split": np.full(60, 3)}, "no split '3'"),
    "no test": (
        lambda a: a | {"split": np.where(np.arange(60) % 2, "train", "val")},
        "the test split has no labelled example",
    ),
    "no number of test": (lambda a: a | {"split": np.arange(60) % 2}, "but no 2 [(]test[)]"),
    "poor split": (lambda a: a | {"split": a["y"]}, "has only class"),
    "unseen class": (
        lambda a: a | {"split": np.where(a["y"] == 2, 1, np.arange(60) % 7 % 3)},
        "class '2' is in val or test but not in train",
    ),
    "torn group": (
        lambda a: a | {"split": np.arange(60) % 3, "groups": np.full(60, 7)},
        "1 groups are in more than one split",
    ),
    "two groups": (lambda a: a | {"groups": np.arange(60) % 2}, "2 groups cannot fill three splits"),
    "two groups in train": (
        lambda a: a | {"split": np.repeat(["train", "test"], [40, 20]), "groups": np.arange(60) // 20},
        "train has too few groups to draw val from; give a val split as well",
    ),
    "group by flag": (
        lambda a: a,
        r"mine\.npz: --group is for .*, texts; leave it out; labels, groups and split are arrays",
    ),
    "label by flag": (lambda a: a, r"mine\.npz: --label is for tables, recordings, texts; leave it out"),
    "nothing": (lambda a: {"x": a["x"][:0], "y": a["y"][:0]}, "holds no sequence"),
    "halves of tokens": (lambda a: a | {"x": a["x"] * 0.5}, "tokens are integers"),
    "numbers of words": (lambda a: a | {"y": np.array(["a", "b"])[a["y"] % 2]}, "use --target classes"),
    "stride alone": (lambda a: a, "--stride needs --window"),
}
SETTINGS = {"halves of tokens": {"kind": "tokens"}, "numbers of words": {"target": "reals"}}
SETTINGS |= {"group by flag": {"group": "who", "split": "fold"}, "label by flag": {"label": "y"}}
SETTINGS |= {"stride alone": {"stride": 3}, "sets of -1 and 1": {"target": "sets"}}


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_has_one_clear_message(name, bring, random, home):
    spoil, advice = MISTAKES[name]
    with pytest.raises(DataError, match=advice) as caught:
        bring(SETTINGS.get(name), **spoil(sound(random)))
    assert "\n" not in str(caught.value)
    assert imported_datasets() == {}
    assert [p.name for p in home.glob("own/*") if not p.name.startswith(".")] == []


def test_files_that_cannot_be_read(tmp_path, random, bring):
    bring(**sound(random))
    with pytest.raises(DataError, match=r"there is no .*mine\.npy; did you mean 'mine\.npz'"):
        importer.plan_import(str(tmp_path / "mine.npy"))
    for name, content in (
        ("bad.npz", b"PK"),
        ("empty.npz", b""),
        ("text.npz", b"hello there"),
        ("cut.npy", b"\x93NUMPY"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=r"cannot be read|Python objects"):
            importer.plan_import(str(tmp_path / name))


def test_an_empty_list_among_tokens_makes_them_no_values(random):
    rows = [[], *random.randint(0, 9, (60, 4)).tolist()]
    made = import_arrays("mine", rows, np.arange(61) % 2, options=ImportOptions(missing="drop"))
    assert isinstance(made.form.signal, Tokens) and len(made.split) == 60


def test_nothing_is_saved_that_could_not_be_read():
    for x, y in (
        ([np.ones(3), np.ones((3, 2))], [0, 1]),
        (np.ones((30, 3)), [object()] * 30),
        (np.ones((30, 3)), [["a"], ["b", "a"]] * 15),
        (np.full((30, 3), np.nan), np.arange(30) % 2),
    ):
        with pytest.raises(DataError):
            import_arrays("mine", x, y)
    for name in ("Mine", "my data", "../mine", "", "stdlib"):
        with pytest.raises(DataError, match=r"cannot be a name of data|already"):
            import_arrays(name, np.random.rand(30, 3), np.arange(30) % 2)
    assert imported_datasets() == {}
