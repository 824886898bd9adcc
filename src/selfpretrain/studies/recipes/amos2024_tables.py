"""Tables 4, 5 and 6 of Amos et al. (2024), as printed.

In pairs, the first value is for finetuning and the second for pretraining.
"""

from dataclasses import dataclass
from typing import Literal

from .printed import TASKS, Denoising

Pair = tuple[float, float]


@dataclass(frozen=True)
class Transformer:
    """A row of Table 4; the paper marks sinusoidal positions by a dagger."""

    task: str
    positions: Literal["sinusoidal", "rotary"]
    objective: Denoising
    width: int
    depth: int
    heads: int
    hidden: int
    pooling: Literal["mean", "max", "last"]
    lr: Pair
    batch: tuple[int, int]
    weight_decay: float
    misprint: str = ""  # misprint of the row, and our reading

    @property
    def family(self) -> str:
        """Family of the row in a ``RecipeKey``."""
        return "transformer-rotary" if self.positions == "rotary" else "transformer-dagger"

    @property
    def source(self) -> str:
        """The row, as named in the table."""
        kind = f"{'Rotary + ' * (self.positions == 'rotary')}{self.objective.capitalize()} SPT"
        label = TASKS[self.task].label
        if self.task == "scifar":
            return f"appendix C.1.6: as Table 4, Image, {kind}"
        return f"Table 4, {label}, {kind}{'†' * (self.positions == 'sinusoidal')}"


SECOND = 'the row is printed as a second "Masked SPT†"'
TABLE_4 = (
    Transformer("listops", "sinusoidal", "masked", 512, 6, 8, 1024, "mean", (1e-4, 1e-3), (64, 128), 0.1),
    Transformer("listops", "sinusoidal", "causal", 512, 6, 8, 1024, "last", (5e-4, 5e-4), (128, 32), 0.1),
    Transformer("listops", "rotary", "masked", 512, 6, 8, 1024, "mean", (1e-4, 1e-3), (64, 256), 0.05),
    Transformer("text", "sinusoidal", "masked", 512, 6, 8, 1024, "mean", (1e-4, 5e-4), (64, 32), 0.1),
    Transformer("text", "sinusoidal", "causal", 512, 6, 8, 1024, "mean", (1e-4, 1e-3), (64, 32), 0.1),
    Transformer("text", "rotary", "masked", 512, 6, 8, 1024, "mean", (5e-4, 5e-4), (64, 8), 0.1),
    Transformer("retrieval", "sinusoidal", "masked", 128, 4, 4, 512, "mean", (5e-4, 5e-3), (16, 32), 0.0),
    Transformer("retrieval", "sinusoidal", "causal", 128, 4, 4, 512, "mean", (1e-3, 5e-3), (48, 32), 0.0),
    Transformer("retrieval", "rotary", "masked", 128, 6, 4, 512, "mean", (5e-4, 5e-3), (16, 32), 0.0),
    Transformer(
        "image", "sinusoidal", "masked", 64, 3, 4, 128, "max", (1e-3, 1e-3), (16, 32), 0.0,
        "pretraining's learning rate is printed as 1e03",
    ),
    Transformer("image", "sinusoidal", "causal", 64, 3, 4, 128, "max", (1e-3, 5e-3), (32, 32), 0.0),
    Transformer("image", "rotary", "masked", 256, 6, 4, 512, "mean", (1e-3, 1e-3), (64, 32), 0.0),
    Transformer("pathfinder", "sinusoidal", "masked", 128, 4, 8, 128, "mean", (5e-4, 1e-3), (16, 16), 0.0),
    Transformer(
        "pathfinder", "sinusoidal", "causal", 128, 4, 8, 128, "mean", (1e-3, 1e-3), (256, 128), 0.0, SECOND,
    ),
    Transformer("pathfinder", "rotary", "masked", 128, 6, 4, 512, "mean", (5e-4, 1e-3), (64, 32), 0.0),
    Transformer("pathx", "sinusoidal", "masked", 128, 4, 8, 128, "max", (5e-4, 5e-4), (32, 8), 0.0),
    Transformer("pathx", "sinusoidal", "causal", 128, 4, 8, 128, "max", (5e-4, 1e-3), (256, 8), 0.0, SECOND),
    Transformer("pathx", "rotary", "masked", 128, 5, 4, 512, "max", (5e-4, 1e-3), (32, 8), 0.0),
    Transformer("speech", "rotary", "masked", 128, 4, 4, 128, "max", (1e-3, 1e-3), (256, 8), 0.0),
    Transformer("speech", "rotary", "causal", 128, 4, 4, 128, "max", (1e-3, 1e-3), (256, 32), 0.0),
    Transformer("scifar", "rotary", "masked", 256, 6, 4, 512, "mean", (1e-3, 1e-3), (64, 32), 0.0),
    Transformer("bidmc-hr", "rotary", "masked", 128, 4, 4, 128, "max", (5e-4, 5e-4), (32, 16), 0.0),
    Transformer("bidmc-rr", "rotary", "masked", 128, 4, 4, 128, "max", (5e-4, 5e-4), (32, 16), 0.0),
    Transformer("bidmc-spo2", "rotary", "masked", 128, 4, 4, 128, "max", (1e-4, 5e-4), (8, 16), 0.0),
)  # fmt: skip
BLOCKS = {"pathx": (4096, "section 2"), "speech": (4000, "appendix C.3")}
"""Task -> block size of local attention, and its source."""


