"""Options shared by several commands, and their parsing.

Options that several commands take together are fields of a dataclass, such as ``RunFlags``. A command with a
parameter of that type takes each field as an option if it is decorated with ``expanded``.
"""

import dataclasses
import functools
import inspect
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from ..data.importing import Kind, MissingPolicy, TargetKind
from ..errors import SpecError, nearest
from ..registry import find

if TYPE_CHECKING:
    from ..api import PlannedRequest
    from ..runner.forecast import Forecast
    from ..runner.workspace import Workspace
    from ..studies.base import Scale


def choice(flag: str, words: Any, what: str) -> Any:
    """Return an option that takes one of the words of a ``Literal``, and suggests the nearest for another."""
    known = get_args(words)

    def check(value: str | None) -> str | None:
        if value is not None and value not in known:
            raise SpecError(f"{flag} {value}: there is no such choice{nearest(value, known)}")
        return value

    return typer.Option(help=what, metavar=f"[{'|'.join(known)}]", callback=check)


def set_data_root(folder: Path | None) -> Path | None:
    """Prepend a folder to the data folders of this process and its children; others are still searched.

    Raises:
        SpecError: if its name cannot be one of several.
    """
    if folder is not None:
        from ..data import paths

        if os.pathsep in str(folder.absolute()):
            said = f"{folder.absolute()} holds {os.pathsep!r}, which divides the folders of {paths.VARIABLE}"
            raise SpecError(f"--data-root: {said}; rename it")
        os.environ[paths.VARIABLE] = os.pathsep.join(map(str, [folder.absolute(), *paths.folders()]))
    return folder


Runs = Annotated[Path, typer.Option(help="Folder for all results; finished stages are reused.")]
Device = Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:1.")]
TuneCells = Annotated[
    bool,
    typer.Option(
        "--tune", "--grid", help="First tune learning rate and batch size of every cell on validation."
    ),
]
ScaleName = Annotated[
    str,
    typer.Option(
        "--scale",
        help="Scale: smoke (seconds, a test run only), small (two CPU cores) or paper (as published).",
    ),
]
Seeds = Annotated[
    str,
    typer.Option(
        help="Number of seeds; all of 0 to n-1 are run and reported. auto (4..12), or a range: as many as "
        "the verdict needs."
    ),
]
FirstSeed = Annotated[
    int, typer.Option(min=0, help="First seed, e.g. to repeat a comparison with new seeds.")
]
Minutes = Annotated[
    float | None,
    typer.Option(
        min=0.01,
        max=100_000,
        help="Minutes that it may take: fit tries less (default: 10); compare shortens all arms alike.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
Trust = Annotated[
    list[str] | None, typer.Option(help="Other package whose classes recipes may load. Repeatable.")
]
DataRoot = Annotated[
    Path | None,
    typer.Option("--data-root", callback=set_data_root, help="Folder for data; default: SELFPRETRAIN_DATA."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        help="Change a setting, e.g. task.train=500, pretrain.batch=64, s4d.mixer.states=32. Repeatable.",
    ),
]


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter whose type is a dataclass of options by one option per field."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: each.annotation
        for name, each in signature.parameters.items()
        if dataclasses.is_dataclass(each.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        if each.name not in groups:
            parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        hints = get_type_hints(each.annotation, include_extras=True)
        for field in dataclasses.fields(each.annotation):
            option = inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default)
            parameters.append(option.replace(annotation=hints[field.name]))

    @functools.wraps(command)
    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
        command(**given)

    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called


@dataclass(frozen=True)
class RunFlags:
    """Options of commands that plan and run experiments."""

    runs: Runs = Path("runs")
    device: Device = "auto"
    jobs: Annotated[
        str, typer.Option(help="Stages to run in parallel: a number, or auto (one per core or GPU).")
    ] = "auto"
    executor: Annotated[
        str, typer.Option(help="Executor (`selfpretrain list executors`); auto chooses by --jobs.")
    ] = "auto"
    executor_settings: Annotated[
        list[str] | None,
        typer.Option(
            "--with", help="Setting of the executor: address=auto, gpus=0.25, partition=gpu. Repeatable."
        ),
    ] = None
    track: Annotated[
        list[str] | None,
        typer.Option(help="Log training to trackers (`selfpretrain list trackers`), comma-separated."),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the stages and their estimated cost without training.")
    ] = False
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Submit all stages to Slurm and return; needs --executor slurm."),
    ] = False
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="With --dry-run: measure the time per step instead of estimating it from FLOPs."
        ),
    ] = False
    as_json: Json = False
    data_root: DataRoot = None
    quiet: Quiet = False

    def workspace(self) -> "Workspace":
        """Return the workspace of these options, see ``workspace_of``.

        Raises:
            SpecError: if there is no such executor or tracker, or a flag lacks the one that it belongs to.
        """
        from ..system import distributed

        if self.measure and not self.dry_run:
            raise SpecError("--measure is about the forecast of --dry-run; add --dry-run, or leave it out")
        if self.executor_settings and self.executor == "auto":
            raise SpecError("--with is for the executor that --executor names; name one, or leave it out")
        settings = assignments(self.executor_settings, "--with", "address=auto")
        if self.executor != "auto":
            known = find("executors", self.executor).settings
            for name in sorted(settings.keys() - (settings if known is None else known)):
                advice = nearest(name, known) or "; leave it out"
                raise SpecError(f"--with {name}: --executor {self.executor} has no such setting{advice}")
        if self.executor not in ("auto", "serial") and distributed.launched() > 1:
            raise SpecError(f"torchrun runs the stages itself; leave out --executor {self.executor}")
        if self.executor == "serial" and self.jobs not in ("auto", "1"):
            raise SpecError(f"--executor serial runs one stage at a time; leave out --jobs {self.jobs}")
        trackers = [name.strip() for text in self.track or () for name in text.split(",")]
        for tracker in trackers:
            find("trackers", tracker)
        jobs = "1" if self.executor == "serial" else self.jobs
        here = workspace_of(self.runs, self.device, jobs, self.quiet)
        return dataclasses.replace(
            here,
            executor=here.executor if self.executor == "auto" else self.executor,
            executor_settings=settings,
            trackers=tuple(dict.fromkeys(trackers)),
        )

    def forecast_or_submit(
        self, planned: "PlannedRequest", workspace: "Workspace", gpu: str = ""
    ) -> "Forecast | str | None":
        """Forecast a planned request, or submit its stages, if these options ask for it; None: run it."""
        from .. import api

        if self.detach:  # also with --dry-run, which says what a run would do
            api.check_detached(planned.request, workspace)
        if self.dry_run:
            return api.forecast_request(planned, workspace, gpu, self.measure)
        return api.submit_request(planned.request, workspace) if self.detach else None


