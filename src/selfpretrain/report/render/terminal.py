"""A page in the terminal: what came out, the main tables, and what to beware of; the files have the rest."""

from typing import TYPE_CHECKING

from ..format import plain, printable
from ..layout import Depth, Page, ReportTable, Section

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.text import Text


def show(page: Page) -> "RenderableType":
    """The brief sections of a page, to be printed by a rich console."""
    from rich.console import Group

    head = [escaped(page.title, "bold"), *(escaped(line, "dim") for line in page.lines)]
    said = [escaped(line) for line in page.outcomes]
    return Group(*head, *said, *(part for section in page.to(Depth.BRIEF) for part in _parts(section)))


def escaped(text: str, style: str = "") -> "Text":
    """Plain text in one line, in which nothing is taken for markup and nothing moves the cursor."""
    from rich.text import Text

    return Text(plain(text), style=style)


def _parts(section: Section) -> "list[RenderableType]":
    from rich.padding import Padding
    from rich.text import Text

    prose = [Text(f"\n{printable(section.prose)}")] if section.prose else []
    points = [escaped(f"- {line}", "yellow") for line in section.points]
    title = [Text(), escaped(section.title, "bold yellow")] if points else []
    tables = [Padding(Fitting(table), (1, 0, 0, 0)) for table in section.tables if table.rows]
    return [*prose, *title, *points, *tables]


class Fitting:
    """A table as a grid where it fits, and row by row where the terminal is too narrow: no number is cut."""

    def __init__(self, table: ReportTable) -> None:
        self.table = table

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.measure import Measurement

        drawn = grid(self.table)
        least = Measurement.get(console, options.update(max_width=1000), drawn).minimum
        yield drawn if least <= options.max_width else listed(self.table)


def listed(table: ReportTable) -> "RenderableType":
    """One table with every entry on a line of its own."""
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
    """One table, with its title above and its caption below."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(
        title=escaped(table.title),
        title_justify="left",
        caption=Text(printable(table.caption)) if table.caption else None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for at, heading in enumerate(table.headings):
        drawn.add_column(escaped(heading), justify="left" if at < table.words else "right")
    for row in table.rows:
        drawn.add_row(*(escaped(entry.text, "bold" if entry.bold else "") for entry in row))
    return drawn
