"""What a training step attains of this machine, mixer by mixer, and what our loop costs beside others.

    python benchmarks/speed.py [--lengths 256,1024] [--mixers all] [--rounds 3] [--folder docs/speed]

One thread, float32. Shares: FLOPs of both passes as ``selfpretrain`` counts them, over processor time and
the rate of a product of two matrices of 1,024, measured again around every case: what else the machine does
meets both. What bounds a step is the operator that takes most of it. Steps: forward pass, backward pass,
clipping and optimizer of whole networks. Loop: the same Transformer in our loop
and in others, in turns. Convolution: ours beside the plain one, its bare transforms, and products of matrices
in two levels. Lightning and accelerate (the HF Trainer's engine) take part where they are installed.

Tables are printed, and written into the folder as shares.tsv, steps.tsv, loops.tsv and convolution.tsv.
"""

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from selfpretrain.config import spec
from selfpretrain.data.dataset import SequenceDataset, generator
from selfpretrain.data.spec import Classes, SequenceSpec, Split, Tokens
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.ops.longconv import fast_length, two_sided_conv
from selfpretrain.objectives.classify import Classify
from selfpretrain.registry import find, names
from selfpretrain.system.startup import keep_memory
from selfpretrain.tasks.base import Card, Task
from selfpretrain.training.flops import count_flops
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage, build_network
from selfpretrain.training.train import TrainingData, train
from tables import Table, write_tsv, written

WIDTH, POSITIONS, SIDE = 64, 4096, 1024


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


