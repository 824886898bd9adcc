"""Does a self-pretrained Transformer reach the state space models, and what do these gain?

Source: Amos et al. (2024), Table 2 and Figure 1; MEGA and SPADE are quoted there from scratch only.

Protocol: rotary Transformer, S4, MEGA and SPADE with equal width, depth and budget; from scratch with the
budget of finetuning, from scratch with the compute of pretraining and finetuning together, and
self-pretrained with the masked objective. On PathX-256 only S4 is trained.

Expected: over scratch, SPT gains 8 to 15 points with the Transformer and about one with S4; for MEGA and
SPADE no gain is published.

What differs: the paper's Transformer and S4 differ in size, and its MEGA, SPADE and S4 numbers from scratch
come from other pipelines. Pythia takes part at the paper's scale (extra hf): with random weights in all arms,
self-pretrained with the causal objective, and with the weights of the Pile if they are on this machine.
"""

from collections.abc import Iterator

from ..config import spec
from ..mixers.attention import Attention
from ..mixers.mega import Mega
from ..mixers.pythia import Pythia
from ..mixers.s4 import S4
from ..mixers.spade import Spade
from ..tasks.base import Task
from ..training.cost import COUNTED, Planner
from ..training.recipe import Recipe
from .common.table_study import (
    IMAGE,
    LISTOPS,
    LRA,
    PATHFINDER,
    PATHX,
    PATHX256,
    RETRIEVAL,
    TEXT,
    TableRow,
    TableStudy,
)
from .recipes.arms import SCRATCH, SPT, with_model

CORPUS = "pretrained on text"
PYTHIA_70M = Pythia(pretrained=True)
S4_ROW = TableRow("S4", S4(), "s4")
PYTHIA = TableRow(
    "Pythia, random weights",
    Pythia(),
    "pythia",
    objective="causal",
    change=lambda arms: with_model(arms, arms.scratch_model),
)
# Settings "pythia" start finetuning from the weights of the Pile, and scratch from random ones.
PRETRAINED = TableRow("Pythia, weights of the Pile", Pythia(), "pythia", objective="causal")


@spec
class StateOfTheArt(TableStudy):
    """Three arms per architecture."""

    paper = "amos2024"
    tasks = (TEXT, LISTOPS, RETRIEVAL, IMAGE, PATHFINDER, PATHX, PATHX256)
    small_tasks = (TEXT, PATHFINDER)
    averaged = LRA
    architectures = (
        TableRow("Transformer", Attention(), "transformer-rotary"),
        S4_ROW,
        TableRow("MEGA", Mega(), "like:transformer-rotary", small=Mega(keys=32)),
        TableRow("SPADE", Spade(), "like:transformer-rotary", small=Spade(size=16)),
    )
    table = "Table 2"
    paper_rows = {
        ("Transformer", SCRATCH): "Transformers + Rotary",
        ("Transformer", SPT): "Transformers + Rotary + Masked SPT",
        ("S4", SCRATCH): "S4",
        ("S4", SPT): "S4 + Masked SPT",
        ("MEGA", SCRATCH): "MEGA",
        ("SPADE", SCRATCH): "SPADE",
        ("Pythia, random weights", SCRATCH): "Pythia 70M (Rand Init)",
        ("Pythia, weights of the Pile", CORPUS): "Pythia 70M",
    }

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield S4 alone on PathX-256, else all; Pythia where it is installed and the paper ran it."""
        yield from (S4_ROW,) if label == PATHX256 else self.architectures
        short = label not in (PATHX, PATHX256)
        if self.scale == "paper" and short and Pythia().is_available:
            yield PYTHIA
            if PYTHIA_70M.is_available:
                yield PRETRAINED

    def recipes(self, label: str, task: Task, architecture: TableRow, planner: Planner) -> dict[str, Recipe]:
        """Return finetuning alone for weights pretrained on another corpus, else the three arms."""
        if architecture.name != PRETRAINED.name:
            return super().recipes(label, task, architecture, planner)
        arms = self.arms(label, task, architecture)
        return {CORPUS: Recipe(task, arms.model, (arms.finetune,))}

    def notes(self, planner: Planner = COUNTED) -> list[str]:
        """Return the notes, with one if the weights of Pythia are missing."""
        absent = self.scale == "paper" and not PYTHIA_70M.is_available
        advice = f"{PRETRAINED.row} is left out: run `hf download {PYTHIA_70M.checkpoint}` (extra hf)"
        return [*super().notes(planner), *([advice] if absent else [])]


study = StateOfTheArt
