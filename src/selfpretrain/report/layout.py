"""Building blocks of a page (sections, tables, pictures), independent of results and of renderers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from .format import printable

Shown = Literal["open", "folded", "html"]
"""How a section is shown: at once; folded behind its heading; folded, and on the HTML page only."""


@dataclass(frozen=True)
class Entry:
    """One cell of a table."""

    text: str
    bold: bool = False
    key: float | None = None  # sort key, if the text does not sort correctly


@dataclass(frozen=True)
class ReportTable:
    """A table: headings, rows and a caption."""

    name: str
    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    caption: str = ""
    words: int = 1  # leading columns of text, left-aligned; the others are numbers
    footer: int = 0  # last rows that sum up the others, and stay below them when a reader sorts


@dataclass(frozen=True)
class Picture:
    """A figure drawn lazily, its alternative text, and the name of its file next to the page."""

    file: str
    alt: str
    draw: Callable[[], str]

    @cached_property
    def svg(self) -> str:
        """Return the figure as SVG, without characters that XML forbids."""
        return printable(self.draw())


@dataclass(frozen=True)
class Section:
    """A heading and its content, shown in the order of the fields."""

    title: str
    prose: str = ""  # Markdown
    points: tuple[str, ...] = ()  # plain sentences
    facts: tuple[tuple[str, str], ...] = ()  # (name, text)
    pictures: tuple[Picture, ...] = ()
    caption: str = ""  # below the pictures
    tables: tuple[ReportTable, ...] = ()  # those without rows are left out
    shown: Shown = "open"

    @property
    def empty(self) -> bool:
        """Return whether there is nothing below the heading."""
        filled = any(table.rows for table in self.tables)
        return not (self.prose or self.points or self.facts or self.pictures or filled)


@dataclass(frozen=True)
class Page:
    """The whole report, from top to bottom."""

    name: str
    title: str
    lines: tuple[str, ...]  # subject and progress
    outcomes: tuple[str, ...]  # the verdict, one or two sentences per task
    sections: tuple[Section, ...]
    origin: str  # version and time
    headline: str = ""  # the result in one sentence without statistics
    interpretation: str = ""  # Markdown, written by hand after reading the numbers
    arms: tuple[tuple[str, str], ...] = ()  # (arm, explanation)

    @property
    def printed(self) -> tuple[Section, ...]:
        """Return the sections of Markdown and LaTeX."""
        return tuple(section for section in self.sections if section.shown != "html")
