"""A study over one or more tasks as one page: written beside its sheet.json, shown, listed in an index."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from . import sheet_page, sheet_table
from .figures import style
from .render import csv_long, markdown
from .render.terminal import Fitting
from .sheet_load import Sheet, read
from .verdict import standings
from .write import put

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Sheet", "index", "read", "show", "write"]


def write(folder: Path) -> dict[str, Path]:
    """Write page.md with its figures, page.html, page.tex and results.csv into a study's folder; their paths.

    Raises:
        StoreError: if the study cannot be read or the folder cannot be written.
    """
    sheet = read(folder)
    sections = sheet_page.sections(sheet)
    made = {
        "markdown": ("page.md", sheet_page.as_markdown(sheet, sections)),
        "html": ("page.html", sheet_page.as_html(sheet, sections)),
        "latex": ("page.tex", sheet_page.as_latex(sheet, sections)),
        "csv": ("results.csv", csv_long.document(*(part.analysis.study for part in sheet.parts))),
    }
    made |= {p.file: (p.file, style.on_paper(p.svg)) for section in sections for p in section.pictures}
    return {kind: put(folder / name, text) for kind, (name, text) in made.items()}


def show(folder: Path) -> "RenderableType":
    """What a rich console prints: outcome, scores beside the paper's, cost, and what is missing.

    Raises:
        StoreError: if the study cannot be read.
    """
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    sheet = read(folder)
    banner = "bold red" if sheet.plan.scale == "smoke" else ""
    head = [Text(sheet.plan.title, style="bold"), Text(sheet_page.state(sheet), style="dim")]
    said = [Text(line, style=banner) for line in sheet_page.outcomes(sheet)]
    shown = (sheet_table.results(sheet), sheet_table.costs(sheet))
    drawn = [Padding(Fitting(table), (1, 0, 0, 0)) for table in shown if table.rows]
    notes = [Text(f"missing: {line}", style="yellow") for line in sheet_page.missing(sheet)]
    reading = [Text(f"\n{sheet.plan.reading}")] if sheet.plan.reading else []
    return Group(*head, *said, *drawn, *notes, *reading)


def index(folders: Iterable[Path]) -> str:
    """All studies as one Markdown table, for the folder that their folders are in.

    Raises:
        StoreError: if one of them cannot be read.
    """
    sheets = [read(folder) for folder in folders]
    lines = [
        "| paper | question | scale | seeds | state | outcome |",
        "| --- | --- | --- | ---: | --- | --- |",
    ]
    for sheet in sheets:
        page = f"{sheet.folder.resolve().name}/page.md"
        words = (
            f"[{markdown.escaped(_named(sheet))}]({page})",
            markdown.escaped(sheet.plan.title.rpartition(": ")[2]),  # the paper stands in the first column
            sheet.plan.scale,
            str(sheet.seeds or ""),
            sheet.state,
            markdown.escaped(_outcome(sheet)),
        )
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def _named(sheet: Sheet) -> str:
    """The papers' tables that a study stands beside, else its source or its name."""
    source = sheet.plan.about.get("Source", "")
    return "; ".join(sheet.tables) or " ".join(source.split()).rstrip(".") or sheet.plan.name


def _outcome(sheet: Sheet) -> str:
    if sheet.missing == sheet.cells:
        return ""
    if sheet.plan.scale == "smoke":
        return "proves nothing"
    return standings([part.analysis for part in sheet.parts])
