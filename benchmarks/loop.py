"""What the training loop costs on top of forward, backward and optimizer step.

A Transformer of width 64 and 3 blocks at length 256, batch 16, one thread: our loop (data order, batching,
masking, schedule, clipping, log, progress, checkpoints) against a bare loop over one prepared batch, in
turns. Prints the median ratio; the goal is at most 1.05.

    python benchmarks/loop.py [--steps 60] [--rounds 5]
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from selfpretrain.training.trainer import Trainer, TrainerInputs

from selfpretrain.config import spec
from selfpretrain.data.dataset import SequenceDataset, generator
from selfpretrain.data.spec import Classes, SequenceSpec, Split, Tokens
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.masked import Masked
from selfpretrain.runner.run_dir import RunDir
from selfpretrain.tasks.base import Card, Task
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage, build_network


@spec
class Noise(Task):
    """Random symbols."""

    card = Card(source="made here", licence="none needed")

    length: int = 256

    @property
    def form(self) -> SequenceSpec:
        """256 symbols, 10 classes."""
        return SequenceSpec(Tokens(vocab=256), self.length, Classes(tuple("abcdefghij")))

    def load(self, split: Split) -> SequenceDataset:
        """The same for every split."""
        random = np.random.default_rng(0)
        return SequenceDataset.from_array(
            random.integers(256, size=(512, self.length), dtype=np.uint8), random.integers(10, size=512)
        )


def ours(recipe: Recipe, steps: int) -> float:
    """Seconds per step of the real loop."""
    data = recipe.task.load("train")
    with tempfile.TemporaryDirectory() as folder:
        material = TrainerInputs(recipe, build_network(recipe), data, data.take(torch.arange(16)), steps)
        fit = Trainer(material, RunDir(Path(folder)), lambda: False)
        start = time.perf_counter()
        fit.run()
        return (time.perf_counter() - start) / steps


def bare(recipe: Recipe, steps: int) -> float:
    """Seconds per step of forward, backward and optimizer step alone."""
    stage, form, network = recipe.last, recipe.task.form, build_network(recipe)
    optimizer = stage.optim.build(network, {})
    targets = stage.objective.make_targets(
        recipe.task.load("train").batch(torch.arange(16)), form, generator("bare")
    )
    start = time.perf_counter()
    for _ in range(steps):
        answers = network(*targets.network_inputs())
        optimizer.zero_grad(set_to_none=True)
        (stage.objective.loss(answers, targets, form) / targets.size).backward()
        optimizer.step()
    return (time.perf_counter() - start) / steps


def main() -> None:
    """Print one line per objective."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for objective in (Classify(), Masked()):
        stage = Stage(objective, Budget(steps=arguments.steps), batch=16, evals=1)
        recipe = Recipe(Noise(), Model(Attention(), width=64, depth=3), (stage,))
        bare(recipe, 3), ours(recipe, 3)
        pairs = [
            (ours(recipe, arguments.steps), bare(recipe, arguments.steps)) for _ in range(arguments.rounds)
        ]
        ratio = statistics.median(a / b for a, b in pairs)
        a, b = (1e3 * min(times) for times in zip(*pairs, strict=True))
        name = type(objective).__name__
        print(f"{name:10s} ours {a:.2f} ms, bare {b:.2f} ms per step, median ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
