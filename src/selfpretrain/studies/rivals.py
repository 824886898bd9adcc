"""Which rival of self-pretraining closes how much of the gap, for the same compute?

Source: our question.

Related: papers which say that something else does the job: augmentation and an auxiliary loss (arXiv
2501.14850), a start or a bias that prefers near positions (2305.09828, 2605.21070), any structured sequences
(2505.22308, 2601.21725), ensembles (2509.14786), convolutional networks (2411.02796), the optimizer Muon
(2605.10468, 2606.09658), regularisation (2509.14786), masked inputs (2510.04071), the autocorrelation of the
inputs (2411.19455), a start of Mamba that mimics attention (2410.11135).

Protocol: scratch, scratch matched and self-pretraining; every other arm of the shelf as a rival, which
sees the same sequences and labels (``elsewhere`` pretrains on generated sequences), is tested once, and
spends the FLOPs of self-pretraining and finetuning together. A Transformer and S4D, on pictures of curves,
text, photographs, spoken digits and a set of the UCR archive; on curves Mamba and its mimetic start as well.
The share of the gap that a rival closes is (rival - matched) / (SPT - matched), with Fieller's interval.

Expected: no rival closes the gap on curves; augmentation closes part of it; pretraining on generated
sequences closes most of it, if structure of any kind is what counts. Another optimizer closes it, if scratch
fails only at optimisation, as Coser & Orvieto ask.

What differs: no paper puts these side by side. On curves at the small scale both architectures have the
settings of the demonstration (``selfpretrain compare`` without a task), which are short on purpose and were
chosen for self-pretraining, in trials on validation with seeds that no report uses (docs/log.md); the
Transformer has a second row, trained longer with those that the task brings along. Trained briefly, matched
scratch is at chance, and would make a rival that needs more steps look worse than it is. So in the brief row
of the Transformer every arm has the best of 23 settings on validation, as many as SPT had at this width. In
the longer row only the arm ``pooling`` was tuned: the maximum, with one of three learning rates. On text a
rival of the Transformer has the best of three learning rates on validation, S4D and spoken digits of two: as
many as SPT had settings there. On photographs and with S4D elsewhere no rival was tuned, but for its start
from the autocorrelation on curves (23 settings): learning rate, weight decay and batch are those of scratch,
everything else is the default of the arm; ``--tune`` gives every arm the same trials. Arms that came later
(Muon, regularisation, masked inputs, autocorrelation) are left out on photographs. On FordA, of the sets of
the study s4d-or-mamba the one with most training series, these arms alone are measured, beside the two rivals
that come near elsewhere (denoising at once, maximum pooling): 300 steps a stage, and for every arm the better
of two learning rates on validation. Mamba on curves has the settings of the study modern-zoo; of five
learning rates on validation its usual one is the best for every arm. Curves and text are pretrained with the
causal objective, the others with the masked one; there networks look both ways.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..config import spec, with_setting
from ..mixers.attention import Attention
from ..mixers.mamba import Mamba
from ..mixers.s4d import S4D
from ..registry import name_of
from ..tasks.base import Task
from ..tasks.image_patches import ImagePatches
from ..tasks.spoken_digits import SpokenDigits
from ..tasks.ucr import Ucr
from ..training.cost import COUNTED, Planner
from ..training.recipe import Recipe
from .arms.base import Arm, contrasts_of, describe, recipes_by_column, resolve_arms
from .common.table_study import IMAGE, PATHFINDER, SPEECH, TEXT, TableRow, TableStudy
from .recipes.defaults import DEMO, DEMO_OBJECTIVE
from .recipes.tables import read_table

SERIES = "FordA"
"""Of the sets of the study s4d-or-mamba the one with most training series."""
FURTHER = (
    *("muon", "spt-muon", "spt-muon-before", "spt-muon-after", "regularised", "masked-inputs"),
    "autocorrelation",
)
"""Arms that came later (experiments/rivals.py), left out on photographs at the small scale."""
ON_SERIES = {"scratch", "matched", "spt", "joint", "pooling", *FURTHER}
OF_MAMBA = {"scratch", "matched", "spt", "mimetic"}
ARMS = resolve_arms(
    (
        *("scratch", "matched", "spt", "joint", "augmented", "spt-augmented", "pooling", "near", "mimetic"),
        *("ensemble", "elsewhere", "cnn", "probe", *FURTHER),
    )
)
"""Every arm of the shelf, in the order of the table."""
OF_ARM = "arm."
"""Prefix of settings of an arm itself."""
TRANSFORMER = TableRow("Transformer", Attention(), "transformer-rotary")
LONGER = TableRow("Transformer, longer", Attention(), "transformer-rotary", ours=True)
"""The Transformer on curves with the settings of the task instead of the short ones of the demonstration."""
STATE_SPACE = TableRow("S4D", S4D(), "like:transformer-rotary")
AS_IN_ZOO = (
    *("model.width=52", "pretrain.budget.steps=1000"),
    *("finetune.budget.steps=600", "scratch.budget.steps=600"),
)
SELECTIVE = TableRow("Mamba", Mamba(), "", settings=AS_IN_ZOO, ours=True)
"""Mamba on curves with the settings of the study modern-zoo."""
BASE = {
    **{(PATHFINDER, each.row): DEMO for each in (TRANSFORMER, STATE_SPACE)},
    **{(SERIES, each.row): ("stage.budget.steps=300",) for each in (TRANSFORMER, STATE_SPACE)},
}
"""Task and row -> settings of all arms in place of those of the task, at the small scale."""
TUNED: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
"""Task and row -> arm -> its best settings on validation, from ``tables/rivals.tsv``."""
for line in read_table("rivals"):
    TUNED.setdefault((line["task"], line["row"]), {})[line["arm"]] = tuple(line["settings"].split())


@spec
class Rivals(TableStudy):
    """Every arm of the shelf for each architecture."""

    tasks = (PATHFINDER, TEXT, IMAGE, SPEECH)
    small_tasks = (*tasks, SERIES)
    # Digits, and speakers known from training, are near their ceiling.
    stand_ins = TableStudy.stand_ins | {
        IMAGE: ImagePatches(train=5_000),
        SPEECH: SpokenDigits(features="mfcc", split="speakers"),
        SERIES: Ucr(set=SERIES),
    }
    small_objective = {PATHFINDER: DEMO_OBJECTIVE, TEXT: "causal"}
    bundled_seeds = 5
    architectures = (TRANSFORMER, STATE_SPACE)

    def arms_on(self, label: str, row: str = TRANSFORMER.row) -> tuple[Arm, ...]:
        """Return the arms that are measured on a task at this scale."""
        kept = {name_of(arm) for arm in ARMS}
        if row == SELECTIVE.row:
            kept = OF_MAMBA
        elif label == SERIES:
            kept = ON_SERIES
        elif label == IMAGE and self.scale == "small":
            kept -= {*FURTHER}
        return tuple(arm for arm in ARMS if name_of(arm) in kept)

    def chosen_contrasts(self) -> tuple[tuple[str, str], ...]:
        """Return every rival with matched scratch and with self-pretraining."""
        return contrasts_of(ARMS)

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield the architectures, and on curves the Transformer with longer training and Mamba."""
        further = (LONGER, SELECTIVE) if label == PATHFINDER and self.scale == "small" else ()
        transformer, *others = super().rows(label)
        for each in (transformer, *further[:1], *others, *further[1:]):
            base = BASE.get((label, each.row)) if self.scale == "small" else None
            yield replace(each, settings=base) if base else each

    def recipes(self, label: str, task: Task, architecture: TableRow, planner: Planner) -> dict[str, Recipe]:
        """Return the recipes of all arms that exist for the architecture on the task."""
        found: dict[str, Recipe] = {}
        for arm in self.arms_on(label, architecture.row):
            chosen, row = self._tuned(label, architecture, arm)
            arms = self.arms(label, task, row)
            found |= recipes_by_column(task, arms, planner=planner, chosen=(chosen,))
        return found

    def _tuned(self, label: str, architecture: TableRow, arm: Arm) -> tuple[Arm, TableRow]:
        """Return an arm and a row with the settings of the small scale: see ``TUNED``."""
        if self.scale != "small":
            return arm, architecture
        tuned = TUNED.get((label, architecture.row), {}).get(name_of(arm), ())
        stages = [*architecture.settings]
        stages += (setting for setting in tuned if not setting.startswith(OF_ARM))
        for setting in tuned:
            if setting.startswith(OF_ARM):
                path, text = setting.removeprefix(OF_ARM).split("=", 1)
                arm = with_setting(arm, path, text)
        return arm, replace(architecture, settings=tuple(stages))

    def notes(self, planner: Planner = COUNTED) -> list[str]:
        """Return what every arm is, and why some have no cell."""
        absent: dict[str, None] = {}  # an ordered set
        for label, task in self.available_tasks(planner).items():
            for architecture in self.rows(label):
                arms = self.arms(label, task, architecture)
                for arm in self.arms_on(label, architecture.row):
                    if reason := arm.refusal(task, arms):
                        absent[f"{arm.column}, no cell: {reason}"] = None
        return [*super().notes(planner), *describe(ARMS), *absent]


study = Rivals
