"""Recipes of Gu et al. (2022), from scratch: S4 of Table 11, later "S4 (updated)", and the speech baselines.

Table 11 is for "S4 (original)". The changes for "S4 (updated)" are in the paper's appendix D.5, which we
could not read; the code published with Amos et al. (2024) has networks and settings of that time.
The paper does not pretrain: pretraining is our choice, and finetuning equals training from scratch.

The baselines on Speech Commands are those of appendix D.2. Of each hyperparameter sweep we take the first
value in the paper's order; a remark of the recipe names the others.
"""

from dataclasses import dataclass, replace
from typing import Literal

from ...mixers.attention import Attention
from ...mixers.base import Mixer
from ...mixers.exprnn import ExpRNN
from ...mixers.lipschitz import Lipschitz
from ...mixers.performer import Performer
from ...mixers.s4 import S4
from ...mixers.wavegan import WaveGAN
from ...registry import name_of
from ...training.model import Model
from .amos2024_code import S4_MODELS, s4_from_scratch
from .arms import ArmRecipes
from .printed import (
    CODE,
    OURS,
    Denoising,
    PaperRecipe,
    RecipeKey,
    Sources,
    StageHParams,
    Table,
    cosine_sources,
    denoise,
    same_source,
    stage,
    stage_sources,
    supervise,
)

CITED = "Gu et al. (2022)"
SOURCE = "Gu et al. (2022), appendix D.2"
LAYERS = "layers {2, 4}, dropout {0, 0.1} and learning rates {0.001, 0.0005} were swept"
RECURRENT = "hidden sizes {256, 512} and learning rates {0.001, 0.002, 0.0005} were swept"


@dataclass(frozen=True)
class _Row:
    """A row of Table 11, with its columns in order."""

    label: str
    depth: int
    width: int
    norm: Literal["batch", "layer"]
    prenorm: bool
    dropout: float
    lr: float
    batch: int
    epochs: int
    weight_decay: float
    patience: int

    @property
    def training(self) -> StageHParams:
        """Hyperparameters of the row; the learning rate is reduced on plateaus."""
        return StageHParams(
            self.lr, self.batch, self.weight_decay, self.epochs, "plateau", patience=self.patience
        )

    @property
    def source(self) -> str:
        """Source of the row."""
        return f"{CITED}, Table 11, {self.label}"


TABLE_11 = {
    "listops": _Row("ListOps", 6, 128, "batch", False, 0.0, 0.01, 100, 50, 0.01, 5),
    "text": _Row("Text", 4, 64, "batch", True, 0.0, 0.001, 50, 20, 0.0, 5),
    "retrieval": _Row("Retrieval", 6, 256, "batch", True, 0.0, 0.002, 64, 20, 0.0, 20),
    "image": _Row("Image", 6, 512, "layer", False, 0.2, 0.004, 50, 200, 0.01, 20),
    "pathfinder": _Row("Pathfinder", 6, 256, "batch", True, 0.1, 0.004, 100, 200, 0.0, 10),
    "pathx": _Row("Path-X", 6, 256, "batch", True, 0.0, 0.0005, 32, 100, 0.0, 20),
    "scifar": _Row("CIFAR-10", 6, 1024, "layer", False, 0.25, 0.01, 50, 200, 0.01, 20),
    "speech-mfcc": _Row("Speech Commands (MFCC)", 4, 256, "layer", False, 0.2, 0.01, 100, 50, 0.0, 5),
    "speech": _Row("Speech Commands (Raw)", 6, 128, "batch", True, 0.1, 0.01, 20, 150, 0.0, 10),
}
LRA = ("listops", "text", "retrieval", "image", "pathfinder", "pathx")
LATER = "networks and settings of the published code of Amos et al. (2024), from the time of these results"
TEN_WORDS = "the table is of ten words, Speech(words=10, split=papers)"


def table() -> Table:
    """Return the recipes of Table 11, of "S4 (updated)" on every task, and of the speech baselines."""
    original = {RecipeKey("gu", task, "s4", "masked"): _original_recipe(task) for task in TABLE_11}
    updated = {RecipeKey("gu", task, "s4-updated", "masked"): _updated_recipe(task) for task in LRA}
    baselines = {baseline.key: baseline.recipe() for baseline in BASELINES}
    return {**original, **updated, **baselines}


def scratch_sources(source: str) -> Sources:
    """Return the sources of a scratch stage of Table 11."""
    return (
        *same_source(
            "scratch",
            source,
            "budget",
            "batch",
            "optim.lr",
            "optim.weight_decay",
            "optim.plateau_wait_epochs",
        ),
        *same_source("scratch", f"{CITED}, appendix D.2", "optim.schedule", "optim.warmup_steps"),
        *same_source("scratch", CODE, "optim.factor", "optim.plateau_threshold", "optim.betas", "optim.clip"),
        ("scratch.objective.style", CODE),
    )


