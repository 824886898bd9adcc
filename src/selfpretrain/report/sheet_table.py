"""The tables of a study over all of its tasks: scores beside the paper's, cost, simple baselines."""

from dataclasses import replace
from itertools import chain

from . import format, tables
from .analysis import Place
from .figures.charts import comparable, printed_at
from .old_results import Cell, Printed
from .sheet_load import Part, Sheet
from .tables import Entry, Table


def results(sheet: Sheet) -> Table:
    """Every row and column, task by task, with the paper's number beside ours."""
    units = {format.unit(part.analysis.study.plan.metric) for part in sheet.parts}
    headings: list[str] = []
    for part in sheet.parts:
        unit = "" if len(units) == 1 else f", {format.unit(part.analysis.study.plan.metric)}"
        headings += [f"{part.label}{unit}", *(["paper"] if _has_paper(part) else [])]
    rows = [
        (
            Entry(row),
            Entry(column),
            *chain.from_iterable(_beside(part, (row, column)) for part in sheet.parts),
        )
        for row, column in places(sheet)
    ]
    source = f" Paper: {format.listing(sheet.tables)}." if sheet.tables else ""
    return Table(
        "results",
        f"Test {units.pop()}" if len(units) == 1 else "Test scores",
        ("model", "arm", *headings),
        tuple(rows),
        "Mean ± half-width of the 95 % t-interval over seeds (number of seeds); one seed has none. Bold: the "
        f"best arm of a model on a task, and what cannot be told from it.{source}",
        words=2,
    )


def costs(sheet: Sheet) -> Table:
    """What one run of each arm cost, task by task; what all runs cost; and what was really spent."""
    rows = []
    for column in dict.fromkeys(column for _, column in places(sheet)):
        cells = [[c for c in finished(part) if c.column == column] for part in sheet.parts]
        every = list(chain.from_iterable(cells))
        total = tables.spent(sum((c.flops for c in every), 0.0), sum((c.seconds for c in every), 0.0))
        rows.append((Entry(column), *map(tables.cost, cells), total))
    stages = {stage.folder: stage.cost for part in sheet.parts for c in finished(part) for stage in c.stages}
    once = stages.values()
    total = tables.spent(sum((c.flops for c in once), 0.0), sum((c.seconds for c in once), 0.0))
    rows.append((Entry("spent, each stage once"), *(Entry("") for _ in sheet.parts), total))
    shared = sheet.plan.shared
    asked = f" The cells ask for {shared.asked} stages, {shared.run} of them different." if shared else ""
    return Table(
        "costs",
        "One run of every arm, and all runs",
        ("arm", *(part.label for part in sheet.parts), "all runs"),
        tuple(rows),
        "Of a task: mean over models and seeds of one run with all its stages. All runs: their sum, a shared "
        f"stage counted in each.{asked}",
    )


def baselines(sheet: Sheet) -> Table:
    """Simple references of every task."""
    made = [(part, tables.baselines(part.analysis)) for part in sheet.parts]
    rows = tuple((Entry(part.label), *row) for part, found in made for row in found.rows)
    units = list(dict.fromkeys(format.unit(part.analysis.study.plan.metric) for part in sheet.parts))
    title = f"Without a network, test {format.listing(units) if units else 'score'}"
    return by_task(sheet, Table("baselines", title, ("task", "baseline", "score"), rows, words=2))


def by_task(sheet: Sheet, made: Table) -> Table:
    """A table whose first column is the task, without it where there is only one."""
    if len(sheet.parts) != 1:
        return made
    rows = tuple(row[1:] for row in made.rows)
    return replace(made, headings=made.headings[1:], rows=rows, words=made.words - 1)


def places(sheet: Sheet) -> list[Place]:
    """Every row and column that some task has, row by row."""
    studies = [part.analysis.study for part in sheet.parts]
    there = {(cell.row, cell.column) for study in studies for cell in study.cells}
    rows = dict.fromkeys(row for study in studies for row in study.rows)
    columns = dict.fromkeys(column for study in studies for column in study.columns)
    return [(row, column) for row in rows for column in columns if (row, column) in there]


def finished(part: Part) -> list[Cell]:
    """Cells of a task whose stages have all left their results."""
    return [cell for cell in part.analysis.study.cells if cell.finished]


def _has_paper(part: Part) -> bool:
    return any(cell.printed for cell in part.analysis.study.cells)


def _beside(part: Part, place: Place) -> list[Entry]:
    """Our number, and the paper's where the task has any."""
    planned = any((cell.row, cell.column) == place for cell in part.analysis.study.cells)
    ours = tables.score(part.analysis, *place) if planned else Entry(format.NONE)
    return [ours, *([_paper(part, printed_at(part.analysis, *place))] if _has_paper(part) else [])]


def _paper(part: Part, found: Printed | None) -> Entry:
    if found is None or found.value is None:
        return Entry(format.NONE)
    value = comparable(found, part.analysis.study.plan.metric)
    text = f"{found.value:g} {found.unit}" if value is None else f"{value:g}"
    return Entry(text.replace("-", format.MINUS), key=value)
