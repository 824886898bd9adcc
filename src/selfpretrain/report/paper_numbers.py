"""Numbers as papers print them, with the table, row and column where they stand.

A paper is a CSV file in ``published/``; its lines stand in the order of the paper, their values as printed.
Rows and columns have the paper's names, without its references and footnote marks.
"""

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ..errors import UnknownName

FOLDER = Path(__file__).parents[1] / "studies" / "printed"
PAPERS = {
    "amos2024": "Amos et al. (2024)",
    "coser2025": "Coser & Orvieto (2025)",
    "gu2022": "Gu et al. (2022)",
    "tay2021": "Tay et al. (2021)",
}
"""Every paper with a file, and how it is cited."""

Where = tuple[str, str, str]
"""Table, row and column."""


@dataclass(frozen=True)
class PaperNumber:
    """What stands in one cell of a paper's table, and where that is."""

    paper: str
    table: str
    row: str
    column: str
    value: float | None  # None: a cross or nothing; the remark says what it means
    unit: str = ""  # "%", "s", ...; accuracies without one are fractions
    remark: str = ""  # from where it is quoted, what it should have been, how it came about

    def within(self, unit: str) -> float | None:
        """The number in a unit of ours, fractions as %; None where there is none, or of something else."""
        if self.value is not None and (self.unit, unit) == ("", "%"):
            return 100 * self.value
        return self.value if self.unit == unit else None


@functools.cache
def published(paper: str) -> Mapping[Where, PaperNumber]:
    """All numbers of a paper, by table, row and column, in its order.

    Raises:
        UnknownName: if there is no file of that paper.
    """
    from ..errors import nearest

    if paper not in PAPERS:
        raise UnknownName(f"no printed numbers of {paper!r}{nearest(paper, PAPERS)}")
    with (FOLDER / f"{paper}.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    places = [(line["table"], line["row"], line["column"]) for line in lines]
    values = [float(line["value"]) if line["value"] else None for line in lines]
    numbers = {
        place: PaperNumber(paper, *place, value, line["unit"], line["remark"])
        for place, value, line in zip(places, values, lines, strict=True)
    }
    return MappingProxyType(numbers)


def look_up(paper: str, place: Where) -> PaperNumber:
    """One number of a paper.

    Raises:
        UnknownName: if the paper, its table, row or column is not there; the message offers the nearest.
    """
    from ..errors import nearest

    known = list(published(paper))
    for i, kind in enumerate(("table", "row", "column")):
        names = dict.fromkeys(each[i] for each in known if each[:i] == place[:i])
        if place[i] not in names:
            where = ", ".join([PAPERS[paper], *place[:i]])
            raise UnknownName(f"{where}: there is no {kind} {place[i]!r}{nearest(place[i], names)}")
    return published(paper)[place]
