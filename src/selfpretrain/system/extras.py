"""Optional dependencies, imported on first use."""

import importlib
from typing import Any

from ..errors import SpecError


def import_extra(module: str, feature: str, extra: str) -> Any:
    """Import and return a module of an optional dependency.

    Raises:
        SpecError: if it is not installed; the message has the pip command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SpecError(f'{feature} needs a further package: pip install "selfpretrain[{extra}]"') from error
