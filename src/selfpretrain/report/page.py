"""The report of an experiment: compose its sections, write it in every format.

To add a section, write a function from an ``Analysis`` to a ``Section`` and add it to ``SECTIONS``.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import SpecError, nearest
from ..system.files import write_text
from . import diagnostics, format, over_tasks, pictures, summary, tables
from .analysis import Analysis, analyse
from .caveats import caveats
from .figures import style
from .figures.charts import MAX_CONTRASTS
from .layout import Page, ReportTable, Section, Shown
from .render import csv_long, html, latex, markdown, terminal
from .results import TaskResults, read

if TYPE_CHECKING:
    from rich.console import RenderableType

FEW_ROWS = 4
"""Up to this number of rows, summed over tasks, verdicts are written in full and more is shown at once."""
PROVES_NOTHING = (
    "Run at the scale “smoke”, a few steps of tiny networks: everything works, and this proves nothing."
)
UNREAD = "Nobody has written down yet what these numbers mean."
EXPECTED = "Expected"  # key of an experiment's ``about``: the result that was expected
POINTS = (
    "Points: means over seeds with their 95 % t-intervals, drawn as far as scores can go, and a dot per seed."
)
LINES = (
    "Lines: means over seeds with a dot per seed; bands are 95 % t-intervals, drawn as far as scores can go. "
    "The places along x are evenly spaced."
)
GAINS = "Gains: mean differences with their 95 % intervals, and a dot per seed; grey: a tie."
GAINS_OVER_TASKS = (
    "Gains: means over tasks with their 95 % intervals over tasks, and a dot per task; grey: a tie."
)
RANKS = "Bars on the right join models that do not differ at 5 %."
LEARNING = (
    "Curves: loss of pretraining, and validation score of the scored stage; thick: mean over seeds, thin: "
    "each seed. An arm starts after the compute that its earlier stages spent."
)
SELECTION = "the step with the best validation score; the test split is read once, after the last stage"


def write(folder: Path, analysis: Analysis | None = None) -> dict[str, Path]:
    """Write report.md with its figures, report.html, report.tex, claim.tex and results.csv.

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
        "claim": ("claim.tex", latex.compact(page, _compact(analysis), _claim(analysis))),
        "csv": ("results.csv", csv_long.document(analysis.results)),
    }
    drawn = [picture for section in page.printed for picture in section.pictures]
    made |= {picture.file: (picture.file, style.with_background(picture.svg)) for picture in drawn}
    for name, text in made.values():
        write_text(folder / name, text)
    return {kind: folder / name for kind, (name, _) in made.items()}


def save_figures(analysis: Analysis, look: str, folder: Path) -> list[Path]:
    """Write every figure of the page to a folder, as SVG and as PDF, and return their paths.

    Args:
        look: "neurips", "icml" (one column) or "page".

    Raises:
        SpecError: if there is no such look.
    """
    if look not in style.LOOKS:
        raise SpecError(f"there is no style of figure {look!r}{nearest(look, style.LOOKS)}")
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for picture in (picture for section in compose(analysis).sections for picture in section.pictures):
        svg = folder / picture.file
        with style.figure_look(look, svg.with_suffix(".pdf")):
            write_text(svg, style.with_background(picture.svg))
        paths += [svg, svg.with_suffix(".pdf")]
    return paths


def show(folder: Path, analysis: Analysis | None = None) -> "RenderableType":
    """Return the report of an experiment for a rich console."""
    return terminal.show(brief(analysis or analyse(read(folder))))


def compose(analysis: Analysis) -> Page:
    """Compose the page; empty sections are left out."""
    return _page(analysis, [section(analysis) for section in SECTIONS])


def _compact(analysis: Analysis) -> ReportTable:
    return over_tasks.scores(analysis) if analysis.many else tables.compact(analysis)


def _claim(analysis: Analysis) -> str:
    """Return one sentence to quote; of many tasks, on their average."""
    said = over_tasks.in_words(analysis) if analysis.many else ""
    return said if said and analysis.results.scale != "smoke" else summary.claim(analysis)


