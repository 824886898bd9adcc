"""One's own arrays: every form that is read, and every mistake with its message."""

import numpy as np
import pytest
import torch

from selfpretrain.batch import SPLITS, Classes, Reals, Tokens, Values
from selfpretrain.errors import DataError, SpecError
from selfpretrain.tasks.arrays import Arrays, save_arrays


@pytest.fixture
def random():
    return np.random.RandomState(0)


@pytest.fixture
def write(tmp_path):
    def write(**arrays) -> str:
        np.savez(tmp_path / "own.npz", **arrays)
        return str(tmp_path / "own.npz")

    return write


def sound(random, n=60, length=12) -> dict[str, np.ndarray]:
    """Arrays without a mistake."""
    return {"x": random.randint(0, 9, (n, length)), "y": np.arange(n) % 3}


def total(task: Arrays) -> int:
    return sum(len(task.load(split)) for split in SPLITS)


def test_tokens_and_classes(write, random):
    task = Arrays(write(**sound(random)))
    assert task.form.signal == Tokens(9)
    assert task.form.target == Classes(("0", "1", "2"))
    assert task.form.length == 12
    assert [len(task.load(split)) for split in SPLITS] == [42, 9, 9]


def test_values_keep_their_channels_and_are_measured_on_train(write, random):
    x = random.standard_normal((60, 10, 3)) * [1, 5, 0] + [0, 7, 2]
    task = Arrays(write(x=x, y=np.arange(60) % 2))
    signal = task.form.signal
    examples = task.load("train")
    train = examples.batch(torch.arange(len(examples))).inputs.reshape(-1, 3)
    assert signal.channels == 3
    np.testing.assert_allclose(signal.centre, train.mean(0), atol=1e-4)
    np.testing.assert_allclose(signal.spread[:2], train.std(0, correction=0)[:2], rtol=1e-4)
    assert signal.spread[2] == 1  # never changes


def test_a_matrix_of_floats_is_one_channel(write, random):
    task = Arrays(write(x=random.rand(40, 7), y=np.arange(40) % 2))
    assert task.form.signal.channels == 1
    assert task.load("val").batch(torch.arange(3)).inputs.shape == (3, 7, 1)


def test_bytes_read_as_values_have_256_levels(write, random):
    x = random.randint(0, 256, (40, 7), dtype=np.uint8)
    task = Arrays(write(x=x, y=np.arange(40) % 2), kind="values")
    signal = task.form.signal
    assert (signal.levels, signal.low, signal.high) == (256, 0, 255)
    seen = sorted(
        v
        for s in SPLITS
        for v in task.load(s).batch(torch.arange(len(task.load(s)))).inputs.flatten().tolist()
    )
    assert seen == sorted(x.flatten().tolist())


def test_padding_is_never_looked_at(write, random):
    x, lengths = random.rand(40, 9), random.randint(1, 10, 40)
    x[np.arange(9) >= lengths[:, None]] = np.nan
    task = Arrays(write(x=x, y=np.arange(40) % 2, lengths=lengths))
    batch = task.load("train").batch(torch.arange(20))
    assert batch.inputs.isfinite().all()
    assert sorted(n for s in SPLITS for n in task.load(s).lengths[0].tolist()) == sorted(lengths)


@pytest.mark.parametrize("channels", [(), (2,)])
def test_ragged_sequences_come_back(tmp_path, random, channels):
    x = [random.rand(n, *channels).astype(np.float32) for n in random.randint(3, 20, 30)]
    path = save_arrays(tmp_path / "own.npz", x, ["up", "down", "up"] * 10)
    task = Arrays(str(path))
    assert task.form.target == Classes(("down", "up"))
    examples = [task.load(split) for split in SPLITS]
    found = {
        tuple(e.flat[a : a + n].flatten().tolist()): task.form.target.names[y]
        for e in examples
        for a, n, y in zip(e.starts[0].tolist(), e.lengths[0].tolist(), e.targets.tolist(), strict=True)
    }
    assert found == {
        tuple(s.flatten().tolist()): label for s, label in zip(x, ["up", "down", "up"] * 10, strict=True)
    }


