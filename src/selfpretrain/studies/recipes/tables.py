"""Reader of the papers' hyperparameters: tab-separated tables in ``studies/tables/``, turned into recipes.

A row is about the recipes that its columns ``recipes`` (``paper/family``), ``task`` and ``objective`` select:
each holds names or patterns such as ``amos/s4*``, separated by spaces; an empty cell selects all. Further
columns are fields of ``ArmRecipes`` by their path, such as ``finetune.optim.lr``; ``settings`` has more of
them as ``path=value``. ``source`` says where the values stand in the paper, ``note`` how we read them or what
is different here.

Rows are applied in the order of ``TABLES``, and later ones win. A row without patterns makes the recipes that
it names. Beside fields, a row can have ``model.hidden`` (width of the MLP), ``patience`` of a plateau,
``stage.*`` for all three stages, ``scratch=finetune`` for a stage like another one, and a path alone, whose
value stays as it is and which only gets a source.
"""

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ...config import amended, read_value, spec
from ...mixers.base import Mixer
from ...objectives.base import Objective
from ...objectives.causal import Causal
from ...objectives.classify import Classify
from ...objectives.masked import Masked
from ...objectives.regress import Regress
from ...registry import find
from ...training.model import Model
from ...training.optim import Optim
from ...training.recipe import Budget, Stage
from .arms import STAGES, ArmRecipes

FOLDER = Path(__file__).parents[1] / "tables"
TABLES = (
    "amos2024_text",
    "amos2024_code",
    "amos2024_code_models",
    "amos2024_code_schedules",
    "amos2024_code_scratch",
    "amos2024_table_4",
    "amos2024_table_5",
    "amos2024_table_6",
    "amos2024_appendix_c1",
    "coser2025_appendix_b",
    "coser2025_text",
    "gu2022_table_11",
    "gu2022_appendix_d2",
    "our_readings",
)
"""Tables in the order in which their rows are applied."""
SELECTORS = ("recipes", "task", "objective")
NOT_FIELDS = (*SELECTORS, "settings", "source", "note")
PAPER_OPTIM: dict[str, Any] = {"schedule": "constant", "warmup": 0.0, "warmup_steps": 0, "clip": 0.0}
"""What holds unless a table says otherwise: papers count warm-up in steps, and clip no gradients."""
OURS = "our choice"
CODE = "published code"
DEFAULT = "default of this package"

Denoising = Literal["masked", "causal"]


class RecipeKey(NamedTuple):
    """Name of a paper's recipe."""

    paper: str
    task: str
    family: str
    objective: str  # masked or causal


@spec
class TaskConstants:
    """Constants of a task that are the same in all papers: a row of ``tasks.tsv``."""

    task: str  # name in a ``RecipeKey``
    name: str  # in the papers' tables
    examples: int  # training examples in our split
    rate: float  # masking rate: share of positions masked in pretraining
    loss: Literal["CE", "L1"]  # of the denoising objective
    evals: int  # validations per epoch of denoising, in the published code
    source: str


@dataclass(frozen=True)
class PaperRecipe:
    """A paper's recipe as arms that can be run."""

    key: RecipeKey
    arms: ArmRecipes
    sources: Mapping[str, str]  # path of a field of the arms, or the start of one -> where its value stands
    remarks: tuple[str, ...] = ()  # interpretation of the paper, and differences from it

    def source(self, path: str) -> str:
        """Return the source of a field of the arms, e.g. ``source("finetune.optim.lr")``."""
        part = path
        while part and part not in self.sources:
            part = part.rpartition(".")[0]
        if not part and path.startswith("scratch_model"):
            return self.source(path.removeprefix("scratch_"))
        return self.sources.get(part, DEFAULT)


