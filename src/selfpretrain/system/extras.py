"""Packages that only some of us need: imported when they are asked for."""

import importlib
from typing import Any

from ..errors import SpecError


def load(module: str, asker: str, extra: str) -> Any:
    """A module of a package that an extra installs.

    Raises:
        SpecError: if it is not installed; the message says how it will be.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SpecError(f'{asker} needs a further package: pip install "selfpretrain[{extra}]"') from error