def brief(analysis: Analysis) -> Page:
    """Compose the short page for a terminal: scores, caveats, best simple baselines and total cost."""
    facts = []
    for task in analysis.tasks if not analysis.many else ():
        name, reached = task.best_baseline
        if name:
            label = f", {task.label}" if len(analysis.tasks) > 1 else ""
            facts.append((f"Best simple baseline{label}", f"{name}, {format.score(task.metric, reached)}"))
    in_short = Section("In short", facts=(*facts, ("Cost", tables.spent(analysis).text)))
    averages = (over_tasks.scores(analysis), over_tasks.gains_table(analysis))
    scores = averages if analysis.many else tables.brief(analysis)
    return _page(analysis, [Section("Scores", tables=scores), _caveats(analysis), in_short])


def _page(analysis: Analysis, sections: Iterable[Section]) -> Page:
    results = analysis.results
    cards = [task.card for task in analysis.results.tasks]
    about = [f"Task: {card.name}. {card.about}" for card in cards] if len(cards) == 1 else []
    scale = f"{results.scale} scale" if results.scale else ""
    words = [results.state, scale, summary.seeds(analysis), f"selfpretrain {results.version}"]
    return Page(
        name=f"{results.name}-{results.scale or cards[0].name}",
        title=results.title,
        lines=(*about, f"{results.name}: {'; '.join(filter(None, words))}"),
        headline=_headline(analysis),
        outcomes=tuple(_outcomes(analysis)),
        interpretation=results.interpretation or (UNREAD if EXPECTED in results.about else ""),
        arms=summary.arms(analysis),
        sections=tuple(section for section in sections if not section.empty),
        origin=f"selfpretrain {results.version}, {results.name}, planned {results.created}",
    )


def _headline(analysis: Analysis) -> str:
    """Return the result in one sentence; of many tasks, on their average."""
    averaged = over_tasks.headline(analysis) if analysis.many and analysis.results.scale != "smoke" else ""
    return averaged or summary.headline(analysis)


def _outcomes(analysis: Analysis) -> list[str]:
    """Return the verdict, a sentence or two per task; at smoke scale, a line that it proves nothing."""
    if analysis.results.scale == "smoke":
        return [PROVES_NOTHING]
    several = len(analysis.tasks) > 1
    if several and analysis.results.missing == len(analysis.results.cells):
        return ["Nothing has been run yet."]
    if analysis.many:
        averaged = over_tasks.in_words(analysis)
        return [f"{summary.standings(analysis.tasks)}.", *([averaged] if averaged else [])]
    lines = []
    few = _few(analysis)
    for task in analysis.tasks:
        label = f"{task.label}: " if several else ""
        gain = summary.verdict(task) if few else f"{summary.standings([task])}."
        ranking = summary.ranking(task) if analysis.rows_compete and (few or not several) else ""
        lines.append(f"{label}{gain} {ranking}".strip())
    rows = {row for task in analysis.tasks for row in task.task.rows}
    average = summary.on_average(analysis) if len(rows) <= FEW_ROWS else ""
    return [*lines, average] if average else lines


def _few(analysis: Analysis) -> bool:
    return sum(len(task.task.rows) for task in analysis.tasks) <= FEW_ROWS


def _scores(analysis: Analysis) -> Section:
    """Return the scores of every arm, and of simple methods without a network; of few rows, gains beside."""
    if analysis.many:
        made = (over_tasks.scores(analysis), over_tasks.gains_table(analysis))
        drawn = pictures.gains_over_tasks(analysis)
        return Section("Scores", pictures=drawn, caption=GAINS_OVER_TASKS, tables=made)
    facts = []
    for task in analysis.tasks:
        simple = {"chance": task.task.card.chance, **task.task.baselines}
        found = [f"{name} {format.score(task.metric, x)}" for name, x in simple.items() if x is not None]
        label = f", {task.label}" if len(analysis.tasks) > 1 else ""
        facts += [(f"Without a network{label}", "; ".join(found))] if found else []
    caption = LINES if analysis.results.figure == "lines" else POINTS
    if any(math.isfinite(task.best_baseline[1]) for task in analysis.tasks):
        caption += " Dotted: the best simple baseline."
    if pictures.papers_task(analysis):
        caption += " Hollow circles are the paper's numbers."
    drawn = pictures.scores(analysis)
    gains = pictures.gains(analysis)
    if _few(analysis):
        pairs = itertools.zip_longest(drawn, gains)
        drawn = tuple(picture for pair in pairs for picture in pair if picture)
        caption += f" {_of_gains(analysis)}" if gains else ""
    caption += tables.repeated(analysis.results.design)
    return Section("Scores", "", (), tuple(facts), drawn, caption, (tables.scores(analysis),))


