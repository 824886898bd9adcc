"""The report of an experiment: compose its sections, write it in every format, list reports in an index.

To add a section, write a function from an ``Analysis`` to a ``Section`` and add it to ``PAGE``.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import StoreError
from ..system.files import (
    FORMAT,
    damaged_message,
    digest_of,
    explain_errors,
    read_json,
    write_json,
    write_text,
)
from . import diagnostics, format, pictures, summary, tables
from .analysis import Analysis, analyse
from .caveats import caveats
from .figures import style
from .layout import Depth, Page, Section
from .render import csv_long, html, latex, markdown, terminal
from .results import TaskResults, read
from .stage_results import CellResult

if TYPE_CHECKING:
    from rich.console import RenderableType

FEW_ROWS = 4
"""The verdict is written in full up to this number of rows, summed over tasks."""
MANY_ROWS = 10
"""Above this number of rows, what every model costs is shown for each of several tasks, too."""
PROVES_NOTHING = (
    "Run at the scale “smoke”, a few steps of tiny networks: everything works, and this proves nothing."
)
UNREAD = "Nobody has written down yet what these numbers mean."
EXPECTED = "Expected"
BELOW = "What differs"
"""Keys of the record's ``about``: the expected result, and how we differ from the paper."""
SHOWN = {
    "points": "Points: means over seeds with their 95 % t-intervals, drawn as far as scores can go, and a "
    "dot per seed.",
    "lines": "Lines: means over seeds with a dot per seed; bands are 95 % t-intervals, drawn as far as "
    "scores can go. The places along x are evenly spaced.",
}
"""Captions of the score pictures, by kind."""
LEARNING = (
    "Curves: loss of pretraining, and validation score of the scored stage; thick: mean over seeds, thin: "
    "each seed. An arm starts after the compute that its earlier stages spent."
)
DIGESTS = "pages.json"
"""File with the digests of the written pages."""
Facts = tuple[tuple[str, str], ...]
"""(name, text) pairs."""


def write(folder: Path, analysis: Analysis | None = None) -> dict[str, Path]:
    """Write report.md with its figures, report.html, report.tex, claim.tex and results.csv.

    Their digests are written to pages.json.

    Args:
        analysis: analysis of the folder, if it has been read already.

    Returns:
        Path of every file by kind.

    Raises:
        StoreError: if the experiment cannot be read or its folder cannot be written.
    """
    analysis = analysis or analyse(read(folder))
    page = compose(analysis)
    made = {
        "markdown": ("report.md", markdown.document(page)),
        "html": ("report.html", html.document(page)),
        "latex": ("report.tex", latex.document(page)),
        "claim": ("claim.tex", latex.compact(page, tables.compact(analysis), summary.claim(analysis))),
        "csv": ("results.csv", csv_long.document(analysis.results)),
    }
    drawn = [picture for section in page.to(Depth.FOLDED) for picture in section.pictures]
    made |= {picture.file: (picture.file, style.with_background(picture.svg)) for picture in drawn}
    for name, text in made.values():
        write_text(folder / name, text)
    digests = {name: digest_of(text.encode()) for name, text in made.values()}
    write_json(folder / DIGESTS, {"format": FORMAT, "files": digests})
    return {kind: folder / name for kind, (name, _) in made.items()}


def altered(folder: Path) -> list[StoreError]:
    """Return one error for each written page that is missing or altered since."""
    path = folder / DIGESTS
    mend = f"spt report {folder} makes it again"
    try:
        files = read_json(path, advice=mend, needs_digest=lambda content: True).get("files")
        if not isinstance(files, dict):
            raise StoreError(damaged_message(path, "it names no files", mend))
    except StoreError as error:
        return [error]
    found = []
    for name, digest in files.items():
        page = folder / Path(name).name  # name only: a path in pages.json must not lead elsewhere
        if not page.is_file():
            found.append(StoreError(f"{page} is gone; {mend}"))
            continue
        with explain_errors(page, "read"):
            content = page.read_bytes()
        if digest_of(content) != digest:
            found.append(StoreError(damaged_message(page, "its content is not what was written", mend)))
    return found


def write_pdf(folder: Path, analysis: Analysis) -> list[Path]:
    """Write the figures of the page as PDF next to the SVG, fonts embedded, and return their paths."""
    drawn = [one for section in compose(analysis, Depth.FOLDED).sections for one in section.pictures]
    for picture in drawn:
        with style.figure_look("page", (folder / picture.file).with_suffix(".pdf")):
            picture.draw()
    return [(folder / picture.file).with_suffix(".pdf") for picture in drawn]


def show(folder: Path, analysis: Analysis | None = None) -> "RenderableType":
    """Return the report of an experiment for a rich console.

    Raises:
        StoreError: if it cannot be read.
    """
    return terminal.show(brief(analysis or analyse(read(folder))))


