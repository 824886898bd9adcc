"""Settings to try for the further arms of the study rivals: lines for trials.py.

    python experiments/rivals.py > trials.txt
    python experiments/trials.py trials.txt docs/log.tsv

On curves 23 for each arm, for the Transformer with the settings of the demonstration; a start that only state
space models have is tried with S4D. On text three learning rates with the Transformer and two with S4D, on
spoken digits two with the Transformer: in all of this as many as other arms had. The best of each arm becomes
a line of ``studies/tables/rivals.tsv``.

On a set of the UCR archive, the one of the study s4d-or-mamba with most training series, two learning rates,
the usual one and three times of it, for these arms, self-pretraining and matched scratch, and for the two
rivals that come near elsewhere. On curves five for the mimetic start of Mamba, with the settings of the study
modern-zoo, as many as the other arms of Mamba have in docs/windows.tsv.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from selfpretrain.studies.recipes.defaults import DEMO
from selfpretrain.studies.rivals import FURTHER

MIXER = {"autocorrelation": "s4d"}
"""Arms that attention does not have, with a mixer that has them."""
RATES = ("1e-3", "2e-3", "4e-3", "8e-3", "1.6e-2")
BETAS = ("[0.8,0.95]", "[0.9,0.98]")
BATCHES = {32: 1_000, 128: 250}
"""Batch -> steps with which finetuning sees as many sequences as in the demonstration."""
OWN = {
    "muon": ("STAGE.optim.lr=3e-2", "STAGE.optim.lr=6e-2", "STAGE.optim.weight_decay=0", "model.dropout=0.1"),
    "regularised": ("arm.decay=0.3", "arm.decay=3", "arm.average=0.9", "arm.average=0.999"),
    "autocorrelation": ("arm.damping=0.5", "arm.damping=1e-2", "arm.range=10", "arm.range=100"),
    "masked-inputs": ("arm.highest=0.15", "arm.highest=0.3", "arm.highest=1", "STAGE.optim.weight_decay=0"),
}
"""Four further settings of an arm."""
PRETRAINING = ("pretrain.optim.lr=3e-3", "pretrain.optim.lr=2e-2", "pretrain.optim.warmup=0.2")
PRETRAINING += ("pretrain.optim.weight_decay=0.1",)
"""The same of arms that pretrain."""


class Elsewhere(NamedTuple):
    """What is tried beside curves and the settings of the demonstration."""

    task: str
    mixer: str
    settings: str
    rates: tuple[str, ...]  # beside that of the task
    arms: tuple[str, ...] = FURTHER


ON_SERIES = ("matched", "spt", "joint", "pooling arm.pooling=max", *FURTHER)
SERIES = "objective=masked task.set=FordA model.width=64 stage.budget.steps=300"
AS_IN_ZOO = (
    "objective=causal model.width=52 pretrain.budget.steps=1000 finetune.budget.steps=600"
    " scratch.budget.steps=600"
)
ELSEWHERE = (
    Elsewhere("stdlib", "attention", "objective=causal", ("1e-3", "4e-3")),
    Elsewhere("stdlib", "s4d", "objective=causal", ("2e-3",)),
    Elsewhere(
        "spoken-digits", "attention", "objective=masked task.features=mfcc task.split=speakers", ("1e-3",)
    ),
    Elsewhere("ucr", "attention", SERIES, ("6e-3",), ON_SERIES),
    Elsewhere("ucr", "s4d", SERIES, ("1.2e-2",), ON_SERIES),
    Elsewhere("paths", "mamba", AS_IN_ZOO, ("2.2e-4", "6.7e-4", "6e-3", "1.8e-2"), ("mimetic",)),
)


def labelled(arm: str) -> str:
    """Return the name of the stage of an arm that learns from labels."""
    return "finetune" if arm.startswith("spt") else "scratch"


def settings(arm: str) -> Iterator[str]:
    """Yield the 23 settings of an arm."""
    stage = labelled(arm)
    for rate, betas in product(RATES, BETAS):
        yield f"{stage}.optim.lr={rate} {stage}.optim.betas={betas}"
    for rate, (batch, steps) in product(RATES[1:4], BATCHES.items()):
        # Matched scratch keeps its compute by itself.
        of_demo = f" {stage}.budget.steps={steps}" if stage == "finetune" else ""
        yield f"{stage}.optim.lr={rate} {stage}.batch={batch}{of_demo}"
    for rate in RATES[1:4]:
        yield f"{stage}.optim.lr={rate} {stage}.optim.warmup=0.2"
    yield from (each.replace("STAGE", stage) for each in OWN.get(arm, PRETRAINING))


def base(mixer: str) -> str:
    """Return the settings of the demonstration for a mixer."""
    others = ("attention.", "s4d.", "lru.")
    own = (each.removeprefix(f"{mixer}.") for each in DEMO)
    return " ".join(each for each in own if not each.startswith(others))


def elsewhere(tried: Elsewhere) -> Iterator[str]:
    """Yield the trials of a task and mixer."""
    for arm in tried.arms:
        if tried.mixer == MIXER.get(arm, tried.mixer):
            name, *own = arm.split(maxsplit=1)
            line = " ".join([tried.task, tried.mixer, name, tried.settings, *own, "seed=1000"])
            yield line
            yield from (f"{line} {labelled(arm)}.optim.lr={rate}" for rate in tried.rates)


def main() -> None:
    """Print a line for each trial."""
    for arm in FURTHER:
        mixer = MIXER.get(arm, "attention")
        for setting in settings(arm):
            print(f"paths {mixer} {arm} objective=causal {base(mixer)} {setting}")
    for tried in ELSEWHERE:
        print(*elsewhere(tried), sep="\n")


if __name__ == "__main__":
    main()
