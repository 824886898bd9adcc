"""Time and memory of a training step of long sequences, for the networks of the study s4d-or-mamba.

    python benchmarks/long_steps.py [--lengths 64,1024,4096] [--batch 16] [--rounds 5]

Two blocks of each architecture, with the widths of the study, label sequences of one channel, reading both
ways and, where it is another network, only back: forward pass, backward pass, clipping and AdamW, in float32
on one thread. Every case has a fresh process. Time is the median of processor time after one step; memory is
what steps add to the peak of the process, after steps of 16 positions. Writes docs/speed/long-steps.tsv.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from passes import ask
from selfpretrain.config import spec
from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import Classes, SequenceSpec, Split, Values
from selfpretrain.objectives.classify import Classify
from selfpretrain.studies.common.time_series import USUAL_WIDTH, WIDTHS
from selfpretrain.studies.s4d_or_mamba import S4dOrMamba
from selfpretrain.system.hardware import peak_memory
from selfpretrain.tasks.base import Card, Task
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage, build_network
from tables import Table, write_tsv, written

TABLE = Path(__file__).parents[1] / "docs/speed/long-steps.tsv"
MIXERS = {row.name: row.mixer for row in S4dOrMamba.architectures}
WARM_UP = 16
"""Positions of first steps, whose memory does not count."""


@spec
class Series(Task):
    """Random series."""

    card = Card(source="made here", licence="none needed")

    length: int = 64
    number: int = 16

    @property
    def form(self) -> SequenceSpec:
        """One channel, two classes."""
        return SequenceSpec(Values(), self.length, Classes(("a", "b")))

    def load(self, split: Split) -> SequenceDataset:
        """The same for every split."""
        values = np.random.default_rng(0).standard_normal((self.number, self.length, 1), dtype=np.float32)
        return SequenceDataset.from_array(values, np.arange(self.number) % 2)


def seconds_of_steps(name: str, causal: bool, length: int, batch: int, rounds: int) -> list[float]:
    """Train on one batch, and return the processor time of every step."""
    model = Model(MIXERS[name], width=WIDTHS.get(name, USUAL_WIDTH), depth=2, causal=causal)
    stage = Stage(Classify(), Budget(steps=1), batch=batch)
    recipe = Recipe(Series(length, batch), model, (stage,))
    network = build_network(recipe)
    weights = list(network.parameters())
    optimizer = torch.optim.AdamW(weights)
    data = recipe.task.load("train").batch(torch.arange(batch))
    targets = stage.objective.make_targets(data, recipe.task.form, torch.Generator())
    taken = []
    for _ in range(rounds + 1):
        start = time.process_time()
        outputs = network(*targets.network_inputs())
        stage.objective.loss(outputs, targets, recipe.task.form).div(targets.size).backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        taken.append(time.process_time() - start)
    return taken[1:]


def measure(case: str, batch: int, rounds: int) -> dict[str, float]:
    """Return milliseconds and megabytes of a step in this process; a case is name, direction and length."""
    name, direction, length = case.split(":")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    seconds_of_steps(name, direction == "back", WARM_UP, batch, 1)
    before = peak_memory()
    seconds = seconds_of_steps(name, direction == "back", int(length), batch, rounds)
    return {"ms": 1e3 * statistics.median(seconds), "MB": (peak_memory() - before) / 1e6}


def table(lengths: list[int]) -> Table:
    """Measure all cases; a row for every architecture and direction."""
    heads = [f"{length:,}: {unit}" for length in lengths for unit in ("ms", "MB")]
    found = [["architecture", "reads", "width", *heads]]
    for name in MIXERS:
        for direction in ("both ways", "back"):
            row = [name, direction, str(WIDTHS.get(name, USUAL_WIDTH))]
            for length in lengths:
                each = ask(f"{name}:{direction}:{length}")
                row += [f"{each[unit]:,.0f}" if each else "-" for unit in ("ms", "MB")]
            found.append(row)
            print(" ".join(row), flush=True)
    return found


def main() -> None:
    """Measure, print, and write the table; with ``--child``, print one case as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="64,1024,4096")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", default="")
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(given.child, given.batch, given.rounds)))
        return
    found = table([int(length) for length in given.lengths.split(",")])
    print(written(found))
    write_tsv(TABLE, found)


if __name__ == "__main__":
    main()
