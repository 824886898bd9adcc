"""Annotations of the package, checked at run time; what is alike is checked once.

The wrapper of jaxtyping takes some 50 us per call, most of it to bind arguments and to check them twice. It
is asked once per function for each combination of types, and of kinds and shapes of arrays, of arguments and
result: on these, and on values where a ``Literal`` is annotated, its answer depends.
"""

import importlib.util
import inspect
import re
import threading
from collections.abc import Callable, Hashable
from functools import cache, wraps
from pathlib import Path
from types import FunctionType
from typing import Any

import jaxtyping
import numpy as np
from beartype import BeartypeConf
from beartype.claw import beartype_package

USUAL = jaxtyping.jaxtyped


def check_annotations() -> None:
    """Check arguments and results of the package at run time.

    The wrapper of jaxtyping is in the modules that need it: for shapes, around what is compiled, and where
    names are imported for type checkers only. That of beartype alone takes 1 us per call.
    """
    spec = importlib.util.find_spec("selfpretrain")
    assert spec is not None and spec.origin is not None
    package = Path(spec.origin).parent
    needing = re.compile(r"^from (jaxtyping|\S+shapes|\S+jit) import|TYPE_CHECKING", re.MULTILINE)
    wrapped = [
        ".".join(path.relative_to(package.parent).with_suffix("").parts)
        for path in package.rglob("*.py")
        if needing.search(path.read_text(encoding="utf-8"))
    ]
    jaxtyping.jaxtyped = jaxtyping._decorator.jaxtyped = jaxtyped
    jaxtyping.install_import_hook(wrapped, "beartype.beartype")
    beartype_package("selfpretrain", conf=BeartypeConf(claw_is_pep526=False))


def jaxtyped(function: Any = None, *, typechecker: Any) -> Any:
    """Stand in for the decorator of that name."""
    if function is None:
        return lambda function: jaxtyped(function, typechecker=typechecker)
    if not isinstance(function, FunctionType):
        return USUAL(function, typechecker=typechecker)
    return checked(function, lambda function: USUAL(function, typechecker=typechecker))


def checked(function: FunctionType, usual: Callable[[FunctionType], Callable[..., Any]]) -> FunctionType:
    """Return a function whose arguments and result are checked the first time that there are such."""
    given = threading.local()
    found: dict[Hashable, set[Hashable]] = {}
    exact = "Literal" in str(inspect.signature(function))
    whole = cache(lambda: usual(function))

    @cache
    def of_result() -> Callable[..., Any]:
        def result(*_: Any, **__: Any) -> Any:
            return given.result

        named = FunctionType(result.__code__, function.__globals__, closure=result.__closure__)
        return usual(wraps(function)(named))

    @wraps(function)
    def alike(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        try:
            asked = kind((args, kwargs), exact)
            known = found.get(asked)
        except TypeError:
            return whole()(*args, **kwargs)
        result = whole()(*args, **kwargs) if known is None else function(*args, **kwargs)
        try:
            answer = kind(result, exact)
        except TypeError:
            answer = None
        if known is None:
            found[asked] = {answer} - {None}
        elif answer not in known:
            given.result = result
            of_result()(*args, **kwargs)
            known.update({answer} - {None})
        return result

    return alike


def kind(x: Any, exact: bool) -> Hashable:
    """Return all of a value that an annotation may speak of.

    Raises:
        TypeError: if that cannot be said in short.
    """
    of = type(x)
    how = told_by(of)
    if how == "type":
        return of
    if how == "shape":
        return of, x.dtype, tuple(x.shape)
    if how == "value":
        return (of, x) if exact or issubclass(of, type) else of
    if how == "unknown" or len(x) > 16:
        raise TypeError
    if how == "items":
        return of, *[kind(each, exact) for each in x]
    return of, *[(key, kind(each, exact)) for key, each in x.items()]


@cache
def told_by(of: type) -> str:
    """Return what tells all that annotations may say of values of a type."""
    import torch  # the emulated GPU must be there before it

    ways = {
        "shape": (torch.Tensor, np.ndarray),
        "items": (tuple, list),
        "unknown": (set, frozenset),
        "value": (type, str, int),
    }
    if issubclass(of, dict):
        return "entries" if of is dict else "unknown"
    return next((way for way, kinds in ways.items() if issubclass(of, kinds)), "type")
