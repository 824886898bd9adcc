"""Memory of the papers' stages on GPUs: say what those of docs/paper-memory.tsv take, and how they fit.

    python tools/paper_memory.py             write every line
    python tools/paper_memory.py amos        write lines of which the first three columns contain a word

Nothing is trained, and no data are prepared. Traces that ship are taken as they are (tools/traces.py --again
makes them anew), others are traced in seconds to a minute. The column ``before`` is kept:
it was counted on fake CUDA tensors on 2026-11-25, with the same additions, before convolutions went by
blocks, causal attention without masks of every sequence, Mega by groups of chunks, and batch normalisation by
PyTorch's kernel.
"""

import csv
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from selfpretrain import Workspace
from selfpretrain.api import find_study
from selfpretrain.errors import DoesNotFit
from selfpretrain.registry import name_of
from selfpretrain.studies.base import Study
from selfpretrain.training.cost import Planner
from selfpretrain.training.memory import fit_stage, saved_memory
from selfpretrain.training.recipe import Recipe
from selfpretrain.training.trace import known_trace

FILE = Path(__file__).resolve().parents[1] / "docs" / "paper-memory.tsv"
CARDS = (80, 40, 24)
VARIABLE = ("listops", "text", "retrieval")
"""Tasks whose sequences differ in length."""


@dataclass(frozen=True)
class Line:
    """Gigabytes of a step of a stage, and how it fits on cards: "as it is", what saves memory, or "no"."""

    study: str
    row: str
    column: str
    task: str
    objective: str
    batch: str
    before: str
    now: str = ""
    on_80: str = ""
    on_40: str = ""
    on_24: str = ""


def main() -> None:
    """Trace the lines that are asked for, and write the file after each."""
    word = " ".join(sys.argv[1:])
    with FILE.open(encoding="utf-8") as file:
        lines = [Line(**each) for each in csv.DictReader(file, delimiter="\t")]
    for i, line in enumerate(lines):
        if word in f"{line.study} {line.row} {line.column}":
            lines[i] = traced(line)
            print(*asdict(lines[i]).values(), sep=" | ", flush=True)
            write(lines)


def write(lines: list[Line]) -> None:
    """Write the file."""
    with FILE.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(asdict(lines[0]))
        table.writerows(asdict(line).values() for line in lines)


def traced(line: Line) -> Line:
    """Return a line with what its stage takes now."""
    recipe = recipe_of(line)
    padded = line.task in VARIABLE
    now = fit_stage(recipe, 1e9, padded=padded, trace=known_trace).gigabytes
    found = {}
    for card in CARDS:
        try:
            fit = fit_stage(recipe, card, padded=padded, trace=known_trace)
        except DoesNotFit:
            found[f"on_{card}"] = "no"
            continue
        how = saved_memory(recipe.last, fit.applied_to(recipe.last))
        found[f"on_{card}"] = f"{fit.gigabytes:.1f}, {how}" if how else "as it is"
    return replace(line, now=f"{now:.1f}", **found)


def recipe_of(line: Line) -> Recipe:
    """Return the recipe that ends with the stage of a line."""
    study: Study = find_study(line.study, "paper", 1, Workspace(Path("runs"), "cuda"))
    for cell in study.experiment("paper", 0, Planner(0, stubs=True)).cells:
        for recipe in cell.recipe.prefixes():
            stage = recipe.last
            place = (cell.row, cell.column, name_of(recipe.task_of(stage)), name_of(stage.objective))
            if (*place, str(stage.batch)) == (line.row, line.column, line.task, line.objective, line.batch):
                return recipe
    raise ValueError(f"no stage is that of {line}")


if __name__ == "__main__":
    main()
