"""What a page consists of; renderers know this and nothing of results."""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from .format import printable


class Depth(enum.IntEnum):
    """How far down a section stands: each of these shows what the one before it does, and more."""

    OPEN = 0  # read at once
    FOLDED = 1  # in HTML and Markdown behind its heading
    FULL = 2  # folded, and in HTML alone


@dataclass(frozen=True)
class Entry:
    """What stands in one place of a table."""

    text: str
    bold: bool = False
    key: float | None = None  # to sort by, where the text does not sort by itself


@dataclass(frozen=True)
class ReportTable:
    """Headings, rows of entries and what to know when reading them."""

    name: str
    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    caption: str = ""
    words: int = 1  # how many leading columns hold words; the others hold numbers
    sortable: bool = False


@dataclass(frozen=True)
class Picture:
    """A figure that is drawn when it is asked for, what it shows in words, and its file beside the page."""

    file: str
    alt: str
    draw: Callable[[], str]

    @cached_property
    def svg(self) -> str:
        """The figure; characters that XML forbids are left out."""
        return printable(self.draw())


@dataclass(frozen=True)
class Section:
    """A heading, and below it whatever there is, in this order."""

    title: str
    prose: str = ""  # Markdown
    points: tuple[str, ...] = ()  # plain sentences
    facts: tuple[tuple[str, str], ...] = ()  # names, and what to say about them
    pictures: tuple[Picture, ...] = ()
    caption: str = ""  # of the pictures
    tables: tuple[ReportTable, ...] = ()
    depth: Depth = Depth.OPEN

    @property
    def empty(self) -> bool:
        """Whether there is nothing below the heading."""
        filled = any(table.rows for table in self.tables)
        return not (self.prose or self.points or self.facts or self.pictures or filled)


@dataclass(frozen=True)
class Page:
    """Everything that a report says, from top to bottom."""

    name: str
    title: str
    lines: tuple[str, ...]  # what it is about, and how far it is
    outcomes: tuple[str, ...]  # what came out, in a sentence or two
    sections: tuple[Section, ...]
    origin: str  # version and time
    plain: str = ""  # what came out, for somebody who reads nothing else
    arms: tuple[tuple[str, str], ...] = ()  # what the arms are, a line each

    def to(self, depth: Depth) -> tuple[Section, ...]:
        """The sections down to some depth."""
        return tuple(section for section in self.sections if section.depth <= depth)