def index(folders: Iterable[Path]) -> str:
    """Return a Markdown table of experiments, with links relative to their parent folder.

    Raises:
        StoreError: if one of them cannot be read.
    """
    lines = [
        "| paper | question | scale | seeds | state | outcome |",
        "| --- | --- | --- | ---: | --- | --- |",
    ]
    for folder in folders:
        analysis = analyse(read(folder))
        results = analysis.results
        record = results.record
        source = record.about.get("Source", "").strip().rstrip(".") or record.name
        # A study of ours may show numbers of papers, too.
        tables = [] if source.lower().startswith("our question") else analysis.paper_tables
        paper = markdown.escaped("; ".join(tables) or source).replace("[", "\\[")
        outcome = summary.standings(analysis.tasks) if results.missing < len(results.cells) else ""
        words = (
            f"[{paper}]({folder.resolve().name}/report.md)",
            markdown.escaped(record.title.rpartition(": ")[2]),  # the paper is in the first column
            record.scale,
            str(analysis.seeds or ""),
            results.state,
            markdown.escaped("proves nothing" if outcome and record.scale == "smoke" else outcome),
        )
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def compose(analysis: Analysis, depth: Depth = Depth.FULL) -> Page:
    """Compose the page down to a level of detail; empty sections are left out."""
    return _page(analysis, (replace(made(analysis), depth=reach) for made, reach in PAGE if reach <= depth))


def brief(analysis: Analysis) -> Page:
    """Compose the short page for a terminal: scores, interpretation, caveats, and cost."""
    scores = Section("Scores", tables=tables.brief(analysis))
    found = (
        scores, _interpretation(analysis), _looks(analysis), _missing(analysis), _caveats(analysis),
        _in_short(analysis),
    )  # fmt: skip
    return _page(analysis, found)


def _page(analysis: Analysis, sections: Iterable[Section]) -> Page:
    record = analysis.results.record
    return Page(
        name=f"{record.name}-{record.scale or analysis.results.tasks[0].record.task.name}",
        title=record.title,
        lines=_lines(analysis),
        headline=summary.headline(analysis),
        outcomes=tuple(_outcomes(analysis)),
        arms=summary.arms(analysis),
        sections=tuple(section for section in sections if not section.empty),
        origin=f"selfpretrain {record.version}, {record.name}, planned {record.created}",
    )


def _lines(analysis: Analysis) -> tuple[str, ...]:
    """Return the lines below the title: the only task, if so; name, progress, scale, seeds, version."""
    record = analysis.results.record
    cards = [task.record.task for task in analysis.results.tasks]
    about = [f"Task: {card.name}. {card.about}" for card in cards] if len(cards) == 1 else []
    scale = f"{record.scale} scale" if record.scale else ""
    words = [analysis.results.state, scale, summary.seeds(analysis), f"selfpretrain {record.version}"]
    return (*about, f"{record.name}: {'; '.join(filter(None, words))}")


def _outcomes(analysis: Analysis) -> list[str]:
    """Return the verdict, a sentence or two per task; at smoke scale, a line that it proves nothing."""
    if analysis.results.record.scale == "smoke":
        return [PROVES_NOTHING]
    several = len(analysis.tasks) > 1
    if several and analysis.results.missing == len(analysis.results.cells):
        return ["Nothing has been run yet."]
    lines = []
    few = sum(len(task.task.rows) for task in analysis.tasks) <= FEW_ROWS
    for task in analysis.tasks:
        label = f"{task.label}: " if several else ""
        gain = summary.verdict(task) if few else f"{summary.standings([task])}."
        ranking = summary.ranking(task) if analysis.rows_compete and (few or not several) else ""
        lines.append(f"{label}{gain} {ranking}".strip())
    rows = {row for task in analysis.tasks for row in task.task.rows}
    average = summary.on_average(analysis) if len(rows) <= FEW_ROWS else ""
    return [*lines, average] if average else lines


def _scores(analysis: Analysis) -> Section:
    caption = SHOWN["lines" if analysis.results.record.figure == "lines" else "points"]
    caption += tables.repeated(analysis.results.record.looks)
    if any(math.isfinite(task.best_baseline[1]) for task in analysis.tasks):
        caption += " Dotted: the best simple baseline."
    if pictures.papers_task(analysis):
        caption += " Hollow circles are the paper's numbers."
    if pictures.abreast(analysis) and pictures.curves(analysis):
        caption += f" {LEARNING}"
    return Section(
        "Scores", pictures=pictures.top(analysis), caption=caption, tables=(tables.scores(analysis),)
    )


def _looks(analysis: Analysis) -> Section:
    """Return after how many seeds every verdict was decided; empty if their number is fixed."""
    return Section("Looks", tables=(tables.looks(analysis),))