def _tasks(analysis: Analysis) -> Section:
    """Return the scores on each of many tasks, which are shown after their averages."""
    if not analysis.many:
        return Section("Task by task")
    made = (tables.scores(analysis), tables.baselines(analysis))
    drawn = pictures.gains_by_task(analysis)
    return Section("Task by task", pictures=drawn, caption=GAINS, tables=made, shown="folded")


def _gains(analysis: Analysis) -> Section:
    """Return what each arm gains over another, paired by seed, and how much of it further arms gain."""
    if analysis.many:
        of_tasks = (tables.gains(analysis), diagnostics.gaps(analysis))
        return Section("Gains on each task", tables=of_tasks, shown="folded")
    made = (tables.gains(analysis), over_tasks.gains_table(analysis), diagnostics.gaps(analysis))
    if _few(analysis):
        return Section("Gains", tables=made)
    drawn = pictures.gains(analysis)
    return Section("Gains", pictures=drawn, caption=_of_gains(analysis), tables=made, shown="folded")


def _of_gains(analysis: Analysis) -> str:
    """Return the caption of pictures of gains."""
    if all(len(task.task.contrasts) <= MAX_CONTRASTS for task in analysis.tasks):
        return GAINS
    return f"{GAINS} Only comparisons with the control of the first one are drawn; the table has all."


def _caveats(analysis: Analysis) -> Section:
    """Return what weakens the comparison, and what has not been run."""
    labels: dict[str, list[str]] = {}  # gap -> tasks
    for task in analysis.results.tasks:
        for gap in _missing(task):
            labels.setdefault(gap, []).append(task.label)
    missing = [f"Missing: {format.listing(found)}: {gap}." for gap, found in labels.items()]
    return Section("Before you trust this", points=(*caveats(analysis.tasks), *missing))


def _missing(task: TaskResults) -> Iterator[str]:
    """Yield the cells that have not been run: a phrase per gap, with all rows that have this gap."""
    if task.missing == len(task.cells):
        yield f"nothing has been run, {format.plural(task.missing, 'cell')}"
        return
    gaps: dict[str, list[str]] = {}
    for row in task.rows:
        cells = [cell for cell in task.cells if cell.row == row]
        if not any(cell.finished for cell in cells):
            gaps.setdefault(": nothing has been run", []).append(row)
            continue
        seeds: dict[str, dict[str, None]] = {}  # column -> ordered set of seeds
        for cell in (cell for cell in cells if not cell.finished):
            seeds.setdefault(cell.column, {})[str(cell.seed)] = None
        for numbers in dict.fromkeys(map(tuple, seeds.values())):
            names = [column for column, lacking in seeds.items() if tuple(lacking) == numbers]
            word = "seeds" if len(numbers) > 1 else "seed"
            gap = f", {format.listing(names)}: {word} {format.listing(list(numbers))}"
            gaps.setdefault(gap, []).append(row)
    for gap, rows in gaps.items():
        yield f"{format.listing(rows)}{gap}"


def _order(analysis: Analysis) -> Section:
    """Return the average ranks of the models, and whether one arm's order predicts another's."""
    made = (
        diagnostics.ranks(diagnostics.rankings(analysis)),
        diagnostics.order(analysis),
        over_tasks.order(analysis),
        over_tasks.models(analysis),
    )
    drawn = pictures.ranks(analysis)
    return Section("Order of the models", pictures=drawn, caption=RANKS, tables=made, shown="folded")


