"""One process of two that evaluate together, with its own free memory: rank.py RESULT FREE_BYTES."""

import sys
from pathlib import Path

from fake_gpu import guard

if __name__ == "__main__":
    guard.load()

import numpy as np
import torch
import torch.distributed as dist
from fake_gpu import emulation

import toys
from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import Classes, SequenceSpec, Tokens
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.classify import Classify
from selfpretrain.system import distributed
from selfpretrain.training.evaluate import evaluate
from selfpretrain.training.model import Model

FORM = SequenceSpec(Tokens(16), 64, Classes(("no", "yes")))
EXAMPLES = 3_000


def examples():
    random = np.random.default_rng(0)
    lengths = random.integers(40, FORM.length, EXAMPLES, endpoint=True)
    rows = [random.integers(16, size=n) for n in lengths]
    return SequenceDataset.from_sequences(rows, random.integers(2, size=EXAMPLES))


def scored():
    """Scores, predictions and confidence on the device."""
    toys.settle()
    head = Classify().head(FORM, 16, "mean")
    network = Model(Attention(), width=16, depth=1).build(FORM, head).to("cuda")
    found = evaluate(network, Classify(), examples(), FORM)
    return found.scores, found.predictions, found.confidence


def main():
    result, free = sys.argv[1:]
    torch.cuda.mem_get_info = lambda *_: (int(free), int(free))
    join = dist.init_process_group
    dist.init_process_group = lambda backend: join("gloo")  # NCCL needs a GPU
    with emulation.Emulation(), distributed.process_group("cuda"):
        torch.save(scored(), Path(result))


if __name__ == "__main__":
    main()