def test_real_numbers(write, random):
    y = np.r_[random.rand(50) * 4 + 10, [np.nan] * 10]
    task = Arrays(write(x=random.rand(60, 5), y=y))
    target = task.form.target
    train = task.load("train")
    assert isinstance(target, Reals)
    assert target.centre == pytest.approx(float(train.targets.nanmean()), rel=1e-5)
    assert int((~train.labelled).sum()) == 10  # unlabelled sequences serve training only
    assert int(Arrays(task.path, labels=7).load("train").labelled.sum()) == 7


def test_whole_numbers_can_be_predicted_as_reals_and_floats_as_classes(write, random):
    x = random.rand(60, 5)
    assert isinstance(Arrays(write(x=x, y=np.arange(60)), target="reals").form.target, Reals)
    y = np.where(np.arange(60) % 9 == 0, np.nan, np.arange(60) % 2)
    task = Arrays(write(x=x, y=y), target="classes")
    assert task.form.target == Classes(("0", "1"))
    assert int((~task.load("train").labelled).sum()) == 7


def test_unlabelled_classes(write, random):
    for y, names in (
        (np.where(np.arange(60) < 12, -1, np.arange(60) % 2 * 5), ("0", "5")),
        (np.where(np.arange(60) < 12, "", np.array(["b", "a"])[np.arange(60) % 2]), ("a", "b")),
    ):
        task = Arrays(write(x=random.rand(60, 5), y=y))
        assert task.form.target == Classes(names)
        train = task.load("train")
        assert (~train.labelled).tolist() == [False] * 32 + [True] * 12
        assert total(task) == 60


def test_given_splits_are_kept(write, random):
    names = np.array(["train", "val", "test"])[np.arange(60) // 20]
    x = np.arange(60)[:, None] * np.ones((1, 4), dtype=int)
    for split in (names, np.arange(60) // 20):
        task = Arrays(write(x=x, y=np.arange(60) % 2, split=split))
        for i, name in enumerate(SPLITS):
            e = task.load(name)
            assert sorted(e.flat[e.starts[0]].tolist()) == list(range(20 * i, 20 * i + 20))


def test_groups_stay_whole_and_classes_balanced(write, random):
    groups = np.array([f"patient {i}" for i in random.randint(0, 30, 300)])
    task = Arrays(write(x=random.rand(300, 4), y=random.randint(0, 2, 300), groups=groups))
    splits = [task.load(split) for split in SPLITS]
    seen = [set(s.groups.tolist()) for s in splits]
    assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])
    sizes = np.array([len(s) for s in splits]) / 300
    np.testing.assert_allclose(sizes, [0.7, 0.15, 0.15], atol=0.05)
    assert all(0.3 < s.targets.double().mean() < 0.7 for s in splits)


