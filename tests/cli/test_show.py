"""``selfpretrain show`` leads from a printed number to all that made it, and says what it cannot know."""

import csv
import io
import json
import shutil
from dataclasses import asdict, replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toys
from selfpretrain.cli.show import BARS, sparkline
from selfpretrain.config import to_dict
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.masked import Masked
from selfpretrain.report.paper_numbers import look_up
from selfpretrain.runner.stage import run
from selfpretrain.runner.workspace import Workspace
from selfpretrain.system.files import read_json, write_json
from selfpretrain.tasks.pathfinder import Pathfinder
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage

TASK = toys.Majority(examples=64)
PRETRAIN = Stage(Masked(0.5), Budget(steps=8), batch=8, evals=2)
STAGES = (PRETRAIN, Stage(Classify(), Budget(steps=6), batch=8, evals=3))
RECIPE = Recipe(TASK, Model(Attention(heads=2), width=8, depth=1), STAGES)
LONGER = replace(RECIPE, stages=(PRETRAIN, replace(STAGES[1], budget=Budget(steps=7))))


@pytest.fixture(scope="module")
def made(tmp_path_factory, compared):
    """A folder with one pretraining, two finetunings of it, and a study; and the stages' names."""
    runs = tmp_path_factory.mktemp("made") / "runs"
    shutil.copytree(compared.runs, runs)
    workspace = Workspace(runs)
    last, longer = run(RECIPE, workspace), run(LONGER, workspace)
    first = workspace.stage(RECIPE.upto(0)).path
    return runs, first.name, last.name, longer.name


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """The same folder, in which a test may do as it likes, as ``runs`` of the working folder."""
    shutil.copytree(made[0], tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "runs", *made[1:]


@pytest.fixture
def cli(cli):
    return partial(cli, "show")


@pytest.fixture
def traced(cli):
    def call(*arguments):
        code, out, err = cli(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    return call


def study_of(runs):
    return next(path.parent for path in runs.glob("*/study.json"))


def reported(runs, column):
    """The stage that a column of the study prints."""
    (task,) = json.loads((study_of(runs) / "study.json").read_text())["tasks"]
    cells = task["cells"]
    return next(cell["folders"][-1].removeprefix("stages/") for cell in cells if cell["column"] == column)


def edit(path, change):
    content = read_json(path, formats=(1, 3))
    change(content)
    write_json(path, content)


def test_a_stage_has_many_names(here, traced):
    runs, _, last, _ = here
    found = traced(last)
    assert found["stage"] == last
    for name in (last.rpartition("-")[2], last[:-2], runs / "stages" / last, f"runs/stages/{last}/log.jsonl"):
        assert traced(name) == found


def test_all_that_is_on_disk_is_told(here, traced):
    runs, first, last, longer = here
    folder, found = runs / "stages" / last, traced(last)
    result = read_json(folder / "result.json")
    assert found["recipe"] == result["recipe"]
    assert found["result"] == {key: value for key, value in result.items() if key != "recipe"}
    assert found["environment"] == read_json(folder / "environment.json")
    assert found["curve"] == [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [link["stage"] for link in found["chain"]] == [first, last]
    assert set(found["chain"][0]["used_by"]) == {last, longer}
    assert found["chain"][1]["used_by"] == []
    assert [link["stage"] for link in traced(first)["chain"]] == [first]


def test_recipes_that_differ_in_pooling_start_from_one_pretraining(here, traced):
    runs, first, last, longer = here
    pooled = run(replace(RECIPE, model=replace(RECIPE.model, pooling="max")), Workspace(runs)).name
    assert [link["stage"] for link in traced(pooled)["chain"]] == [first, pooled]
    assert set(traced(first)["chain"][0]["used_by"]) == {last, longer, pooled}


def test_what_training_saw_is_counted_in_val_and_test(here, traced):
    digests = {split: TASK.load(split).digests() for split in ("train", "val", "test")}
    expected = {
        split: [sum(one in set(digests["train"]) for one in digests[split]), len(digests[split])]
        for split in ("val", "test")
    }
    assert expected["val"][0]  # short sequences of two symbols repeat
    for seen in traced(here[2], "--trust", "toys")["chain"]:
        assert seen["rows"] == len(digests["train"])
        assert seen["shared"] == expected
        assert seen["how"] == "hashed again from the data"


def test_what_cannot_be_checked_is_said(here, traced, cli):
    runs, _, last, _ = here
    assert traced(last)["chain"][1]["shared"] == {}
    assert "--trust toys" in traced(last)["chain"][1]["how"]
    reason = "not checked: toys comes from outside; add --trust toys if you know and trust that package"
    assert " ".join(cli(last)[1].split()).count(reason) == 2, "once per stage, in full"
    edit(runs / "stages" / last / "result.json", lambda result: result["data"].update(sha256="0" * 64))
    before, after = traced(last, "--trust", "toys")["chain"]
    assert before["shared"]
    assert (after["shared"], after["how"]) == ({}, "the data found here are not those it was trained on")


def test_data_that_would_have_to_be_made_are_not(here, traced, home):
    runs, _, last, _ = here
    task = to_dict(Pathfinder(train=20, val=5, test=5))
    edit(runs / "stages" / last / "result.json", lambda result: result["recipe"].update(task=task))
    how = traced(last)["chain"][-1]["how"]
    assert "the data are not available; `selfpretrain data make pathfinder`" in how
    assert not home.exists()


def test_a_study_keeps_what_is_needed_where_data_are_not(here, traced):
    runs = here[0]
    stage, manifest = reported(runs, "SPT"), next((runs / "manifests").iterdir())
    hashes = read_json(manifest)
    sizes = {split: len(hashes[split]) for split in ("val", "test")}
    clean = {split: [0, n] for split, n in sizes.items()}
    assert [seen["shared"] for seen in traced(stage)["chain"]] == [clean] * 2
    unasked = traced(stage, "--no-data")["chain"]
    assert [seen["shared"] for seen in unasked] == [clean] * 2
    assert manifest.stem in unasked[0]["how"]
    edit(manifest, lambda prints: prints["test"].__setitem__(0, prints["train"][0]))
    leaking = clean | {"test": [1, sizes["test"]]}
    assert [seen["shared"] for seen in traced(stage, "--no-data")["chain"]] == [leaking] * 2
    assert [seen["shared"] for seen in traced(stage)["chain"]] == [clean] * 2  # from the data, as they are
    manifest.write_text("{")  # damaged, it proves nothing
    assert [seen["shared"] for seen in traced(stage, "--no-data")["chain"]] == [{}] * 2
    manifest.unlink()
    assert [seen["shared"] for seen in traced(stage, "--no-data")["chain"]] == [{}] * 2
    assert [seen["shared"] for seen in traced(stage)["chain"]] == [clean] * 2  # from the data alone


def test_the_places_of_a_number_are_found(here, traced, cli):
    runs, study = here[0], study_of(here[0])
    (found,) = traced(reported(runs, "SPT"))["printed"]
    assert (found["study"], found["row"], found["column"], found["seed"]) == (
        study.name, "attention", "SPT", 0,
    )  # fmt: skip
    assert found["scored"]
    pretraining = traced(reported(runs, "SPT"))["chain"][0]["stage"]
    assert [place["scored"] for place in traced(pretraining)["printed"]] == [False]
    assert "attention | SPT | seed 0 (a stage before it)" in cli(pretraining)[1]
    number = look_up("amos2024", ("Table 1", "Transformer", "Text"))

    def report_a_number(content):
        for cell in content["tasks"][0]["cells"]:
            cell["reported"] = asdict(number)

    edit(study / "study.json", report_a_number)
    said = cli(reported(runs, "SPT"))[1]
    assert f"{number.value}{number.unit} in amos2024, Table 1, Transformer, Text" in said


def test_every_cell_of_a_study_leads_to_a_stage(here, cli, traced):
    runs, study = here[0], study_of(here[0])
    cells = traced(study)
    assert len(cells) == 3
    for cell in cells:
        assert cell["stage"] == reported(runs, cell["column"])
        assert traced(cell["stage"])["result"]["scores"]["test"]["score"] == cell["score"]
    out = cli(study.name)[1]
    assert all(cell["stage"] in out for cell in cells)


def test_names_of_stages_are_whole_in_a_narrow_terminal(here, cli, traced, monkeypatch):
    runs = here[0]
    monkeypatch.setenv("COLUMNS", "50")
    listed = cli(study_of(runs).name)[1]
    cells = traced(study_of(runs))
    assert cells and all(cell["stage"] in listed for cell in cells)


def test_words_say_what_the_recipe_says(here, cli):
    out = " ".join(cli(here[2])[1].split())  # lines break where the terminal ends
    for said in (
        "majority (length 24, examples 64, shortest 9, signal tokens, target classes)",
        "attention (heads 2",
        "width 8, depth 1",
        "objective masked (rate 0.5",
        "budget (steps 6)",
        "learning rate 0.001",
        "fresh head.*",
        "head.linear.weight",
    ):
        assert said in out


def test_commit_and_changes_are_told(here, cli):
    file = here[0] / "stages" / here[2] / "environment.json"
    edit(file, lambda known: known.update(git={"commit": "abc", "dirty": True}))
    assert "abc, with changes that are not in it" in cli(here[2])[1]
    edit(file, lambda known: known.update(git=None))
    assert "not run from a repository" in cli(here[2])[1]


def test_the_curve_is_csv(here, cli):
    runs, _, last, _ = here
    log = runs / "stages" / last / "log.jsonl"
    with log.open("a") as file:
        file.write('{"kind": "train", "step": 7, "loss": NaN}\n{"kind": "tr')
    code, out, _ = cli(last, "--curve")
    assert code == 0
    rows, lines = list(csv.DictReader(io.StringIO(out))), log.read_text().splitlines()[:-1]
    for row, line in zip(rows, map(json.loads, lines), strict=True):
        assert {key: row[key] for key in ("kind", "step")} == {
            "kind": line["kind"],
            "step": str(line["step"]),
        }
    assert "NaN" not in cli(last, "--json")[1]
    assert "nan" not in cli(last)[1]


def test_an_unfinished_stage_is_shown_as_far_as_it_is(here, cli, traced):
    runs, first, last, _ = here
    (runs / "stages" / last / "result.json").unlink()
    found = traced(last)
    assert found["result"] == {}
    assert [link["stage"] for link in found["chain"]] == [first, last]
    assert "not finished" in cli(last)[1]


def test_damaged_neighbours_and_studies_are_named(here, cli):
    runs, first, last, _ = here
    (runs / "stages" / first / "result.json").write_text("{")
    code, out, _ = cli(last)
    assert code == 0
    assert "not among these runs" in out and f"note: not readable: {first}" in out
    study = study_of(runs)
    (study / "study.json").write_text("{")
    code, _, err = cli(study)
    assert code == 2 and "study.json" in err
    assert cli(last)[0] == 0


def test_a_damaged_result_is_named(here, cli):
    for damage, said in {
        "{": "is damaged",
        '{"format": 9}': "was written in format 9",
        "[]": "holds no object",
        '{"format": 1, "recipe": {}}': "objective: Field required",
        '{"format": 1, "objective": 3}': "objective: Input should be a valid string",
    }.items():
        (here[0] / "stages" / here[2] / "result.json").write_text(damage)
        code, _, err = cli(here[2])
        assert code == 2 and said in err and here[2] in err


def test_names_that_do_not_fit(here, cli):
    _, first, last, _ = here
    short = last.rpartition("-")[2]
    for arguments, words in {
        (last[:-1] + "z",): [f"did you mean {last!r}?"],
        (short[:-1] + "z",): [f"did you mean {short!r}?"],
        ("majority",): [first, last, "fits 3"],
        ("stages",): ["none of the"],
        ("runs",): ["runs is a folder, but no stage or study; name one, or --check a folder of them"],
        (last, "--runs", "elsewhere"): ["no stage and no study in elsewhere"],
        (study_of(here[0]), "--curve"): ["--curve needs one of its stages"],
        (last, "--curve", "--json"): ["--curve prints", "as CSV; leave out --json"],
    }.items():
        code, _, err = cli(*arguments)
        assert code == 2 and all(word in err for word in words), arguments
    assert "known: " in (said := cli("zzz")[2]) and said.count(short) == 1, (
        "with its name, and not again alone"
    )


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=100), st.integers(1, 60))
def test_a_sparkline_is_short_and_keeps_the_order(values, width):
    drawn = sparkline(values, width)
    assert len(drawn) == min(width, len(values))
    if len(values) <= width:
        heights = [BARS.index(bar) for bar in drawn]
        in_order = [height for _, height in sorted(zip(values, heights, strict=True))]
        assert in_order == sorted(heights)
        assert in_order[0] == 0
