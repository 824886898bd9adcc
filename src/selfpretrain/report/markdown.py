"""A study as Markdown that also reads well unrendered."""

from .comparison import Analysis
from .remarks import remarks
from .table import Entry, Table, tables
from .verdict import verdict


def document(analysis: Analysis) -> str:
    """Verdict, tables, remarks and how to repeat the study."""
    plan, said = analysis.study.plan, verdict(analysis)
    parts = [f"# {_escaped(plan.title)}", f"Task: {_escaped(plan.task.name)}. {_escaped(plan.task.about)}"]
    parts += [f"**{_escaped(said.gain)}**"] + ([f"**{_escaped(said.ranking)}**"] if said.ranking else [])
    parts += [section(table) for table in tables(analysis)]
    lines = [*remarks(analysis), *plan.notes]
    parts += ["## Notes\n\n" + "\n".join(f"- {_escaped(line)}" for line in lines)] if lines else []
    parts += [f"## Repeat\n\n    {plan.command}\n\nselfpretrain {plan.version}, {plan.created}"]
    return "\n\n".join(parts) + "\n"


def section(table: Table) -> str:
    """One table with its title and caption."""
    body = [[_drawn(entry) for entry in row] for row in table.rows]
    grid = [[_escaped(heading) for heading in table.headings], *body]
    widths = [max(3, *(len(row[at]) for row in grid)) for at in range(len(table.headings))]
    rule = ["-" * w if at < table.words else "-" * (w - 1) + ":" for at, w in enumerate(widths)]
    lines = [_line(row, widths, table.words) for row in [grid[0], rule, *body]]
    caption = f"\n\n{_escaped(table.caption)}" if table.caption else ""
    return f"## {_escaped(table.title)}\n\n" + "\n".join(lines) + caption


def _line(row: list[str], widths: list[int], words: int) -> str:
    places = [
        text.ljust(width) if at < words else text.rjust(width)
        for at, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return f"| {' | '.join(places)} |"


def _drawn(entry: Entry) -> str:
    return f"**{_escaped(entry.text)}**" if entry.bold else _escaped(entry.text)


def _escaped(text: str) -> str:
    for special in "\\|*_`<":
        text = text.replace(special, "\\" + special)
    return " ".join(text.split())
