"""A page on this machine that follows a folder of runs: stages, their curves, and reports as they stand."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ..errors import SelfPretrainError
from ..report.analysis import analyse
from ..report.page import compose
from ..report.render import html
from ..report.results import read
from ..training.stage_folder import LOG
from .status import STATES, statuses

HERE = "127.0.0.1"
ORDER = ("running", "lost", "failed", "stopped", "done", "waiting")
PARTS = {"/": "watch.html.j2", "/state": "state.html.j2"}
WIDTH, HEIGHT = 160, 40
"""Size of a curve."""


def server(runs: Path, port: int = 0, refresh: Callable[[], object] = lambda: None) -> ThreadingHTTPServer:
    """What serves the page, to this machine alone; a port of its own choice if none is given.

    Args:
        refresh: called before every look.
    """

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            own = f":{self.server.server_port}"  # type: ignore[attr-defined]
            if self.headers.get("Host") not in (HERE + own, "localhost" + own):  # another site's script
                return self.send_error(403)
            try:
                refresh()
                text = _answer(runs, unquote(self.path))
            except SelfPretrainError as error:
                text = html.template("watch.html.j2").render(problem=str(error))
            content = text.encode()
            self.send_response(200 if text else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            return None

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is told."""

    return ThreadingHTTPServer((HERE, port), Pages)


def _answer(runs: Path, path: str) -> str:
    if path in PARTS:
        return html.template(PARTS[path]).render(problem="", **_state(runs))
    known = {f"/report/{study}": runs / study for study in _studies(runs)}
    return html.document(compose(analyse(read(known[path])))) if path in known else ""


def _state(runs: Path) -> dict[str, Any]:
    """What the part of the page that changes is made of."""
    found = statuses(runs)
    counts = {state: sum(each.standing == state for each in found) for state in STATES}
    curves = {each.stage: curve(runs / "stages" / each.stage / LOG) for each in found}
    found.sort(key=lambda each: ORDER.index(each.standing))
    return {"runs": runs, "stages": found, "counts": counts, "curves": curves, "studies": _studies(runs)}


def _studies(runs: Path) -> list[str]:
    return sorted(path.parent.name for path in runs.glob("*/study.json"))


def curve(log: Path) -> str:
    """Training loss by step, as the points of a line; "" where there is none yet."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    told = [json.loads(line) for line in lines if line.endswith("}")]  # the last may be half written
    points = [(line["step"], line["loss"]) for line in told if line["kind"] == "train"]
    if len(points) < 2:
        return ""
    low, high = min(loss for _, loss in points), max(loss for _, loss in points)
    wide, tall = points[-1][0] - points[0][0], high - low
    return " ".join(
        f"{WIDTH * (step - points[0][0]) / (wide or 1):.1f},{HEIGHT * (high - loss) / (tall or 1):.1f}"
        for step, loss in points
    )
