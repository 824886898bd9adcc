"""Hashes of user code: the modules of classes from outside this package, and what these import."""

import ast
import functools
import hashlib
import importlib.util
import inspect
import sys
import sysconfig
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from pathlib import Path

from ..config import is_ours
from ..errors import SpecError

LIBRARIES = {"site-packages", "dist-packages"}
_sources: dict[str, tuple[object, str]] = {}
"""Sources that were read, after what tells one loading of the module from the next."""


def own_modules(module: str) -> list[str]:
    """Return a module and all modules that it imports, directly or not, installed libraries excepted.

    Modules of the same package are always included. Imports are found by parsing the source, so that those
    inside functions count; imports by a computed name are not found.
    """
    found = dict.fromkeys([module])
    pending = [module]
    while pending:
        user = pending.pop()
        for name in _imports(user, source_of(user)):
            if name not in found and not is_ours(name) and _is_user_code(name, module.partition(".")[0]):
                found[name] = None
                pending.append(name)
    return list(found)


def source_of(module: str) -> str:
    """Return the source of a module when it was last loaded, or reloaded in a notebook; "" if there is none.

    Raises:
        SpecError: of code typed into an interpreter: nothing would tell its results from those of an edit.
    """
    loaded = getattr(sys.modules.get(module), "__spec__", None)  # another one after importlib.reload
    if module not in _sources or _sources[module][0] is not loaded:
        _sources[module] = loaded, _read_source(module)
    return _sources[module][1]


def _read_source(module: str) -> str:
    if module == "__main__" and "__file__" not in vars(sys.modules[module]):
        advice = "save it in a file (in a notebook: %%writefile mylab.py), and import that"
        raise SpecError(f"code typed into an interpreter or a notebook has no versions; {advice}")
    spec = _spec(module)
    if spec is not None and isinstance(spec.loader, InspectLoader):  # does not run the module
        source = spec.loader.get_source(module) or ""
        return source if source.endswith("\n") or not source else f"{source}\n"
    try:
        return inspect.getsource(sys.modules[module])
    except (OSError, TypeError, KeyError):
        return ""


def digest(module: str) -> str:
    """Return ten hex digits of the SHA-256 of a module's source; "" if it has none."""
    return hashlib.sha256(source_of(module).encode()).hexdigest()[:10] if source_of(module) else ""


@functools.cache
def _imports(module: str, source: str) -> tuple[str, ...]:
    """Return the modules that a module may import; ``from a import b`` may mean the module ``a.b``."""
    found: list[str] = []
    spec = _spec(module)
    package = module if spec and spec.submodule_search_locations else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return tuple(dict.fromkeys(found))


@functools.cache
def _is_user_code(name: str, root: str) -> bool:
    first = name.partition(".")[0]
    if first != root and (outer := _spec(first)) is not None:
        place = Path(outer.origin or "").resolve()
        if LIBRARIES & set(place.parts) or place.is_relative_to(sysconfig.get_path("stdlib")):
            return False
    spec = _spec(name)  # imports the parent packages
    return spec is not None and str(spec.origin).endswith(".py")


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):  # its parent is missing or not a package
        return None
