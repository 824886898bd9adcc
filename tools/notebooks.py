"""Run the notebooks of examples/ and keep what they print, so that they can be read without being run.

    python tools/notebooks.py [NOTEBOOK ...]

Cells are plain Python, run one after the other in one namespace, in a folder that is thrown away.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "examples"


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The same notebook with what its cells print; an error in a cell is an error here."""
    names: dict[str, Any] = {"__name__": "notebook"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        done = dict(cell)
        if cell["cell_type"] == "code":
            count += 1
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile("".join(cell["source"]), f"cell {count}", "exec"), names)
            text = said.getvalue().splitlines(keepends=True)
            done["execution_count"] = count
            done["outputs"] = [{"name": "stdout", "output_type": "stream", "text": text}] if text else []
        cells.append(done)
    return notebook | {"cells": cells}


def main() -> None:
    """Run them all, or those that are named."""
    for path in [Path(name).absolute() for name in sys.argv[1:]] or sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            os.environ["SELFPRETRAIN_DATA"] = str(Path(folder) / "data")
            done = executed(notebook)
        path.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
