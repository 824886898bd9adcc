"""Make docs/studies from the results that ship: the page of every study, and the index of all.

Nothing is trained. Run it after new results were kept
(``selfpretrain study NAME --results src/selfpretrain/studies/results``):

    python tools/studies.py [--data-root FOLDER] [STUDY ...]

The page of a study that is measured in part says what is missing. If stages were kept that the study does not
plan any more, what is missing has to be measured again: then it keeps the page it had, under a line that says
so. Name the folder of data: a task whose data are not found is left out of its pages.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch

from selfpretrain.registry import find, names
from selfpretrain.report import summary
from selfpretrain.report.analysis import analyse
from selfpretrain.report.render import markdown
from selfpretrain.report.results import read
from selfpretrain.runner.experiment_dir import ExperimentFolder
from selfpretrain.runner.plan import Plan
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.base import SHIPPED

DOCS = Path(__file__).parents[1] / "docs" / "studies"
TABLE = DOCS / "table.md"
KEPT = (".md", ".svg", ".csv")
WAITS = "> These numbers are of an earlier version of the package, and wait to be measured again."


def page(name: str, workspace: Workspace) -> Path | None:
    """The folder of a study with its page, from the results that ship; None if it waits to be measured."""
    kind = find("studies", name)
    plan = Plan.of(kind.at_scale("small", kind.bundled_seeds).experiment("small"))
    folder = ExperimentFolder(plan, workspace, SHIPPED)
    kept = folder.bundled_stages
    planned = folder.stages().keys()
    if not kept >= planned:
        if not kept <= planned:
            return None
        # Apart from the others: the page says what these results hold, not what the studies before it kept.
        folder = ExperimentFolder(plan, replace(workspace, runs=workspace.runs / name), SHIPPED)
    folder.restore()
    folder.write_plan()
    folder.finish()
    return folder.path


def waiting(folder: Path, table: str) -> str:
    """Say on a page of before that it waits; its line of the index, which says so too."""
    report = folder / "report.md"
    title, _, rest = report.read_text(encoding="utf-8").partition("\n")
    if WAITS not in rest:
        report.write_text(f"{title}\n\n{WAITS}\n{rest}", encoding="utf-8")
    return known(folder, table).replace(" | measured | ", " | to be measured again | ")


def listed(name: str, workspace: Workspace, asked: list[str]) -> str:
    """Write the page of a study that is asked for; its line of the index, if it has a page."""
    there, before = DOCS / f"{name}-small", TABLE.read_text(encoding="utf-8")
    if name not in asked:
        return known(there, before) if there.exists() else ""
    if folder := page(name, workspace):
        shutil.rmtree(there, ignore_errors=True)
        there.mkdir()
        for file in files(folder):
            shutil.copy(file, there)
        return index([folder]).splitlines()[-1]
    return waiting(there, before) if there.exists() else ""


def known(folder: Path, table: str) -> str:
    """The line of the index that a page has."""
    (line,) = (line for line in table.splitlines() if f"({folder.name}/report.md)" in line)
    return line


def index(folders: Iterable[Path]) -> str:
    """Return a Markdown table of experiments, with links relative to their parent folder.

    Raises:
        StoreError: if one of them cannot be read.
    """
    lines = [
        "| paper | question | scale | seeds | state | outcome |",
        "| --- | --- | --- | ---: | --- | --- |",
    ]
    for folder in folders:
        analysis = analyse(read(folder))
        results = analysis.results
        source = results.about.get("Source", "").strip().rstrip(".") or results.name
        # A study of ours may show numbers of papers, too.
        reported = [] if source.lower().startswith("our question") else analysis.paper_tables
        paper = markdown.escaped("; ".join(reported) or source).replace("[", "\\[")
        outcome = summary.standings(analysis.tasks) if results.missing < len(results.cells) else ""
        words = (
            f"[{paper}]({folder.resolve().name}/report.md)",
            markdown.escaped(results.title.rpartition(": ")[2]),  # the paper is in the first column
            results.scale,
            str(analysis.seeds or ""),
            results.state,
            markdown.escaped("proves nothing" if outcome and results.scale == "smoke" else outcome),
        )
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def files(folder: Path) -> list[Path]:
    """What of a study's page goes into the documentation."""
    return [file for file in sorted(folder.iterdir()) if file.suffix in KEPT]


def main() -> None:
    """Write the pages of the studies that are named, or of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = [name for name in names("studies") if find("studies", name).lasting]
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"all, or some of {', '.join(every)}")
    parser.add_argument("--data-root")
    flags = parser.parse_args()
    if unknown := sorted(set(flags.studies) - set(every)):
        parser.error(f"no study is called {', '.join(unknown)}")
    if flags.data_root:
        os.environ["SELFPRETRAIN_DATA"] = flags.data_root
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as runs:
        workspace = Workspace.of(Path(runs), "cpu", "1")
        lines = [line for name in every if (line := listed(name, workspace, flags.studies or every))]
    head = TABLE.read_text(encoding="utf-8").splitlines()[:2]
    TABLE.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
