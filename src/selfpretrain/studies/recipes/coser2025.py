"""Recipes of Coser & Orvieto (2025), appendix B: Transformers with masked self-pretraining."""

from dataclasses import dataclass, replace
from typing import Literal

from ...mixers.attention import Attention
from ...training.model import Model
from .amos2024_code import style
from .arms import ArmRecipes
from .printed import (
    CODE,
    OURS,
    PaperRecipe,
    RecipeKey,
    StageHParams,
    Table,
    denoise,
    same_source,
    stage,
    stage_sources,
    supervise,
)

CITED = "Coser & Orvieto (2025)"
PRETRAIN_EPOCHS = 200
FINETUNE_EPOCHS = 100


@dataclass(frozen=True)
class _Row:
    """A paragraph of appendix B; in pairs, the first value is for finetuning, the second for pretraining."""

    width: int
    depth: int
    heads: int
    hidden: int
    pooling: Literal["mean", "max"]
    lr: tuple[float, float]
    batch: tuple[int, int]
    weight_decay: float
    warmup: tuple[int, int]  # steps, in the published code of Amos et al. (2024)
    ours: tuple[str, ...] = ("model.pooling",)
    remark: str = ""


DECAY = ("finetune.optim.weight_decay", "pretrain.optim.weight_decay")
ROWS = {
    "listops": _Row(512, 6, 8, 1024, "mean", (1e-4, 1e-3), (64, 128), 0.1, (2000, 2000)),
    "text": _Row(
        512, 6, 8, 1024, "mean", (1e-4, 5e-4), (64, 32), 0.1, (2000, 5000),
        ("model.pooling", "model.expand", *DECAY),
        remark='mlp and weight decay are those of ListOps, to which it "remains similar"',
    ),
    "retrieval": _Row(128, 4, 4, 512, "mean", (5e-4, 5e-3), (16, 32), 0.0, (5000, 2000)),
    "image": _Row(
        64, 3, 4, 128, "max", (1e-3, 1e-3), (16, 32), 0.0, (2000, 2500), ("pretrain.objective.distance",),
        remark="the paper says L2 loss, the code that it uses has L1",
    ),
    "pathfinder": _Row(
        128, 4, 4, 512, "mean", (5e-4, 1e-3), (16, 32), 0.0, (5000, 2500), ("model.pooling", *DECAY),
        remark="weight decay is that of Retrieval; Amos et al. have 8 heads and an mlp of 128",
    ),
}  # fmt: skip
POSITIONS = "the text says rotary positions, the sizes are those of Amos et al. with sinusoidal ones"


def table() -> Table:
    """Return a recipe for every paragraph."""
    return {RecipeKey("coser", task, "transformer", "masked"): _paper_recipe(task) for task in ROWS}


def _paper_recipe(task: str) -> PaperRecipe:
    row = ROWS[task]
    source = f"{CITED}, appendix B"
    expand = row.hidden // row.width
    model = Model(Attention(row.heads), row.width, row.depth, expand, positions="rotary", init="torch")
    model = replace(model, pooling=row.pooling)
    finetune = StageHParams(row.lr[0], row.batch[0], row.weight_decay, FINETUNE_EPOCHS, warmup=row.warmup[0])
    pretrain = StageHParams(
        row.lr[1], row.batch[1], row.weight_decay, PRETRAIN_EPOCHS, "cosine", warmup=row.warmup[1]
    )
    objective = supervise(task, style(task, "transformer"))
    supervised = stage(task, objective, finetune)
    arms = ArmRecipes(model, stage(task, denoise(task, "masked"), pretrain), supervised, model, supervised)
    sources = (
        *same_source("model", source, "width", "depth", "expand", "pooling", "mixer.is", "mixer.heads"),
        *same_source("model", f"{CITED}, section 2", "positions", "causal"),
        *same_source("model", CODE, "norm", "placement", "activation", "gated", "dropout", "init"),
        ("pretrain.objective.rate", f"{CITED}, section 2, footnote 2"),
        ("pretrain.objective.distance", source),
        *stage_sources("pretrain", source, source, f"{CITED}, section 2"),
        ("pretrain.optim.schedule", f"{CITED}, Table 2, caption"),
        *stage_sources("finetune", source, source, f"{CITED}, section 2"),
        ("scratch", f"{OURS}: as finetuning"),
        ("scratch.budget", f"{CITED}, section 2"),
        *((path, OURS) for path in row.ours),
    )
    remarks = (POSITIONS, row.remark) if row.remark else (POSITIONS,)
    return PaperRecipe(RecipeKey("coser", task, "transformer", "masked"), arms, sources, remarks)
