"""Render a page as Markdown that also reads well as plain text; its figures are separate files."""

import re
from collections.abc import Iterator
from html import escape

from ..format import plain, printable
from ..layout import Entry, Page, ReportTable, Section

SPECIAL = re.compile(r"[\\|*_`<]|(?<=\])(?=[(\[:])|&(?=#?\w+;)|~(?=~)|#(?=#*$)")
"""Characters with a meaning in Markdown, where they have it: "(" only after "]", "&" only in an entity."""
LEADING = re.compile(r"^(?:(>|(?:#{1,6}|[-+=~:])(?=\s|$|[-=~:]))|(\d+)([.)])(?=\s|$))")
"""Start of a heading, a list, a quotation or a rule, at the beginning of a line."""

ACTIVE = re.compile(r"(?<!\\)((?:\\\\)*)(!(?=\[)|<(?=[A-Za-z/!?]))")
"""Start of an image or an HTML tag that is not escaped (preceded by an even number of backslashes)."""


def document(page: Page) -> str:
    """Return the Markdown of a page."""
    lead = "\n>\n".join(f"> {escaped(line)}" for line in page.outcomes)
    head = [f"# {escaped(page.title)}", *map(escaped, page.lines), lead, disarmed(page.interpretation)]
    body: list[str] = []
    for section in page.printed:
        if section.shown == "open":
            body += [f"## {escaped(section.title)}", *_parts(section)]
        else:  # collapsed in ``<details>``, which GitHub and Sphinx support
            title = escape(plain(section.title), quote=False)
            body += [f"<details>\n<summary>{title}</summary>", *_parts(section), "</details>"]
    return "\n\n".join(part for part in head + body if part) + "\n"


def table(made: ReportTable, level: int = 3) -> str:
    """Return the Markdown of a table with its title as a heading and its caption."""
    body = [[_drawn(entry) for entry in row] for row in made.rows]
    grid = [[escaped(heading) for heading in made.headings], *body]
    widths = [max(3, *(len(row[at]) for row in grid)) for at in range(len(made.headings))]
    rule = ["-" * w if at < made.words else "-" * (w - 1) + ":" for at, w in enumerate(widths)]
    lines = [_line(row, widths, made.words) for row in [grid[0], rule, *body]]
    caption = f"\n\n{escaped(made.caption)}" if made.caption else ""
    return f"{'#' * level} {escaped(made.title)}\n\n" + "\n".join(lines) + caption


def escaped(text: str) -> str:
    """Escape plain text for Markdown, in one line."""
    text = SPECIAL.sub(lambda sign: "\\" + sign[0], plain(text))
    return LEADING.sub(lambda sign: f"\\{sign[1]}" if sign[1] else f"{sign[2]}\\{sign[3]}", text)


def disarmed(prose: str) -> str:
    """Escape images and HTML tags in Markdown, so that opening it loads nothing."""
    return ACTIVE.sub(r"\1\\\2", printable(prose))


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
