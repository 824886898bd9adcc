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
from types import CodeType, FunctionType
from typing import Any

import jaxtyping
import numpy as np
from beartype import BeartypeConf, beartype
from beartype.claw import beartype_package
from beartype.claw._ast import _clawaststar

USUAL = jaxtyping.jaxtyped
SEEN: dict[tuple[str, CodeType], tuple[bool, dict[Hashable, set[Hashable]]]] = {}
"""For each function whether values count, and the kinds of results that arguments of a kind have had."""


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
    _clawaststar.__beartype__ = beartyped
    beartype_package("selfpretrain", conf=BeartypeConf(claw_is_pep526=False))


def beartyped(made: Any = None, *, conf: BeartypeConf) -> Any:
    """Stand in for the decorator of that name, which takes 1 ms: functions of functions are made often."""
    if isinstance(made, FunctionType) and "<locals>" in made.__qualname__:
        return checked(made, beartype(conf=conf))
    return beartype(conf=conf) if made is None else beartype(made, conf=conf)


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
    key = function.__module__, function.__code__
    if key not in SEEN:
        SEEN[key] = "Literal" in str(inspect.signature(function)), {}
    exact, found = SEEN[key]
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
            asked = (*[KINDS[type(x)](x, exact) for x in args],)
            if kwargs:
                asked += (*kwargs, *[KINDS[type(x)](x, exact) for x in kwargs.values()])
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
    return KINDS[type(x)](x, exact)


class Kinds(dict[type, Callable[[Any, bool], Hashable]]):
    """A function for each type, made when the first of its values is seen: there are millions of them."""

    def __missing__(self, of: type) -> Callable[[Any, bool], Hashable]:
        import torch  # the emulated GPU must be there before it

        if issubclass(of, (torch.Tensor, np.ndarray)):
            self[of] = lambda x, exact: (of, x.dtype, x.shape)
        elif issubclass(of, (tuple, list)):
            self[of] = lambda x, exact: (of, *[self[type(each)](each, exact) for each in short(x)])
        elif of is dict:
            self[of] = lambda x, exact: (
                of,
                *[(key, self[type(each)](each, exact)) for key, each in short(x).items()],
            )
        elif issubclass(of, (set, frozenset, dict)):
            self[of] = lambda x, exact: short(None)
        elif issubclass(of, type):
            self[of] = lambda x, exact: (of, x)
        elif issubclass(of, (str, int)):
            self[of] = lambda x, exact: (of, x) if exact else of
        else:
            self[of] = lambda x, exact: of
        return self[of]


def short(x: Any) -> Any:
    """Return a collection that has few items.

    Raises:
        TypeError: if it has many, or is none.
    """
    if len(x) > 16:
        raise TypeError
    return x


KINDS = Kinds()
