"""Plans that are left in a folder of runs for workers to carry out, and whether a worker may."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ..errors import SelfPretrainError, SpecError, StoreError
from ..registry import name_of
from ..spec import describe, revive
from ..system.files import FORMAT, Json, read_json
from ..training.recipe import Recipe, identity
from ..training.stage_folder import Folder
from .plan import Job, estimate
from .workspace import Workspace

PLANS = "plans"
SAID = ("results", "data", "source")
"""What decides an outcome beside the recipe itself."""


@dataclass(frozen=True)
class DetachedJob:
    """A stage to run, as it was when it was planned."""

    stage: str
    after: str | None
    tested: bool
    recipe: Json
    flops: float
    said: Json  # version of the numerics, of the data, and hashes of modules from outside

    @classmethod
    def of(cls, job: Job) -> "DetachedJob":
        """A stage as it is here and now."""
        said = {key: value for key, value in identity(job.recipe).items() if key in SAID}
        recipe = describe(job.recipe)
        return cls(job.name, job.after, job.tested, recipe, estimate(job).flops, said)

    def job(self, workspace: Workspace, trusted: tuple[str, ...]) -> Job:
        """The same stage here.

        Raises:
            SpecError: if it would not be the same; the message says what differs.
            DataError: if the data are not here.
        """
        recipe = revive(self.recipe, trusted)
        if not isinstance(recipe, Recipe):
            raise SpecError(f"{self.stage}: the plan does not hold a recipe")
        if (here := workspace.stage(recipe).name) != self.stage:
            found = "; ".join(_differences(recipe, self.said)) or "another version of selfpretrain"
            raise SpecError(f"{self.stage} would be {here.rpartition('-')[2]} here: {found}")
        return Job(recipe, self.stage, self.after, self.tested)


@dataclass(frozen=True)
class DetachedPlan:
    """What is asked of the workers of a folder of runs."""

    path: Path
    created: str
    since: float  # the same by the clock of whoever keeps the files
    command: str  # makes the page, once all is done
    jobs: tuple[DetachedJob, ...]

    @property
    def stands(self) -> bool:
        """Whether it has not been taken back."""
        return Folder(self.path.parent).stands(self.path.name)


def leave_plan(name: str, todo: list[Job], workspace: Workspace) -> Path:
    """Write down what is to be done; an earlier plan of the same name is replaced."""
    folder = Folder.make(workspace.runs / PLANS)
    jobs = [asdict(DetachedJob.of(job)) for job in todo]
    created = datetime.now(UTC).isoformat(" ", "seconds")
    content = {"format": FORMAT, "created": created, "command": workspace.command, "jobs": jobs}
    folder.write(f"{name}.json", content)
    return folder.path / f"{name}.json"


def plans(runs: Path) -> list[DetachedPlan]:
    """The plans in a folder of runs, the oldest first.

    Raises:
        StoreError: if there is no such folder, or one is damaged.
    """
    if not runs.is_dir():
        raise StoreError(f"there is no folder {runs}; give a folder of runs")
    found = []
    for path in sorted((runs / PLANS).glob("*.json")):
        plain = read_json(path, mend="run the command with --detach again")
        jobs = tuple(DetachedJob(**job) for job in plain["jobs"])
        found.append(DetachedPlan(path, plain["created"], path.stat().st_mtime, plain["command"], jobs))
    return sorted(found, key=lambda plan: plan.since)


def cancel(runs: Path, name: str = "") -> list[str]:
    """Take plans back, or the one of a name; workers save checkpoints and end. Those that were."""
    taken = [plan.path for plan in plans(runs) if name in ("", plan.path.stem)]
    for path in taken:
        Folder(path.parent).drop(path.name)
    return [path.stem for path in taken]


def accepted(
    plan: DetachedPlan, workspace: Workspace, trusted: tuple[str, ...]
) -> tuple[list[Job], dict[str, list[str]]]:
    """The jobs of a plan that would be the same here; and why others would not, with their names."""
    jobs: list[Job] = []
    refused: dict[str, list[str]] = {}
    for each in plan.jobs:
        try:
            jobs.append(each.job(workspace, trusted))
        except SelfPretrainError as error:
            reason = str(error).partition(" here: ")[2] or str(error)
            refused.setdefault(reason, []).append(each.stage)
    return jobs, refused


def _differences(recipe: Recipe, planned: Json) -> Iterator[str]:
    here = identity(recipe)
    if here["results"] != planned["results"]:
        yield (
            f"selfpretrain here is of numerics {here['results']}, the plan of {planned['results']}; "
            "install the same version"
        )
    tasks = [recipe.task, *map(recipe.task_of, recipe.stages)]
    unlike = zip(tasks, here["data"], planned["data"], strict=True)
    names = dict.fromkeys(
        f"data of {name_of(task)} are version {own or 'unknown'} here, {other or 'unknown'} in the plan"
        for task, own, other in unlike
        if own != other
    )
    yield from names
    for module in sorted(here["source"].keys() | planned["source"].keys()):
        if here["source"].get(module) != planned["source"].get(module):
            yield f"{module}.py is another file here than where the plan was made"
