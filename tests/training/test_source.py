"""A fingerprint stands for all modules of somebody's own that a mixer is made of, and a run keeps them."""

import importlib
import sys

import pytest

import toys
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.classify import Classify
from selfpretrain.runner.stage import run
from selfpretrain.runner.workspace import Workspace
from selfpretrain.system.files import read_json
from selfpretrain.training import code_hash
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage, fingerprint

FILES = {
    "__init__.py": "",
    "mixer.py": "import numpy\nfrom torch import nn\nfrom selfpretrain.mixers.base import Mixer\n"
    "from selfpretrain.config import spec\nfrom .inner.scale import SCALE\nimport besides\n\n"
    "@spec\nclass Scaled(Mixer):\n    def build(self, context):\n        from labpkg import late\n"
    "        return Layer()\n\n"
    "class Layer(nn.Module):\n    def forward(self, x, valid=None):\n        return SCALE * x\n",
    "late.py": "LATE = 1\n",
    "unused.py": "import labpkg.mixer\n",
    "inner/__init__.py": "",
    "inner/scale.py": "from . import deepest\nSCALE = 1\n",
    "inner/deepest.py": "from .. import mixer\n",  # in a circle
}
USED = ["besides", "labpkg", "labpkg.inner", "labpkg.inner.deepest", "labpkg.inner.scale", "labpkg.late",
        "labpkg.mixer"]  # fmt: skip


@pytest.fixture
def labpkg(tmp_path, monkeypatch):
    """A package of several modules; its folder."""
    for name, content in FILES.items():
        (tmp_path / "labpkg" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "labpkg" / name).write_text(content)
    (tmp_path / "besides.py").write_text("WIDTH = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield tmp_path / "labpkg"
    forget()


def forget():
    """As a new process would find it."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("labpkg", "besides")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    for cached in (code_hash.source_of, code_hash.digest, code_hash._imports, code_hash._is_user_code):
        cached.cache_clear()


def recipe():
    forget()
    stage = Stage(Classify(), Budget(steps=2), batch=8, evals=1)
    mixer = importlib.import_module("labpkg.mixer").Scaled()
    return Recipe(toys.Majority(), Model(mixer, width=8, depth=1), (stage,))


def test_all_that_a_mixer_imports_of_its_own_counts(labpkg):
    before = fingerprint(recipe())
    assert sorted(code_hash.own_modules("labpkg.mixer")) == USED
    assert fingerprint(recipe()) == before
    for name in ("inner/scale.py", "inner/deepest.py", "late.py", "../besides.py"):
        (labpkg / name).write_text((labpkg / name).read_text() + "MORE = 1\n")
        after = fingerprint(recipe())
        assert after != before, name
        before = after
    (labpkg / "unused.py").write_text("NOT = 'imported'\n")
    assert fingerprint(recipe()) == before


def test_modules_of_libraries_do_not_count():
    assert code_hash.own_modules("toys") == ["toys"]


def test_a_fingerprint_of_one_module_is_that_of_before():
    stage = Stage(Classify(), Budget(steps=1))
    assert fingerprint(Recipe(toys.Majority(), Model(Attention(), width=8), (stage,))) == "3a37f4de9b"


def test_a_run_keeps_the_sources(labpkg, tmp_path):
    folder = run(recipe(), Workspace(tmp_path / "runs"))
    kept = read_json(folder / "sources.json")["modules"]
    assert sorted(kept) == sorted([*USED, "toys"])
    assert kept["labpkg.inner.scale"] == FILES["inner/scale.py"]
