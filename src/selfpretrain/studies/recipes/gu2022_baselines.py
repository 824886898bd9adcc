"""Recipes of the Speech Commands baselines in Gu et al. (2022), appendix D.2.

The paper does not pretrain: pretraining is our choice, and finetuning equals training from scratch. Of each
hyperparameter sweep we take the first value in the paper's order; a remark of the recipe names the others.
"""

from dataclasses import dataclass

from ...mixers.attention import Attention
from ...mixers.base import Mixer
from ...mixers.exprnn import ExpRNN
from ...mixers.lipschitz import Lipschitz
from ...mixers.performer import Performer
from ...mixers.wavegan import WaveGAN
from ...registry import name_of
from ...training.model import Model
from .arms import ArmRecipes
from .printed import (
    OURS,
    Denoising,
    PaperRecipe,
    RecipeKey,
    Sources,
    StageHParams,
    Table,
    denoise,
    same_source,
    stage,
    supervise,
)

SOURCE = "Gu et al. (2022), appendix D.2"
LAYERS = "layers {2, 4}, dropout {0, 0.1} and learning rates {0.001, 0.0005} were swept"
RECURRENT = "hidden sizes {256, 512} and learning rates {0.001, 0.002, 0.0005} were swept"


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


def table() -> Table:
    """Return a recipe for each baseline of the paper whose mixer we have."""
    return {baseline.key: baseline.recipe() for baseline in BASELINES}
