"""Tables of pages: Markdown between the marks of a page, whose other text stays, or a file beside it."""

import re
from pathlib import Path

Table = list[list[str]]
"""Rows of cells; the first row is the head."""


def written(table: Table) -> str:
    """Return a table as Markdown."""
    head, *rows = table
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))


def put(page: Path, name: str, table: Table) -> None:
    """Write a table between the marks ``<!-- name -->`` and ``<!-- end of name -->`` of a page."""
    marks = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    pattern = re.compile(re.escape(marks[0]) + ".*?" + re.escape(marks[1]), re.DOTALL)
    text = page.read_text(encoding="utf-8")
    if not pattern.search(text):
        raise ValueError(f"{page} has no marks {marks[0].strip()} and {marks[1]}")
    page.write_text(
        pattern.sub(lambda _: f"{marks[0]}\n{written(table)}\n\n{marks[1]}", text), encoding="utf-8"
    )


def write_tsv(path: Path, table: Table) -> None:
    """Write a table as tab-separated values."""
    lines = "\n".join("\t".join(line) for line in table)
    path.write_text(lines + "\n", encoding="utf-8")
