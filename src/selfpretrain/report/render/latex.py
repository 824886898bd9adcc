r"""Render the tables of a page in LaTeX, for ``\input``; they need the package booktabs."""

from ..format import plain
from ..layout import Page, ReportTable

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': r"\textquotedbl{}",
    "[": "{[}",  # a bare bracket after \\ would be parsed as its option
    "]": "{]}",
    "\N{MINUS SIGN}": "$-$",
    "\N{PLUS-MINUS SIGN}": r"$\pm$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "\N{GREATER-THAN OR EQUAL TO}": r"$\geq$",
    "\N{EN DASH}": "--",
    "\N{MIDDLE DOT}": r"$\cdot$",
    "\N{LEFT DOUBLE QUOTATION MARK}": "``",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
    "\N{SUPERSCRIPT TWO}": "$^2$",
}
"""Characters that need escaping in LaTeX, and their replacements."""


def document(page: Page) -> str:
    """Return the LaTeX of all tables of a page, one float each."""
    made = [table for section in page.printed for table in section.tables if table.rows]
    comment = _comment(page.title, *page.lines, page.origin)
    return "\n\n".join([comment, *(floating(table, page.name) for table in made)]) + "\n"


def compact(page: Page, table: ReportTable, claim: str) -> str:
    """Return the LaTeX of one table, followed by the sentence to quote."""
    comment = _comment(page.title, page.origin)
    return f"{comment}\n\n{floating(table, page.name)}\n\n{escaped(claim)}\n"


def _comment(*lines: str) -> str:
    return "\n".join(f"% {plain(line)}" for line in ("needs \\usepackage{booktabs}", *lines))


def floating(table: ReportTable, page: str) -> str:
    """Return the LaTeX of a table as a float with its caption and the label ``tab:PAGE-NAME``."""
    rows = [
        [f"\\textbf{{{escaped(it.text)}}}" if it.bold else escaped(it.text) for it in row]
        for row in table.rows
    ]
    label = "".join(c if c.isascii() and c.isalnum() else "-" for c in page)
    kinds = "".join("l" if at < table.words else "r" for at in range(len(table.headings)))
    lines = [
        "\\begin{table}",
        "  \\centering",
        f"  \\caption{{{escaped(table.title)}. {escaped(table.caption)}}}".replace(". }", ".}"),
        f"  \\label{{tab:{label}-{table.name}}}",
        f"  \\begin{{tabular}}{{{kinds}}}",
        "    \\toprule",
        f"    {' & '.join(escaped(heading) for heading in table.headings)} \\\\",
        "    \\midrule",
        *(f"    {' & '.join(row)} \\\\" for row in rows),
        "    \\bottomrule",
        "  \\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Escape text for LaTeX, in one line."""
    return "".join(SPECIAL.get(character, character) for character in plain(text))
