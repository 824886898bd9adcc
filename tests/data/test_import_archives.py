"""Data as archives hand them out: without a header, as ARFF, divided by their authors; and recordings."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from scipy.io import wavfile

from selfpretrain.data.importing import tables
from selfpretrain.data.importing.importer import import_data, plan_import
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import DataError


def bring(origin, **options):
    return import_data(origin, "mine", ImportOptions(**options))


@pytest.fixture(autouse=True)
def home_of_data(home):
    return home


def rows(random, n=40, length=12):
    """Label first, as the UCR archive has it; every class in every split, and a number that comes twice."""
    return np.column_stack([np.arange(n) % 2 + 1, random.randn(n, length).round(4), np.full(n, 0.5)])


def written(path, table, separator="\t"):
    path.write_text("\n".join(separator.join(f"{cell:g}" for cell in row) for row in table) + "\n")
    return path


def test_tables_without_a_header(tmp_path, random):
    table = rows(random)
    table[0, 2] = table[0, 3]  # as if two columns had one name
    path = written(tmp_path / "Some_TRAIN.tsv", table)
    with pytest.raises(DataError, match=r"two columns called .* give --no-header if the first row is data"):
        bring(path)
    made = bring(path, header=False)
    assert len(made.split) == 40 and made.form.length == 13 and made.form.target.names == ("1", "2")
    np.testing.assert_allclose(made.whole.sequence(0)[:, 0], table[0, 1:], rtol=1e-6)
    assert bring(path, header=False, label="c1", sequence="c2,c3").form.length == 2


@pytest.mark.parametrize(("names", "doubted"), [("1\t0.5\t-2\t3", True), ("0\t1\t2\t3", False)])
def test_a_header_of_numbers_may_be_data(tmp_path, random, names, doubted):
    rows = [f"{1 + i % 2}\t" + "\t".join(f"{x:.3f}" for x in random.randn(3)) for i in range(30)]
    (tmp_path / "t.tsv").write_text("\n".join([names, *rows]))
    plan = plan_import(str(tmp_path / "t.tsv"), ImportOptions(label=names[0]))
    note = "all names of columns are numbers, such as '0.5'; --no-header takes the first row for data"
    assert (note in plan.notes) == doubted


def test_an_official_division_of_two_files(tmp_path, random):
    train, test = rows(random), rows(random, 20)
    files = written(tmp_path / "a.tsv", train), written(tmp_path / "b.tsv", test)
    made = bring(files[0], header=False, test=str(files[1]))
    assert [len(made.examples(split)) for split in SPLITS] == [34, 6, 20]
    np.testing.assert_allclose(made.examples("test").sequence(0)[:, 0], test[0, 1:], rtol=1e-6)
    with pytest.raises(DataError, match="leave --split out"):
        bring(files[0], header=False, test=str(files[1]), split="c3")
    with pytest.raises(DataError, match=r"there is no .*nowhere"):
        bring(files[0], header=False, test=str(tmp_path / "nowhere.tsv"))


class HubSplit:
    """What of ``datasets.Dataset`` is used: rows as Arrow tables, and the features."""

    def __init__(self, table):
        self.table = table
        self.column_names = table.column_names
        self.features = SimpleNamespace(arrow_schema=table.schema)

    def __len__(self):
        return len(self.table)

    def with_format(self, kind):
        assert kind == "arrow"
        return self

    def iter(self, rows):
        return (self.table.slice(at, rows) for at in range(0, len(self.table), rows))


def test_a_data_set_of_the_hub_keeps_its_splits_and_names_of_classes(monkeypatch, random):
    names = {"info": {"features": {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}}}}

    def split(n):
        rows = {"text": [f"text {number}" for number in random.rand(n)], "label": np.arange(n) % 2}
        return HubSplit(pa.table(rows).replace_schema_metadata({"huggingface": json.dumps(names)}))

    splits = {"train": split(1500), "validation": split(20), "test": split(30), "unsupervised": split(9)}
    library = SimpleNamespace(load_dataset=lambda name: splits, disable_progress_bars=lambda: None)
    monkeypatch.setattr(tables, "connection_problem", lambda url, wait: "")
    monkeypatch.setitem(sys.modules, "datasets", library)
    said = plan_import("hf:somebody/texts", ImportOptions(label="label")).found["file"]
    assert said.endswith("(Hugging Face, train, validation, test; not read: unsupervised)")
    made = bring("hf:somebody/texts", label="label")
    assert [len(made.examples(split)) for split in SPLITS] == [1500, 20, 30]
    assert made.form.target.names == ("neg", "pos")
    assert made.whole.sequence(1520).tobytes().decode() == splits["test"].table["text"][0].as_py()


ARFF = """% A comment
@RELATION waves
@attribute 'at 0' NUMERIC
@attribute at1 real
@attribute at2 numeric
@attribute target {1, 'class 2'}

