"""A division that names of files and folders give is kept or refused; hidden files are no data."""

import itertools
import shutil
import zlib

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet
from scipy.io import wavfile

from imports import bring
from selfpretrain.data.importing.divisions import visible_files
from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import DataError

pytestmark = pytest.mark.usefixtures("home")

TRAIN = ("train", "training", "trn")
VAL = ("val", "valid", "validation", "dev")
TEST = ("test", "testing", "eval", "evaluation", "holdout")
UNLABELLED = ("unsupervised", "unlabeled", "unlabelled", "unsup")
SIZES = {"train": 24, "val": 6, "test": 8, "unlabelled": 9}
TEMPLATES = (
    "{}.csv",
    "my_{}.tsv",
    "{}-00000-of-00001.parquet",
    "{}/data-00000-of-00001.feather",
    "films v2/{}/part 1.csv",
    "2019.{}.films.csv",
)


def table(tag, n, label=None, **more):
    columns = {"text": [f"{tag} film {i}" for i in range(n)]}
    return pa.table(columns | {"label": label or [("bad", "good")[i % 2] for i in range(n)]} | more)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(content, path)
    elif path.suffix == ".feather":
        feather.write_feather(content, path)
    else:
        csv.write_csv(content, path, csv.WriteOptions(delimiter="\t" if path.suffix == ".tsv" else ","))


def texts_of(made, split):
    examples = made.examples(split)
    return {examples.sequence(i).tobytes().decode() for i in range(len(examples))}


def tags(made, split):
    """The first words of the texts of a split."""
    return {text.split()[0] for text in texts_of(made, split)}


def levels_of(made, split):
    """The hundreds that the values of a split are near."""
    examples = made.examples(split)
    return {
        float(x) for i in range(len(examples)) for x in np.ravel(np.round(examples.sequence(i), -2)) + 0.0
    }


def spelling(words, i):
    """The i-th of all spellings, from the first again after the last."""
    return [form(word) for word in words for form in (str, str.upper, str.title)][i % (3 * len(words))]


@pytest.mark.parametrize("i", range(3 * len(TEST)))
def test_every_spelling_of_a_division_is_kept(tmp_path, i):
    template = TEMPLATES[i % len(TEMPLATES)]
    words = [spelling(each, i) for each in (TRAIN, VAL, TEST, UNLABELLED)]
    for (split, n), word in zip(SIZES.items(), words, strict=True):
        write(tmp_path / "set" / template.format(word), table(split, n))
    made = bring(tmp_path / "set")
    assert [tags(made, split) for split in SPLITS] == [{"train", "unlabelled"}, {"val"}, {"test"}]
    assert [len(made.examples(split)) for split in SPLITS] == [33, 6, 8]
    assert int(made.examples("train").labelled.sum()) == 24
    assert "9 labels of a part that is called unlabelled are ignored" in made.meta["about"]["notes"]
    assert made.form.target.names == ("bad", "good")


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (("train", "dev", "eval"), ["train", "dev", "eval"]),
        (("train", "eval", "test"), ["train", "eval", "test"]),
        (("train", "dev", "test"), ["train", "dev", "test"]),
        (("train", "validation_matched", "test_matched"), ["train", "validation_matched", "test_matched"]),
        (("MovieTrain", "MovieVal", "MovieTest"), ["MovieTrain", "MovieVal", "MovieTest"]),
        (("trainval", "dev", "devtest"), ["trainval", "dev", "devtest"]),
    ],
)
def test_of_three_parts_each_has_its_place(tmp_path, names, kept):
    for name in names:
        write(tmp_path / "set" / f"{name}.csv", table(name, 12))
    made = bring(tmp_path / "set")
    assert [tags(made, split) for split in SPLITS] == [{name} for name in kept]


@pytest.mark.parametrize("test", TEST)
def test_val_is_drawn_from_train_alone(tmp_path, test):
    """The layout of the UCR archive: no header, the label first, 50 and 150 rows."""
    random = np.random.default_rng(0)
    rows = {"TRAIN": random.normal(size=(50, 9)), test.upper(): 100 + random.normal(size=(150, 9))}
    for part, values in rows.items():
        lines = ("\t".join([str(1 + i % 2), *map(str, row)]) for i, row in enumerate(values))
        (tmp_path / "Gun").mkdir(exist_ok=True)
        (tmp_path / "Gun" / f"Gun_{part}.tsv").write_text("\n".join(lines) + "\n")
    (tmp_path / "Gun" / "README.md").write_text("# Gun\n")
    made = bring(tmp_path / "Gun", header=False)
    assert [len(made.examples(split)) for split in SPLITS] == [42, 8, 150]
    assert levels_of(made, "test") == {100} and levels_of(made, "train") == levels_of(made, "val") == {0}


