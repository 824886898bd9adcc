"""A real browser without a window, for tests of pages."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--window-size=1500,900", "--enable-logging=stderr",
]  # fmt: skip

needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs a Chromium-like browser")


def look(address: str, profile: Path, *flags: str) -> tuple[str, list[str]]:
    """The page as the browser holds it after its scripts have run, and what it complains of."""
    command = [str(BROWSER), *FLAGS, *flags, f"--user-data-dir={profile}", "--dump-dom", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
    return done.stdout, re.findall(r"CONSOLE[^\n]*", done.stderr)


def noted(page: str) -> Any:
    """What a script wrote into the page's ``output``, as JSON."""
    note = re.search(r"<output>(.*?)</output>", page, re.DOTALL)
    assert note, "the page's script did not run"
    return json.loads(html.unescape(note[1]))
