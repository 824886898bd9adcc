"""Numbers that papers report, looked up by table, row and column.

A paper is a CSV file in ``studies/reported/``: lines in the order of the paper, values as printed. Rows and
columns have the paper's names, without references and footnote marks.
"""

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ..errors import UnknownName, nearest

FOLDER = Path(__file__).parents[1] / "studies" / "reported"
PAPERS = {
    "amos2024": "Amos et al. (2024)",
    "coser2025": "Coser & Orvieto (2025)",
    "gu2022": "Gu et al. (2022)",
    "tay2021": "Tay et al. (2021)",
}
"""Papers with a file, and their citations."""

Where = tuple[str, str, str]  # (table, row, column) in a paper


@dataclass(frozen=True)
class PaperNumber:
    """One cell of a paper's table, with its position."""

    paper: str
    table: str
    row: str
    column: str
    value: float | None  # None: a cross or an empty cell, see ``remark``
    unit: str = ""  # "%", "s", ...; accuracies without one are fractions
    remark: str = ""  # original source, erratum, or how it was obtained

    def in_unit(self, unit: str) -> float | None:
        """Convert the number to one of our units (fractions to %); None if there is none or units differ."""
        if self.value is not None and (self.unit, unit) == ("", "%"):
            return 100 * self.value
        return self.value if self.unit == unit else None


@functools.cache
def reported(paper: str) -> Mapping[Where, PaperNumber]:
    """Return all numbers of a paper by (table, row, column), in the order of the paper.

    Raises:
        UnknownName: if there is no file of that paper.
    """
    if paper not in PAPERS:
        raise UnknownName(f"no reported numbers of {paper!r}{nearest(paper, PAPERS)}")
    numbers = {}
    with (FOLDER / f"{paper}.csv").open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            place = line["table"], line["row"], line["column"]
            value = float(line["value"]) if line["value"] else None
            numbers[place] = PaperNumber(paper, *place, value, line["unit"], line["remark"])
    return MappingProxyType(numbers)


def look_up(paper: str, place: Where) -> PaperNumber:
    """Return one number of a paper.

    Raises:
        UnknownName: if the paper, its table, row or column does not exist; the message suggests the nearest.
    """
    if found := reported(paper).get(place):
        return found
    known = list(reported(paper))
    for i, kind in enumerate(("table", "row", "column")):
        names = dict.fromkeys(each[i] for each in known if each[:i] == place[:i])
        if place[i] not in names:
            where = ", ".join([PAPERS[paper], *place[:i]])
            raise UnknownName(f"{where}: there is no {kind} {place[i]!r}{nearest(place[i], names)}")
    raise AssertionError("a place whose parts are all known is found")
