"""Are modern recurrent architectures worse than attention, or were they only trained from scratch?

Source: our question, after the one most asked about Mamba on Long Range Arena (state-spaces/mamba, issue
282). Its author answers with Amos et al. (2024). No table that we know has these architectures
self-pretrained.

Protocol: modern recurrences and convolutions beside a Transformer, S4, and two that were in front on Long
Range Arena, MEGA in print and sparse attention in our own zoo. All look back only, as most of them were
published, and have the width at which their parameters come nearest to those of the Transformer; from
scratch, from scratch with the compute of pretraining and finetuning together, and self-pretrained with the
causal objective.

Expected: the order from scratch says little of the order after self-pretraining.

What differs: one width, depth and learning rate for all, chosen with other architectures in mind: what suits
an architecture badly may lose for that reason alone. At the small scale pictures of paths, text, and
associative recall of four pairs; networks of about 72,000 parameters. Steps of pretraining and finetuning,
fewer than in other studies, were chosen on validation for the Transformer: 1,000 and 600 on paths, 1,250 and
400 on text, 600 and 300 on recall (docs/miniatures.md). Layers out of the library transformers need the
extra ``hf``, and are left out without it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec

from ..config import spec
from ..mixers.attention import Attention
from ..mixers.base import Mixer
from ..mixers.common.transformers_layer import LIBRARY, TransformersMixer
from ..mixers.deltanet import DeltaNet
from ..mixers.gated_deltanet import GatedDeltaNet
from ..mixers.gated_deltanet_negative import NegativeDeltaNet
from ..mixers.gla import GLA
from ..mixers.hyena import Hyena
from ..mixers.kimi_delta import KimiDelta
from ..mixers.lightning import Lightning
from ..mixers.linoss import LinOSS
from ..mixers.lru import LRU
from ..mixers.mamba import Mamba
from ..mixers.mamba2 import Mamba2
from ..mixers.mega import Mega
from ..mixers.mlstm import MLSTM
from ..mixers.retnet import RetNet
from ..mixers.rg_lru import RGLRU
from ..mixers.rwkv4 import RWKV4
from ..mixers.rwkv7 import RWKV7
from ..mixers.s4 import S4
from ..mixers.s5 import S5
from ..mixers.short_conv import ShortConv
from ..mixers.slstm import SLSTM
from ..mixers.sparse import Sparse
from ..runner.experiment import Cell, Finished
from ..system.files import Json
from ..tasks.recall import Recall
from ..training.cost import COUNTED, Planner
from ..training.recipe import Recipe, build_network
from .common.table_study import (
    PATHFINDER,
    STAND_INS,
    TEXT,
    Points,
    TableRow,
    TableStudy,
    append_point,
    mean_score,
    panel,
)
from .recipes.arms import MATCHED, SCRATCH, SPT, ArmRecipes, with_model
from .recipes.defaults import with_settings

USUAL_WIDTH = 64
RECALL = "Associative recall"
STEPS = {PATHFINDER: (1_000, 600), TEXT: (1_250, 400), RECALL: (600, 300)}
"""Task -> steps of pretraining and finetuning at the small scale."""


@dataclass(frozen=True)
class Architecture:
    """A mixer, the width at which it has the parameters of attention of width 64, and its state."""

    mixer: Mixer
    width: int
    state: Callable[[int], int] | None = None  # width -> numbers kept from one position to the next
    small: Mixer | None = None  # mixer at the small scales


ZOO: dict[str, Architecture] = {
    "Transformer": Architecture(Attention(), 64),
    "Sparse Trans.": Architecture(Sparse(), 64, small=Sparse(size=4, summary=1)),
    "MEGA": Architecture(Mega(), 48, small=Mega(keys=32)),
    "S4": Architecture(S4(), 56, lambda D: 64 * D),
    "S5": Architecture(S5(), 68, lambda D: 64),
    "LRU": Architecture(LRU(), 56, lambda D: 128),
    "LinOSS": Architecture(LinOSS(), 56, lambda D: 128),
    "Mamba": Architecture(Mamba(), 52, lambda D: 32 * D),
    "Mamba-2": Architecture(Mamba2(), 52, lambda D: 128 * D),
    "GLA": Architecture(GLA(), 64, lambda D: D**2 // 4),
    "RetNet": Architecture(RetNet(), 56, lambda D: D**2 // 2),
    "Lightning": Architecture(Lightning(), 64, lambda D: D**2 // 4),
    "DeltaNet": Architecture(DeltaNet(), 64, lambda D: D**2 // 4),
    "Gated DeltaNet": Architecture(GatedDeltaNet(), 60, lambda D: D**2 // 4),
    "Gated DeltaNet, negative": Architecture(NegativeDeltaNet(), 60, lambda D: D**2 // 4),
    "Kimi Delta": Architecture(KimiDelta(), 60, lambda D: D**2 // 4),
    "RWKV-4": Architecture(RWKV4(), 64, lambda D: 3 * D),
    "RWKV-7": Architecture(RWKV7(), 52, lambda D: D**2 // 4),
    "RG-LRU": Architecture(RGLRU(), 64, lambda D: D),
    "mLSTM": Architecture(MLSTM(), 64, lambda D: D**2 // 8 + D // 2),
    "sLSTM": Architecture(SLSTM(), 72, lambda D: 4 * D),
    "Short convolution": Architecture(ShortConv(), 64, lambda D: 0),
    "Hyena": Architecture(Hyena(), 48),
}
"""Row -> architecture. Without a state of constant size: attention, and convolutions as long as sequences."""


@spec
class ModernZoo(TableStudy):
    """Three arms per architecture."""

    contrasts = ((SPT, MATCHED), (SPT, SCRATCH), (MATCHED, SCRATCH))
    figure = "bars"
    tasks = (PATHFINDER, TEXT)
    small_tasks = (PATHFINDER, TEXT, RECALL)
    stand_ins = STAND_INS | {RECALL: Recall(pairs=4, keys=8, values=8)}
    objective = "causal"
    small_objective = {PATHFINDER: "causal", TEXT: "causal", RECALL: "causal"}
    columns = (SCRATCH, MATCHED, SPT)

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield the architectures that can be built here; at smoke scale, each on one task only."""
        settings = small_budgets(*STEPS[label]) if self.scale == "small" else ()
        rows = list(ZOO.items())
        if self.scale == "smoke":
            rows = rows[self.small_tasks.index(label) :: len(self.small_tasks)]
        for name, each in rows:
            if is_installed(each.mixer):
                change = partial(self._resize, architecture=each, settings=settings)
                yield TableRow(name, each.mixer, "like:transformer-dagger", small=each.small, change=change)

    def notes(self, planner: Planner = COUNTED) -> list[str]:
        """Return size and state of every architecture, and which are left out."""
        absent = [name for name, each in ZOO.items() if not is_installed(each.mixer)]
        advice = "left out: without transformers they cannot be built (pip install 'selfpretrain[hf]')"
        return [
            *super().notes(planner),
            *self._sizes(planner),
            *([f"{', '.join(absent)}: {advice}"] if absent else []),
        ]

    def measures(self, finished: Finished) -> list[Json]:
        """Return plots of accuracy by size of the state, one per task with a curve per arm."""
        plots = []
        for label, task in self.available_tasks().items():
            sized = [(size, cell) for cell in self.task_cells(label, task) if (size := state_size(cell))]
            curves: dict[str, Points] = {}
            for size, cell in sorted(sized, key=lambda pair: pair[0]):
                append_point(curves, cell.column, size, mean_score(finished, cell.recipe, self.seeds))
            plots.append(panel(f"{label}: accuracy over state", "numbers in a layer's state", "%", curves))
        return plots

    def _resize(self, arms: ArmRecipes, architecture: Architecture, settings: tuple[str, ...]) -> ArmRecipes:
        """Return the arms with the width of an architecture, relative to that of the Transformer."""
        if self.scale == "smoke":
            return arms
        width = architecture.width
        if self.scale == "paper":
            width = 16 * round(arms.model.width * width / USUAL_WIDTH / 16)
        return with_settings(with_model(arms, replace(arms.model, width=width)), settings)

    def _sizes(self, planner: Planner) -> Iterator[str]:
        """Yield width, parameters on the first task, and state of every architecture."""
        label, task = next(iter(self.available_tasks(planner).items()))
        for row in self.rows(label):
            arms = self.arms(label, task, row)
            network = build_network(Recipe(task, arms.scratch_model, (arms.scratch,)))
            parameters = sum(parameter.numel() for parameter in network.parameters())
            state = ZOO[row.name].state
            kept = (
                "a state that grows" if state is None else f"a state of {state(arms.model.width):,} numbers"
            )
            yield f"{row.name}: width {arms.model.width}, {parameters:,} parameters, {kept} per layer"


def small_budgets(pretraining: int, finetuning: int) -> tuple[str, ...]:
    """Return the settings of as many steps; scratch has those of finetuning."""
    steps = {"pretrain": pretraining, "finetune": finetuning, "scratch": finetuning}
    return tuple(f"{stage}.budget.steps={number}" for stage, number in steps.items())


def is_installed(mixer: Mixer) -> bool:
    """Return whether the library that a mixer takes its layer from can be imported, if it needs one."""
    return not isinstance(mixer, TransformersMixer) or find_spec(LIBRARY) is not None


def state_size(cell: Cell) -> int:
    """Return the numbers in the state of a layer; 0 for further rows, and if it grows with the sequence."""
    state = ZOO[cell.row].state if cell.row in ZOO else None
    return state(cell.recipe.model.width) if state else 0


study = ModernZoo
