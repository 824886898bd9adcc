"""A page as Markdown that also reads well unrendered; its figures are files beside it."""

import re
from collections.abc import Iterator
from html import escape

from ..format import plain, printable
from ..layout import Depth, Entry, Page, ReportTable, Section

SPECIAL = re.compile(r"[\\|*_`<]|(?<=\])(?=[(\[:])|&(?=#?\w+;)|~(?=~)|#(?=#*$)")
"""What would be taken for a sign: a link only after a bracket, an entity up to its end, a heading's end."""
LEADING = re.compile(r"^(?:(>|(?:#{1,6}|[-+=~:])(?=\s|$|[-=~:]))|(\d+)([.)])(?=\s|$))")
"""What would be taken for a heading, a list, a quotation or a rule at the beginning of a line."""

ACTIVE = re.compile(r"(?<!\\)((?:\\\\)*)(!(?=\[)|<(?=[A-Za-z/!?]))")
"""The beginning of an image or a tag in Markdown, after an even number of backslashes."""


def document(page: Page) -> str:
    """The text of the page."""
    lead = "\n>\n".join(f"> {escaped(line)}" for line in page.outcomes)
    head = [f"# {escaped(page.title)}", *map(escaped, page.lines), lead]
    body = [part for section in page.to(Depth.FOLDED) for part in _section(section)]
    return "\n\n".join(part for part in head + body if part) + "\n"


def table(made: ReportTable, level: int = 3) -> str:
    """One table with its title, a heading of some level, and its caption."""
    body = [[_drawn(entry) for entry in row] for row in made.rows]
    grid = [[escaped(heading) for heading in made.headings], *body]
    widths = [max(3, *(len(row[at]) for row in grid)) for at in range(len(made.headings))]
    rule = ["-" * w if at < made.words else "-" * (w - 1) + ":" for at, w in enumerate(widths)]
    lines = [_line(row, widths, made.words) for row in [grid[0], rule, *body]]
    caption = f"\n\n{escaped(made.caption)}" if made.caption else ""
    return f"{'#' * level} {escaped(made.title)}\n\n" + "\n".join(lines) + caption


def escaped(text: str) -> str:
    """Plain text in one line, with every character that Markdown would take for a sign written out."""
    text = SPECIAL.sub(lambda sign: "\\" + sign[0], plain(text))
    return LEADING.sub(lambda sign: f"\\{sign[1]}" if sign[1] else f"{sign[2]}\\{sign[3]}", text)


def disarmed(prose: str) -> str:
    """Return Markdown with images as links and tags as letters: opening it loads nothing."""
    return ACTIVE.sub(r"\1\\\2", printable(prose))


def _section(section: Section) -> Iterator[str]:
    """Yield a section under its heading, or folded behind its title: GitHub and Sphinx both fold it."""
    if section.depth is Depth.OPEN:
        yield f"## {escaped(section.title)}"
        yield from _parts(section)
        return
    yield f"<details>\n<summary>{escape(plain(section.title), quote=False)}</summary>"
    yield from _parts(section)
    yield "</details>"


def _parts(section: Section) -> Iterator[str]:
    yield disarmed(section.prose)
    yield "\n".join(f"- {escaped(line)}" for line in section.points)
    yield "\n".join(f"- {escaped(name)}: {escaped(text)}" for name, text in section.facts)
    yield "\n".join(f"![{escaped(picture.alt)}]({picture.file})" for picture in section.pictures)
    yield escaped(section.caption if section.pictures else "")
    yield from (table(made) for made in section.tables if made.rows)


def _line(row: list[str], widths: list[int], words: int) -> str:
    places = [
        text.ljust(width) if at < words else text.rjust(width)
        for at, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return f"| {' | '.join(places)} |"


def _drawn(entry: Entry) -> str:
    return f"**{escaped(entry.text)}**" if entry.bold and entry.text else escaped(entry.text)
