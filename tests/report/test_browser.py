"""The page in a real browser: fits phone, tablet and desk, cuts no text, sorts its table, draws figures."""

import html

import pytest

from browser import look, needs_browser, noted
from selfpretrain.report.page import write

pytestmark = [needs_browser, pytest.mark.usefixtures("drawn_pictures")]
LISTEN = """<script>
window.troubles = [];
addEventListener("error", event => troubles.push(String(event.message)));
console.error = (...words) => troubles.push(words.join(" "));
</script>"""
FRAME = '<iframe data-width="{width}" style="width:{width}px;height:800px;border:0" srcdoc="{page}"></iframe>'
PROBE = """<script>
function probed(frame) {
  const width = Number(frame.dataset.width), page = frame.contentDocument, root = page.documentElement;
  const folds = [...page.querySelectorAll("details")], folded = folds.every(fold => !fold.open);
  const heads = [...page.querySelectorAll("h2")];
  const cost = heads.find(head => head.textContent === "Cost").getBoundingClientRect().top;
  for (const fold of folds) fold.open = true;
  frame.contentWindow.dispatchEvent(new Event("resize"));
  const tables = [...page.querySelectorAll("table.sortable")];
  const classes = tables[tables.length - 1], button = classes.querySelectorAll("th button")[4];
  const tests = () => [...classes.tBodies[0].rows].map(row => row.cells[4].textContent);
  button.click();
  const up = tests();
  button.click();
  const boxes = [...page.querySelectorAll("svg")].map(svg => svg.getBoundingClientRect());
  const outside = (inner, outer) => inner.left < outer.left - 1 || inner.right > outer.right + 1
    || inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1;
  const cut = [...page.querySelectorAll("svg text")]
    .filter(text => outside(text.getBoundingClientRect(), text.closest("svg").getBoundingClientRect()))
    .concat([...page.querySelectorAll("h1,h2,h3,p,li,dt,dd")].filter(e => e.scrollWidth > e.clientWidth + 1))
    .map(element => element.textContent.trim().slice(0, 60));
  const boxed = [...page.querySelectorAll(".scroll")];
  return {
    width, wide: root.scrollWidth, up, down: tests(), cut, troubles: frame.contentWindow.troubles,
    inside: boxes.every(box => box.left >= 0 && box.right <= width && box.height > 100),
    figures: boxes.length, folds: folds.length, folded, cost,
    hinted: boxed.map(box => box.classList.contains("wide")),
    hidden: boxed.map(box => box.scrollWidth > box.clientWidth),
  };
}
addEventListener("load", () => {
  const note = document.createElement("output");
  note.textContent = JSON.stringify([...document.querySelectorAll("iframe")].map(probed));
  document.body.append(note);
});
</script>
"""


def probed(page, folder, *widths):
    """What a browser finds on a page of each width."""
    probe = folder / "probe.html"
    page = html.escape(page.replace("<head>", f"<head>{LISTEN}", 1))
    frames = "".join(FRAME.format(page=page, width=width) for width in widths)
    probe.write_text("<!DOCTYPE html><body>" + frames + PROBE)
    return noted(look(probe.as_uri(), folder / "profile")[0])


def test_page_at_the_width_of_a_phone_a_tablet_and_a_desk(make, scene, tmp_path):
    page = write(make(scene(missing=frozenset({("s4d", "SPT", 1)}))))["html"].read_text()
    for found in probed(page, tmp_path, 390, 768, 1440):
        width = found["width"]
        assert found["wide"] <= width and found["cut"] == [] and found["troubles"] == []
        assert found["figures"] == 3 and found["inside"]
        assert found["folded"] and found["folds"] > 3, "what few need is behind its heading"
        screens = 2 * (900 if width == 1440 else 1500)
        assert found["cost"] < screens, "all that is needed is above it, on two screens"
        assert found["hinted"] == found["hidden"], "a table that goes on outside says so"
        assert any(found["hidden"]) or width > 390
        recalls = [float(text) for text in found["up"]]
        assert recalls == sorted(recalls) and sorted(map(float, found["down"]), reverse=True) == recalls[::-1]


def test_cut_text_and_errors_are_noticed(make, scene, tmp_path):
    page = write(make(scene()))["html"].read_text()
    page = page.replace("<h1>", "<h1 style='width:2rem;overflow:hidden;overflow-wrap:normal'>", 1)
    (found,) = probed(page.replace("<main>", "<script>nothing()</script><main>", 1), tmp_path, 390)
    assert found["cut"] and "nothing is not defined" in found["troubles"][0]
