"""Render a page as a self-contained HTML file, for screens, phones and print."""

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
    r'<g id="[^"]*"': "<g",  # ids repeat in every figure and are never referenced
    r" font-family: [^;]*;": "",
    r' transform="rotate\(-0 [^"]*"': "",
    r"\s+": " ",
    r"> <": "><",
}
"""Parts of an SVG that are removed or shortened, and their replacements."""

FINE = re.compile(r"(?<=\d\.\d)\d+")
"""Superfluous digits of a coordinate: a tenth of a point is precise enough."""

COLOURS = {style.INK: "ink", style.FAINT: "rule", style.BAND: "band"} | {
    colour: f"arm{at}" for at, colour in enumerate(style.COLOURS)
}
"""Colours of figures and the CSS variables that replace them."""


def document(page: Page) -> str:
    """Return the HTML of a page."""
    return template("page.html.j2").render(page=page)


def template(name: str) -> "jinja2.Template":
    """Load a template of this package; values are escaped automatically."""
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
    """Escape text for HTML and remove control characters; ``Markup`` is returned unchanged."""
    from markupsafe import Markup, escape

    return value if isinstance(value, Markup) else escape(printable(str(value)))


def rendered(prose: str) -> "Markup":
    """Convert Markdown to HTML; tags become text and images links, so that the page loads nothing."""
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    return Markup(reader.render(printable(prose)))


def themed(svg: str) -> "Markup":
    """Adapt an SVG for inlining: colours and fonts follow the page, superfluous parts are removed."""
    from markupsafe import Markup

    body = svg[svg.index("<svg") :]
    body = re.sub(r'^<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" aria-hidden="true">', body)
    for idle, instead in IDLE.items():
        body = re.sub(idle, instead, body, flags=re.DOTALL)
    return Markup(re.sub(r"<[^>]*>", lambda tag: _themed(tag[0]), body))  # only tags, never text


def _themed(tag: str) -> str:
    for colour, name in COLOURS.items():
        tag = tag.replace(colour, f"var(--{name})")
    return FINE.sub("", tag)