@DATA
"""


def test_files_of_weka(tmp_path, random):
    values = random.randn(30, 3).round(4)
    lines = [
        ",".join([*map(str, row), "1" if i % 2 else "'class 2'"]) for i, row in enumerate(values.tolist())
    ]
    path = tmp_path / "waves.arff"
    path.write_text(ARFF + "\n".join(lines) + "\n")
    made = bring(path)
    assert made.form.target.names == ("1", "class 2") and made.form.length == 3
    np.testing.assert_allclose(made.whole.sequence(4)[:, 0], values[4], rtol=1e-6)
    path.write_text(ARFF.replace("at1 real", "at1 relational") + "1,2,3,1\n")
    with pytest.raises(DataError, match="line 4: relational attributes are not read"):
        bring(path)
    path.write_text("1,2,3\n")
    with pytest.raises(DataError, match="is it an ARFF file"):
        bring(path)


def series(path, values):
    lines = [f"{','.join(map(str, row))}:{'ab'[i % 2]}" for i, row in enumerate(values.tolist())]
    path.write_text("@classLabel true a b\n@data\n" + "\n".join(lines) + "\n")


def test_of_several_pairs_the_one_named_like_the_folder_is_taken(tmp_path, random):
    folder = tmp_path / "Vowels"
    folder.mkdir()
    for name, length in (("Vowels", 5), ("Vowels_eq", 7)):
        for split, n in (("TRAIN", 20), ("TEST", 10)):
            series(folder / f"{name}_{split}.ts", random.randn(n, length))
    made = bring(folder)
    assert made.form.length == 5 and len(made.examples("test")) == 10
    other = bring(folder / "Vowels_eq_TRAIN.ts", test=str(folder / "Vowels_eq_TEST.ts"))
    assert other.form.length == 7 and len(other.examples("test")) == 10
    with pytest.raises(DataError, match=r"name them: A_TRAIN\.ts --test A_TEST\.ts"):
        bring(folder.rename(tmp_path / "Words"))


@pytest.fixture
def recordings(tmp_path):
    """Two tones at two rates."""
    for name, hertz in (("low", 300), ("high", 1200)):
        for i in range(12):
            rate = 8000 if i % 3 else 16000
            tone = np.sin(2 * np.pi * hertz * np.arange(rate // 4) / rate + i)
            (tmp_path / "tones" / name).mkdir(parents=True, exist_ok=True)
            wavfile.write(tmp_path / "tones" / name / f"{i}.wav", rate, (9000 * tone).astype(np.int16))
    return tmp_path / "tones"


def test_recordings_of_several_rates(recordings):
    with pytest.raises(DataError, match=r"8000 samples per second, others 16000; --rate 16000 resamples"):
        bring(recordings)
    made = bring(recordings, rate=4000)
    assert made.form.length == 1000 and made.form.signal.channels == 1
    peaks = [np.abs(np.fft.rfft(made.whole.sequence(row)[:, 0])).argmax() * 4 for row in range(24)]
    assert peaks == [1200] * 12 + [300] * 12  # 4 Hz from bin to bin
    for file in recordings.glob("*/*.wav"):
        if wavfile.read(file)[0] == 16000:
            other = recordings.with_name("other") / file.parent.name
            other.mkdir(parents=True, exist_ok=True)
            file.rename(other / file.name)
    with pytest.raises(DataError, match=r"other has 16000 samples per second, .*tones 8000; --rate 8000 res"):
        bring(recordings, test=str(other.parent))
    assert bring(recordings, test=str(other.parent), rate=8000).form.length == 2000


@pytest.mark.parametrize(("features", "channels"), [("mel", 64), ("mfcc", 20)])
def test_features_of_recordings(recordings, features, channels):
    made = bring(recordings, rate=8000, features=features)
    assert made.form.signal.channels == channels and made.form.length == 26  # a quarter of a second
    low, high = (made.whole.sequence(row)[5:20].mean(0) for row in (23, 0))
    assert features == "mfcc" or low.argmax() < high.argmax()