def _paper(analysis: Analysis) -> Section:
    """Return the question, what was expected, how we differ from the paper, and remarks on its numbers."""
    about = analysis.results.about.items()
    prose = "\n\n".join(f"*{markdown.escaped(title)}.* {text}" for title, text in about)
    remarks = [f"{p.table}, {p.row}, {p.column}: {p.remark}." for p in analysis.reported if p.remark]
    title = "Beside the paper" if analysis.reported else "The question"
    return Section(title, prose, tuple(dict.fromkeys(remarks)))


def _cost(analysis: Analysis) -> Section:
    return Section("Cost", tables=(tables.costs(analysis),))


def _curves(analysis: Analysis) -> Section:
    shown: Shown = "open" if _few(analysis) else "html"
    return Section("Learning curves", pictures=pictures.curves(analysis), caption=LEARNING, shown=shown)


def _measured(analysis: Analysis) -> Section:
    """Return the figures of a paper that are measured on trained weights, e.g. attention distances."""
    return Section("Also measured", pictures=pictures.measures(analysis))


def _errors(analysis: Analysis) -> Section:
    made = (diagnostics.fits(analysis), diagnostics.fit_contrasts(analysis), diagnostics.classes(analysis))
    return Section("Errors", tables=made, shown="folded")


def _repeat(analysis: Analysis) -> Section:
    """Return the commands, the notes on training, and where data, weights and numbers came from."""
    commands = analysis.results.command.splitlines()
    notes: dict[str, list[str]] = {}  # a note that does not apply to all tasks names its own
    for task in analysis.tasks:
        for note in task.task.notes:
            notes.setdefault(note, []).append(task.label)
    points = (
        note if len(labels) == len(analysis.tasks) else f"{format.listing(labels)}: {note}"
        for note, labels in notes.items()
    )
    prose = "\n".join(f"    {format.plain(command)}" for command in commands if command)
    facts = [("selection", SELECTION)]
    for task in analysis.tasks:
        card = task.task.card
        label = f"{task.label}: " if len(analysis.tasks) > 1 else ""
        sizes = f"{card.train} train ({card.labelled} labelled), {card.val} validation, {card.test} test"
        overlap = ", ".join(f"{pair} {n}" for pair, n in card.overlap.items()) or "not counted"
        facts += [
            (f"{label}task", f"{card.name}: {card.about}"),
            (f"{label}source", f"{card.source}; licence: {card.licence}"),
            (f"{label}sequences", f"{card.signal}, up to {card.length} positions; target: {card.target}"),
            (f"{label}examples", f"{sizes}; equal sequences in two splits: {overlap}"),
        ]
    facts += _environment(analysis)
    return Section("How to repeat it", prose, tuple(points), tuple(facts), shown="folded")


def _environment(analysis: Analysis) -> tuple[tuple[str, str], ...]:
    """Return versions, devices and commits of all scored runs."""
    found: dict[str, dict[str, None]] = {}  # ordered sets of values
    commits: dict[str, None] = {}
    for kept in (stage.environment for stage in analysis.results.done):
        for name, value in kept.items():
            if name not in ("git", "format"):
                found.setdefault(name, {})[str(value)] = None
        if git := kept.get("git"):
            commits[f"{git.get('commit')}{' with uncommitted changes' if git.get('dirty') else ''}"] = None
    facts = dict(sorted(found.items())) | ({"git": commits} if commits else {})
    return tuple((name, ", ".join(values)) for name, values in facts.items())


def _files(analysis: Analysis) -> Section:
    """Return what to do next, and the files with everything that is not on the page."""
    name = analysis.results.folder.name
    facts = (
        ("results.csv", "every run: scores on all splits, parameters, FLOPs, seconds, steps, stages"),
        ("report.tex, claim.tex", "the tables, and one sentence to quote, in LaTeX"),
        ("figures for a paper", f"selfpretrain report {name} --figures neurips"),
        ("in Python", f'selfpretrain.read_results("{name}"); examples/breakdown.py makes more tables of it'),
    )
    return Section("Files and what to do next", points=summary.advice(analysis), facts=facts, shown="folded")


SECTIONS: list[Callable[[Analysis], Section]] = [
    _scores, _tasks, _gains, _caveats, _order, _paper, _cost, _curves, _measured, _errors, _repeat, _files,
]  # fmt: skip
"""The sections below the verdict, from top to bottom."""