@dataclass(frozen=True)
class Searched:
    """Learning rate and batch size of each stage, from a cell of Table 5 or 6 or from appendix C."""

    finetune: tuple[float, int]
    pretrain: tuple[float | None, int] | None = None  # learning rate None: not printed
    scratch: tuple[float, int] | None = None  # of the row without SPT


TABLE_5: dict[str, dict[str, Searched]] = {
    "s4": {
        "listops": Searched((1e-3, 16), (1e-3, 128)),
        "text": Searched((5e-4, 16), (5e-4, 8)),
        "retrieval": Searched((5e-4, 256), (5e-4, 8)),
        "image": Searched((1e-3, 512), (1e-3, 32)),
        "pathfinder": Searched((1e-3, 64), (1e-3, 8)),
        "pathx": Searched((1e-3, 64), (1e-3, 8)),
    },
    "s4-random": {
        "listops": Searched((1e-3, 16), (1e-3, 32), (5e-4, 16)),
        "text": Searched((1e-3, 16), (None, 32), (1e-3, 16)),
        "image": Searched((5e-4, 64), (1e-3, 32), (1e-4, 128)),
        "pathx": Searched((5e-4, 16), (1e-3, 4), (5e-4, 16)),
    },
    "dlr": {
        "listops": Searched((5e-4, 16), (1e-3, 128), (5e-4, 16)),
        "text": Searched((1e-3, 16), (5e-4, 8), (5e-4, 16)),
        "image": Searched((1e-3, 64), (1e-3, 32), (5e-4, 64)),
        "pathx": Searched((5e-4, 64), (5e-4, 8), (5e-4, 64)),
    },
    "dlr-random": {
        "listops": Searched((5e-4, 64), (5e-4, 32), (1e-4, 16)),
        "text": Searched((5e-4, 16), (5e-4, 8), (1e-3, 16)),
        "image": Searched((1e-3, 64), (None, 32), (1e-3, 16)),
        "pathx": Searched((5e-4, 16), (5e-4, 8), (5e-4, 64)),
    },
    "pythia": {
        "listops": Searched((5e-5, 64)),
        "text": Searched((5e-4, 16)),
        "retrieval": Searched((1e-4, 256)),
        "image": Searched((7e-5, 64)),
        "pathfinder": Searched((1e-4, 1024)),
    },
}
TABLE_6: dict[tuple[str, Denoising], Searched] = {
    ("speech", "causal"): Searched((5e-4, 16), (1e-3, 32)),
    ("speech", "masked"): Searched((5e-3, 16), (1e-3, 32)),
    ("scifar", "masked"): Searched((5e-4, 64), (1e-3, 32)),
    ("bidmc-rr", "masked"): Searched((1e-3, 64), (1e-3, 64), (1e-2, 32)),
    ("bidmc-hr", "masked"): Searched((1e-3, 64), (1e-3, 64), (1e-3, 32)),
    ("bidmc-spo2", "masked"): Searched((1e-3, 64), (1e-3, 64), (1e-2, 32)),
}
C_1_2 = Searched((1e-3, 64), (1e-3, 8), (1e-4, 16))
"""PathX-256, from appendix C.1.2."""
C_1_4 = {
    "text": (Searched((5e-4, 16), (5e-4, 8), (1e-3, 16)), 40_000),
    "image": (Searched((2e-3, 50), (1e-2, 50), (2e-3, 50)), 10_000),
}
"""Figure 3, from appendix C.1.4, with pretraining steps; Text from scratch has a rate of 1e-3 or 5e-4."""
