"""How the documentation is built: Markdown pages, of which docs/api.md takes names from docstrings."""

import ast
import dataclasses
import inspect
import pydoc
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import selfpretrain
from selfpretrain import registry

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import deviations_page
import recipes_page
import takes_page

project = "selfpretrain"
author = copyright = "the selfpretrain authors"
version = release = selfpretrain.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
suppress_warnings = ["toc.empty_glob"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
autodoc_typehints = "signature"
napoleon_custom_sections = [("Source", "params_style")]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"selfpretrain {release}"
html_show_sphinx = False
highlight_language = "text"

STUDIES = sorted((Path(__file__).parent / "studies").glob("*/report.md"))
PICTURE = re.compile(r"!\[[^\]]*\]\((\S+)\)")
NAMES = re.compile(r"^```\{names\}\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LAID_OUT = re.compile(r"\S   *\S|^\s+\S|[=|]")
"""Lines whose spaces mean something: formulas, legends, trees."""
ARXIV = re.compile(r"\b\d{4}\.\d{5}\b")
SECTION = re.compile(r"(Args|Raises|Returns|Yields):$")
MARKUP = re.compile(r"(``.*?``)|([*|`]|\w_\b)")


def setup(app: Any) -> None:
    """Hook in the cards of tasks, and before napoleon what makes docstrings readable."""
    app.connect("source-read", with_cards)
    app.connect("source-read", with_gallery)
    app.connect("source-read", with_names)
    app.connect("autodoc-process-docstring", readable, priority=400)
    app.connect("autodoc-process-signature", short)


def with_cards(app: Any, page: str, source: list[str]) -> None:
    """Fill in tasks, mixers and arms, the papers' recipes, their cost, and where we deviate."""
    pages = {"recipes": recipes_page.page, "deviations": deviations_page.page, "takes": takes_page.page}
    for name, lists in pages.items():
        if f"<!-- {name} -->" in source[0]:
            source[0] = source[0].replace(f"<!-- {name} -->", lists())
    for kind, made in {"tasks": card, "mixers": mixer_card, "arms": arm_line}.items():
        place = f"<!-- {kind} -->"
        if place in source[0]:
            source[0] = source[0].replace(place, "\n".join(map(made, registry.names(kind))))


def with_gallery(app: Any, page: str, source: list[str]) -> None:
    """The page of studies with a picture of each."""
    source[0] = source[0].replace("<!-- gallery -->", "\n".join(map(picture, STUDIES)))


def with_names(app: Any, page: str, source: list[str]) -> None:
    """Turn blocks of names into what autodoc takes: a directive per name, by what it is."""
    source[0] = NAMES.sub(
        lambda block: "\n".join(["```{eval-rst}", *map(directive, block[1].split()), "```"]), source[0]
    )


def directive(name: str) -> str:
    """Return the directive of autodoc for a name."""
    thing = pydoc.locate(name)
    kind = "module" if inspect.ismodule(thing) else "class" if inspect.isclass(thing) else "function"
    return f".. auto{kind}:: {name}" + ("\n   :show-inheritance:" if kind == "module" else "")


def picture(report: Path) -> str:
    """A study's first picture under its title, both leading to its page."""
    text = report.read_text(encoding="utf-8")
    title = text.partition("\n")[0].removeprefix("# ").rpartition(": ")[2]
    link, shown = f"{report.parent.name}/report.md", PICTURE.search(text)
    seen = f"[![{title}]({report.parent.name}/{shown[1]})]({link})\n\n" if shown else ""
    return f":::{{container}} picture\n{seen}[{title}]({link})\n:::\n"


def mixer_card(name: str) -> str:
    """What is known of a mixer, as Markdown."""
    kind = registry.find("mixers", name)
    first, *rest = inspect.cleandoc(sys.modules[kind.__module__].__doc__ or "").split("\n\n")
    body = [f"```text\n{part}\n```" if LAID_OUT.search(part) else part for part in rest]
    forms = "bidirectional and causal" if kind.causal else "bidirectional only"
    facts = [
        f"- **forms**: {forms}",
        f"- **positions**: {kind.positions}",
        *(["- **batches**: padded to the length of the task"] if kind.fixed_length else []),
        *(["- **self-pretraining**: none, it answers once per sequence"] if not kind.denoises else []),
        *([f"- **published**: {kind.published}"] if kind.published else []),
    ]
    return "\n\n".join([f"## {name}", first, *body, "\n".join(facts), ""])


def card(name: str) -> str:
    """What is known of a task, as Markdown."""
    kind = registry.find("tasks", name)
    said = [f"- **{what}**: {value}" for what, value in dataclasses.asdict(kind.card).items() if value]
    said += [f"- **download**: <{download.url}>" for download in kind.downloads]
    return "\n".join([f"## {name}", "", registry.summary("tasks", name), "", *said, ""])


def arm_line(name: str) -> str:
    """What an arm trains and why, as an item of a list."""
    said = inspect.cleandoc(registry.find("arms", name).__doc__ or "").split("\n\n")
    why = " ".join(" ".join(part.split()) for part in said if part.startswith(("Why: ", "Source: ")))
    linked = ARXIV.sub(lambda paper: f"[{paper[0]}](https://arxiv.org/abs/{paper[0]})", why)
    return f"- **{name}**: {registry.summary('arms', name)} {linked}"


def readable(app: Any, what: str, name: str, thing: Any, options: object, lines: list[str]) -> None:
    """Docstrings are plain text here: what is laid out stays as it stands, fields are listed."""
    out: list[str] = []
    for i, paragraph in enumerate("\n".join(lines).strip("\n").split("\n\n")):
        rows = paragraph.splitlines()
        laid_out = i and any(LAID_OUT.search(row.replace("``", "")) for row in rows)
        if laid_out and not SECTION.match(rows[0]):
            out += ["::", "", *(f"    {row}" for row in rows), ""]
        else:
            out += [*map(escaped, rows), ""]
    if what == "class" and dataclasses.is_dataclass(thing):
        out += [f"* **{name}**: ``{kind}``{said}" for name, kind, said in fields(thing)] + [""]
    lines[:] = out


def short(app: Any, what: str, name: str, thing: Any, *rest: object) -> tuple[str, None] | None:
    """Signatures of specs without types and ranges, which stand in the list of fields."""
    if what != "class" or not dataclasses.is_dataclass(thing):
        return None
    missing = dataclasses.MISSING
    known = dataclasses.fields(thing)
    shown = [f.name if f.default is missing else f"{f.name}={f.default!r}" for f in known]
    return f"({', '.join(shown)})", None


def fields(kind: Any) -> list[tuple[str, str, str]]:
    """Name, type with range, and meaning of every field, as the source has them."""
    source = textwrap.dedent(inspect.getsource(kind))
    written = ast.parse(source).body[0]
    assert isinstance(written, ast.ClassDef)
    found = [n for n in written.body if isinstance(n, ast.AnnAssign) and "ClassVar" not in ast.unparse(n)]
    rows = source.splitlines()
    notes = [rows[(node.end_lineno or node.lineno) - 1].partition("  # ")[2] for node in found]
    said = [f" -- {escaped(note)}" if note else "" for note in notes]
    return [(ast.unparse(n.target), ast.unparse(n.annotation), s) for n, s in zip(found, said, strict=True)]


def escaped(row: str) -> str:
    """A line without accidental markup."""
    return MARKUP.sub(lambda m: m[1] or m[2][:-1] + "\\" + m[2][-1], row)