@pytest.mark.parametrize("name", ["README.txt", "readme.TXT", "License.txt"])
def test_a_text_about_the_data_is_none_of_them(tmp_path, name):
    for split in ("train", "test"):
        write(tmp_path / "set" / f"{split}.csv", table(split, 12))
    for label in ("bad", "good"):
        (tmp_path / "texts" / label).mkdir(parents=True)
        for number in range(9):
            (tmp_path / "texts" / label / f"{number}.txt").write_text(f"{label} film {number}\n")
    for folder, count in (("set", 24), ("texts", 18)):
        (tmp_path / folder / name).write_text("These are films,\nand, as you see, this is a text.\n")
        made = bring(tmp_path / folder)
        assert sum(len(made.examples(split)) for split in SPLITS) == count, folder


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("train", "test", "more"), r"say test, train, that of more\.csv says nothing; rename it"),
        (("train", "more"), r"more\.csv says nothing"),
        (("test", "more"), r"more\.csv says nothing"),
        (("train", "unlabeled", "more"), r"more\.csv says nothing"),
        (("train", "test", "train_test"), r"train_test\.csv test and train; rename it"),
        (("train", "dev", "test", "eval"), r"eval\.csv eval; rename it"),
        (("dev", "test"), "none says train"),
        (("train/0", "test/0", "1/0"), r"1/0\.csv says nothing"),
    ],
)
def test_a_division_that_is_not_clear_is_refused(tmp_path, names, said):
    for name in names:
        write(tmp_path / "set" / f"{name}.csv", table(name, 12, where=["a", "b", "c"] * 4))
    with pytest.raises(DataError, match=said) as caught:
        bring(tmp_path / "set")
    assert str(caught.value).isprintable()
    with pytest.raises(
        DataError, match="there is no split 'a'"
    ):  # a column is asked for: names do not matter
        bring(tmp_path / "set", split="where")


@pytest.mark.parametrize(
    "names",
    [
        ("0/a", "1/a", "2/a"),
        ("part-0", "part-1", "part-2"),
        ("train-00000-of-00002", "train-00001-of-00002"),
        ("test_run/2019", "test_run/2020"),
        ("latest", "contest", "trainer"),
    ],
)
def test_names_that_divide_nothing_leave_the_split_to_chance(tmp_path, names):
    for name in names:
        write(tmp_path / "set" / f"{name}.csv", table(name, 20))
    made = bring(tmp_path / "set")
    assert all(len(tags(made, split)) == len(names) for split in ("train",))
    assert len(made.examples("train")) == pytest.approx(0.7 * 20 * len(names), abs=2)
    assert len(made.examples("test")) > 0 < len(made.examples("val"))


