"""Render a page as a self-contained HTML file, for screens, phones and print."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from ..figures import style
from ..format import printable
from ..layout import Page

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup

COLOURS = {style.INK: "ink", style.FAINT: "rule", style.BAND: "band"} | {
    colour: f"arm{at}" for at, colour in enumerate(style.COLOURS)
}
"""Colours of figures and the CSS variables that replace them."""


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


def themed(svg: str, classes: dict[str, str] | None = None) -> "Markup":
    """Shorten an SVG for inlining; its colours and fonts follow the page.

    Args:
        classes: CSS class of every style of the page, extended by the styles of this figure; None keeps
            them in the elements.
    """
    from markupsafe import Markup

    root = ElementTree.fromstring(svg)
    root.tag = "svg"
    root.attrib = {"viewBox": root.get("viewBox", ""), "aria-hidden": "true"}
    _shorten(root, classes)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _shorten(parent: ElementTree.Element, classes: dict[str, str] | None) -> None:
    """Shorten everything below an element; leave out what is invisible and groups without attributes."""
    kept: list[ElementTree.Element] = []
    for child in parent:
        child.tag = child.tag.rpartition("}")[2]  # without the namespace
        if child.tag in ("metadata", "style") or child.get("style", "").endswith("opacity: 0"):
            continue
        _shorten(child, classes)
        attributes = (_attribute(child.tag, *item, classes) for item in child.items())
        child.attrib = {name: value for name, value in attributes if value}
        child.tail = None
        empty = child.tag == "defs" and not len(child)
        if not empty:
            kept += child if child.tag == "g" and not child.attrib else [child]
    if parent.tag != "text":
        parent.text = None
    parent[:] = kept


def _attribute(tag: str, name: str, value: str, classes: dict[str, str] | None) -> tuple[str, str]:
    """Return name and value of an attribute for the page; an empty value if it is not needed."""
    name = name.replace("{http://www.w3.org/1999/xlink}", "xlink:")
    if name == "style":
        value = re.sub(r" ?font-family: [^;]*;", "", value)
        for colour, variable in COLOURS.items():
            value = value.replace(colour, f"var(--{variable})")
        return (name, value) if classes is None else ("class", classes.setdefault(value, f"s{len(classes)}"))
    if name == "id":  # groups repeat theirs in every figure and are never referenced
        return name, value if tag in ("path", "clipPath") else ""
    if name in ("d", "x", "y", "width", "height", "transform"):
        # A tenth of a point is precise enough.
        value = re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), value)
        value = "" if value.startswith("rotate(-0 ") else value
    return name, re.sub(r" ?([A-Za-z]) ?", r"\1", " ".join(value.split())) if name == "d" else value
