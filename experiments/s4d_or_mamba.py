"""Learning rates and directions of the study s4d-or-mamba, chosen on validation by equal trials.

    python experiments/s4d_or_mamba.py trials > trials.txt
    python experiments/trials.py trials.txt docs/s4d-or-mamba.tsv --runs runs/s4d-or-mamba
    python experiments/s4d_or_mamba.py choose docs/s4d-or-mamba.tsv

The first command prints a line per trial: every architecture, arm, direction and rate, on every sixth set.
The last one writes the best of each architecture and arm to ``studies/tables/s4d_or_mamba.tsv``, which the
study reads. In a trial, matched scratch has the compute of self-pretraining in its own direction.
"""

import csv
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import fmean

from selfpretrain.registry import name_of
from selfpretrain.studies.recipes.arms import MATCHED, SCRATCH, SPT
from selfpretrain.studies.recipes.tables import FOLDER
from selfpretrain.studies.s4d_or_mamba import (
    DIRECTIONS,
    RATES,
    TRIED_ON,
    S4dOrMamba,
    chosen_sets,
    trial_settings,
)

ARMS = {SCRATCH: "scratch", MATCHED: "matched", SPT: "spt"}
Option = tuple[str, str]
"""Direction and learning rate."""


def trials() -> Iterator[tuple[str, str, Option, str]]:
    """Yield row, column, option and the line of every trial, set by set."""
    for name in chosen_sets()[::TRIED_ON]:
        for each, (column, arm), *option in product(
            S4dOrMamba.architectures, ARMS.items(), DIRECTIONS, RATES
        ):
            direction, lr = option
            settings = " ".join(trial_settings(each.row, name, lr))
            line = f"ucr:{name} {name_of(each.mixer)} {arm} objective={direction} {settings}"
            yield each.row, column, (direction, lr), line


def choose(log: Path) -> None:
    """Write the option with the best mean validation score of every row and column.

    Raises:
        KeyError: if a trial has not been run.
    """
    with log.open(encoding="utf-8", newline="") as file:
        scores = {row["trial"]: float(row["val"]) for row in csv.DictReader(file, delimiter="\t")}
    found: dict[Option, dict[Option, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row, column, option, line in trials():
        found[row, column][option].append(scores[line])
    lines = ["row\tcolumn\tobjective\tlr\tscore\tsource"]
    for (row, column), options in found.items():
        means = {option: fmean(values) for option, values in options.items()}
        best = max(means, key=lambda option: means[option])
        source = f"best of {len(means)} on validation, mean of {len(options[best])} sets"
        lines.append("\t".join([row, column, *best, f"{means[best]:.4f}", source]))
    (FOLDER / "s4d_or_mamba.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["trials"]:
            print("\n".join(line for *_, line in trials()))
        case ["choose", log]:
            choose(Path(log))
        case _:
            sys.exit(__doc__)
