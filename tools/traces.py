"""Trace the steps of all studies at the papers' scale, and write what the package ships of them.

    python tools/traces.py            trace steps that are not in the file, and drop lines that no study needs
    python tools/traces.py --again    trace everything, as after a change of a mixer, the network or the step

Dry runs read ``shipped_traces.tsv`` instead of tracing for minutes. Nothing is trained, and no GPU is needed.
"""

import sys
from typing import Any

import takes_page
from selfpretrain.training import trace
from selfpretrain.training.cost import Planner
from selfpretrain.training.recipe import Recipe
from selfpretrain.training.trace import SHIPPED_TRACES, StepTrace


def main() -> None:
    """Write the file."""
    titles = {} if "--again" in sys.argv else dict(_known())
    if "--again" in sys.argv:
        trace._shipped = dict  # type: ignore[assignment]
    usual = trace._trace_now

    def noted(recipe: Recipe, *how: Any) -> StepTrace:
        found = usual(recipe, *how)
        title = f"{recipe.title.rpartition(',')[0]}, batch {recipe.last.batch}"
        titles[trace.trace_key(recipe, *how)] = title
        print(f"{title}: {found.peak_bytes / 2**30:.1f} GB", flush=True)
        return found

    trace._trace_now = noted  # type: ignore[assignment]
    for name, stages in takes_page.plans(Planner(0, stubs=True)):
        print(name, flush=True)
        for stage in stages:
            try:
                takes_page.take(stage)
            except Untraceable as error:
                print(f"not traced: {stage.recipe.title}: {error}", flush=True)
        write(titles)


def write(titles: dict[str, str]) -> None:
    """Write all traces of this process."""
    lines = ["key\tflops\tkernels\tbytes_moved\tpeak_bytes\tstage"]
    for key, found in sorted(trace.TRACES.items(), key=lambda item: titles[item[0]]):
        numbers = (f"{found.flops:.0f}", found.kernels, f"{found.bytes_moved:.0f}", found.peak_bytes)
        lines.append("\t".join([key, *map(str, numbers), titles[key]]))
    SHIPPED_TRACES.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _known() -> list[tuple[str, str]]:
    _, *lines = SHIPPED_TRACES.read_text(encoding="utf-8").splitlines()
    return [(line.split("\t")[0], line.split("\t")[-1]) for line in lines]


if __name__ == "__main__":
    main()
