"""Which rival of self-pretraining closes how much of the gap, for the same compute?

Source: our question.

Related: papers which say that something else does the job: augmentation and an auxiliary loss (arXiv
2501.14850), a start or a bias that prefers near positions (2305.09828, 2605.21070), any structured sequences
(2505.22308, 2601.21725), ensembles (2509.14786), convolutional networks (2411.02796).

Protocol: every arm of the shelf: scratch, scratch matched and self-pretraining; ten rivals, each of which
sees the same sequences and labels, is tested once, and spends the FLOPs of self-pretraining and finetuning
together. A Transformer and S4D, on pictures of curves, text, photographs and spoken digits. The share of the
gap that a rival closes is (rival - matched) / (SPT - matched), with Fieller's interval.

Expected: no rival closes the gap on curves; augmentation closes part of it; pretraining on generated
sequences closes most of it, if structure of any kind is what counts.

What differs: no paper puts these beside each other. Curves at the small scale have the settings of the
demonstration (``spt compare`` without a task), which are short on purpose and were chosen for
self-pretraining, in trials on validation with seeds that no report uses (docs/miniatures.md): matched
scratch is still at chance, and a rival that needs more steps looks worse than it is. Two rivals were
tuned on validation with 23 settings each, as many as SPT had at this width: labels and denoising at once got
twice the learning rate; of pretraining on generated sequences no setting left chance, nor of 13 of matched
scratch, so that their defaults were kept. The other rivals are untuned, as is everything on other tasks and
with S4D: learning rate, weight decay and batch are those of scratch, everything else is the default of the
arm; ``--tune`` gives every arm the same trials. Curves and
text are pretrained with the causal objective, the others with the masked one; on photographs and spoken
digits networks look both ways.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..config import spec
from ..mixers.attention import Attention
from ..mixers.s4d import S4D
from ..tasks.base import Task
from ..tasks.image_patches import ImagePatches
from ..tasks.spoken_digits import SpokenDigits
from ..training.cost import COUNTED, Planner
from ..training.recipe import Recipe
from .arms.base import Arm, contrasts_of, describe, recipes_by_column, resolve_arms
from .common.table_study import IMAGE, PATHFINDER, SPEECH, TEXT, TableRow, TableStudy
from .recipes.defaults import DEMO, DEMO_OBJECTIVE, with_settings

ARMS = resolve_arms(
    (
        *("scratch", "matched", "spt", "joint", "augmented", "spt-augmented", "pooling", "near", "mimetic"),
        *("ensemble", "elsewhere", "cnn", "probe"),
    )
)
"""Every arm of the shelf, in the order of the table."""


TUNED: dict[str, tuple[str, ...]] = {"scratch (matched), denoising at once": ("scratch.optim.lr=8e-3",)}
"""Arm of the Transformer on curves -> settings chosen on validation, among as many as SPT had."""


@spec
class Rivals(TableStudy):
    """Every arm of the shelf for each architecture."""

    contrasts = contrasts_of(ARMS)
    figure = "bars"
    tasks = (PATHFINDER, TEXT, IMAGE, SPEECH)
    # Digits, and speakers known from training, are near their ceiling.
    stand_ins = TableStudy.stand_ins | {
        IMAGE: ImagePatches(train=5_000),
        SPEECH: SpokenDigits(features="mfcc", split="speakers"),
    }
    small_objective = {PATHFINDER: DEMO_OBJECTIVE, TEXT: "causal"}
    kept_seeds = 5
    architectures = (
        TableRow("Transformer", Attention(), "transformer-rotary"),
        TableRow("S4D", S4D(), "like:transformer-rotary"),
    )

    def recipes(self, label: str, task: Task, architecture: TableRow, planner: Planner) -> dict[str, Recipe]:
        """Return the recipes of all arms that exist for the architecture on the task."""
        found: dict[str, Recipe] = {}
        for arm in ARMS:
            arms = self.arms(label, task, self._tuned(label, architecture, arm))
            found |= recipes_by_column(task, arms, planner=planner, chosen=(arm,))
        return found

    def _tuned(self, label: str, architecture: TableRow, arm: Arm) -> TableRow:
        """Return the row with the settings of an arm on curves at the small scale: see ``TUNED``."""
        if label != PATHFINDER or self.scale != "small":
            return architecture
        settings = DEMO + (TUNED.get(arm.column, ()) if architecture.row == "Transformer" else ())
        return replace(architecture, change=lambda arms: with_settings(arms, settings))

    def notes(self, planner: Planner = COUNTED) -> list[str]:
        """Return what every arm is, and why some have no cell."""
        absent = dict.fromkeys(self._refusals(planner))
        return [*super().notes(planner), *describe(ARMS), *absent]

    def _refusals(self, planner: Planner) -> Iterator[str]:
        for label, task in self.available_tasks(planner).items():
            for architecture in self.rows(label):
                arms = self.arms(label, task, architecture)
                for arm in ARMS:
                    if reason := arm.refusal(task, arms):
                        yield f"{arm.column}, no cell: {reason}"


study = Rivals
