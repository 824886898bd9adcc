"""Render a page in the terminal with rich."""

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from ..format import plain, printable
from ..layout import Entry, Page, ReportTable, Section

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table
    from rich.text import Text


def show(page: Page) -> "RenderableType":
    """Return a page as an object that a rich console prints."""
    from rich.console import Group
    from rich.text import Text

    head = [escaped(page.title, "underline"), *(escaped(line, "dim") for line in page.lines)]
    outcomes = [escaped(line) for line in page.outcomes]
    prose = [Text(f"\n{printable(page.interpretation)}")] if page.interpretation else []
    return Group(*head, *outcomes, *prose, *(part for section in page.sections for part in _parts(section)))


def escaped(text: str, style: str = "") -> "Text":
    """Return text in one line, without rich markup or terminal control characters."""
    from rich.text import Text

    return Text(plain(text), style=style)


def _parts(section: Section) -> "list[RenderableType]":
    from rich.padding import Padding
    from rich.text import Text

    points = [escaped(f"- {line}", "yellow") for line in section.points]
    title = [Text(), escaped(section.title, "underline yellow")] if points else []
    facts = [escaped(f"{name}: {text}") for name, text in section.facts]
    space = [Text()] if facts else []
    tables = [Padding(Fitting(table), (1, 0, 0, 0)) for table in section.tables if table.rows]
    return [*title, *points, *tables, *space, *facts]


class Fitting:
    """A table that adapts to the console width without breaking cells: grid, else grouped, else listed."""

    def __init__(self, table: ReportTable) -> None:
        self.table = table

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.measure import Measurement

        for drawn in (grid(self.table), grouped(self.table)):
            width = Measurement.get(console, options.update(max_width=1000), drawn).maximum
            if width <= options.max_width:
                yield drawn
                return
        yield listed(self.table)


def grouped(table: ReportTable) -> "RenderableType":
    """Draw a table grouped by its first column, whose value is a line above the rows that share it."""
    from rich.text import Text

    drawn = _frame(replace(table, headings=table.headings[1:], words=table.words - 1))
    for group, rows in itertools.groupby(table.rows, key=lambda row: row[0].text):
        drawn.add_row(escaped(group))
        for _, first, *rest in rows:
            drawn.add_row(Text("  ") + _entry(first), *map(_entry, rest))
    return drawn


def listed(table: ReportTable) -> "RenderableType":
    """Draw a table as a list, one line per entry."""
    from rich.text import Text

    lines = [escaped(table.title, "italic")]
    for row in table.rows:
        lines.append(Text())
        lines += [
            escaped(f"{heading}: {entry.text}", "bold" if entry.bold else "")
            for heading, entry in zip(table.headings, row, strict=True)
        ]
    caption = [Text(), escaped(table.caption, "dim")] if table.caption else []
    return Text("\n").join([*lines, *caption])


def grid(table: ReportTable) -> "RenderableType":
    """Draw a table as a grid with its title above and its caption below."""
    drawn = _frame(table)
    for row in table.rows:
        drawn.add_row(*map(_entry, row))
    return drawn


def _frame(table: ReportTable) -> "Table":
    """Return a rich table without rows; its cells never wrap."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(
        title=escaped(table.title),
        title_justify="left",
        caption=Text(printable(table.caption), style="dim") if table.caption else None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        header_style="dim",
    )
    for at, heading in enumerate(table.headings):
        justify: Literal["left", "right"] = "left" if at < table.words else "right"
        drawn.add_column(escaped(heading), justify=justify, no_wrap=True)
    return drawn


def _entry(entry: Entry) -> "Text":
    return escaped(entry.text, "bold" if entry.bold else "")