@functools.cache
def read_table(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of a table in ``studies/tables/`` as text by column."""
    with (FOLDER / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def read_mixer(name: str, settings: str = "") -> Mixer:
    """Return a mixer by its name in the registry, with settings such as ``size=4 summary=1``."""
    mixer: Mixer = amended(find("mixers", name)(), dict(each.split("=") for each in settings.split()))
    return mixer


@functools.cache
def task_constants() -> dict[str, TaskConstants]:
    """Return the constants of every task of the papers by name."""
    return {row["task"]: TaskConstants(**row) for row in read_table("tasks")}  # type: ignore[arg-type]


@functools.cache
def read_recipes(paper: str) -> dict[RecipeKey, PaperRecipe]:
    """Return all recipes of a paper, in the order of its tables."""
    rows = [row for name in TABLES for row in read_table(name)]
    keys: dict[RecipeKey, None] = {}  # an ordered set
    for row in rows:
        names = [row[column].split() for column in SELECTORS]
        if not any("*" in name for column in names for name in column):  # patterns name no recipe
            for recipe, task, objective in product(*names):
                of_paper, _, family = recipe.partition("/")
                if of_paper == paper:
                    keys[RecipeKey(paper, task, family, objective)] = None
    return {key: _read_recipe(key, [row for row in rows if _selects(row, key)]) for key in keys}


def _selects(row: dict[str, str], key: RecipeKey) -> bool:
    names = (f"{key.paper}/{key.family}", key.task, key.objective)
    patterns = (row[column].split() or ["*"] for column in SELECTORS)
    return all(any(fnmatch(name, each) for each in some) for name, some in zip(names, patterns, strict=True))


@dataclass
class _Draft:
    """Values and sources of a recipe's fields by path, while rows are applied."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def apply(self, row: dict[str, str]) -> None:
        """Set the fields that a row gives; a path without a value keeps its value, and gets a source."""
        columns = {path: text for path, text in row.items() if path not in NOT_FIELDS and text}
        settings = (setting.partition("=")[::2] for setting in row.get("settings", "").split())
        for path, text in (*columns.items(), *settings):
            word, _, rest = path.partition(".")
            for each in [f"{stage}.{rest}" for stage in STAGES] if word == "stage" else [path]:
                self._set(each, text, row["source"])

    def below(self, path: str) -> dict[str, Any]:
        """Return the values of the fields directly below a path."""
        split = {name.rpartition("."): value for name, value in self.values.items()}
        return {name: value for (parent, _, name), value in split.items() if parent == path}

    def _set(self, path: str, text: str, source: str) -> None:
        parent, _, name = path.rpartition(".")
        if text in STAGES:
            self._copy(text, path, source)
        elif name == "hidden":  # papers report the width of the MLP
            path = f"{parent}.expand"
            self.values[path] = int(text) // self.values["model.width"]
        elif name == "patience":  # ReduceLROnPlateau lowers the rate in the first epoch beyond its patience
            path = f"{parent}.plateau_wait_epochs"
            self.values[path] = int(text) + 1
        elif text:
            # Another mixer or unit of the budget has no use for the rest.
            if name in ("is", "epochs", "steps"):
                self._drop(parent)
            self.values[path] = read_value(text)
            path = parent if parent.endswith("budget") else path
        if source:
            self.sources[path] = source

    def _copy(self, origin: str, stage: str, source: str) -> None:
        """Let a stage be like another one; without a source for this, those of its fields are copied, too."""
        self._drop(stage)
        for paths in (self.values,) if source else (self.values, self.sources):
            for path, value in list(paths.items()):
                start, _, rest = path.partition(".")
                if start == origin and not (stage == "pretrain" and rest.startswith("objective")):
                    paths[f"{stage}.{rest}"] = value

    def _drop(self, start: str) -> None:
        for paths in (self.values, self.sources):
            for path in [path for path in paths if path.startswith(f"{start}.")]:
                del paths[path]


def _read_recipe(key: RecipeKey, rows: list[dict[str, str]]) -> PaperRecipe:
    draft = _Draft()
    for row in rows:
        draft.apply(row)
    fields = {"causal": key.objective == "causal"} | draft.below("model")
    model = Model(_mixer(draft.below("model.mixer")), **fields)
    scratch_mixer = draft.below("scratch_model.mixer")
    scratch_model = Model(_mixer(scratch_mixer), **fields) if scratch_mixer else model
    pretrain, finetune, scratch = (_stage(key, name, draft) for name in STAGES)
    arms = ArmRecipes(model, pretrain, finetune, scratch_model, scratch)
    return PaperRecipe(key, arms, draft.sources, tuple(row["note"] for row in rows if row.get("note")))


def _mixer(fields: dict[str, Any]) -> Mixer:
    mixer: Mixer = find("mixers", fields.pop("is"))(**fields)
    return mixer


def _stage(key: RecipeKey, name: str, draft: _Draft) -> Stage:
    """Return a stage validated once per epoch; denoising by accuracy or R2, and on images twice per epoch."""
    constants = task_constants()[key.task]
    fields = draft.below(name)
    objective: Objective
    if name == "pretrain":
        distance: Literal["l1", "levels"] = "l1" if constants.loss == "L1" else "levels"
        objective = Causal(distance) if key.objective == "causal" else Masked(constants.rate, distance)
        fields["criterion"] = "accuracy" if constants.loss == "CE" else "r2"
    else:
        kind = Regress if key.task.startswith("bidmc") else Classify
        objective = kind(**draft.below(f"{name}.objective"))
    optim = Optim(**PAPER_OPTIM | draft.below(f"{name}.optim"))
    budget = Budget(**draft.below(f"{name}.budget"))
    epochs = budget.epochs or (budget.steps or 0) * fields["batch"] / constants.examples
    evals = int(epochs * (constants.evals if name == "pretrain" else 1))
    return Stage(objective, budget, optim, evals=evals, **fields)
