"""The page of a study, section by section, and its text as Markdown, HTML and LaTeX."""

from collections.abc import Iterable
from dataclasses import dataclass

from . import certainty, format, page, sheet_table
from .caveats import remarks
from .figures import charts, style
from .ranks import Ranks
from .render import latex, markdown
from .sheet_load import Sheet
from .tables import Table
from .verdict import standings, verdict

FEW_ROWS = 4
"""Rows, of all tasks together, up to which the verdict is told in full."""
PROVES_NOTHING = (
    "Run at the scale “smoke”, a few steps of tiny networks: everything works, and this proves nothing."
)
UNREAD = "Nobody has written down yet what these numbers mean."
BELOW = "What differs"
"""The section of sheet.json that stands below the table: why our numbers and the paper's may disagree."""
HOLLOW = " Hollow markers are the paper's numbers."
CAPTIONS = {
    "none": "",
    "bars": "Bars: means over seeds, with 95 % t-intervals.",
    "lines": "Means over seeds; bands are 95 % t-intervals. The places along x are evenly spaced.",
}


@dataclass(frozen=True)
class Picture:
    """A figure, what it shows in words, and the name of its file beside the page."""

    file: str
    alt: str
    svg: str

    @property
    def themed(self) -> str:
        """The figure for use inside an HTML page."""
        return page.themed(self.svg)


@dataclass(frozen=True)
class Section:
    """A heading, and below it whatever there is, in this order."""

    title: str
    prose: str = ""  # Markdown
    points: tuple[str, ...] = ()  # plain sentences
    pictures: tuple[Picture, ...] = ()
    caption: str = ""  # of the pictures
    tables: tuple[Table, ...] = ()

    @property
    def html(self) -> str:
        """The prose as HTML; a tag in it is shown as letters."""
        from markdown_it import MarkdownIt

        return MarkdownIt("commonmark", {"html": False}).enable("table").render(self.prose)

    @property
    def empty(self) -> bool:
        """Whether there is nothing below the heading."""
        return not (self.prose or self.points or self.pictures or any(table.rows for table in self.tables))


def sections(sheet: Sheet) -> list[Section]:
    """The page from top to bottom; sections with nothing in them are left out."""
    plan, ranks = sheet.plan, certainty.rankings(sheet)
    above = [Section(title, text) for title, text in plan.about.items() if title != BELOW]
    scores, caption = (sheet_table.results(sheet),), CAPTIONS[plan.figure] + HOLLOW * bool(sheet.printed)
    below = [
        Section("Results", "", (), _scores(sheet), caption, scores),
        Section("On the paper's numbers", points=_quoted(sheet)),
        Section("Reading", plan.reading or UNREAD),
        Section(BELOW, plan.about.get(BELOW, "")),
        Section("Missing", points=tuple(missing(sheet))),
        Section("Before you trust this", points=_merged(sheet, [remarks(p.analysis) for p in sheet.parts])),
        Section("Gain", pictures=_gains(sheet), tables=(certainty.gains(sheet),)),
        Section("How sure is that?", tables=(certainty.certainty(sheet), certainty.needed(sheet))),
        Section("Ranks", pictures=_ladders(ranks), tables=(certainty.ranks(ranks),)),
        Section("Also measured", pictures=_measures(sheet)),
        Section("Cost", tables=(sheet_table.costs(sheet),)),
        Section("Simple baselines", tables=(sheet_table.baselines(sheet),)),
        Section(
            "How it was trained", points=_merged(sheet, [p.analysis.study.plan.notes for p in sheet.parts])
        ),
        Section("Repeat", _commands(sheet)),
    ]
    return [section for section in above + below if not section.empty]


def outcomes(sheet: Sheet) -> list[str]:
    """What the study says, in a sentence or two per task; at the smoke scale, that it says nothing."""
    if sheet.plan.scale == "smoke":
        return [PROVES_NOTHING]
    if sheet.missing == sheet.cells:
        return ["Nothing has been run yet."]
    lines, rows = [], sum(len(part.analysis.study.rows) for part in sheet.parts)
    for part in sheet.parts:
        before = f"{part.label}: " if len(sheet.parts) > 1 else ""
        if rows > FEW_ROWS:
            lines.append(f"{before}{standings([part.analysis])}.")
            continue
        said = verdict(part.analysis)
        ranking = said.ranking if said.ranking and not certainty.settings(sheet) else ""
        lines.append(f"{before}{said.gain} {ranking}".strip())
    return lines


def missing(sheet: Sheet) -> list[str]:
    """What has not been run, task by task and place by place."""
    lines = [f"{label}: nothing has been planned yet." for label in sheet.absent]
    for part in sheet.parts:
        study = part.analysis.study
        if study.missing == len(study.cells):
            lines.append(f"{part.label}: nothing has been run, {format.plural(study.missing, 'cell')}.")
            continue
        places: dict[str, list[int]] = {}
        for cell in study.cells:
            if not cell.finished:
                places.setdefault(f"{cell.row}, {cell.column}", []).append(cell.seed)
        lines += [
            f"{part.label}: {place}: seed{'s' * (len(seeds) > 1)} {format.listing(list(map(str, seeds)))}."
            for place, seeds in places.items()
        ]
    return lines


