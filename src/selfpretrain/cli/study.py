"""``spt study``: studies of the papers, one or all, and their pages."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import DataError, SpecError
from ..registry import find, names

if TYPE_CHECKING:
    from ..runner.plan import Cell
    from ..runner.workspace import Machine
    from ..studies.base import Scale, Study


@dataclass(frozen=True)
class Order:
    """What was asked for on the command line."""

    scale: "Scale"
    seeds: int
    only: str | None
    grid: bool
    results: Path | None
    fresh: bool
    gpu: str
    dry_run: bool


def carry_out_all(name: str, order: Order, machine: "Machine") -> None:
    """Run a study by its name, or every study; those that have nothing at a scale are named and left out."""
    from ..runner.plan import remembered

    with remembered(machine):
        if name == "all":
            _carry_out_every(order, machine)
        else:
            _carry_out(find("studies", name).at(order.scale, order.seeds), order, machine)


def _carry_out_every(order: Order, machine: "Machine") -> None:
    asked, different = 0, set()
    for each in names("studies"):
        try:
            study = find("studies", each).at(order.scale, order.seeds)
            Console().rule(each)
            cells = _carry_out(study, order, machine)
        except (SpecError, DataError) as error:
            Console().print(Text(f"{each}: left out: {error}"), soft_wrap=True)
            continue
        asked += sum(len(cell.recipe.stages) for cell in cells)
        different |= {machine.bench.folder(p).name for cell in cells for p in cell.recipe.prefixes()}
    Console().print(f"{asked:,} stages asked for by all studies, {len(different):,} different ones")


def preview(cells: "list[Cell]", machine: "Machine", gpu: str = "") -> None:
    """Show what would be trained, and what it costs."""
    from ..runner.plan import forecast

    headings = ("task", "mixer", "stages", "times", "steps", "parameters", "FLOPs", "takes")
    table = Table(*headings, title="Stages to run")
    rows, total = forecast(cells, machine, gpu)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    Console().print(total)


def show_report(folder: Path) -> None:
    """Make the reports of a study's folder and print its table."""
    from ..report.page import show, write

    paths = write(folder)
    console = Console()
    console.print(show(folder))
    console.print(Text(f"report: {paths['html']}"), soft_wrap=True)


def _carry_out(study: "Study", order: Order, machine: "Machine") -> "list[Cell]":
    from ..report import page
    from ..runner.plan import chosen
    from ..runner.publish import PAGE, SHIPPED, Publication
    from ..runner.run import carry_out, together
    from ..runner.tuning import Grid, tuned
    from ..system import distributed

    cells, remarks = list(study.cells()), list[str]()
    if not cells:
        raise DataError(f"nothing can be run at the {order.scale} scale: {'; '.join(study.notes())}")
    publication = Publication(study, order.scale, cells, machine, order.results or SHIPPED)
    if order.fresh:
        publication.forget()
    elif found := publication.restore():
        Console().print(f"{found} stages are taken from {publication.results}; --fresh runs them here")
    if order.dry_run:
        preview(chosen(cells, order.only), machine, order.gpu)
        return cells
    with together(machine) as here:
        if order.grid:
            cells, remarks = tuned(cells, here, Grid())
        publication = replace(publication, cells=cells)
        if order.grid or not publication.current:
            carry_out(study, here, cells, order.only, remarks)
            if distributed.is_main():
                page.write(publication.write())
        if distributed.is_main():
            folder = publication.folder.path
            Console().print(page.show(folder))
            Console().print(Text(f"page: {folder / PAGE}"), soft_wrap=True)
            if order.results:
                publication.keep()
    return cells
