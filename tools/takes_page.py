"""List what each study takes at the papers' scale: gigabytes, hours and dollars on three GPUs.

The documentation has the list in ``docs/papers.md`` when it is built; run as a script, this prints it.
Nothing is trained, no data are prepared, and no GPU is needed.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from selfpretrain.api import Request, find_study, plan_request
from selfpretrain.errors import DataError, SpecError
from selfpretrain.registry import names
from selfpretrain.runner.forecast import OnGpu, on_gpu
from selfpretrain.runner.plan import PlannedStage
from selfpretrain.runner.workspace import Workspace
from selfpretrain.training.cost import Planner
from selfpretrain.training.gpus import GPUS

SHOWN = ("a100", "h100", "3090")
HOUR = 3600.0


def page() -> str:
    """Return the list as Markdown."""
    lines = [
        "| study | stages | most GB | " + " | ".join(f"{gpu}: hours | dollars" for gpu in SHOWN) + " |",
        "| --- | ---: | ---: |" + " ---: | ---: |" * len(SHOWN),
    ]
    every: dict[str, tuple[OnGpu, ...]] = {}
    for name, stages in plans(Planner(0, stubs=True)):
        found = {stage.id: every.get(stage.id) or take(stage) for stage in stages}
        lines.append(_line(name, found))
        every |= found
    lines.append(_line("all, each stage once", every))
    return "\n".join(lines) + "\n"


def plans(planner: Planner) -> Iterator[tuple[str, list[PlannedStage]]]:
    """Yield the stages of every study that the papers have, for one seed."""
    for name in names("studies"):
        try:
            study = find_study(name, "paper", 1, Workspace(Path("runs")))
            planned = plan_request(Request(study, "paper"), planner)
        except (SpecError, DataError):
            continue
        yield name, planned.plan.stages_of(planned.plan.experiment.cells)


def take(stage: PlannedStage) -> tuple[OnGpu, ...]:
    """Return what a stage takes on every GPU that is shown."""
    return tuple(on_gpu(stage.recipe, GPUS[gpu], PLANNER) for gpu in SHOWN)


PLANNER = Planner(0, stubs=True)


def _line(name: str, found: Mapping[str, tuple[OnGpu, ...]]) -> str:
    cells = []
    for gpu, each in zip(SHOWN, zip(*found.values(), strict=True), strict=True):
        hours = sum(one.seconds for one in each) / HOUR
        unfit = sum(one.fits == "no" for one in each)
        note = f" ({unfit} do not fit)" if unfit else ""
        cells += [f"{hours:,.0f}{note}", f"{GPUS[gpu].price(hours):,.0f}"]
    most = max(one[0].gigabytes or 0.0 for one in found.values())
    return f"| {name} | {len(found)} | {most:.0f} | {' | '.join(cells)} |"


if __name__ == "__main__":
    print(page())