def as_markdown(sheet: Sheet, made: list[Section]) -> str:
    """The page for Sphinx with MyST, which also reads well unrendered; figures are files beside it."""
    lead = "\n>\n".join(f"> **{markdown.escaped(line)}**" for line in outcomes(sheet))
    parts = [f"# {markdown.escaped(sheet.plan.title)}", markdown.escaped(state(sheet)), lead]
    for section in made:
        parts += [f"## {markdown.escaped(section.title)}", section.prose]
        parts += ["\n".join(f"- {markdown.escaped(line)}" for line in section.points)]
        parts += [f"![{markdown.escaped(picture.alt)}]({picture.file})" for picture in section.pictures]
        parts += [markdown.escaped(section.caption if section.pictures else "")]
        parts += [markdown.section(table, 3) for table in section.tables if table.rows]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_html(sheet: Sheet, made: list[Section]) -> str:
    """The page as one HTML file that needs no network, reads on a phone and prints on paper."""
    return page.template("sheet.html.j2").render(
        version=", ".join(_distinct(part.analysis.study.plan.version for part in sheet.parts)),
        title=sheet.plan.title,
        name=sheet.plan.name,
        state=state(sheet),
        outcomes=outcomes(sheet),
        sections=made,
    )


def as_latex(sheet: Sheet, made: list[Section]) -> str:
    r"""All tables of the page, one float each, for ``\input``."""
    tables = [table for section in made for table in section.tables if table.rows]
    head = ["% needs \\usepackage{booktabs}", f"% {' '.join(sheet.plan.title.split())}", f"% {state(sheet)}"]
    name = f"{sheet.plan.name}-{sheet.plan.scale}"
    return "\n\n".join(["\n".join(head), *(latex.floating(table, name) for table in tables)]) + "\n"


def state(sheet: Sheet) -> str:
    """Name, progress, scale, seeds and version in a line."""
    versions = _distinct(part.analysis.study.plan.version for part in sheet.parts)
    seeds = f"; {format.plural(sheet.seeds, 'seed')}" if sheet.seeds else ""
    by = f"; selfpretrain {', '.join(versions)}" if versions else ""
    return f"{sheet.plan.name}: {sheet.state}; {sheet.plan.scale} scale{seeds}{by}"


def _scores(sheet: Sheet) -> tuple[Picture, ...]:
    if sheet.plan.figure == "none":
        return ()
    lined = sheet.plan.figure == "lines"
    panels = [panel for part in sheet.parts for panel in charts.panels(part.analysis, part.label, lined)]
    draw = charts.lines if lined else charts.bars
    return _numbered(
        "page", [(f"{panel.title}: test {panel.unit}", draw(panel)) for panel in panels if panel.lines]
    )


def _gains(sheet: Sheet) -> tuple[Picture, ...]:
    found = [part for part in sheet.parts if any(gain.estimate for gain in part.analysis.gains)]
    drawn = [(f"{part.label}: paired gains", style.gain_plot(part.analysis, part.label)) for part in found]
    return _numbered("gain", drawn)


def _ladders(ranks: dict[str, Ranks]) -> tuple[Picture, ...]:
    return _numbered(
        "ranks", [(f"Average ranks, {title}", charts.ladder(r, title)) for title, r in ranks.items()]
    )


def _measures(sheet: Sheet) -> tuple[Picture, ...]:
    drawn = [(f"{m.title}: {m.y} against {m.x}", charts.curves(m)) for m in sheet.plan.measures if m.series]
    return _numbered("measure", drawn)


def _numbered(name: str, drawn: list[tuple[str, str]]) -> tuple[Picture, ...]:
    """Pictures in files NAME.svg, NAME-2.svg, ..."""
    files = [f"{name}-{at}.svg" if at > 1 else f"{name}.svg" for at in range(1, len(drawn) + 1)]
    return tuple(Picture(file, alt, svg) for file, (alt, svg) in zip(files, drawn, strict=True))


def _quoted(sheet: Sheet) -> tuple[str, ...]:
    """What must be known about single numbers of the paper."""
    return tuple(_distinct(f"{p.table}, {p.row}, {p.column}: {p.remark}." for p in sheet.printed if p.remark))


def _merged(sheet: Sheet, said: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """What is said of every task, each once; with the tasks' labels where it is not said of all of them."""
    where: dict[str, list[str]] = {}
    for part, lines in zip(sheet.parts, said, strict=True):
        for line in lines:
            where.setdefault(line, []).append(part.label)
    return tuple(
        line if len(labels) == len(sheet.parts) else f"{format.listing(labels)}: {line}"
        for line, labels in where.items()
    )


def _commands(sheet: Sheet) -> str:
    commands = _distinct(part.analysis.study.plan.command for part in sheet.parts)
    return "\n".join(f"    {' '.join(command.split())}" for command in commands if command)


def _distinct(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
