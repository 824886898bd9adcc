"""Hyperparameters from the code published with Amos et al. (2024): schedules, S4 networks, heads."""

from dataclasses import dataclass, replace
from typing import Literal

from ...mixers.s4 import S4
from ...training.model import Model
from .printed import StageHParams, Style

MLP_HEADS = {"transformer": ("text", "retrieval", "image", "scifar"), "other": ("retrieval",)}
"""Tasks whose head has a hidden layer in the published code."""
RELU_HEADS = ("text", "image", "scifar")
"""Those whose hidden layer has ReLU in the published code; Retrieval has GELU."""

Schedule = Literal["constant", "cosine", "plateau"]


@dataclass(frozen=True)
class LRSchedule:
    """Warm-up steps and learning rate schedules of the published code."""

    finetune: int  # warm-up steps
    pretrain: int  # warm-up steps
    schedule: Schedule = "constant"  # of finetuning, and of training from scratch
    pretrain_schedule: Schedule = "constant"
    cosine_steps: int | None = None  # length of cosines, in steps
    simplified: bool = False  # the published schedule of finetuning is more complex than ours


SCHEDULES = {
    "transformer": {
        "listops": LRSchedule(2000, 2000),
        "text": LRSchedule(2000, 5000),
        "retrieval": LRSchedule(5000, 2000),
        "image": LRSchedule(2000, 2500),
        "scifar": LRSchedule(2000, 2000),
        "pathfinder": LRSchedule(5000, 2500),
        "pathx": LRSchedule(5000, 5000),
        "speech": LRSchedule(0, 2000, "plateau"),
        "bidmc": LRSchedule(0, 500, simplified=True),
    },
    "s4": {
        "listops": LRSchedule(2000, 2000),
        "text": LRSchedule(5000, 1000, "cosine", cosine_steps=50_000),
        "retrieval": LRSchedule(2500, 2500),
        "image": LRSchedule(1000, 1000, "cosine", cosine_steps=200_000),
        "scifar": LRSchedule(1000, 2000, "cosine", cosine_steps=200_000),
        "pathfinder": LRSchedule(2500, 2500),
        "pathx": LRSchedule(10_000, 5000, "cosine", cosine_steps=500_000),
        "pathx256": LRSchedule(10_000, 5000, "cosine", cosine_steps=500_000),
        "speech": LRSchedule(1000, 1000, "cosine", "cosine", 200_000),
        "bidmc": LRSchedule(0, 500, simplified=True),
    },
    "dlr": {
        "listops": LRSchedule(2000, 2000),
        "text": LRSchedule(2000, 1000),
        "image": LRSchedule(1000, 1000),
        "pathx": LRSchedule(5000, 5000, "cosine", cosine_steps=250_000),
    },
    "pythia": {
        "listops": LRSchedule(200, 200, simplified=True),
        "text": LRSchedule(5000, 5000),
        "retrieval": LRSchedule(2500, 2500),
        "image": LRSchedule(2000, 2000),
        "pathfinder": LRSchedule(2500, 2500),
    },
}


def _s4(
    width: int,
    copies: int | None = None,
    states: int = 64,
    shortest: float = 1e-3,
    lr_dt: float | None = 1e-3,
    lr_A: float = 1e-3,
    dropout: float = 0.0,
) -> Model:
    """Return the S4 network of the published code: six layers without an MLP, dropout twice in each."""
    mixer = S4(states, copies, b_clip=None, shortest=shortest, lr_dt=lr_dt, lr_A=lr_A, dropout=dropout)
    return Model(mixer, width, 6, expand=0, dropout=dropout, init="torch")


_PATHX = replace(_s4(256, shortest=1e-4, lr_dt=5e-4, lr_A=5e-4), norm="batch", pooling="max")
S4_MODELS = {
    "listops": replace(_s4(128, lr_dt=None), depth=8, norm="batch", placement="post"),
    "text": replace(_s4(256, lr_dt=None), norm="batch"),
    "retrieval": replace(_s4(256, lr_dt=None), norm="batch"),
    "image": replace(_s4(512, copies=2, lr_dt=None, dropout=0.1), placement="post"),
    "scifar": replace(_s4(512, copies=2, dropout=0.1), placement="post"),
    "pathfinder": replace(_s4(256), norm="batch"),
    "pathx": _PATHX,
    "pathx256": _PATHX,
    "speech": replace(_s4(128, copies=64), pooling="max"),
    "bidmc": _s4(128, copies=2, states=256),
}
"""Networks of the published code; Table 11 of Gu et al. (2022), cited by the paper, has other sizes."""
WEIGHT_DECAY = 0.05
"""Weight decay of state space models in the published code."""
WEIGHT_DECAY_OF = {"pathfinder": 0.03}
"""Tasks with another weight decay."""
S4_SCRATCH = {
    "listops": (0.01, 50, 40),
    "text": (0.01, 16, 32),
    "retrieval": (0.01, 64, 20),
    "image": (0.01, 50, 200),
    "scifar": (0.01, 50, 200),
    "pathfinder": (0.004, 64, 200),
    "pathx": (5e-4, 16, 50),
    "speech": (0.01, 16, 40),
}
"""Learning rate, batch and epochs of S4 from scratch in the published code.

Like the networks, they come from the S4 repository at the time of "S4 (updated)".
"""


def style(task: str, kind: Literal["transformer", "other"]) -> Style:
    """Return the kind of head that the published code uses for a task."""
    if task not in MLP_HEADS[kind]:
        return "linear"
    return "mlp-relu" if task in RELU_HEADS else "mlp"


def s4_from_scratch(task: str) -> StageHParams:
    """Return the hyperparameters of S4 from scratch in the published code."""
    lr, batch, epochs = S4_SCRATCH[task]
    lr_schedule = SCHEDULES["s4"][task]
    decay = WEIGHT_DECAY_OF.get(task, WEIGHT_DECAY)
    warmup, length = lr_schedule.finetune, lr_schedule.cosine_steps
    return StageHParams(lr, batch, decay, epochs, lr_schedule.schedule, warmup, length)