def taken(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def product(side: int = SIDE) -> float:
    """FLOP/s of a product of two square matrices."""
    a, b = torch.randn(2, side, side)
    return 2 * side**3 / min(taken(lambda: a @ b) for _ in range(5))


def shares(mixers: list[str], lengths: list[int], rounds: int) -> Table:
    table = [["mixer", *(word for n in lengths for word in (f"{n:,}: ms", "share", "most of it in"))]]
    for name in mixers:
        row = [name]
        for length in lengths:
            row += share(name, length, rounds)
        table.append(row)
        print(" | ".join(row), flush=True)
    return table


def share(name: str, length: int, rounds: int) -> list[str]:
    """Time of a layer's forward and backward pass, its share of the rate, and its largest operator."""
    kind, batch = find("mixers", name), max(1, POSITIONS // length)
    torch.manual_seed(0)
    layer = kind().build(LayerContext(WIDTH, length, rotary=kind.positions == "rotary"))
    x = torch.randn(batch, length, WIDTH, requires_grad=True)

    def loss() -> Tensor:
        return layer(x, None).square().mean()

    def once() -> None:
        loss().backward()

    flops = count_flops(layer, loss)
    once()
    found = [(taken(once), product()) for _ in range(rounds)]
    seconds = statistics.median(each[0] for each in found)
    part = statistics.median(flops / each / rate for each, rate in found)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        once()
    events = [e for e in seen.key_averages() if e.key.startswith("aten::")]
    total, most = sum(e.self_cpu_time_total for e in events), max(events, key=lambda e: e.self_cpu_time_total)
    word = most.key.removeprefix("aten::").strip("_")
    return [f"{1e3 * seconds:,.0f}", f"{part:.0%}", f"{word} {most.self_cpu_time_total / total:.0%}"]


NETWORKS = ((32, 16, 64), (64, 64, 16), (64, 256, 16), (256, 256, 16))
"""Width, positions and batch of networks of two attention blocks; the first is that of the demonstration."""
WORK = ("forward", "backward", "clipping", "optimizer")


def steps_apart(steps: int, rounds: int) -> Table:
    """Return what each part of a step takes, and the share of the product's rate that the whole attains."""
    table = [["width, positions, batch", "ms", *WORK, "share of the product"]]
    for width, length, batch in NETWORKS:
        stage = Stage(Classify(), Budget(steps=steps), batch=batch, evals=1)
        recipe = Recipe(Noise(length), Model(Attention(), width=width, depth=2), (stage,))
        found = [(step_parts(recipe, steps), product()) for _ in range(rounds + 1)][1:]
        seconds = {name: statistics.median(each[name] for each, _ in found) for name in WORK}
        whole = sum(seconds.values())
        network = build_network(recipe)
        inputs = recipe.task.load("train").batch(torch.arange(batch)).inputs
        flops = count_flops(network, lambda net=network, x=inputs: net(x).square().mean())
        attained = statistics.median(flops / sum(each.values()) / rate for each, rate in found)
        parts = [f"{seconds[name] / whole:.0%}" for name in WORK]
        table.append([f"{width}, {length}, {batch}", f"{1e3 * whole:.1f}", *parts, f"{attained:.0%}"])
        print(" | ".join(table[-1]), flush=True)
    return table


def step_parts(recipe: Recipe, steps: int) -> dict[str, float]:
    """Return processor seconds per step of forward pass, backward pass, clipping and optimizer."""
    stage = recipe.last
    form = recipe.task.form
    network = build_network(recipe)
    optimizer = stage.optim.build(network, {})
    rows = recipe.task.load("train").batch(torch.arange(stage.batch))
    targets = stage.objective.make_targets(rows, form, generator("steps"))
    spent = dict.fromkeys(WORK, 0.0)
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        times = [time.process_time()]
        loss = stage.objective.loss(network(*targets.network_inputs()), targets, form) / targets.size
        times.append(time.process_time())
        loss.backward()
        times.append(time.process_time())
        nn.utils.clip_grad_norm_(network.parameters(), stage.optim.clip)
        times.append(time.process_time())
        optimizer.step()
        times.append(time.process_time())
        for name, start, end in zip(WORK, times, times[1:], strict=False):
            spent[name] += (end - start) / steps
    return spent


def loops(steps: int, rounds: int) -> Table:
    """Our step beside a bare loop and those of libraries, as a ratio of medians."""
    stage = Stage(Classify(), Budget(steps=steps), batch=16, evals=1)
    recipe = Recipe(Noise(), Model(Attention(), width=64, depth=2), (stage,))
    sides = {"a bare loop": bare, "Lightning": lightning, "accelerate (HF Trainer)": accelerated}
    times: dict[str, list[float]] = {}
    for round_number in range(rounds + 1):
        us = ours(recipe, steps)
        for name, side in sides.items():
            try:
                other = side(recipe, steps)
            except ImportError:
                continue
            if round_number:  # the first one warms up
                times.setdefault(name, []).append(other / us)
    ratios = {name: statistics.median(found) for name, found in times.items()}
    return [
        ["beside", "other / ours, time of a step"],
        *([name, f"{ratio:.2f}"] for name, ratio in ratios.items()),
    ]


def ours(recipe: Recipe, steps: int) -> float:
    """Seconds per step of our loop."""
    examples = recipe.task.load("train")
    data = TrainingData(recipe.task.form, examples, examples.take(torch.arange(16)))
    network = build_network(recipe)
    start = time.perf_counter()
    train(recipe.last, network, data)
    return (time.perf_counter() - start) / steps


def bare(recipe: Recipe, steps: int) -> float:
    """Seconds per step of forward, backward and optimizer step alone, on one prepared batch."""
    stage, form, network = recipe.last, recipe.task.form, build_network(recipe)
    optimizer = stage.optim.build(network, {})
    rows = recipe.task.load("train").batch(torch.arange(16))
    targets = stage.objective.make_targets(rows, form, generator("bare"))
    start = time.perf_counter()
    for _ in range(steps):
        answers = network(*targets.network_inputs())
        optimizer.zero_grad(set_to_none=True)
        (stage.objective.loss(answers, targets, form) / targets.size).backward()
        optimizer.step()
    return (time.perf_counter() - start) / steps


class Whole(nn.Module):
    """Network and loss of a recipe, as libraries want them."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.network = build_network(recipe)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.network(inputs), targets)


def loader(recipe: Recipe, steps: int) -> torch.utils.data.DataLoader:
    data = recipe.task.load("train")
    batch = data.batch(torch.arange(len(data)))
    many = -(-steps * recipe.last.batch // len(data))
    made = torch.utils.data.TensorDataset(batch.inputs.repeat(many, 1), batch.targets.repeat(many))
    return torch.utils.data.DataLoader(made, recipe.last.batch, shuffle=True)


def lightning(recipe: Recipe, steps: int) -> float:
    """Seconds per step of Lightning's trainer."""
    import lightning as library

    class Module(library.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.whole = Whole(recipe)

        def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
            return self.whole(*batch)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return recipe.last.optim.build(self.whole, {})

    silent = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
    )
    trainer = library.Trainer(max_steps=steps, accelerator="cpu", gradient_clip_val=1.0, **silent)
    module, data = Module(), loader(recipe, steps)
    start = time.perf_counter()
    trainer.fit(module, data)
    return (time.perf_counter() - start) / steps


def accelerated(recipe: Recipe, steps: int) -> float:
    """Seconds per step of a loop by accelerate, as the HF Trainer has it inside."""
    from accelerate import Accelerator

    engine, whole = Accelerator(cpu=True), Whole(recipe)
    network, optimizer, data = engine.prepare(
        whole, recipe.last.optim.build(whole, {}), loader(recipe, steps)
    )
    start = time.perf_counter()
    for inputs, targets in data:
        with engine.grad_accumulation(network):
            loss = network(inputs, targets)
            engine.backward(loss)
            engine.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    return (time.perf_counter() - start) / len(data)


def two_levels(u: Tensor, circle: Tensor, first: int) -> Tensor:
    """A circular convolution whose transforms are products of matrices in two levels, n = first * second."""
    n = circle.shape[1]
    second = n // first
    a, b = (torch.fft.fft(torch.eye(size, dtype=torch.complex64)) for size in (first, second))
    at = torch.arange(first)[:, None] * torch.arange(second)
    twist = torch.polar(torch.ones((), dtype=torch.double), -2 * torch.pi * at.double() / n).to(
        torch.complex64
    )

    def turned(x: Tensor) -> Tensor:
        return (a @ x.unflatten(-1, (first, second)).to(torch.complex64)) * twist @ b

    x = nn.functional.pad(u.transpose(1, 2), (0, n - u.shape[1]))
    spectrum = turned(x) * turned(circle)
    back = a.conj() @ ((spectrum @ b.conj()) * twist.conj())
    return (back.real / n).flatten(-2)[..., : u.shape[1]].transpose(1, 2)


def plain_conv(u: Tensor, circle: Tensor) -> Tensor:
    """Return the circular convolution with kernels (H, n), whose gradients PyTorch works out."""
    n = circle.shape[1]
    spectrum = torch.fft.rfft(u.transpose(1, 2), n=n) * torch.fft.rfft(circle)
    return torch.fft.irfft(spectrum, n=n)[..., : u.shape[1]].transpose(1, 2)


def convolution(length: int, rounds: int) -> Table:
    """Forward and backward pass at one length, two sequences of 32 channels."""
    u = torch.randn(2, length, 32, requires_grad=True)
    past, future = (torch.randn(32, length, requires_grad=True) for _ in range(2))
    n = fast_length(2 * length)
    x, spectra = torch.randn(64, n), torch.randn(64, n // 2 + 1, dtype=torch.complex64)

    def circle() -> Tensor:
        return torch.cat([past, past.new_zeros(32, n - 2 * length), future.flip(-1)], dim=-1)

    def transforms() -> None:
        for _ in range(2):  # of sequences: there and back, forward and backward; kernels are half as many
            torch.fft.rfft(x), torch.fft.irfft(spectra, n=n)
        torch.fft.rfft(x[:32]), torch.fft.irfft(spectra[:32], n=n)

    ways: dict[str, Callable[[], object]] = {
        "ours": lambda: two_sided_conv(u, past, future).sum().backward(),
        "plain torch.fft": lambda: plain_conv(u, circle()).sum().backward(),
        "its transforms alone": transforms,
        "products of matrices in two levels": lambda: two_levels(u, circle(), 128).sum().backward(),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, way in ways.items():
            times[name].append(taken(way))
    medians = {name: statistics.median(found[1:]) for name, found in times.items()}
    rows = [[name, f"{1e3 * each:,.0f}", f"{each / medians['ours']:.2f}"] for name, each in medians.items()]
    return [["way", "ms", "times ours"], *rows]


def main() -> None:
    """Measure, print, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="256,1024")
    parser.add_argument("--mixers", default="all")
    parser.add_argument("--only", default="shares,steps,loops,convolution")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("docs/speed"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    warnings.simplefilter("ignore")
    asked = names("mixers") if given.mixers == "all" else given.mixers.split(",")
    lengths = [int(n) for n in given.lengths.split(",")]
    parts: dict[str, Callable[[], Table]] = {
        "shares": lambda: shares(asked, lengths, given.rounds),
        "steps": lambda: steps_apart(given.steps, given.rounds),
        "loops": lambda: loops(given.steps, given.rounds),
        "convolution": lambda: convolution(16_384, given.rounds),
    }
    for name in given.only.split(","):
        table = parts[name]()
        print(written(table), flush=True)
        write_tsv(given.folder / f"{name}.tsv", table)


if __name__ == "__main__":
    main()
