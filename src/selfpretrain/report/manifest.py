"""Schema of ``study.json``: the plan of an experiment, written by the runner before training starts."""

from dataclasses import dataclass, field
from typing import Literal

from .sequential import Looks


@dataclass(frozen=True)
class TaskCard:
    """Description of a task: origin of the data, size of the splits, kind of target."""

    name: str
    about: str
    source: str
    licence: str
    signal: str
    length: int
    target: str
    kind: str  # "classes", "reals", "sets" or "positions"
    train: int
    val: int
    test: int
    labelled: int  # training examples with a target
    chance: float | None = None
    overlap: dict[str, int] = field(default_factory=dict)  # identical sequences, by "split/split"


@dataclass(frozen=True)
class Metric:
    """Name and printed form of a score: ``score * factor`` with ``digits`` decimals."""

    name: str
    unit: str
    factor: float
    digits: int
    tie: float  # differences smaller than this are ties, in the unit of the stored score


@dataclass(frozen=True)
class PaperPlace:
    """Position in a paper of the number that a cell reproduces; its value is looked up when read."""

    table: str
    row: str
    column: str


@dataclass(frozen=True)
class CellRecord:
    """One cell of the plan: a row, a column and a seed."""

    row: str
    column: str
    seed: int
    stages: tuple[str, ...]  # stage folders in order, relative to the folder of runs
    printed: PaperPlace | None = None
    fold: int = 0


@dataclass(frozen=True)
class TaskRecord:
    """The part of an experiment on one task."""

    label: str  # the paper's name of the task, else its own
    task: TaskCard
    metric: Metric
    contrasts: tuple[tuple[str, str], ...]  # (treatment, control); the first is the headline
    cells: tuple[CellRecord, ...]
    baselines: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Series:
    """One measured curve."""

    label: str
    x: tuple[float | str, ...]  # numbers or categories
    y: tuple[float, ...]


@dataclass(frozen=True)
class Measure:
    """Curves measured on trained weights, e.g. the attention distance of every block."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class ExperimentRecord:
    """Content of study.json."""

    name: str
    title: str
    scale: str  # smoke, small or paper; "" if unknown
    version: str
    created: str
    command: str
    tasks: tuple[TaskRecord, ...]
    about: dict[str, str] = field(default_factory=dict)  # section title -> Markdown, in order
    interpretation: str = ""  # written by hand after reading the numbers
    figure: Literal["none", "bars", "lines"] = "none"
    paper: str = ""  # paper whose numbers the cells reproduce
    measures: tuple[Measure, ...] = ()
    asked: int = 0  # number of stages of all cells
    different: int = 0  # number of distinct stages
    first_seed: int = 0
    stamp: str = ""  # digest that changes whenever the page would
    looks: Looks | None = None  # numbers of seeds at which the verdict was looked at; None: once, at the end
