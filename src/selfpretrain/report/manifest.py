"""The record of an experiment: what is planned, as the runner writes it into ``study.json``."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class TaskCard:
    """Where the data come from and how many examples there are."""

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
    overlap: dict[str, int] = field(default_factory=dict)  # equal sequences in two splits, by "split/split"


@dataclass(frozen=True)
class Metric:
    """What a score is and how to show it: ``score * factor`` with ``digits`` decimals."""

    name: str
    unit: str
    factor: float
    digits: int
    tie: float  # differences smaller than this are ties, in the unit of the stored score


@dataclass(frozen=True)
class PaperPlace:
    """Where a paper prints the number that a cell measures; the number itself is looked up when read."""

    table: str
    row: str
    column: str


@dataclass(frozen=True)
class CellRecord:
    """One row, column and seed."""

    row: str
    column: str
    seed: int
    stages: tuple[str, ...]  # their folders in order, relative to the folder of runs
    printed: PaperPlace | None = None
    fold: int = 0


@dataclass(frozen=True)
class TaskRecord:
    """The cells of an experiment that are of one task."""

    label: str  # what the paper calls the task, else its name
    task: TaskCard
    metric: Metric
    contrasts: tuple[tuple[str, str], ...]  # (treatment, control); the first is the headline
    cells: tuple[CellRecord, ...]
    baselines: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Series:
    """One curve that was measured."""

    label: str
    x: tuple[float | str, ...]  # numbers, or names
    y: tuple[float, ...]


@dataclass(frozen=True)
class Measure:
    """Curves that were measured on weights, e.g. how far attention looks in every block."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class ExperimentRecord:
    """What study.json says; it is written before training starts."""

    name: str
    title: str
    scale: str  # smoke, small or paper; empty where it is not known
    version: str
    created: str
    command: str
    tasks: tuple[TaskRecord, ...]
    about: dict[str, str] = field(default_factory=dict)  # title of a section -> Markdown, in order
    interpretation: str = ""  # what a person makes of the numbers
    figure: Literal["none", "bars", "lines"] = "none"
    paper: str = ""  # whose printed numbers the cells name
    measures: tuple[Measure, ...] = ()
    asked: int = 0  # stages that the cells ask for
    different: int = 0  # different ones among them
    first_seed: int = 0
    stamp: str = ""  # changes when the page would
