"""A study as Markdown that also reads well unrendered."""

from ..analysis import Analysis
from ..caveats import remarks
from ..tables import Entry, Table, tables
from ..verdict import verdict


def document(analysis: Analysis) -> str:
    """Verdict, tables, remarks and how to repeat the study."""
    plan, said = analysis.study.plan, verdict(analysis)
    parts = [f"# {escaped(plan.title)}", f"Task: {escaped(plan.task.name)}. {escaped(plan.task.about)}"]
    parts += [f"**{escaped(said.gain)}**"] + ([f"**{escaped(said.ranking)}**"] if said.ranking else [])
    parts += [section(table) for table in tables(analysis)]
    lines = [*remarks(analysis), *plan.notes]
    parts += ["## Notes\n\n" + "\n".join(f"- {escaped(line)}" for line in lines)] if lines else []
    parts += [f"## Repeat\n\n    {plan.command}\n\nselfpretrain {plan.version}, {plan.created}"]
    return "\n\n".join(parts) + "\n"


def section(table: Table, level: int = 2) -> str:
    """One table with its title, a heading of some level, and its caption."""
    body = [[_drawn(entry) for entry in row] for row in table.rows]
    grid = [[escaped(heading) for heading in table.headings], *body]
    widths = [max(3, *(len(row[at]) for row in grid)) for at in range(len(table.headings))]
    rule = ["-" * w if at < table.words else "-" * (w - 1) + ":" for at, w in enumerate(widths)]
    lines = [_line(row, widths, table.words) for row in [grid[0], rule, *body]]
    caption = f"\n\n{escaped(table.caption)}" if table.caption else ""
    return f"{'#' * level} {escaped(table.title)}\n\n" + "\n".join(lines) + caption


def _line(row: list[str], widths: list[int], words: int) -> str:
    places = [
        text.ljust(width) if at < words else text.rjust(width)
        for at, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return f"| {' | '.join(places)} |"


def _drawn(entry: Entry) -> str:
    return f"**{escaped(entry.text)}**" if entry.bold else escaped(entry.text)


def escaped(text: str) -> str:
    """Plain text in one line, with every character that Markdown would take for a sign written out."""
    for special in "\\|*_`<":
        text = text.replace(special, "\\" + special)
    return " ".join(text.split())
