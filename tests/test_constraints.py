"""Every extra, with what all others need, in releases that were tested together."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINS = {
    canonicalize_name(name): version
    for name, version in re.findall(
        r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE
    )
}


def needs(texts):
    """Requirements, with those of extras of our own in place of their names."""
    for requirement in map(Requirement, texts):
        if requirement.name == PROJECT["name"]:
            for extra in requirement.extras:
                yield from needs(EXTRAS[extra])
        else:
            yield requirement


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_what_is_needed_is_pinned_to_a_release_that_fits(extra):
    found = list(needs(EXTRAS[extra] if extra else PROJECT["dependencies"]))
    assert found
    for requirement in found:
        pin = PINS[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pin, prereleases=True), (str(requirement), pin)


def test_every_extra_that_a_message_names_exists():
    text = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = re.findall(
        r"""(?<!def )\b(?:install|import_extra)\([^()]*?["'](\w+)["'](?:, upgrade=True)?\)""", text
    )
    assert len(named) > 10 and set(named) <= {*EXTRAS}


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_each_extra_resolves_alone_to_what_is_pinned(extra):
    wanted = list(map(str, needs(EXTRAS[extra])))
    pip = [
        sys.executable,
        *["-m", "pip", "install", "--dry-run", "--ignore-installed", "--only-binary", ":all:"],
    ]
    done = subprocess.run(
        [*pip, "--no-deps", "-c", str(ROOT / "constraints.txt"), *wanted],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if "Failed to establish a new connection" in done.stderr:
        pytest.skip("no package index is in reach")
    assert done.returncode == 0, done.stderr[-500:]
    would = done.stdout.rpartition("Would install")[2].split()
    for requirement in needs(EXTRAS[extra]):
        name = canonicalize_name(requirement.name)
        assert any(
            canonicalize_name(one.rpartition("-")[0]) == name and one.endswith(PINS[name]) for one in would
        )
