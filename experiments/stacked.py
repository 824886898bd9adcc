"""Several seeds of one network stacked in one process, against the same networks one after the other.

    python experiments/stacked.py [--seeds 4] [--rounds 12]

The weights of all seeds are stacked, and `torch.func.vmap` runs forward and backward of all networks at once;
losses are computed network by network. Prints the largest difference between the losses, and the median ratio
of times taken in turns, on one thread.
"""

import argparse
import copy
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from selfpretrain.data.dataset import generator
from selfpretrain.objectives.base import ObjectiveBatch
from selfpretrain.objectives.classify import Classify
from selfpretrain.registry import find
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage, build_network

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from speed import Noise

CASES = (
    ("attention", 64, 32, 32),
    ("attention", 256, 64, 16),
    ("gated-deltanet", 64, 32, 32),
    ("s4d", 64, 32, 32),
)
"""Mixer, length, width and batch."""


@dataclass
class Seeds:
    """Networks of several seeds, a batch for each, and the weights of all stacked."""

    recipe: Recipe
    networks: list[nn.Module]
    batches: list[ObjectiveBatch]

    def __post_init__(self) -> None:
        self.weights = stack_module_state(self.networks)
        self.shape = copy.deepcopy(self.networks[0]).to("meta")

    def loss(self, outputs: Tensor, batch: ObjectiveBatch) -> Tensor:
        """Return the mean loss of one network."""
        return self.recipe.last.objective.loss(outputs, batch, self.recipe.task.form) / batch.size

    def one_by_one(self) -> list[float]:
        """Run forward and backward of one network after the other."""
        losses = []
        for network, batch in zip(self.networks, self.batches, strict=True):
            loss = self.loss(network(*batch.network_inputs()), batch)
            loss.backward()
            losses.append(float(loss))
        return losses

    def at_once(self) -> list[float]:
        """Run forward and backward of all networks as one."""
        inputs = list(zip(*(batch.network_inputs() for batch in self.batches), strict=True))
        stacked = [None if each[0] is None else torch.stack(each) for each in inputs]
        dims = tuple(None if each is None else 0 for each in stacked)

        def call(parameters: dict[str, Tensor], buffers: dict[str, Tensor], *given: Tensor | None) -> Tensor:
            return functional_call(self.shape, (parameters, buffers), given)

        outputs = vmap(call, in_dims=(0, 0, *dims))(*self.weights, *stacked)
        losses = [self.loss(each, batch) for each, batch in zip(outputs, self.batches, strict=True)]
        sum(losses, torch.zeros(())).backward()
        return [float(loss) for loss in losses]


def seeds_of(mixer: str, length: int, width: int, batch: int, seeds: int) -> Seeds:
    """Return freshly initialised networks of two blocks, one per seed."""
    task = Noise(length=length)
    stage = Stage(Classify(), Budget(steps=10), batch=batch, evals=1)
    model = Model(find("mixers", mixer)(), width=width, depth=2)
    recipes = [Recipe(task, model, (stage,), seed=seed) for seed in range(seeds)]
    data = task.load("train")
    rows = (torch.arange(batch) + batch * seed for seed in range(seeds))
    batches = [
        stage.objective.make_targets(data.batch(each), task.form, generator("stacked")) for each in rows
    ]
    return Seeds(recipes[0], [build_network(recipe).train() for recipe in recipes], batches)


def seconds(run: Callable[[], object]) -> float:
    """Return the time that a call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Print one line per case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=12)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    for mixer, length, width, batch in CASES:
        seeds = seeds_of(mixer, length, width, batch, flags.seeds)
        place = f"{mixer}, length {length}, width {width}, batch {batch}"
        try:
            pairs = zip(seeds.one_by_one(), seeds.at_once(), strict=True)
            apart = max(abs(one - other) for one, other in pairs)
        except RuntimeError as error:
            print(f"{place}: {str(error).splitlines()[0]}")
            continue
        times = [(seconds(seeds.one_by_one), seconds(seeds.at_once)) for _ in range(flags.rounds)]
        ratio = statistics.median(one / other for one, other in times)
        print(f"{place}: losses differ by {apart:.1e}, {ratio:.2f} times as fast")


if __name__ == "__main__":
    main()
