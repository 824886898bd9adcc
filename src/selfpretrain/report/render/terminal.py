"""A study in the terminal."""

from typing import TYPE_CHECKING

from ..analysis import Analysis
from ..caveats import remarks
from ..tables import Table, baselines, costs, scores
from ..verdict import verdict

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult


def show(analysis: Analysis) -> "RenderableType":
    """Verdict, main tables and remarks, to be printed by a rich console; the files have the rest."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    plan, said = analysis.study.plan, verdict(analysis)
    head = [Text(f"{plan.task.name} · {plan.title}", style="bold"), Text(said.gain)]
    ranking = [Text(said.ranking)] if said.ranking else []
    shown = (scores(analysis), costs(analysis), baselines(analysis))
    drawn = [Padding(Fitting(table), (1, 0, 0, 0)) for table in shown if table.rows]
    notes = [Text(f"note: {line}", style="yellow") for line in remarks(analysis)]
    return Group(*head, *ranking, *drawn, *([Text(), *notes] if notes else []))


class Fitting:
    """A table as a grid where it fits, and row by row where the terminal is too narrow: no number is cut."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.measure import Measurement

        drawn = grid(self.table)
        least = Measurement.get(console, options.update(max_width=1000), drawn).minimum
        fits = least <= options.max_width
        yield drawn if fits else listed(self.table)


def listed(table: Table) -> "RenderableType":
    """One table with every entry on a line of its own."""
    from rich.text import Text

    lines = Text(f"{table.title}\n", style="italic")
    for row in table.rows:
        lines.append("\n")
        for heading, entry in zip(table.headings, row, strict=True):
            lines.append(
                f"{heading}: {entry.text}\n", style="bold not italic" if entry.bold else "not italic"
            )
    return lines.append(f"\n{table.caption}" if table.caption else "", style="dim")


def grid(table: Table) -> "RenderableType":
    """One table, with its title above and its caption below."""
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    drawn = Grid(
        title=Text(table.title),
        title_justify="left",
        caption=Text(table.caption) if table.caption else None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for at, heading in enumerate(table.headings):
        drawn.add_column(Text(heading), justify="left" if at < table.words else "right")
    for row in table.rows:
        drawn.add_row(*(Text(entry.text, style="bold" if entry.bold else "") for entry in row))
    return drawn