@dataclass(frozen=True)
class ColumnFlags:
    """Options of commands that read the user's files: how, and which columns are what."""

    label: Annotated[
        str,
        typer.Option(
            help="Column to predict; several for multilabel: a,b or is_*. For a folder: a pattern of names."
        ),
    ] = ""
    sequence: Annotated[str, typer.Option(help="Column or columns of the sequence: a,b or t*.")] = ""
    group: Annotated[
        str, typer.Option(help="Column that identifies patient, speaker or file; a group is never split.")
    ] = ""
    split: Annotated[str, typer.Option(help="Column with train, val or test; default: random 70/15/15.")] = ""
    kind: Annotated[str, choice("--kind", Kind, "Kind of sequences.")] = "auto"
    target: Annotated[str, choice("--target", TargetKind, "Kind of labels.")] = "auto"
    id: Annotated[str, typer.Option(help="Long tables: column with the sequence of a row.")] = ""
    time: Annotated[str, typer.Option(help="Long tables: column that orders the rows of a sequence.")] = ""
    value: Annotated[str, typer.Option(help="Long tables: column or columns of the measured values.")] = ""
    missing: Annotated[str, choice("--missing", MissingPolicy, "What to do with missing values.")] = "refuse"
    rate: Annotated[int | None, typer.Option(min=1, help="Resample recordings to this rate, in Hz.")] = None
    no_header: Annotated[
        bool, typer.Option("--no-header", help="The first row of a CSV file is data, and names no columns.")
    ] = False
    test: Annotated[str, typer.Option(help="Another file, of test sequences; the first has the others.")] = ""
    encoding: Annotated[str, typer.Option(help="Encoding of a text file, e.g. latin-1.")] = ""
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip files that cannot be read.")] = False

    def options(self) -> dict[str, Any]:
        """Return the options by their names in ``ImportOptions``, whose module is slow to load."""
        named = dataclasses.asdict(self)
        named["header"] = not named.pop("no_header")
        return named


def workspace_of(runs: Path, device: str, jobs: str = "1", quiet: bool = False) -> "Workspace":
    """Return the workspace of a command, see ``Workspace.of``."""
    from ..runner.workspace import Workspace

    here = Workspace.of(runs, device, jobs)
    return dataclasses.replace(here, quiet=quiet, command=f"selfpretrain {shlex.join(sys.argv[1:])}")


def scale_of(name: str) -> "Scale":
    """Return a scale by its name."""
    from ..studies import base

    return base.scale_of(name)


def assignments(
    texts: list[str] | None, flag: str = "--set", example: str = "pretrain.optim.lr=3e-3"
) -> dict[str, str]:
    """Parse ``setting=value`` arguments of an option into a dictionary.

    Raises:
        SpecError: if one does not have this form.
    """
    found = {}
    for text in texts or []:
        path, equals, value = text.partition("=")
        if not equals or not path:
            raise SpecError(f"{flag} {text}: write it as setting=value, e.g. {example}")
        found[path.strip()] = value.strip()
    return found
