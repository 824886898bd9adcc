"""Does a row of Long Range Arena hold at its true length, and how much pretraining does it need?

Source: Coser & Orvieto (2025), Table 2 (Image) and appendix B.

Protocol: 1,024 pixels one by one, and the network that is printed, a Transformer 64 wide with 3 blocks of 4
heads, with its learning rates and batches; self-pretraining on all 45,000 images for 1, 3 and 10 epochs, then
finetuning for 20 epochs on 10,000 labels, drawn anew for every seed; from scratch for as long as finetuning,
and with the compute of 3 and of 10 epochs of pretraining.

Expected: the paper reports 6 points for one epoch of pretraining and 21 for ten, with all labels and 100
epochs of finetuning.

What differs: images after JPEG, which are not CIFAR-10; fewer labels and shorter training; half precision and
compiled blocks; a warm-up is as printed, or a tenth of its stage where that is shorter. All of it takes a
quarter of an hour of a large GPU, or days of a CPU.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from ..config import spec
from ..mixers.attention import Attention
from ..tasks.base import Task
from ..tasks.image_jpeg import ImageJpeg
from ..training.cost import Planner
from ..training.recipe import Budget, Precision, Recipe, Stage
from .common.table_study import IMAGE, TableRow, TableStudy, keep_arms
from .recipes.arms import SCRATCH, ArmRecipes, matched_stage, scale_budget, with_mixer
from .recipes.reported import paper_arms

IMAGES = 45_000
"""Training images, all of which pretraining sees."""
LABELS = 10_000
"""Those of them whose label is used."""
FINETUNING = 20
"""Epochs of finetuning, over the labels."""
EPOCHS = (1, 3, 10)
"""Lengths of pretraining, over all images."""
MATCHED_TO = (3, 10)
"""Those whose compute training from scratch is given, too."""
EVALS = 10
"""Validations of a stage."""
WARMUP = 0.1
"""Largest share of a stage that its warm-up takes."""


@spec
class LongImages(TableStudy):
    """Six arms of one network."""

    contrasts = (
        ("SPT, 3 epochs", "scratch (matched to 3)"),
        ("SPT, 10 epochs", "scratch (matched to 10)"),
        *((column, SCRATCH) for column in ("SPT, 1 epoch", "SPT, 3 epochs", "SPT, 10 epochs")),
    )
    tasks = (IMAGE,)
    stand_ins: ClassVar[dict[str, Task]] = {IMAGE: ImageJpeg()}
    unprinted = "long-images: coser-table-2 has the training of the paper"

    precision: Precision = "bf16"

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield one row."""
        yield TableRow(
            "Transformer", Attention(), "", change=keep_arms if self.scale == "smoke" else _printed
        )

    def recipes(self, label: str, task: Task, architecture: TableRow, planner: Planner) -> dict[str, Recipe]:
        """Return scratch, SPT for every length of pretraining, and scratch matched to some of them."""
        arms = self.arms(label, task, architecture)
        found = {SCRATCH: Recipe(task, arms.scratch_model, (_warmed_up(arms.scratch),))}
        for epochs in EPOCHS:
            longer = replace(arms, pretrain=_warmed_up(scale_budget(arms.pretrain, float(epochs))))
            stages = (longer.pretrain, _warmed_up(arms.finetune))
            found[f"SPT, {epochs} epoch" + "s" * (epochs != 1)] = Recipe(task, arms.model, stages)
            if epochs in MATCHED_TO:
                scratch = matched_stage(task, longer, planner)
                found[f"scratch (matched to {epochs})"] = Recipe(task, arms.scratch_model, (scratch,))
        return found


def _printed(small: ArmRecipes) -> ArmRecipes:
    """Return the printed network and recipe, with one epoch of pretraining and some of finetuning.

    A further mixer takes the place of attention.
    """
    arms = paper_arms("coser", "image", "transformer").with_setting("stage.compile", "true")
    mixer = small.model.mixer
    arms = arms if mixer == Attention() else with_mixer(arms, mixer)
    pretrain = Budget(steps=IMAGES // arms.pretrain.batch)
    supervised = Budget(steps=FINETUNING * LABELS // arms.finetune.batch)
    finetune, scratch = (
        replace(stage, budget=supervised, fraction=LABELS / IMAGES, evals=EVALS)
        for stage in (arms.finetune, arms.scratch)
    )
    pretraining = replace(arms.pretrain, budget=pretrain, evals=1)
    return replace(arms, pretrain=pretraining, finetune=finetune, scratch=scratch)


def _warmed_up(stage: Stage) -> Stage:
    """Return the stage with a warm-up of at most a share of it."""
    longest = round(WARMUP * (stage.budget.steps or 0))
    steps = min(stage.optim.warmup_steps or longest, longest)
    return replace(stage, optim=replace(stage.optim, warmup_steps=steps))


study = LongImages