def test_three_groups_fill_three_splits(write, random):
    task = Arrays(write(**sound(random), groups=np.arange(60) // 20))
    assert [len(task.load(split)) for split in SPLITS] == [20, 20, 20]


def test_equal_sequences_share_a_split(write, random):
    x = np.repeat(random.randint(0, 9, (30, 8)), 4, axis=0)
    task = Arrays(write(x=x, y=np.arange(120) % 2))
    digests = [set(task.load(split).digests()) for split in SPLITS]
    assert sum(map(len, digests)) == len(set().union(*digests)) == 30
    assert total(task) == 120


def test_another_seed_divides_otherwise(write, random):
    path = write(**sound(random))
    assert Arrays(path).load("val").digests() != Arrays(path, split_seed=1).load("val").digests()


def test_an_npy_file_with_labels_beside_it(tmp_path, random):
    arrays = sound(random)
    np.save(tmp_path / "own.npy", arrays["x"])
    path = str(tmp_path / "own.npy")
    with pytest.raises(DataError, match=r"save the array 'y' as own\.y\.npy"):
        Arrays(path).load("train")
    np.save(tmp_path / "own.y.npy", arrays["y"])
    assert total(Arrays(path)) == 60
    before = Arrays(path).version()
    np.save(tmp_path / "own.y.npy", arrays["y"][::-1])
    assert Arrays(path).version() != before


def test_version_and_data_follow_the_file(write, random):
    arrays = sound(random)
    task = Arrays(write(**arrays))
    version, first = task.version(), task.load("train").digests()
    write(**arrays | {"x": arrays["x"] + 1, "lengths": np.full(60, 11)})
    assert len(version) == 64
    assert task.version() != version
    assert task.load("train").digests() != first


MISTAKES = {
    "y missing": (lambda a: {"x": a["x"], "labels": a["y"]}, "has no array 'y'; known: x, labels"),
    "capital": (lambda a: {"X": a["x"], "y": a["y"]}, "has no array 'x'; did you mean 'X'"),
    "unknown": (lambda a: a | {"length": a["y"]}, "'length' nobody asked for; did you mean 'lengths'"),
    "objects": (lambda a: a | {"y": a["y"].astype(object)}, "Python objects.*save_arrays"),
    "complex": (lambda a: a | {"x": a["x"] * 1j}, "complex128; it must hold integers"),
    "flat": (lambda a: a | {"x": a["x"].ravel()}, r"shape \(720,\); it must be \(n, L\)"),
    "integer channels": (lambda a: a | {"x": a["x"].reshape(60, 6, 2)}, "use kind='values'"),
    "negative token": (
        lambda a: a | {"x": a["x"] - 1},
        r"token -1 is negative \(sequence \d+, position \d+\)",
    ),
    "huge token": (lambda a: a | {"x": a["x"] + (1 << 40)}, "too large; number the symbols"),
    "nan": (
        lambda a: a | {"x": np.where(a["x"] == 3, np.nan, 1.0)},
        r"values are NaN.*first in sequence \d+",
    ),
    "overflow": (lambda a: a | {"x": np.where(a["x"] == 3, 1e300, 1.0)}, "beyond float32"),
    "short y": (lambda a: a | {"y": a["y"][:50]}, r"`y` has shape \(50,\), but there are 60 sequences"),
    "y of complex": (lambda a: a | {"y": a["y"] * 1j}, "y is complex128"),
    "negative class": (lambda a: a | {"y": a["y"] - 2}, r"y\[0\] is -2"),
    "one class": (lambda a: a | {"y": a["y"] * 0}, "only class '0'"),
    "no label": (lambda a: a | {"y": a["y"] * 0 - 1}, "holds no label"),
    "infinite y": (lambda a: a | {"y": np.r_[np.ones(59), np.inf]}, r"y\[59\] is infinite"),
    "constant y": (lambda a: a | {"y": np.ones(60)}, "all training targets are equal"),
    "too long": (lambda a: a | {"lengths": np.full(60, 13)}, r"lengths\[0\] is 13, but rows of x have 12"),
    "empty": (lambda a: a | {"lengths": np.arange(60) % 12}, "5 sequences are empty, the first is number 0"),
    "float lengths": (lambda a: a | {"lengths": np.ones(60)}, "`lengths` must be one row of integers"),
    "few lengths": (lambda a: a | {"lengths": np.ones(9, dtype=int)}, "9 lengths for 60 sequences"),
    "both": (lambda a: a | {"lengths": a["y"], "offsets": a["y"]}, "give one of them"),
    "offsets": (lambda a: a | {"x": a["x"].ravel(), "offsets": np.arange(60)}, "rise from 0 to 720"),
    "split word": (lambda a: a | {"split": np.full(60, "tran")}, "'tran'; did you mean 'train'"),
    "split number": (lambda a: a | {"split": np.full(60, 3)}, "holds 3; 0 is train"),
    "empty split": (lambda a: a | {"split": np.arange(60) % 2}, "the test split has no labelled example"),
    "poor split": (lambda a: a | {"split": a["y"]}, "has only class"),
    "unseen class": (
        lambda a: a | {"split": np.where(a["y"] == 2, 1, np.arange(60) % 7 % 3)},
        "class '2' is in the val split but not in train",
    ),
    "torn group": (
        lambda a: a | {"split": np.arange(60) % 3, "groups": np.full(60, 7)},
        "group 7 is in train and val and test",
    ),
    "two groups": (lambda a: a | {"groups": np.arange(60) % 2}, "2 groups cannot fill three splits"),
    "nothing": (lambda a: {"x": a["x"][:0], "y": a["y"][:0]}, "holds no sequence"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_has_one_clear_message(name, write, random):
    spoil, advice = MISTAKES[name]
    task = Arrays(write(**spoil(sound(random))))
    with pytest.raises(DataError, match=advice) as caught:
        task.load("train")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "spoil", "advice"),
    [
        ({"kind": "tokens"}, lambda a: a | {"x": a["x"] * 0.5}, "tokens are integers"),
        ({"target": "reals"}, lambda a: a | {"y": a["y"].astype(str)}, "which are classes"),
        ({"target": "classes"}, lambda a: a | {"y": a["y"] * 0.5}, r"y\[1\] is 0.5: not a class"),
    ],
)
def test_settings_that_contradict_the_file(settings, spoil, advice, write, random):
    with pytest.raises(DataError, match=advice):
        Arrays(write(**spoil(sound(random))), **settings).load("train")


def test_files_that_cannot_be_read(tmp_path, random, write):
    write(**sound(random))
    with pytest.raises(DataError, match=r"no file .*own\.npy'; did you mean 'own\.npz'"):
        Arrays(str(tmp_path / "own.npy")).load("train")
    for name, content in (
        ("bad.npz", b"PK"),
        ("empty.npz", b""),
        ("text.npz", b"hello there"),
        ("cut.npy", b"\x93NUMPY"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=r"cannot be read|Python objects"):
            Arrays(str(tmp_path / name)).load("train")
    (tmp_path / "own.csv").write_text("1,2")
    with pytest.raises(DataError, match="save_arrays"):
        Arrays(str(tmp_path / "own.csv")).load("train")
    with pytest.raises(DataError, match="no file"):
        Arrays(str(tmp_path / "nowhere" / "own.npz")).version()


def test_a_label_budget_must_fit(write, random):
    path = write(**sound(random))
    with pytest.raises(SpecError, match="42 training examples"):
        Arrays(path, labels=43).load("train")
    with pytest.raises(SpecError, match="at least 3"):
        Arrays(path, labels=2).load("train")


def test_nothing_is_saved_that_could_not_be_read(tmp_path, random):
    path = tmp_path / "own.npz"
    for x, y in (
        ([np.ones(3), np.ones((3, 2))], [0, 1]),
        (np.ones((30, 3)), [object()] * 30),
        (np.full((30, 3), np.nan), np.arange(30) % 2),
    ):
        with pytest.raises(DataError):
            save_arrays(path, x, y)
    with pytest.raises(DataError, match=r"must end in \.npz"):
        save_arrays(tmp_path / "own.csv", random.rand(30, 3), np.arange(30) % 2)
    assert not path.exists()


def test_saved_arrays_are_read(tmp_path, random):
    split, groups = ["train"] * 20 + ["val"] * 10 + ["test"] * 10, [i // 10 for i in range(40)]
    lengths = random.randint(1, 8, 40)
    path = save_arrays(tmp_path / "own.npz", random.rand(40, 8), [0, 1] * 20, lengths, groups, split)
    task = Arrays(str(path))
    assert [len(task.load(s)) for s in SPLITS] == [20, 10, 10]
    assert isinstance(task.form.signal, Values)
    assert set(task.load("test").groups.tolist()) == {3}
