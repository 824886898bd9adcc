"""Make docs/studies from the results that ship: the page of every study, and the index of all.

Nothing is trained. Run it after new results were kept
(``spt study NAME --results src/selfpretrain/studies/results``):

    python tools/studies.py [--data-root FOLDER]

A study that lacks a stage keeps the page it had, under a line that says so.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import torch

from selfpretrain.registry import find, names
from selfpretrain.report import page as reports
from selfpretrain.runner.results import ExperimentFolder
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.base import SHIPPED

DOCS = Path(__file__).parents[1] / "docs" / "studies"
KEPT = (".md", ".svg", ".csv")
WAITS = "> These numbers are of an earlier version of the package, and wait to be measured again."


def page(name: str, workspace: Workspace) -> Path | None:
    """The folder of a study with its page, from the results that ship; None if they lack a stage."""
    experiment = find("studies", name).at("small", 3).experiment("small")
    folder = ExperimentFolder(experiment, workspace, SHIPPED)
    folder.restore()
    if not all(stage.finished for stage in folder.stages().values()):
        return None
    folder.plan()
    folder.finish()
    return folder.path


def waiting(folder: Path, table: str) -> str:
    """Say on a page of before that it waits; its line of the index, which says so too."""
    report = folder / "report.md"
    title, _, rest = report.read_text(encoding="utf-8").partition("\n")
    if WAITS not in rest:
        report.write_text(f"{title}\n\n{WAITS}\n{rest}", encoding="utf-8")
    (line,) = (line for line in table.splitlines() if f"({folder.name}/report.md)" in line)
    return line.replace(" | measured | ", " | to be measured again | ")


def files(folder: Path) -> list[Path]:
    """What of a study's page goes into the documentation."""
    return [file for file in sorted(folder.iterdir()) if file.suffix in KEPT]


def main() -> None:
    """Write all pages."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as runs:
        workspace = Workspace.of(Path(runs), "cpu", "1")
        before, lines = (DOCS / "table.md").read_text(encoding="utf-8"), []
        for name in (name for name in names("studies") if find("studies", name).lasting):
            there, folder = DOCS / f"{name}-small", page(name, workspace)
            if folder:
                shutil.rmtree(there, ignore_errors=True)
                there.mkdir()
                for file in files(folder):
                    shutil.copy(file, there)
                lines.append(reports.index([folder]).splitlines()[-1])
            elif there.exists():
                lines.append(waiting(there, before))
        head = before.splitlines()[:2]
        (DOCS / "table.md").write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--data-root"]:
        os.environ["SPT_DATA"] = sys.argv[2]
    main()
