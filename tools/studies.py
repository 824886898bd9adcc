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
from selfpretrain.report import page as report
from selfpretrain.runner.publish import SHIPPED, Publication
from selfpretrain.runner.run import plan_tables, report_tables
from selfpretrain.runner.workspace import Machine

DOCS = Path(__file__).parents[1] / "docs" / "studies"
KEPT = (".md", ".svg", ".csv")


def page(name: str, machine: Machine) -> Publication:
    """A study with its page, from the results that ship; cells without one are shown as missing."""
    study = find("studies", name).at("small", 3)
    publication = Publication(study, "small", list(study.cells()), machine, SHIPPED)
    publication.restore()
    plan_tables(study, publication.cells, machine)
    report_tables(study, publication.cells, machine)
    report.write(publication.write())
    return publication


def files(publication: Publication) -> list[Path]:
    """What of a study's page goes into the documentation."""
    return [file for file in sorted(publication.folder.path.iterdir()) if file.suffix in KEPT]


def main() -> None:
    """Write all pages."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as runs:
        machine = Machine.of(Path(runs), "cpu", "1")
        made = []
        for name in names("studies"):
            if name == "compare":
                continue
            publication = page(name, machine)
            target = DOCS / publication.folder.path.name
            shutil.rmtree(target, ignore_errors=True)
            if publication.kept.exists():
                target.mkdir()
                for file in files(publication):
                    shutil.copy(file, target)
                made.append(publication.folder.path)
        (DOCS / "table.md").write_text(report.index(made), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--data-root"]:
        os.environ["SPT_DATA"] = sys.argv[2]
    main()
