"""Make docs/studies from the results that ship: the page of every study, and the index of all.

Nothing is trained. Run it after new results were kept
(``spt study NAME --results src/selfpretrain/studies/results``):

    python tools/studies.py [--data-root FOLDER]
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


def page(name: str, workspace: Workspace) -> Path:
    """The folder of a study with its page, from the results that ship; cells without one are missing."""
    experiment = find("studies", name).at("small", 3).experiment("small")
    folder = ExperimentFolder(experiment, workspace, SHIPPED)
    folder.restore()
    folder.plan()
    folder.finish()
    return folder.path


def files(folder: Path) -> list[Path]:
    """What of a study's page goes into the documentation."""
    return [file for file in sorted(folder.iterdir()) if file.suffix in KEPT]


def main() -> None:
    """Write all pages."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as runs:
        workspace = Workspace.of(Path(runs), "cpu", "1")
        made = []
        for name in names("studies"):
            if not find("studies", name).lasting:
                continue
            folder = page(name, workspace)
            shutil.rmtree(DOCS / folder.name, ignore_errors=True)
            if (SHIPPED / f"{name}.small.jsonl.xz").exists():
                (DOCS / folder.name).mkdir()
                for file in files(folder):
                    shutil.copy(file, DOCS / folder.name)
                made.append(folder)
        (DOCS / "table.md").write_text(reports.index(made), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--data-root"]:
        os.environ["SPT_DATA"] = sys.argv[2]
    main()
