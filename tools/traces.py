"""Trace the steps of all studies at the papers' scale, and write what the package ships of them.

    python tools/traces.py            trace steps that are not in the file, and drop lines that no study needs
    python tools/traces.py --again    trace everything, as after a change of a mixer, the network or the step

Dry runs read ``shipped_traces.tsv`` instead of tracing for minutes. Nothing is trained, and no GPU is needed.
"""

import csv
import sys

import takes_page
from selfpretrain.runner import forecast
from selfpretrain.training.cost import Planner, network_key, size_below_head
from selfpretrain.training.recipe import Recipe
from selfpretrain.training.trace import (
    SHIPPED_TRACES,
    StepTrace,
    known_trace,
    shipped_sizes,
    trace_key,
    trace_step,
)

AGAIN = "--again" in sys.argv
Row = dict[str, str | int]


def main() -> None:
    """Write the file after every study."""
    rows: dict[str, Row] = {}

    def noted(recipe: Recipe, length: int, padded: bool) -> StepTrace:
        found = (trace_step if AGAIN else known_trace)(recipe, length, padded)
        key = trace_key(recipe, length, padded)
        if key not in rows:
            rows[key] = {"key": key} | row(recipe, found)
        return found

    forecast.known_trace = noted
    for name, stages in takes_page.plans(Planner(0, stubs=True)):
        print(name, flush=True)
        for stage in stages:
            for found in takes_page.take(stage):
                if found.gigabytes is None:
                    print(f"not traced: {stage.recipe.title}", flush=True)
        write(rows)


def row(recipe: Recipe, found: StepTrace) -> Row:
    """Return what is kept of a trace, with the size of the network."""
    network = network_key(recipe)
    size = 0 if AGAIN else shipped_sizes().get(network, 0)
    return {
        "flops": f"{found.flops:.0f}",
        "kernels": found.kernels,
        "bytes_moved": f"{found.bytes_moved:.0f}",
        "peak_bytes": found.peak_bytes,
        "independent": "yes" if found.independent else "no",
        "network": network,
        "parameters": size or size_below_head(recipe),
        "stage": f"{recipe.title.rpartition(',')[0]}, batch {recipe.last.batch}",
    }


def write(rows: dict[str, Row]) -> None:
    """Write the lines, by the names of stages."""
    ordered = sorted(rows.values(), key=lambda each: (each["stage"], each["key"]))
    with SHIPPED_TRACES.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, ordered[0].keys(), delimiter="\t", lineterminator="\n")
        table.writeheader()
        table.writerows(ordered)


if __name__ == "__main__":
    main()
