"""BIDMC: windows cut by hand, patients apart, the leak of the usual split, three forms of the same files."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from releases import SAMPLES, bidmc_recordings, write_physionet
from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import DataError
from selfpretrain.tasks import bidmc, inspect
from selfpretrain.tasks.bidmc import Bidmc
from selfpretrain.tasks.inspect.baselines import baseline_scores

COPY = "copy of an overlapping training example"


def copying(task: Bidmc) -> dict[str, float]:
    return inspect.baselines.copy_score(task.load("train"), task.load("test"))


def write_parquet(folder, rows) -> None:
    folder.mkdir(parents=True)
    pq.write_table(pa.table({key: [row[key] for row in rows] for key in rows[0]}), folder / "bidmc.parquet")


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path / "a"))
    return tmp_path


@pytest.fixture(scope="module")
def rows():
    return bidmc_recordings()


def test_windows_and_their_means_are_cut_as_by_hand(data, rows):
    write_parquet(data / "a" / "bidmc", rows)
    for target, key in (("HR", "hr"), ("RR", "rr")):
        task = Bidmc(target=target)
        assert task.form.target.name == target
        seen = 0
        for split in SPLITS:
            examples = task.load(split)
            for i, start in enumerate(examples.starts[0].tolist()):
                row, first = rows[start // SAMPLES], start % SAMPLES
                assert first % 375 == 0
                wanted = np.stack([row["pleth"], row["ecg_ii"]], axis=1)[first : first + 4000]
                if i % 40 == 0:
                    np.testing.assert_allclose(examples.sequence(i), wanted, rtol=1e-6)
                mean = row[key][first // 125 : first // 125 + 32].mean()
                assert float(examples.targets[i]) == pytest.approx(mean, rel=1e-6)
                seen += 1
        missing = 11 if key == "hr" else 0  # windows 23-33 of the first recording hold second 100
        assert seen == 6 * 150 - missing


@pytest.mark.parametrize("harm", ["short", "holes"])
def test_a_recording_without_all_its_samples_is_refused(data, rows, harm):
    harmed = [dict(row) for row in rows]
    pleth = np.array(harmed[1]["pleth"])
    harmed[1] |= (
        {"pleth": pleth[:-7_000]} if harm == "short" else {"pleth": np.where(pleth > 0.9, np.nan, pleth)}
    )
    harmed[1] |= {"ecg_ii": np.array(harmed[1]["ecg_ii"])[: len(harmed[1]["pleth"])]}
    write_parquet(data / "a" / "bidmc", harmed)
    with pytest.raises(DataError, match="has not all samples of 479 seconds; get it again"):
        Bidmc().load("train")


def test_patients_stay_whole_and_are_the_same_for_every_target(data, rows):
    write_parquet(data / "a" / "bidmc", rows)
    homes = {}
    for target in ("HR", "SpO2"):
        groups = [set(Bidmc(target=target).load(split).groups.tolist()) for split in SPLITS]
        assert sum(map(len, groups)) == len(set.union(*groups)) == 5
        homes[target] = groups
    assert homes["HR"] == homes["SpO2"]


def test_physionet_and_parquet_hold_the_same(data, rows, monkeypatch):
    some = [dict(row) for row in rows[2:]]
    some[0]["hr"] = rows[0]["hr"]
    write_parquet(data / "a" / "bidmc", some)
    theirs = [(Bidmc().load(s).digests(), Bidmc().load(s).targets.tolist()) for s in SPLITS]
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(data / "b"))
    write_physionet(data / "b" / "bidmc_csv", some)
    assert [(Bidmc().load(s).digests(), Bidmc().load(s).targets.tolist()) for s in SPLITS] == theirs
    fix = data / "b" / "bidmc_csv" / "bidmc_01_Fix.txt"
    fix.write_text("Age: 88")
    with pytest.raises(DataError, match="does not say who the patient is"):
        Bidmc(target="RR").load("train")
    (data / "b" / "bidmc_csv" / "bidmc_01_Signals.csv").write_text("Time [s], RESP\n1,2\n")
    with pytest.raises(DataError, match="not as PhysioNet publishes it"):
        Bidmc(target="RR").load("train")


def write_archive(file, windows: np.ndarray, y: np.ndarray) -> None:
    lines = ["# comment", "@problemName BIDMC32HR", "@data"]
    for window, value in zip(windows, y, strict=True):
        lines.append(":".join([*(",".join(map(str, channel)) for channel in window.T), str(value)]))
    file.write_text("\n".join(lines) + "\n")


def test_the_archive_knows_no_patients(data):
    folder = data / "a"
    folder.mkdir()
    windows = np.random.RandomState(0).randint(0, 99, (20, 4000, 2)) / 100
    y = np.arange(20) / 4 + 60
    write_archive(folder / "BIDMC32HR_TRAIN.ts", windows[:14], y[:14])
    write_archive(folder / "BIDMC32HR_TEST.ts", windows[14:], y[14:])
    with pytest.raises(DataError, match="which patient"):
        Bidmc().load("train")
    task = Bidmc(split="paper")
    splits = [task.load(split) for split in SPLITS]
    assert [len(e) for e in splits] == [14, 3, 3]
    assert sorted(v for e in splits for v in e.targets.tolist()) == y.tolist()
    row = int(np.flatnonzero(y == float(splits[2].targets[1]))[0])
    np.testing.assert_allclose(splits[2].sequence(1), windows[row], rtol=1e-6)
    write_archive(folder / "BIDMC32HR_TEST.ts", windows[14:, :9], y[14:])
    with pytest.raises(DataError, match=r"line 4 of .*TEST\.ts"):
        replace(task, split_seed=1).load("train")
    (folder / "BIDMC32HR_TEST.ts").unlink()
    with pytest.raises(DataError, match="place both files"):
        replace(task, split_seed=1).load("train")


def test_the_usual_split_can_be_copied_and_patients_cannot():
    leaky, clean = baseline_scores(Bidmc(split="paper").tiny()), baseline_scores(Bidmc().tiny())
    assert leaky[COPY] > 0.8
    assert COPY not in clean


def test_labels_of_a_budget_are_some_of_all_and_cuts_have_whole_seconds():
    cut, task = bidmc.Windowing(), Bidmc().tiny()
    assert cut.stride % cut.rate == cut.length % cut.rate == 0
    assert cut.starts()[-1] + cut.length <= SAMPLES
    some, full = replace(task, labels=5).load("train"), task.load("train")
    assert int(some.labelled.sum()) == 5
    assert (some.targets[some.labelled] == full.targets[some.labelled]).all()


@pytest.mark.slow
@pytest.mark.needs_data("bidmc")
@pytest.mark.parametrize(
    ("target", "count", "copied"), [("HR", 7938, 0.999), ("RR", 7797, 0.995), ("SpO2", 7822, 0.999)]
)
def test_the_leak_of_the_usual_split(real_data, target, count, copied):
    """The figures of the card."""
    clean, leaky = Bidmc(target=target), Bidmc(target=target, split="paper")
    for task in (clean, leaky):
        assert sum(len(task.load(split)) for split in SPLITS) == count
    assert [len(clean.load(split).groups.unique()) for split in SPLITS] == [30, 8, 8]
    assert copying(leaky)[COPY] == pytest.approx(copied, abs=0.001)
    assert copying(clean) == {}