def _interpretation(analysis: Analysis) -> Section:
    record = analysis.results.record
    return Section("Interpretation", record.interpretation or (UNREAD if EXPECTED in record.about else ""))


def _missing(analysis: Analysis) -> Section:
    """Return the cells that have not been run: a line per task and gap, with all rows that have this gap."""
    lines = []
    for task in analysis.results.tasks:
        if task.missing == len(task.cells):
            lines.append(f"{task.label}: nothing has been run, {format.plural(task.missing, 'cell')}.")
            continue
        rows: dict[str, list[str]] = {}
        for row in task.rows:
            for gap in _gaps([cell for cell in task.cells if cell.row == row]):
                rows.setdefault(gap, []).append(row)
        lines += [f"{task.label}: {format.listing(names)}{gap}." for gap, names in rows.items()]
    return Section("Missing", points=tuple(lines))


def _gaps(cells: list[CellResult]) -> Iterator[str]:
    """Yield what a row lacks: everything, or columns that lack the same seeds, and these seeds."""
    if not any(cell.finished for cell in cells):
        yield ": nothing has been run"
        return
    seeds: dict[str, dict[str, None]] = {}  # column -> ordered set of seeds
    for cell in cells:
        if not cell.finished:
            seeds.setdefault(cell.column, {})[str(cell.seed)] = None
    columns: dict[tuple[str, ...], list[str]] = {}
    for column, lacking in seeds.items():
        columns.setdefault(tuple(lacking), []).append(column)
    for numbers, names in columns.items():
        word = "seeds" if len(numbers) > 1 else "seed"
        yield f", {format.listing(names)}: {word} {format.listing(list(numbers))}"


def _caveats(analysis: Analysis) -> Section:
    return Section("Before you trust this", points=tuple(caveats(analysis.tasks)))


def _in_short(analysis: Analysis) -> Section:
    """Return the total cost and the best simple baseline of every task, a line each."""
    facts = []
    for task in analysis.tasks:
        name, reached = task.best_baseline
        if name:
            label = f", {task.label}" if len(analysis.tasks) > 1 else ""
            facts.append((f"Best simple baseline{label}", f"{name}, {format.score(task.metric, reached)}"))
    return Section("In short", facts=(*facts, ("Cost", tables.spent(analysis).text)))


def _question(analysis: Analysis) -> Section:
    about = analysis.results.record.about.items()
    parts = [f"*{markdown.escaped(title)}.* {text}" for title, text in about if title != BELOW]
    return Section("What is asked", "\n\n".join(parts))


def _remarks(analysis: Analysis) -> Section:
    """Return the remarks on single numbers of the paper."""
    remarks = [f"{p.table}, {p.row}, {p.column}: {p.remark}." for p in analysis.printed if p.remark]
    return Section("On the paper's numbers", points=tuple(dict.fromkeys(remarks)))


def _gains(analysis: Analysis) -> Section:
    orders = []
    if (
        len(analysis.tasks) == 1
        and analysis.rows_compete
        and any(g.estimate for g in analysis.tasks[0].gains)
    ):
        orders.append(tables.order(analysis.tasks[0]))
    return Section("Gain", pictures=pictures.gain(analysis), tables=(tables.gains(analysis), *orders))


def _ranks(analysis: Analysis) -> Section:
    table = diagnostics.ranks(diagnostics.rankings(analysis))
    return Section("Ranks", pictures=pictures.ranks(analysis), tables=(table, diagnostics.order(analysis)))


def _curves(analysis: Analysis) -> Section:
    if pictures.abreast(analysis):  # already shown at the top
        return Section("Learning curves")
    return Section("Learning curves", pictures=pictures.curves(analysis), caption=LEARNING)


def _classes(analysis: Analysis) -> Section:
    found = (diagnostics.by_class(analysis), diagnostics.reliability(analysis))
    return Section("Class by class", tables=(*found, *diagnostics.confusions(analysis)))


def _costs_by_model(analysis: Analysis) -> Section:
    many = max(len(task.task.rows) for task in analysis.tasks) > MANY_ROWS
    alone = len(analysis.tasks) == 1
    by_model = [tables.costs_by_model(task, alone) for task in analysis.tasks if alone or many]
    return Section("Cost of every model", tables=tuple(by_model))


def _training(analysis: Analysis) -> Section:
    """Return the notes on training; a note that does not apply to all tasks names its own."""
    where: dict[str, list[str]] = {}
    for task in analysis.tasks:
        for note in task.task.record.notes:
            where.setdefault(note, []).append(task.label)
    lines = (
        note if len(labels) == len(analysis.tasks) else f"{format.listing(labels)}: {note}"
        for note, labels in where.items()
    )
    return Section("How it was trained", points=tuple(lines))


