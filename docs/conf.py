"""How the documentation is built: Markdown pages, and the API from docstrings."""

import dataclasses
import inspect
import re
from typing import Any

import selfpretrain

project = "selfpretrain"
author = "The selfpretrain authors"
version = release = selfpretrain.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["_templates"]
templates_path = ["_templates"]
suppress_warnings = ["toc.empty_glob"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
napoleon_custom_sections = [("Source", "params_style")]

html_theme = "furo"
html_title = f"selfpretrain {release}"
html_show_sphinx = False

LAID_OUT = re.compile(r"\S   *\S|^\s+\S|[=|]")
"""Lines whose spaces mean something: formulas, legends, trees."""
SECTION = re.compile(r"(Args|Raises|Returns|Yields):$")
FIELD = re.compile(r"    (?P<name>[a-z]\w*): [^#]+#\s*(?P<said>.+)")
MARKUP = re.compile(r"(``.*?``)|([*|`]|\w_\b)")


def setup(app: Any) -> None:
    """Hook in before napoleon, which understands Args and Raises."""
    app.connect("autodoc-process-docstring", readable, priority=400)


def readable(app: Any, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text here: keep what is laid out as it stands, and say what fields mean."""
    out: list[str] = []
    for i, paragraph in enumerate("\n".join(lines).strip("\n").split("\n\n")):
        rows = paragraph.splitlines()
        if rows and SECTION.match(rows[0]):
            out += [escaped(row) for row in rows]
        elif i and any(LAID_OUT.search(row.replace("``", "")) for row in rows):
            out += ["::", "", *(f"    {row}" for row in rows)]
        else:
            out += [escaped(row) for row in rows]
        out.append("")
    if what == "class" and dataclasses.is_dataclass(thing):
        out += [f"* **{field}** -- {escaped(said)}" for field, said in fields(thing)] + [""]
    lines[:] = out


def fields(kind: Any) -> list[tuple[str, str]]:
    """The fields of a spec whose meaning stands beside them."""
    found = (FIELD.match(line) for line in inspect.getsource(kind).splitlines())
    names = {field.name for field in dataclasses.fields(kind)}
    return [(match["name"], match["said"]) for match in found if match and match["name"] in names]


def escaped(row: str) -> str:
    """A line without accidental markup."""
    return MARKUP.sub(lambda m: m[1] or m[2][:-1] + "\\" + m[2][-1], row)
