"""The oldest supported version of every dependency, as constraints for pip.

PyTorch is left out: its oldest build for the CPU alone is not on every index.
"""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
LEFT_OUT = {"torch", "selfpretrain"}


def oldest(requirement: str) -> tuple[str, str]:
    """Name and lower bound of a requirement such as ``pydantic>=2.8,<3``."""
    found = re.match(r"([A-Za-z0-9._-]+)(?:\[.*\])?>=([0-9.]+)", requirement)
    return (found[1], found[2]) if found else ("selfpretrain", "")


def main() -> None:
    """Print a line for each."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = [one for extra in project["optional-dependencies"].values() for one in extra]
    for name, version in map(oldest, [*project["dependencies"], *extras]):
        if name not in LEFT_OUT:
            print(f"{name}=={version}")


if __name__ == "__main__":
    main()
