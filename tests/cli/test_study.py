"""``selfpretrain study`` as people use it: a page, the same command again, kept results, mistakes."""

import json
import shutil
from dataclasses import replace

import pytest

from selfpretrain import api
from selfpretrain.cli import app, printing
from selfpretrain.errors import DoesNotFit, Interrupted
from selfpretrain.report.results import ExperimentResults
from selfpretrain.runner.archive import Archive
from selfpretrain.runner.run import StageQueue
from task_results import MATCHED, SPT, cell, task_results

STUDY = ["study", "coser-table-4", "--only", "Image/identical start/*", "--scale", "smoke", "--seeds", "1"]
STUDY += ["--jobs", "1", "--quiet"]
"""Five of its thirty stages."""


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def said(capsys):
    """Everything that was printed, without regard to how lines were broken."""
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).split())


def test_page_again_and_elsewhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    kept = tmp_path / "kept"
    assert app.run([*STUDY, "--results", str(kept)]) == 0
    first = said(capsys)
    folder = tmp_path / "runs" / "coser-table-4-smoke"
    made = {path.name for path in folder.iterdir()}
    assert {"report.md", "report.html", "report.tex", "results.csv", "study.json"} <= made
    assert "proves nothing" in first and str(folder.relative_to(tmp_path)) in first
    page = (folder / "report.md").read_text()
    assert all(word in page for word in ("Protocol", "What differs", "identical start", "Q and K", "60"))
    assert (kept / "coser-table-4.smoke.jsonl.xz").stat().st_size < 100_000

    assert app.run([*STUDY, "--results", str(kept), "--dry-run", "--gpu", "a100"]) == 0
    again = said(capsys)
    assert "0 to run" in again and "on one a100" in again

    assert app.run(["report", "runs", "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)

    shutil.rmtree(tmp_path / "runs")
    assert app.run([*STUDY, "--results", str(kept), "--json"]) == 0
    told = capsys.readouterr()
    assert "5 stages are taken from" in told.err
    study = json.loads(told.out)
    assert study.keys() == report.keys() == {"report", "rows", "verdicts"}
    assert [row["score"] for row in study["rows"]] == [row["score"] for row in report["rows"]]
    again = (folder / "report.md").read_text().splitlines(keepends=True)
    assert "".join(line for line in again if "not trained here but taken from" not in line) == page

    assert app.run([*STUDY, "--results", str(kept), "--fresh", "--dry-run"]) == 0
    assert "5 to run" in said(capsys)


@pytest.mark.parametrize("error", [Interrupted("stopped"), DoesNotFit("it needs 90 GB")])
def test_finished_stages_of_a_study_that_ends_early_are_kept(error, tmp_path, monkeypatch):
    class Ended(StageQueue):
        """All stages are done when it ends."""

        def run(self):
            super().run()
            raise error

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(api, "StageQueue", Ended)
    assert app.run([*STUDY, "--results", "kept"]) == error.exit_code
    assert len(Archive(tmp_path / "kept/coser-table-4.smoke.jsonl.xz").names()) == 5


def test_a_study_without_data_says_what_is_missing(home, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert app.run(["study", "amos-table-8", "--scale", "paper"]) == 2
    assert "Image is left out: its data are not prepared" in said(capsys)


def test_what_a_study_leaves_out_is_printed_below_its_report(monkeypatch, capsys):
    cells = [cell("attention", column, 0, 0.5) for column in (SPT, MATCHED)]
    absent = "Image is left out: its data are not prepared"
    task = replace(task_results(cells), notes=("digits stands in for Text", absent))
    monkeypatch.setattr(printing, "show_report", lambda *_: None)
    found = ExperimentResults("toys", "?", "small", "0.1.0", "", "", (task, task))
    printing.show(found)
    assert capsys.readouterr().out == f"note: {absent}\n"
    monkeypatch.setenv("RANK", "1")
    printing.show(found)
    assert capsys.readouterr().out == "", "of torchrun the first process prints"


def test_damaged_results_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "coser-table-4.smoke.jsonl.xz").write_bytes(b"damaged")
    assert app.run([*STUDY, "--results", str(tmp_path)]) != 0
    assert "is damaged" in said(capsys)


def test_all_studies_end_with_the_error_of_those_that_could_not_run(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("selfpretrain.cli.study.names", lambda shelf: ["coser-table-4", "pooling"])
    refused = ("study", "all", "--scale", "smoke", "--fresh", "--runs", tmp_path)
    code, out, err = cli(*refused, "--executor", "ray", "--with", "cpus=many")
    assert code == 2 and "left out: " in out and "error: " in err
    code, _, err = cli(*refused, "--executor", "slurm", "--detach")
    assert code == 2 and "one study at a time; name it" in err


def test_all_studies_go_on_after_one_that_a_mixer_does_not_suit(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("selfpretrain.cli.study.names", lambda shelf: ["amos-table-8", "coser-table-4"])
    asked = ("study", "all", "--mixers", "wavegan", "--scale", "smoke", "--dry-run", "--runs", tmp_path)
    code, out, _ = cli(*asked)
    assert code == 0 and "amos-table-8: left out: " in out and "wavegan" in out