def _repeat(analysis: Analysis) -> Section:
    commands = analysis.results.record.command.splitlines()
    return Section("Repeat", "\n".join(f"    {format.plain(command)}" for command in commands if command))


def _data_facts(analysis: Analysis) -> Facts:
    """Return origin, licence, size and split overlap of the data of every task."""
    return _by_task(analysis, _task_data)


def _task_data(task: TaskResults) -> Facts:
    card = task.record.task
    overlap = ", ".join(f"{pair} {n}" for pair, n in card.overlap.items())
    return (
        ("task", f"{card.name}: {card.about}"),
        ("source", card.source),
        ("licence", card.licence),
        ("sequences", f"{card.signal}, up to {card.length} positions"),
        ("target", card.target),
        (
            "examples",
            f"{card.train} train ({card.labelled} labelled), {card.val} validation, {card.test} test",
        ),
        ("equal sequences in two splits", overlap or "not counted"),
    )


def _selection_facts(analysis: Analysis) -> Facts:
    """Return the rule of model selection; best step, steps and stopping reason of the runs of every arm."""
    rule = "the step with the best validation score; the test split is read once, after the last stage"
    return (("rule", rule), *_by_task(analysis, _task_selection))


def _task_selection(task: TaskResults) -> Facts:
    facts = []
    for column in task.columns:
        done = [cell.scored for cell in task.finished if cell.column == column]
        if done:
            reasons = Counter(stage.stopped for stage in done)
            stopped = ", ".join(f"{n} by {reason}" for reason, n in reasons.items())
            best = _range(stage.best_step for stage in done)
            steps = _range(stage.steps for stage in done)
            facts.append((column, f"best step {best} of {steps}; stopped {stopped}"))
    return tuple(facts)


def _environment_facts(analysis: Analysis) -> Facts:
    """Return versions, devices and commits of all scored runs."""
    found: dict[str, dict[str, None]] = {}  # ordered sets of values
    commits: dict[str, None] = {}
    for kept in (cell.scored.environment for cell in analysis.results.cells if cell.finished):
        for name, value in kept.items():
            if name not in ("git", "format"):
                found.setdefault(name, {})[str(value)] = None
        if git := kept.get("git"):
            commits[f"{git.get('commit')}{' with uncommitted changes' if git.get('dirty') else ''}"] = None
    facts = found | ({"git": commits} if commits else {})
    return tuple((name, ", ".join(values)) for name, values in facts.items())


def _by_task(analysis: Analysis, facts: Callable[[TaskResults], Facts]) -> Facts:
    """Collect the facts of every task; with several tasks, each name starts with its task."""
    several = len(analysis.tasks) > 1
    return tuple(
        (f"{task.label}: {name}" if several else name, text)
        for task in analysis.results.tasks
        for name, text in facts(task)
    )


def _range(values: Iterable[int]) -> str:
    found = sorted(set(values))
    return str(found[0]) if len(found) == 1 else f"{found[0]}{format.NONE}{found[-1]}"


PAGE: list[tuple[Callable[[Analysis], Section], Depth]] = [
    (_scores, Depth.OPEN),
    (lambda found: Section("The gap", tables=(diagnostics.gaps(found),)), Depth.OPEN),
    (_interpretation, Depth.OPEN),
    (lambda found: Section(BELOW, found.results.record.about.get(BELOW, "")), Depth.OPEN),
    (_looks, Depth.OPEN),
    (_missing, Depth.OPEN),
    (_caveats, Depth.OPEN),
    (lambda found: Section("Cost", tables=(tables.costs(found),)), Depth.OPEN),
    (lambda found: Section("What to do next", points=summary.advice(found)), Depth.FULL),
    (_question, Depth.FOLDED),
    (_remarks, Depth.FOLDED),
    (_gains, Depth.FOLDED),
    (lambda found: Section("Simple baselines", tables=(tables.baselines(found),)), Depth.FOLDED),
    (
        lambda found: Section(
            "Fit and generalisation", tables=(diagnostics.fits(found), diagnostics.fit_contrasts(found))
        ),
        Depth.FOLDED,
    ),
    (_ranks, Depth.FOLDED),
    (lambda found: Section("Also measured", pictures=pictures.measures(found)), Depth.FOLDED),
    (_curves, Depth.FULL),
    (_classes, Depth.FULL),
    (_costs_by_model, Depth.FOLDED),
    (_training, Depth.FOLDED),
    (lambda found: Section("Data", facts=_data_facts(found)), Depth.FULL),
    (lambda found: Section("Every run", tables=(tables.runs(found),)), Depth.FULL),
    (lambda found: Section("How selection was done", facts=_selection_facts(found)), Depth.FULL),
    (lambda found: Section("Environment", facts=_environment_facts(found)), Depth.FULL),
    (_repeat, Depth.FOLDED),
]
"""All sections from top to bottom, with the level of detail at which each is shown."""
