"""Options that say nothing about some data are refused in one line, whatever the data are."""

import numpy as np
import pytest
from scipy.io import wavfile

from imports import bring
from selfpretrain.cli import app
from selfpretrain.data.importing import importer
from selfpretrain.data.importing.importer import import_arrays, plan_import
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.importing.tables import open_table
from selfpretrain.data.paths import imported_datasets
from selfpretrain.errors import DataError
from selfpretrain.estimators import files

pytestmark = pytest.mark.usefixtures("home")

COLUMNS = {"label": "y", "group": "who", "split": "part"}
LONG = {"id": "who", "time": "hour", "value": "x"}
RECORDING = {"rate": 4000, "features": "mel"}
GIVEN = COLUMNS | LONG | RECORDING | {"sequence": "x", "header": False, "encoding": "latin-1"}
GIVEN |= {"skip_bad": True}
LINES = [f"{i // 3},{i % 3},{i},{i // 3 % 2}" for i in range(90)]
IGNORED = {
    "sounds": ("sequence", *LONG, "header", "encoding", "kind=text"),
    "texts": ("sequence", *LONG, *RECORDING, "header", "kind=tokens", "kind=values"),
    "wide.csv": (*RECORDING, "skip_bad"),
    "wide.jsonl": (*RECORDING, "skip_bad", "header", "encoding"),
    "tables": (*RECORDING, "skip_bad"),
    "x.npz": (*COLUMNS, *LONG, *RECORDING, "sequence", "header", "encoding", "skip_bad", "kind=text"),
    "x.ts": (*COLUMNS, *LONG, *RECORDING, "sequence", "header", "encoding", "skip_bad", "kind=tokens"),
    "hf:a/b": (*RECORDING, "skip_bad", "header", "encoding", "test=wide.csv"),
}
CASES = [(name, option) for name, options in IGNORED.items() for option in options]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """One of each kind of data."""
    for i in range(30):
        for place in ("sounds", "texts"):
            (tmp_path / place / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        wavfile.write(
            tmp_path / "sounds" / "ab"[i % 2] / f"{i}.wav", 8000, np.arange(900 + i, dtype=np.int16)
        )
        (tmp_path / "texts" / "ab"[i % 2] / f"{i}.txt").write_text(f"text {i}")
    (tmp_path / "tables").mkdir()
    wide = "\n".join(["a,b,label", *(f"{i},{i / 2},{'xy'[i % 2]}" for i in range(30))])
    for name in ("wide.csv", "tables/some.csv"):
        (tmp_path / name).write_text(wide)
    rows = [f'{{"x": [{i}, 1], "label": "{"ab"[i % 2]}"}}' for i in range(30)]
    (tmp_path / "wide.jsonl").write_text("\n".join(rows))
    (tmp_path / "long.csv").write_text("\n".join(["who,hour,x,label", *LINES]))
    series = [f"{i},2,3:{'ab'[i % 2]}" for i in range(30)]
    (tmp_path / "x.ts").write_text("\n".join(["@classLabel true a b", "@data", *series]))
    np.savez(tmp_path / "x.npz", x=np.arange(90).reshape(30, 3), y=np.arange(30) % 2)
    monkeypatch.setattr(importer, "hub_table", lambda name: open_table(tmp_path / "wide.csv"))
    return tmp_path


@pytest.mark.parametrize(("name", "option"), CASES)
def test_an_option_that_says_nothing_about_the_data_is_refused(folder, name, option):
    origin = name if name.startswith("hf:") else str(folder / name)
    option, _, value = option.partition("=")
    flag = {"header": "no-header", "kind": f"kind {value}"}.get(option, option.replace("_", "-"))
    with pytest.raises(DataError, match=rf": --{flag} is for .*; leave it out") as caught:
        plan_import(origin, ImportOptions(**{option: value or GIVEN[option]}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["texts", "wide.jsonl"])
@pytest.mark.parametrize("policy", ["fill", "cut", "mask"])
def test_only_values_are_filled_in(folder, name, policy):
    kind = {"kind": "tokens", "sequence": "x"} if name == "wide.jsonl" else {}
    with pytest.raises(DataError, match=f"--missing {policy} is for values, .* tokens; leave it out"):
        bring(folder / name, missing=policy, **kind)
    assert len(bring(folder / name, missing="drop", **kind).split)


def test_what_each_kind_of_data_takes_is_not_refused(folder):
    for name, options in {
        "sounds": {"group": r"(\d+)", "kind": "values", "skip_bad": True} | RECORDING,
        "texts": {"group": r"(\d+)", "kind": "text", "skip_bad": True},
        "wide.csv": {"sequence": "a,b", "label": "label", "encoding": "utf-8", "kind": "values"},
        "long.csv": LONG | {"label": "label", "kind": "values", "encoding": "utf-8"},
        "wide.jsonl": {"sequence": "x", "kind": "tokens"},
        "x.npz": {"kind": "values", "length": 2, "target": "classes", "split_seed": 3},
        "x.ts": {"kind": "values", "window": 2, "stride": 1, "missing": "fill"},
    }.items():
        assert len(bring(folder / name, **options).split)


def test_long_tables_have_values_and_no_sequence(folder):
    with pytest.raises(
        DataError, match=r"long\.csv: --sequence is for tables of one row per sequence; leave it"
    ):
        plan_import(str(folder / "long.csv"), ImportOptions(sequence="x", **LONG))


@pytest.mark.parametrize(("suffix", "refused"), [(".wav", "encoding"), (".txt", "rate")])
def test_a_table_that_lists_files_takes_what_is_for_these(folder, suffix, refused):
    place = "sounds" if suffix == ".wav" else "texts"
    rows = [{"file": f"{'ab'[i % 2]}/{i}{suffix}", "label": "ab"[i % 2]} for i in range(30)]
    listed = "\n".join(["{" + ", ".join(f'"{k}": "{v}"' for k, v in row.items()) + "}" for row in rows])
    (folder / place / "list.jsonl").write_text(listed)
    taken = {"sequence": "file", "skip_bad": True} | (RECORDING if suffix == ".wav" else {})
    assert len(bring(folder / place / "list.jsonl", **taken).split) == 30
    with pytest.raises(DataError, match=rf"list\.jsonl: --{refused} is for .*; leave it out"):
        plan_import(str(folder / place / "list.jsonl"), ImportOptions(**{refused: GIVEN[refused]}))


@pytest.mark.parametrize("option", ["label", "sequence", "id", "rate", "test", "skip_bad"])
def test_arrays_in_python_take_no_columns(option):
    given = ImportOptions(**{option: GIVEN.get(option, "test.npz")})
    with pytest.raises(DataError, match=f"arrays: --{option.replace('_', '-')} is for .*; leave it out"):
        import_arrays("mine", np.arange(90).reshape(30, 3), np.arange(30) % 2, options=given)
    assert imported_datasets() == {}


def test_a_task_takes_no_option_of_files():
    for given in ({"label": "y"}, {"target": "classes"}, {"missing": "fill"}, {"rate": 8000}):
        with pytest.raises(
            DataError, match=f"the task digits: --{next(iter(given))} is for .*; leave it out"
        ):
            files.fit("digits", ImportOptions(**given), {})


@pytest.mark.parametrize("flag", ["--sequence", "--id", "--time"])
def test_commands_refuse_columns_of_recordings(folder, flag, capsys):
    for command in (["data", "import"], ["fit", "-o", str(folder / "model")]):
        assert app.run([*command, str(folder / "sounds"), flag, "x"]) == 2
        said = capsys.readouterr().err
        assert f"sounds: {flag} is for " in said and "leave it out" in said
    assert not (folder / "model").exists() and imported_datasets() == {}
