r"""The tables of a study in LaTeX, for ``\input``; needs the package booktabs."""

from ..analysis import Analysis
from ..tables import Entry, Table, tables

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
    '"': r"\textquotedbl{}",
    "[": "{[}",  # after the end of a row, a bare bracket would be an option
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
"""What must be written differently in LaTeX, one character each."""


def document(analysis: Analysis) -> str:
    """All tables of a study, one float each."""
    plan = analysis.study.plan
    head = [
        "% needs \\usepackage{booktabs}",
        f"% {_line(plan.title)}",
        f"% {_line(plan.command)}",
        f"% selfpretrain {_line(plan.version)}, {_line(plan.created)}",
    ]
    name = f"{plan.study}-{plan.task.name}"
    return "\n".join(head) + "\n\n" + "\n\n".join(floating(table, name) for table in tables(analysis)) + "\n"


def floating(table: Table, study: str) -> str:
    """One table with its caption and the label ``tab:STUDY-NAME``."""
    kinds = "".join("l" if at < table.words else "r" for at in range(len(table.headings)))
    lines = [
        "\\begin{table}",
        "  \\centering",
        f"  \\caption{{{escaped(table.title)}. {escaped(table.caption)}}}".replace(". }", ".}"),
        f"  \\label{{tab:{_label(study)}-{table.name}}}",
        f"  \\begin{{tabular}}{{{kinds}}}",
        "    \\toprule",
        f"    {' & '.join(escaped(heading) for heading in table.headings)} \\\\",
        "    \\midrule",
        *(f"    {' & '.join(_drawn(entry) for entry in row)} \\\\" for row in table.rows),
        "    \\bottomrule",
        "  \\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Text with every character that LaTeX would take for a command written out."""
    return "".join(SPECIAL.get(character, character) for character in " ".join(text.split()))


def _drawn(entry: Entry) -> str:
    return f"\\textbf{{{escaped(entry.text)}}}" if entry.bold else escaped(entry.text)


def _line(text: str) -> str:
    return " ".join(text.split())  # a line break would end the comment


def _label(text: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text)
