"""Built pages in a real browser, as wide as a phone, a tablet and a desk: nothing is cut, no link is dead."""

import functools
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from browser import look, needs_browser, noted

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["index", "studies/index", "studies/amos-table-1-small/report", "claims", "log", "own_data", "api"]
PROBE = """<!DOCTYPE html><body>
<iframe style="width:{width}px;height:800px;border:0" src="/{page}.html"></iframe><script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const page = frame.contentDocument, shown = element => element.getClientRects().length > 0;
  const cut = [...page.querySelectorAll("article :is(h1,h2,h3,p,li,dt,th,td,figcaption)")]
    .filter(element => shown(element) && element.scrollWidth > element.clientWidth + 1
      && getComputedStyle(element).display !== "inline")
    .map(element => element.textContent.trim().slice(0, 60));
  const boxes = [...page.querySelectorAll("article img")].filter(shown);
  const lost = boxes.filter(box => !box.complete || !box.naturalWidth || box.getBoundingClientRect().left < 0
    || box.getBoundingClientRect().right > {width}).map(box => box.src);
  const squeezed = [...page.querySelectorAll("article th")]
    .filter(cell => shown(cell) && cell.clientWidth < 40 && cell.textContent.trim().length > 4)
    .map(cell => cell.textContent);
  const wide = page.documentElement.scrollWidth, words = page.body.innerText.length;
  const found = {{squeezed, wide, cut, lost, words}};
  const note = document.createElement("output");
  note.textContent = JSON.stringify(found);
  document.body.append(note);
}};
</script>"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Say nothing of every file."""


pytestmark = [pytest.mark.slow, needs_browser]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, as `make docs` builds them."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", folder / "trees"]
    subprocess.run([*build, ROOT / "docs", folder / "docs"], check=True, timeout=600)
    return folder / "docs"


@pytest.fixture
def served(site: Path) -> Iterator[tuple[Path, str]]:
    """The pages, and the address they are served at."""
    handler = functools.partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield site, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def probed(
    served: tuple[Path, str], page: str, width: int, profile: Path
) -> tuple[dict[str, Any], list[str]]:
    """What a browser finds on a page, and what it complains of."""
    site, address = served
    (site / "probe.html").write_text(PROBE.format(page=page, width=width))
    shown, complaints = look(f"{address}/probe.html", profile, "--virtual-time-budget=8000")
    (site / "probe.html").unlink()
    return noted(shown), complaints


@pytest.mark.parametrize("width", [390, 768, 1440])
@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_cut_and_nothing_fails(
    page: str, width: int, served: tuple[Path, str], tmp_path: Path
) -> None:
    found, complaints = probed(served, page, width, tmp_path)
    assert found["words"] > 500
    assert found["squeezed"] == [], "tables scroll rather than break words"
    assert found["wide"] <= width and found["cut"] == [] and found["lost"] == [] and complaints == []


def test_what_is_cut_or_fails_is_noticed(served: tuple[Path, str], tmp_path: Path) -> None:
    site, _ = served
    page = (site / "index.html").read_text()
    bad = "<p style='width:2rem;overflow:hidden;white-space:nowrap'>cut off</p><img src='none.png'>"
    bad += "<script>nothing()</script>"
    (site / "bad.html").write_text(page.replace("</h1>", f"</h1>{bad}", 1))
    found, complaints = probed(served, "bad", 390, tmp_path)
    (site / "bad.html").unlink()
    assert found["cut"] == ["cut off"] and len(found["lost"]) == 1
    assert any("nothing is not defined" in line for line in complaints)


def test_no_link_is_dead(site: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "dead_links.py", site], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
