"""The page in a real browser: fits a phone, sorts its table, draws its figures."""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from selfpretrain.report.page import write

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PROBE = """
<iframe style="width:375px;height:800px;border:0" srcdoc="{page}"></iframe><script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const page = frame.contentDocument, root = page.documentElement;
  const table = page.querySelector("table.sortable"), button = table.querySelectorAll("th button")[3];
  const tests = () => [...table.tBodies[0].rows].map(row => row.cells[3].textContent);
  button.click();
  const up = tests();
  button.click();
  const boxes = [...page.querySelectorAll("svg")].map(svg => svg.getBoundingClientRect());
  const found = {{
    wide: root.scrollWidth, up, down: tests(),
    inside: boxes.every(box => box.left >= 0 && box.right <= 375 && box.height > 100), figures: boxes.length,
  }};
  const note = document.createElement("output");
  note.textContent = JSON.stringify(found);
  document.body.append(note);
}};
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="needs a Chromium-like browser")
def test_page_on_a_phone(make: Callable, scene: type, tmp_path: Path) -> None:
    page = write(make(scene(missing=frozenset({("s4d", "SPT", 1)}))))["html"].read_text()
    probe = tmp_path / "probe.html"
    probe.write_text("<!DOCTYPE html><body>" + PROBE.format(page=html.escape(page)))
    command = [str(BROWSER), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", probe.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    note = re.search(r"<output>(.*?)</output>", done.stdout, re.DOTALL)
    assert note, "the page's script did not run"
    found = json.loads(html.unescape(note[1]))
    assert found["wide"] <= 375
    assert found["figures"] == 3 and found["inside"]
    scores = [float(text) for text in found["up"][:-1]]
    assert scores == sorted(scores) and found["up"][-1] == "missing"
    assert found["down"] == found["up"][::-1]
