"""From finished cells to the page of a study: what it asked, what came out, what the paper printed."""

import hashlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from ..errors import StoreError
from ..registry import name_of
from ..system.files import FORMAT, Json
from ..training.build import build_network
from ..training.model import Network
from ..training.recipe import Recipe
from ..training.stage_folder import WEIGHTS, Folder
from . import archive
from .plan import Cell, Finished, home, jobs, parts, waiting
from .results import sentence
from .workspace import Machine

if TYPE_CHECKING:
    from ..studies.base import Scale, Study


PAGE = "report.html"
SHIPPED = Path(__file__).parents[1] / "studies" / "results"
"""Results that come with the package, and what their authors read in them."""


@dataclass(frozen=True)
class Publication:
    """A study as it was run: its cells, where they are, and the folder of kept results."""

    study: "Study"
    scale: "Scale"
    cells: list[Cell]
    machine: Machine
    results: Path

    @property
    def kept(self) -> Path:
        """The file of kept results."""
        return self.results / f"{name_of(self.study)}.{self.scale}.jsonl.xz"

    @property
    def folder(self) -> Folder:
        """Where the page goes."""
        return Folder.make(self.machine.bench.runs / f"{name_of(self.study)}-{self.scale}")

    def restore(self) -> int:
        """Take over what was measured before; how many stages.

        Raises:
            StoreError: if the file of kept results is damaged.
        """
        found, extra = archive.restore(self.kept, self._stages())
        if extra.get("of") == self._measured and not self.folder.has(self._measured):
            self.folder.write(self._measured, {"format": FORMAT, "measures": extra.get("measures", [])})
        return found

    def forget(self) -> None:
        """Drop what was taken over, so that it is measured here."""
        archive.forget(map(Folder, self._stages().values()))
        self.folder.drop(self._measured)

    def keep(self) -> int:
        """Keep what is finished for later runs; how many stages."""
        extra = {"measures": self._measures(), "of": self._measured}
        return archive.keep(map(Folder, self._stages().values()), self.kept, extra)

    def write(self) -> Path:
        """Write ``sheet.json``, from which the page is made; the folder."""
        tables = parts(self.cells)
        places = [home(self.study, some, self.machine.bench).path.name for some in tables]
        named = {place: some[0].label for place, some in zip(places, tables, strict=True) if some[0].label}
        content = {
            "format": FORMAT,
            "stamp": self._stamp(),
            "name": name_of(self.study),
            "title": title(self.study),
            "scale": self.scale,
            "about": about(self.study),
            "reading": self._reading(),
            "figure": self.study.figure,
            "parts": places,
            "labels": named,
            "measures": self._measures(),
            "shared": {
                "asked": sum(len(cell.recipe.stages) for cell in self.cells),
                "run": len(self._stages()),
            },
        }
        self.folder.write("sheet.json", content)
        return self.folder.path

    @property
    def current(self) -> bool:
        """Whether every cell has finished, and the page has been made of exactly this."""
        made = self.folder.has("sheet.json") and self.folder.has(PAGE)
        stamped = made and self.folder.read("sheet.json").get("stamp") == self._stamp()
        return stamped and not waiting(jobs(self.cells, self.machine.bench), self.machine)

    def _stamp(self) -> str:
        """Changes when the page would."""
        cells = [[cell.row, cell.column, cell.label, cell.printed] for cell in self.cells]
        finished = sorted(name for name, path in self._stages().items() if Folder(path).finished)
        decides = [__version__, about(self.study), self._reading(), self.study.notes(), cells, finished]
        return hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:10]

    def _reading(self) -> str:
        file = self.results / f"{name_of(self.study)}.{self.scale}.md"
        return file.read_text(encoding="utf-8").strip() if file.exists() else ""

    @property
    def _measured(self) -> str:
        """The file of what was measured on exactly these cells."""
        names = "\n".join(sorted(self._stages()))
        return f"measures-{hashlib.sha256(names.encode()).hexdigest()[:10]}.json"

    def _stages(self) -> dict[str, Path]:
        bench = self.machine.bench
        return {job.name: bench.runs / "stages" / job.name for job in jobs(self.cells, bench)}

    def _measures(self) -> list[Json]:
        """Measured once; what was kept counts where the weights are gone."""
        if self.folder.has(self._measured):
            return list(self.folder.read(self._measured)["measures"])
        try:
            found = self.study.measures(_Done(self.machine))
        except StoreError:  # not trained here, or not yet
            return []
        if found:
            self.folder.write(self._measured, {"format": FORMAT, "measures": found})
        return found


def title(study: "Study") -> str:
    """The question, after the table or figure of the paper that asks it."""
    source = about(study).get("Source", "")
    printed = re.match(r"[^:;]*?\(\d{4}\), (?:Table|Figure) \d+(?: and (?:Table|Figure) \d+)?", source)
    return f"{printed[0]}: {sentence(study)}" if printed else sentence(study)


def about(study: "Study") -> dict[str, str]:
    """The sections of a study's docstring, by their first words: ``Source: ...``."""
    text = sys.modules[type(study).__module__].__doc__ or type(study).__doc__ or ""
    sections: dict[str, str] = {}
    for paragraph in re.split(r"\n(?=[A-Z][a-z ]+: )|\n\n", text.strip())[1:]:
        name, colon, rest = paragraph.partition(": ")
        named = colon and len(name) < 20 and "\n" not in name
        key, said = (name, rest) if named else ("Question", paragraph)
        sections[key] = f"{sections[key]}\n\n{_joined(said)}" if key in sections else _joined(said)
    return sections


def _joined(text: str) -> str:
    joined = " ".join(text.split())
    return joined[:1].upper() + joined[1:]


@dataclass(frozen=True)
class _Done(Finished):
    """What is in the folders of a machine."""

    machine: Machine

    def network(self, recipe: Recipe) -> Network:
        """Trained."""
        network = build_network(recipe)
        network.load_state_dict(self._folder(recipe).load(WEIGHTS)[0])
        return network.eval()

    def result(self, recipe: Recipe) -> Json:
        """Scores, steps and cost of the last stage."""
        return self._folder(recipe).read("result.json")

    def log(self, recipe: Recipe) -> list[Json]:
        """The lines that the last stage told while it was trained."""
        folder = self._folder(recipe)
        folder.read("result.json")  # complains where it has not finished
        lines = (folder.path / archive.LOG).read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def _folder(self, recipe: Recipe) -> Folder:
        return Folder(self.machine.bench.folder(recipe))
