"""What is published works without the repository: from another folder, in another environment."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


def said(folder: Path, *command: str | Path) -> str:
    """What a command prints; nothing of this repository is on its path."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SELFPRETRAIN_DATA")
    }
    done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_the_wheel_works_elsewhere(tmp_path: Path) -> None:
    """Built from the sdist, installed alone, beside the dependencies that are here."""
    dist, home = tmp_path / "dist", tmp_path / "env"
    python, command = home / "bin" / "python", home / "bin" / "selfpretrain"
    said(tmp_path, sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, ROOT)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CITATION.cff", "pyproject.toml", "src/selfpretrain/__init__.py"} <= names
    said(tmp_path, sys.executable, "-m", "venv", "--without-pip", home)
    place = said(tmp_path, python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    here = [path for path in sys.path if path.endswith("site-packages")]
    (Path(place.strip()) / "dependencies.pth").write_text("\n".join(here))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    said(tmp_path, *pip, "install", "--no-deps", "--no-index", "--ignore-installed", wheel)
    where = said(tmp_path, python, "-c", "import selfpretrain; print(selfpretrain.__file__)")
    assert where.startswith(str(home)), "the wheel's, not the repository's"
    smoke = ("--seeds", "1", "--scale", "smoke", "--jobs", "1", "--quiet")
    told = said(tmp_path, command, "compare", "--task", "digits", "--mixers", "attention", *smoke)
    (report,) = (tmp_path / "runs").glob("compare-*/report.html")
    assert str(report.relative_to(tmp_path)) in "".join(told.split())
    said(tmp_path, command, "study", "amos-table-8", "--dry-run")


def test_what_a_release_needs_is_there() -> None:
    version = re.search(r'__version__ = "(.*)"', (ROOT / "src" / "selfpretrain" / "__init__.py").read_text())
    assert version and f"version: {version[1]}" in (ROOT / "CITATION.cff").read_text()
    assert f"] {version[1]}" in (ROOT / "CHANGELOG.md").read_text()
    docker = (ROOT / "Dockerfile").read_text()
    assert docker.index("USER 1000") < docker.index("ENTRYPOINT") and "whl/cu" in docker
    assert re.search(r"apt-get install .*g\+\+", docker), "Triton needs a compiler"
    copied = re.findall(r"^COPY (.*) \S+$", docker, re.MULTILINE)
    allowed = (ROOT / ".dockerignore").read_text()
    for name in " ".join(copied).split():
        assert (ROOT / name).exists() and f"!{name}" in allowed, name


def test_the_conda_recipe_asks_for_what_the_package_asks_for() -> None:
    """Names as conda-forge has them; two differ from those of the Python index."""
    recipe = (ROOT / "conda" / "recipe.yaml").read_text()
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0]
    there = {Requirement(line.strip("- ").replace(" ", "", 1)) for line in run.splitlines()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
    asked = {Requirement(f"python{project['requires-python']}")}
    for requirement in map(Requirement, project["dependencies"]):
        asked.add(Requirement(f"{names.get(requirement.name, requirement.name)}{requirement.specifier}"))
    assert there == asked
    (script,) = project["scripts"].items()
    assert f"- {' = '.join(script)}" in recipe
    assert (
        re.search(r'__version__ = "(.*)"', (ROOT / "src/selfpretrain/__init__.py").read_text())[1] in recipe
    )


def test_links_of_llms_txt_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "llms.txt").read_text())
    assert len(links) > 10 and all((ROOT / link).is_file() for link in links)
