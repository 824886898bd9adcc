"""Settings of the arms of the study rivals that are not measured yet, 23 each: lines for trials.py.

    python experiments/rivals.py > trials.txt
    python experiments/trials.py trials.txt docs/log.tsv

They are for the Transformer on curves with the settings of the demonstration, as were those of other arms; a
start that only state space models have is tried with S4D. The best of each arm becomes a line of
``studies/tables/rivals.tsv``.
"""

from collections.abc import Iterator
from itertools import product

from selfpretrain.studies.recipes.defaults import DEMO
from selfpretrain.studies.rivals import UNMEASURED

MIXER = {"autocorrelation": "s4d"}
"""Arms that attention does not have, with a mixer that has them."""
RATES = ("1e-3", "2e-3", "4e-3", "8e-3", "1.6e-2")
BETAS = ("[0.8,0.95]", "[0.9,0.98]")
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


def settings(arm: str) -> Iterator[str]:
    """Yield the 23 settings of an arm."""
    stage = "finetune" if arm.startswith("spt") else "scratch"
    for rate, betas in product(RATES, BETAS):
        yield f"{stage}.optim.lr={rate} {stage}.optim.betas={betas}"
    for rate, batch in product(RATES[1:4], (32, 128)):
        yield f"{stage}.optim.lr={rate} {stage}.batch={batch}"
    for rate in RATES[1:4]:
        yield f"{stage}.optim.lr={rate} {stage}.optim.warmup=0.2"
    yield from (each.replace("STAGE", stage) for each in OWN.get(arm, PRETRAINING))


def base(mixer: str) -> str:
    """Return the settings of the demonstration for a mixer."""
    others = ("attention.", "s4d.", "lru.")
    own = (each.removeprefix(f"{mixer}.") for each in DEMO)
    return " ".join(each for each in own if not each.startswith(others))


for name in UNMEASURED:
    mixer = MIXER.get(name, "attention")
    for setting in settings(name):
        print(f"paths {mixer} {name} objective=causal {base(mixer)} {setting}")