def _original_recipe(task: str) -> PaperRecipe:
    row = TABLE_11[task]
    mixer = S4(b_clip=None, shortest=1e-4 if task == "pathx" else 1e-3)
    placement: Literal["pre", "post"] = "pre" if row.prenorm else "post"
    model = Model(mixer, row.width, row.depth, 0, row.norm, placement, dropout=row.dropout)
    objective = supervise(task, "mlp" if task == "retrieval" else "linear")
    scratch = stage(task, objective, row.training)
    pretrain = stage(task, denoise(task, "masked"), replace(row.training, lr=1e-3, schedule="constant"))
    sources = (
        *same_source("model", row.source, "width", "depth", "norm", "placement", "dropout", "mixer.is"),
        *same_source("model", f"{CITED}, appendix D.2", "pooling", "mixer.states"),
        *same_source("model", CODE, "expand", "mixer.shortest", "mixer.longest", "mixer.init"),
        ("model.causal", OURS),
        ("pretrain", f"{OURS}: constant learning rate of 1e-3, else as from scratch"),
        ("finetune", f"{OURS}: as from scratch"),
        *scratch_sources(row.source),
    )
    remarks = (TEN_WORDS,) if task.startswith("speech") else ()
    return PaperRecipe(
        RecipeKey("gu", task, "s4", "masked"),
        ArmRecipes(model, pretrain, scratch, model, scratch),
        sources,
        remarks,
    )


def _updated_recipe(task: str) -> PaperRecipe:
    training = s4_from_scratch(task)
    model = replace(S4_MODELS[task], pooling="mean")
    scratch = stage(task, supervise(task, "mlp" if task == "retrieval" else "linear"), training)
    pretrain = stage(task, denoise(task, "masked"), replace(training, lr=1e-3, schedule="constant"))
    arms = ArmRecipes(model, pretrain, scratch, model, scratch)
    sources = (
        ("model", CODE),
        ("model.pooling", f"{CITED}, appendix D.2"),
        *stage_sources("scratch", CODE, CODE, CODE),
        *cosine_sources(arms),
        ("pretrain", f"{OURS}: constant learning rate of 1e-3, else as from scratch"),
        ("finetune", f"{OURS}: as from scratch"),
    )
    return PaperRecipe(RecipeKey("gu", task, "s4-updated", "masked"), arms, sources, (LATER,))


@dataclass(frozen=True)
class Baseline:
    """A baseline network and its training on one kind of features (raw or MFCC)."""

    task: str
    model: Model
    training: StageHParams
    remark: str
    printed: tuple[str, ...] = ("budget", "batch", "optim.lr")  # published fields of training

    @property
    def key(self) -> RecipeKey:
        """Key of the recipe; the objective is causal if the network is."""
        objective: Denoising = "causal" if self.model.causal else "masked"
        family = "transformer" if isinstance(self.model.mixer, Attention) else name_of(self.model.mixer)
        return RecipeKey("gu", self.task, family, objective)

    @property
    def sources(self) -> Sources:
        """Sources of all values; the training of WaveGAN is not published."""
        return (
            *same_source("model", SOURCE, "mixer", "depth", "dropout", "placement", "positions"),
            ("model.width", SOURCE if self.printed else OURS),
            *same_source("model", OURS, "norm", "causal", "pooling", "expand"),
            *same_source("scratch", SOURCE, *self.printed),
            ("pretrain", f"{OURS}: as from scratch"),
            ("finetune", f"{OURS}: as from scratch"),
            ("scratch", OURS),
        )

    def recipe(self) -> PaperRecipe:
        """Return the recipe with its arms."""
        scratch = stage(self.task, supervise(self.task, "linear"), self.training)
        pretrain = stage(self.task, denoise(self.task, self.key.objective), self.training)
        arms = ArmRecipes(self.model, pretrain, scratch, self.model, scratch)
        return PaperRecipe(self.key, arms, self.sources, (self.remark,))


def _layers(mixer: Mixer, depth: int) -> Model:
    return Model(mixer, 128, depth, placement="pre", positions="sinusoidal")


def _recurrent(mixer: Mixer, states: int) -> Model:
    return Model(mixer, states, 1, expand=0, causal=True, pooling="last")


MFCC = "speech-mfcc"
RAW = "speech"
BASELINES = (
    Baseline(MFCC, _layers(Attention(heads=8), 2), StageHParams(1e-3, 100, epochs=150), LAYERS),
    Baseline(MFCC, _layers(Performer(heads=8), 2), StageHParams(1e-3, 100, epochs=150), LAYERS),
    Baseline(RAW, _layers(Performer(heads=4), 4), StageHParams(1e-3, 16, epochs=100), "nothing was swept"),
    Baseline(MFCC, _recurrent(ExpRNN(states=256), 256), StageHParams(1e-3, 100, epochs=200), RECURRENT),
    Baseline(
        RAW,
        _recurrent(ExpRNN(states=32), 32),
        StageHParams(1e-3, 100, epochs=200),
        "hidden sizes {32, 64} and learning rates {0.001, 0.0005} were swept, and it failed to learn; batch "
        "and epochs as for MFCC",
        printed=("optim.lr",),
    ),
    Baseline(MFCC, _recurrent(Lipschitz(states=256), 256), StageHParams(1e-3, 100, epochs=150), RECURRENT),
    Baseline(
        RAW,
        Model(WaveGAN(channels=64), 16, 1, expand=0, positions="none"),
        StageHParams(1e-3, 20, epochs=150),
        "its training is not printed: batch and epochs are those of S4, without its batch norm",
        printed=(),
    ),
)
