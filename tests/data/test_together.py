"""Two features of an import at once, of which each works alone."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from scipy.io import wavfile

from imports import bring
from selfpretrain.cli.options import set_data_root
from selfpretrain.data.importing.importer import plan_import
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.spec import Classes, PositionClasses, Tokens
from selfpretrain.data.splits import min_groups, split_rows
from selfpretrain.errors import DataError, SpecError
from selfpretrain.tasks.genes import Genes
from selfpretrain.tasks.imported import Imported
from selfpretrain.tasks.inspect.checks import check_data
from selfpretrain.tasks.inspect.preview import preview, render_text

pytestmark = pytest.mark.usefixtures("home")

RANDOM = np.random.default_rng(0)


def lines_of(path, rows):
    path.write_text(
        "\n".join([",".join(row) for row in [[*rows[0]], *(map(str, row.values()) for row in rows)]])
    )
    return path


def numbers(**more):
    return more | {f"t{at}": f"{RANDOM.normal():.4f}" for at in range(3)}


def notes_of(made):
    return made.meta["about"]["notes"]


@pytest.mark.parametrize("features", ["mel", "mfcc"])
def test_features_of_recordings_at_two_rates(tmp_path, features):
    for i in range(30):
        place = tmp_path / "set" / "ab"[i % 2] / f"{i:02d}.wav"
        place.parent.mkdir(parents=True, exist_ok=True)
        rate = 16_000 if i < 24 else 8_000
        wavfile.write(place, rate, RANDOM.integers(-9000, 9000, rate // 4).astype(np.int16))
    with pytest.raises(DataError, match="has 8000 samples per second, others 16000; --rate 16000 resamples"):
        bring(tmp_path / "set", features=features)
    assert len(bring(tmp_path / "set", features=features, rate=8_000).split) == 30


@pytest.mark.parametrize("kind", ["auto", "tokens"])
def test_symbols_with_a_gap_are_left_out_and_the_others_are_symbols(tmp_path, kind):
    rows = [{"x": RANDOM.integers(0, 50, 9).tolist(), "label": "ab"[i % 2]} for i in range(60)]
    rows[3]["x"][2] = None
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = bring(tmp_path / "t.jsonl", kind=kind, missing="drop")
    assert isinstance(made.form.signal, Tokens) and len(made.split) == 59
    assert "1 rows with missing values are left out" in notes_of(made)


def named(features, **columns):
    """A Parquet table with the metadata of Hugging Face."""
    content = json.dumps({"info": {"features": features}}).encode()
    return pa.table(columns).replace_schema_metadata({b"huggingface": content})


def test_names_of_classes_in_lists_and_in_long_tables(tmp_path):
    kind = {"feature": {"names": ["O", "PER", "LOC"], "_type": "ClassLabel"}, "_type": "Sequence"}
    tags = [[-100, *RANDOM.integers(0, 3, 8).tolist()] for _ in range(60)]
    texts = [RANDOM.integers(0, 50, 9).tolist() for _ in range(60)]
    parquet.write_table(named({"label": kind}, x=texts, label=tags), tmp_path / "tags.parquet")
    made = bring(tmp_path / "tags.parquet", target="positions")
    assert made.form.target == PositionClasses(("LOC", "O", "PER"), of="positions")
    assert int((made.whole.targets < 0).sum()) == 60

    ids = np.repeat(np.arange(60), 5)
    columns = {"who": ids, "when": np.tile(np.arange(5), 60), "v": RANDOM.normal(size=300)}
    kind = {"names": ["neg", "pos"], "_type": "ClassLabel"}
    parquet.write_table(named({"label": kind}, **columns, label=ids % 3 - 1), tmp_path / "long.parquet")
    made = bring(tmp_path / "long.parquet", id="who", time="when", value="v")
    assert made.form.target == Classes(("neg", "pos")) and int((~made.whole.labelled).sum()) == 20


def test_a_subset_of_training_keeps_its_share_without_labels_and_the_tests(tmp_path):
    rows = [numbers(label="ab"[i % 2] if i < 200 else "") for i in range(1000)]
    bring(lines_of(tmp_path / "t.csv", rows))
    whole, part = Imported("mine"), Imported("mine", rows=50)
    for split in ("val", "test"):
        assert len(part.load(split)) == len(whole.load(split))
    all_of, some = (task.load("train") for task in (whole, part))
    assert int(some.labelled.sum()) == 50
    share = 50 / int(all_of.labelled.sum())
    assert int((~some.labelled).sum()) == round(share * int((~all_of.labelled).sum())) > 100
    assert [len(part.tiny().load(split)) for split in ("val", "test")] == [30, 30]
    assert len(Imported("mine", held=12).load("test")) == 12


def test_val_that_is_drawn_holds_no_copy_of_a_training_sequence(tmp_path):
    rows = []
    for group in range(30):
        split = "test" if group >= 24 else "train"
        rows += [numbers(who=f"p{group}", label="ab"[k % 2], split=split) for k in range(8)]
        if split == "train":
            rows.append({"who": f"p{group}", "label": "a", "split": split, "t0": 0, "t1": 0, "t2": 0})
    made = bring(lines_of(tmp_path / "t.csv", rows), group="who", split="split")
    hashes = {split: made.examples(split).digests() for split in ("train", "val")}
    assert not set(hashes["train"]) & set(hashes["val"])
    assert any("another group has in a later split are left out" in note for note in notes_of(made))


@pytest.mark.parametrize("seed", range(12))
def test_a_rare_class_with_groups_is_trained_on(tmp_path, seed):
    random = np.random.default_rng(seed)
    labels = random.permutation([*"ab"] * 99 + ["a", "rare"]).tolist()
    rows = [numbers(who=f"p{random.integers(20)}", label=label) for label in labels]
    made = bring(lines_of(tmp_path / "t.csv", rows), group="who", split_seed=seed)
    rare = made.form.target.names.index("rare")
    assert rare in made.examples("train").targets and all(len(made.examples(s)) for s in ("val", "test"))


def test_sequences_without_a_label_whose_group_is_held_out_serve_nothing(tmp_path):
    rows = [numbers(who=f"p{i % 20}", label="ab"[i // 20 % 2] if i < 150 else "") for i in range(300)]
    made = bring(lines_of(tmp_path / "t.csv", rows), group="who")
    lost = int(((made.split > 0) & ~made.whole.labelled.numpy()).sum())
    assert lost and f"{150 - lost} sequences have no label; they serve pretraining" in notes_of(made)
    assert f"{lost} sequences without a label are in val or test, and serve nothing" in notes_of(made)


def test_labels_of_an_unlabelled_part_are_ignored_before_anything_is_shown(tmp_path):
    (tmp_path / "set").mkdir()
    for name in ("train", "test", "unlabelled"):
        rows = [
            {
                "x": " ".join(map(str, RANDOM.integers(0, 9, 9))),
                "label": "0" if name == "unlabelled" else " ".join(RANDOM.choice(["a", "b"], 9)),
            }
            for _ in range(30)
        ]
        lines_of(tmp_path / "set" / f"{name}.csv", rows)
    plan = plan_import(str(tmp_path / "set"), ImportOptions(target="positions"))
    assert plan.facts()["labels"] == "a, b"


@pytest.mark.parametrize("labels", [10, 12])
def test_labels_of_some_loci_are_as_many_as_asked_for(labels):
    assert int(Genes(made_up=True, window=96, loci=5, labels=labels).load("train").labelled.sum()) == labels


def test_more_labels_than_some_loci_have_are_refused():
    with pytest.raises(SpecError, match="labels=20, but 12 training examples have one"):
        Genes(made_up=True, window=96, loci=5, labels=20).load("train")


@pytest.mark.parametrize("setting", [{"rows": 20}, {"longest": 3}])
def test_a_part_of_sound_data_is_not_called_wrong(tmp_path, setting):
    walks = RANDOM.normal(size=(200, 30)).cumsum(1)
    rows = [{"label": "ab"[i % 2]} | dict(enumerate(map(str, walk))) for i, walk in enumerate(walks)]
    rows = [{str(name): value for name, value in row.items()} for row in rows]
    bring(lines_of(tmp_path / "t.csv", rows))
    found = list(check_data(Imported("mine", **setting), compare=False))
    assert not [finding for finding in found if finding.level == "wrong"], found


def test_labels_are_shown_with_what_was_subtracted_from_them(tmp_path):
    rows = [numbers(label=str(1_700_000_000 + 10 * i)) for i in range(200)]
    bring(lines_of(tmp_path / "t.csv", rows), target="reals")
    shown = preview(Imported("mine"), "train", 3)
    assert all(1.7e9 <= each.min() <= each.max() < 1.8e9 for each in shown.targets.values())
    assert all("value 17000" in each.caption for each in shown.shown) and render_text(shown)
    said = {finding.what: finding.said for finding in check_data(Imported("mine"), compare=False)}
    assert said["mean and spread of labels"].startswith("17000")


def test_a_table_of_files_with_an_empty_cell_names_its_row(tmp_path):
    rows = []
    for i in range(24):
        (tmp_path / f"{i}.txt").write_text(f"{'good' if i % 2 else 'bad'} film {i}")
        rows.append({"file": f"{i}.txt", "label": "ab"[i % 2]})
    lines_of(tmp_path / "t.csv", [*rows, {"file": "", "label": "a"}])
    with pytest.raises(DataError, match=r"t.csv, line 26: no file is named there.*--missing drop"):
        bring(tmp_path / "t.csv")
    made = bring(tmp_path / "t.csv", missing="drop")
    assert len(made.split) == 24 and "1 rows that name no file are left out" in notes_of(made)


def test_a_data_folder_whose_name_would_be_two_is_refused(tmp_path):
    with pytest.raises(SpecError, match="divides the folders"):
        set_data_root(tmp_path / "a:b")


@given(st.integers(0, 2**32 - 1), st.integers(3, 30), st.integers(0, 12))
def test_groups_fill_all_parts_whatever_classes_they_have_alone(seed, number, alone):
    random = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(number), random.integers(0, number, 3 * number)])
    classes = np.where(groups < alone, 2 + groups, random.integers(0, 2, len(groups)))
    classes = np.unique(classes, return_inverse=True)[1]
    split = split_rows(classes, groups, seed % 100, min_groups(groups))
    assert set(split) == {0, 1, 2}
    assert all(len(set(split[groups == group])) == 1 for group in range(number))


def test_groups_move_for_nothing_but_a_class_that_train_lacks():
    """Rows without a label have a number that is no class to learn."""
    random = np.random.default_rng(0)
    moved = 0
    for seed in range(60):
        groups = np.repeat(np.arange(12), 10)
        classes = random.integers(0, 2, 120)
        classes[random.integers(0, 120, 3)] = 2
        usual, split = (split_rows(classes, groups, seed, 2, n) for n in (0, 2))
        assert np.array_equal(usual, split) and {0, 1} <= set(classes[split == 0])
        moved += not np.array_equal(usual, split_rows(classes, groups, seed, 2))
    assert moved, "as if they were a class"
