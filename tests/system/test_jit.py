"""Compiled functions, where nothing of them can be kept on disk."""

import importlib.util

import numba

MODULE = """
from selfpretrain.system.jit import jit

@jit
def double(x: int) -> int:
    return 2 * x
"""


def test_functions_are_compiled_where_neither_their_folder_nor_home_can_be_written(tmp_path, monkeypatch):
    blocked = tmp_path / "__pycache__"
    blocked.write_text("a file in the way of the folder", encoding="utf-8")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    for variable in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(blocked / "no"))
    (tmp_path / "own.py").write_text(MODULE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("own", tmp_path / "own.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.double(21) == 42
