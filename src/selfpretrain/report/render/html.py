"""Render a page as a self-contained HTML file, for screens, phones and print."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from ..figures import style
from ..format import printable
from ..layout import Page

if TYPE_CHECKING:
    import jinja2
COLOURS = {style.INK: "ink", style.FAINT: "rule", style.BAND: "band"} | {
    colour: f"arm{at}" for at, colour in enumerate(style.COLOURS)
}
"""Colours of figures and the CSS variables that replace them."""
INVISIBLE = re.compile(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>|(?<=>)\s+(?=<)", re.DOTALL)
"""Parts of an SVG that a page does not show."""


def document(page: Page) -> str:
    """Return the HTML of a page."""
    classes: dict[str, str] = {}
    figures = {
        picture.file: themed(picture.svg, classes)
        for section in page.sections
        for picture in section.pictures
    }
    return template("page.html.j2").render(page=page, figures=figures, classes=classes)


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
    environment.filters["rendered"] = rendered
    return environment.get_template(name)


def escaped(value: Any) -> Markup:
    """Escape text for HTML and remove control characters; ``Markup`` is returned unchanged."""
    return value if isinstance(value, Markup) else escape(printable(str(value)))


def rendered(prose: str) -> Markup:
    """Convert Markdown to HTML; tags become text and images links, so that the page loads nothing."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    return Markup(reader.render(printable(prose)))


def themed(svg: str, classes: dict[str, str]) -> Markup:
    """Shorten an SVG of matplotlib for inlining; its colours and fonts follow the page.

    Args:
        classes: CSS class of every style of the page, extended by the styles of this figure.
    """
    svg = INVISIBLE.sub("", svg[svg.index("<svg") :])
    return Markup(re.sub(r"<[^>]*>", lambda found: _tag(found[0], classes), svg))


def _tag(tag: str, classes: dict[str, str]) -> str:
    """Return a tag of an SVG for the page; text between tags stays as it is."""
    if tag.startswith("<svg"):
        box = re.search(r' viewBox="[^"]*"', tag)
        return f'<svg{box[0] if box else ""} aria-hidden="true">'
    if tag.startswith("<g "):
        tag = re.sub(r' id="[^"]*"', "", tag)  # repeated in every figure, and never referenced
    tag = tag.replace("xlink:href", "href")
    tag = re.sub(r' style="([^"]*)"', lambda found: f' class="{_class(found[1], classes)}"', tag)
    # A tenth of a point is precise enough.
    return re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), tag)


def _class(css: str, classes: dict[str, str]) -> str:
    """Return the class of a style, in the colours of the page and its font."""
    css = re.sub(r" ?font-family: [^;]*;?| ?font: (?=\d)", "", css)
    for colour, variable in COLOURS.items():
        css = css.replace(colour, f"var(--{variable})")
    return classes.setdefault(css, f"s{len(classes)}")