@pytest.mark.parametrize("others", [("films",), ("train",), ("a", "b")])
def test_an_unlabelled_part_beside_labelled_ones_that_are_not_divided(tmp_path, others):
    for name in others:
        write(tmp_path / "set" / f"{name}.csv", table(f"known {name}", 40 // len(others)))
    write(tmp_path / "set" / "a_unlabeled.csv", table("unknown", 9).select(["text"]))
    made = bring(tmp_path / "set")
    assert tags(made, "val") == tags(made, "test") == {"known"}
    assert tags(made, "train") == {"known", "unknown"}
    assert int(made.examples("train").labelled.sum()) == len(made.examples("train")) - 9


def test_a_column_of_splits_may_name_unlabelled_rows(tmp_path):
    splits = [("train", "train", "test", "Unsupervised")[i // 2 % 4] for i in range(80)]
    write(tmp_path / "t.csv", table("some", 80, part=splits))
    made = bring(tmp_path / "t.csv", split="part")
    assert len(made.examples("test")) == 20 and int(made.examples("train").labelled.sum()) == 34
    write(tmp_path / "t.csv", table("some", 80, part=["train"] * 80))
    made = bring(tmp_path / "t.csv", split="part")
    assert "there is neither a val nor a test split: both are drawn from train" in made.meta["about"]["notes"]


def test_numbers_of_a_split_are_named_and_folds_refused(tmp_path):
    path = tmp_path / "t.csv"
    write(path, table("x", 60, fold=[0, 1, 2] * 20, five=[0, 1, 2, 3, 4] * 12))
    notes = bring(path, split="fold").meta["about"]["notes"]
    assert "split: 0 is train, 1 is val, 2 is test; if these number folds, give them to --group" in notes
    with pytest.raises(DataError, match=r"no split '3'.*; if these number folds, give them to --group"):
        bring(path, split="five")


def test_folders_of_tables_are_no_classes(tmp_path):
    for name in ("a/0", "a/1", "b/0"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.csv").write_text("time,value\n0,1\n1,2\n")
    with pytest.raises(
        DataError,
        match=r"folders name the classes of recordings and texts alone: write .*with columns for the file",
    ):
        bring(tmp_path)


def test_folders_of_splits_and_hidden_ones_are_not_taken_for_classes(tmp_path):
    said = r"which column holds the labels\? Give --label; columns: [\w, ]+$"
    for name in ("set/train/a", "set/test/a", "flat/a", "flat/.ipynb_checkpoints/a"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.csv").write_text("time,value\n0,1\n1,2\n")
    for folder in ("set", "flat"):
        with pytest.raises(DataError, match=said):
            bring(tmp_path / folder)


def test_of_names_and_a_column_one_must_be_chosen(tmp_path):
    for name in ("train", "test"):
        write(tmp_path / "set" / f"{name}.csv", table(name, 30, split=["train", "val", "test"] * 10))
    with pytest.raises(DataError, match="--split split takes the column"):
        bring(tmp_path / "set")
    assert len(bring(tmp_path / "set", split="split").examples("test")) == 20


def test_a_test_file_beside_a_divided_folder(tmp_path):
    for name in ("train", "dev", "unlabeled"):
        write(tmp_path / "set" / f"{name}.csv", table(name, 20))
    write(tmp_path / "official.csv", table("official", 10))
    made = bring(tmp_path / "set", test=str(tmp_path / "official.csv"))
    found = [tags(made, split) for split in SPLITS]
    assert found == [{"train", "unlabeled"}, {"dev"}, {"official"}]
    write(tmp_path / "set" / "test.csv", table("test", 20))
    for origin, test in (("set", "official.csv"), ("official.csv", "set")):
        with pytest.raises(DataError, match="leave --test out"):
            bring(tmp_path / origin, test=str(tmp_path / test))


def test_long_tables_of_a_divided_folder(tmp_path):
    for part, n in {"train": 20, "test": 10, "unsupervised": 5}.items():
        ids = np.repeat(np.arange(n), 6)
        columns = {
            "who": [f"{part} {i}" for i in ids],
            "time": np.tile(np.arange(6), n),
            "v": np.arange(6.0 * n) + len(part),
        }
        columns |= {"label": np.array(["a", "b"])[ids % 2]} if part != "unsupervised" else {}
        write(tmp_path / "set" / f"x_{part}.csv", pa.table(columns))
    made = bring(tmp_path / "set", id="who", time="time", value="v")
    assert [len(made.examples(split)) for split in SPLITS] == [21, 4, 10]
    assert int(made.examples("train").labelled.sum()) == 16


def media(folder, name, tag, sound):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if sound:
        levels = {"train": 1, "val": 2, "test": 3, "unlabelled": 4}
        noise = np.random.default_rng(zlib.crc32(name.encode())).integers(1, 9, 20)
        wavfile.write(path.with_suffix(".wav"), 8000, (1000 * levels[tag] + noise).astype(np.int16))
    else:
        path.with_suffix(".txt").write_text(f"{tag} {name}")


LAYOUTS = (
    "{split}/{label}/{i}",
    "{label}/{split}/{i}",
    "archive/{split}/{label}/{i}",
    "{split}_set/{label}/speaker {i}/x",
    "{label}/{split}_{i}",
    "{split}-{i}-{label}",
)


@pytest.mark.parametrize("sound", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("words", [("train", "dev", "test"), ("Training", "validation", "EVAL")])
def test_folders_and_names_divide_texts_and_recordings(tmp_path, layout, words, sound):
    for split, word, n in zip(SPLITS, words, (20, 6, 8), strict=True):
        for i in range(n):
            media(tmp_path / "set", layout.format(split=word, label="ab"[i % 2], i=i), split, sound)
    pattern = "-([ab])" if layout.startswith("{split}-") else ""
    made = bring(tmp_path / "set", label=pattern)
    assert made.form.target.names == ("a", "b")
    assert [len(made.examples(split)) for split in SPLITS] == [20, 6, 8]
    for number, split in enumerate(SPLITS, 1):
        if sound:
            assert levels_of(made, split) == {1000 * number}
        else:
            assert tags(made, split) == {split}


@pytest.mark.parametrize("word", UNLABELLED)
@pytest.mark.parametrize("layout", ["{}/{}", "train/{}/{}", "{}/more/{}"])
def test_unlabelled_folders_serve_pretraining(tmp_path, word, layout):
    for split, label, i in itertools.product(("train", "test"), ("pos", "neg"), range(10)):
        media(tmp_path / "set", f"{split}/{label}/{i}", split, False)
    for i in range(9):
        media(tmp_path / "set", layout.format(word, i), "unlabelled", False)
    made = bring(tmp_path / "set")
    assert made.form.target.names == ("neg", "pos")
    assert tags(made, "test") == {"test"} and tags(made, "val") == {"train"}
    assert len(made.examples("test")) == 20 and int((~made.examples("train").labelled).sum()) == 9


@pytest.mark.parametrize(
    ("folders", "label", "classes"),
    [
        (("0", "1"), "", ("0", "1")),
        (("0", "1", "2"), "", ("0", "1", "2")),
        (("0", "1"), "^([01])/", ("0", "1")),
        (("train", "bus", "car"), "", ("bus", "car", "train")),
        (("train/steam", "train/diesel", "bus/city"), "", ("bus", "train")),
        (("train", "test"), "^(train|test)/", ("test", "train")),
        (("test/a", "test/b"), "", ("a", "b")),
        (("a", "b", "unlabeled"), "^([a-z]+)/", ("a", "b", "unlabeled")),
        (("blood test", "dev ops", "valid"), "", ("blood test", "dev ops", "valid")),
    ],
)
def test_folders_that_are_classes(tmp_path, folders, label, classes):
    for folder, i in itertools.product(folders, range(20)):
        media(tmp_path / "set", f"{folder}/{i}", "train", False)
    made = bring(tmp_path / "set", label=label)
    assert made.form.target.names == classes
    assert len(made.examples("test")) == pytest.approx(0.15 * len(folders) * 20, abs=2)


@pytest.mark.parametrize(
    ("folders", "label", "said"),
    [
        (("train", "test"), "", r"t.../0\.txt lies outside of class folders; .*give --label"),
        (("train", "test", "unlabeled"), "", r"t.../0\.txt lies outside of class folders"),
        (("train/a", "train/b", "test/a", "test/b", "more/a"), "", r"more/a/0\.txt says nothing"),
        (("train/a", "train/b", "more/a", "more/b"), "", r"more/a/0\.txt says nothing"),
        (("train/a", "train/b", "test/a", "test/b", ""), "", r"0\.txt says nothing"),
        (("dev/a", "dev/b", "test/a", "test/b"), "", "none says train"),
    ],
)
def test_folders_that_divide_only_some_files_are_refused(tmp_path, folders, label, said):
    for folder, i in itertools.product(folders, range(9)):
        media(tmp_path / "set", f"{folder}/{i}".strip("/"), "train", False)
    with pytest.raises(DataError, match=said):
        bring(tmp_path / "set", label=label)


def test_names_of_some_recordings_that_hold_words_for_splits_get_a_note(tmp_path):
    for name, label, i in itertools.product(("train", "test", "other"), "ab", range(9)):
        media(tmp_path / "set", f"{label}/{name} {i}", "train", False)
    notes = bring(tmp_path / "set").meta["about"]["notes"]
    assert any("--split PATTERN takes them" in note for note in notes)


def litter(folder):
    """What macOS, Windows, notebooks and network drives leave behind, with the suffixes of data."""
    for file in [file for file in folder.rglob("*") if file.is_file()]:
        shutil.copy(file, file.with_name(f"._{file.name}"))
        for name in (".ipynb_checkpoints", "__MACOSX", "@eaDir", ".Trash-1000"):
            (file.parent / name).mkdir(exist_ok=True)
            shutil.copy(file, file.parent / name / f"train-{file.name}")
    for name in (".DS_Store", "Thumbs.db", "desktop.ini"):
        (folder / name).write_bytes(b"\0\1\2")


@pytest.mark.parametrize("kind", ["tables", "texts", "recordings", "series"])
def test_hidden_files_are_no_data(tmp_path, kind):
    folder = tmp_path / "set"
    for part, i in itertools.product(("train", "test"), range(12)):
        if kind in ("texts", "recordings"):
            media(folder, f"{part}/{'ab'[i % 2]}/{i}", part, kind == "recordings")
        elif kind == "tables":
            write(folder / f"{part}.csv", table(part, 20))
    if kind == "series":
        for part in ("TRAIN", "TEST"):
            lines = "".join(f"{i},{i + 1},{i * i % 7}:{'ab'[i % 2]}\n" for i in range(20))
            write(folder / f"X_{part}.csv", table("x", 1))
            (folder / f"X_{part}.csv").rename(folder / f"X_{part}.ts")
            (folder / f"X_{part}.ts").write_text(f"@classLabel true a b\n@data\n{lines}")
    clean = bring(folder).digest
    litter(folder)
    made = bring(folder)
    assert made.digest == clean
    assert not any("not read" in note for note in made.meta["about"]["notes"])


def test_a_table_may_name_files_outside_of_its_folder(tmp_path):
    for i in range(30):
        media(tmp_path / "far", f"{i}", f"{i}", False)
    files = [str(tmp_path / "far" / f"{i}.txt") for i in range(30)]
    write(tmp_path / "set" / "list.csv", pa.table({"file": files, "label": ["a", "b"] * 15}))
    assert len(bring(tmp_path / "set" / "list.csv").split) == 30
    (tmp_path / "far" / "20.txt").unlink()
    with pytest.raises(DataError, match=r"far/20\.txt.*--skip-bad leaves such files out"):
        bring(tmp_path / "set" / "list.csv")


def test_links_to_folders_are_followed_and_no_folder_is_read_twice(tmp_path):
    for name in ("set/a/1.txt", "far/2.txt", "far/.hidden/3.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    for link, target in {"set/b": "far", "far/circle": "set", "set/A": "set/a", "set/.c": "far"}.items():
        (tmp_path / link).symlink_to(tmp_path / target)
    found = visible_files(tmp_path / "set")
    assert [file.relative_to(tmp_path / "set").as_posix() for file in found] == ["a/1.txt", "b/2.txt"]


@pytest.mark.parametrize("sound", [False, True])
def test_a_table_that_names_files_is_read_with_their_content(tmp_path, sound):
    suffix = ".wav" if sound else ".txt"
    rows = {"file_name": [], "label": [], "who": []}
    for split, n in (("train", 24), ("test", 12)):
        for i in range(n):
            media(tmp_path / "set", f"{split}/{i}", split, sound)
            rows["file_name"].append(f"{split}/{i}{suffix}")
            rows["label"].append("ab"[i % 2])
            rows["who"].append(f"{split} {i // 2}")
    write(tmp_path / "set" / "metadata.csv", pa.table(rows))
    made = bring(tmp_path / "set" / "metadata.csv", label="label", group="who")
    assert [len(made.examples(split)) for split in SPLITS][2] == 12
    assert made.whole.groups is not None and made.form.target.names == ("a", "b")
    if sound:
        assert made.whole.flat.numpy().dtype == np.int16 and made.form.length == 20
    else:
        assert tags(made, "test") == {"test"} and not any(".txt" in t for t in texts_of(made, "test"))
    (tmp_path / "set" / "train" / f"20{suffix}").unlink()
    with pytest.raises(DataError, match=rf"20{suffix}.*--skip-bad leaves such files out"):
        bring(tmp_path / "set" / "metadata.csv", label="label")
    assert len(bring(tmp_path / "set" / "metadata.csv", label="label", skip_bad=True).split) == 35
    (tmp_path / "set" / "train" / f"3{suffix}").unlink()  # among the first, by which names are known
    with pytest.raises(DataError, match=rf"train/3{suffix}.*--skip-bad leaves such files out"):
        bring(tmp_path / "set" / "metadata.csv", label="label")
    assert len(bring(tmp_path / "set" / "metadata.csv", label="label", skip_bad=True).split) == 34
