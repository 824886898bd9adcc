"""A page as one HTML file that needs no network, reads on a phone and prints on paper."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..figures import style
from ..format import printable
from ..layout import Page

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup

IDLE = {
    r"<metadata>.*?</metadata>": "",
    r'<g id="[^"]*"': "<g",  # the same in every figure, and never referred to
    r" font-family: [^;]*;": "",
    r' transform="rotate\(-0 [^"]*"': "",
    r"\s+": " ",
    r"> <": "><",
}
"""What a figure of the page does without, and what is put there instead."""

FINE = re.compile(r"(?<=\d\.\d)\d+")
"""Digits of a coordinate that no screen shows: a tenth of a point is fine enough."""

COLOURS = {style.INK: "ink", style.FAINT: "rule", style.BAND: "band"} | {
    colour: f"arm{at}" for at, colour in enumerate(style.COLOURS)
}
"""Colours of figures, and the variables of the page that they become."""


def document(page: Page) -> str:
    """The text of the file."""
    return template("page.html.j2").render(page=page)


def template(name: str) -> "jinja2.Template":
    """A template of this package; whatever is put into it is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parents[1] / "templates"),
        autoescape=True,
        finalize=escaped,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"themed": themed, "rendered": rendered}
    return environment.get_template(name)


def escaped(value: Any) -> "Markup":
    """Text with everything that HTML would take for a tag written out, and without control characters."""
    from markupsafe import Markup, escape

    return value if isinstance(value, Markup) else escape(printable(str(value)))


def rendered(prose: str) -> "Markup":
    """Return Markdown as HTML; a tag is shown as letters, an image as a link: nothing is loaded."""
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    return Markup(reader.render(printable(prose)))


def themed(svg: str) -> "Markup":
    """An SVG for use inside the page: colours and letters follow the page, and nothing idle is kept."""
    from markupsafe import Markup

    body = svg[svg.index("<svg") :]
    body = re.sub(r'^<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" aria-hidden="true">', body)
    for idle, instead in IDLE.items():
        body = re.sub(idle, instead, body, flags=re.DOTALL)
    return Markup(re.sub(r"<[^>]*>", lambda tag: _themed(tag[0]), body))  # letters stay as they are


def _themed(tag: str) -> str:
    for colour, name in COLOURS.items():
        tag = tag.replace(colour, f"var(--{name})")
    return FINE.sub("", tag)
