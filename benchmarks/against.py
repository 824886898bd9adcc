"""Whether a training step has become slower since an older revision, mixer by mixer, in one run.

    python benchmarks/against.py REVISION [--mixers all] [--length 256] [--rounds 15]
        [--table docs/speed/before.tsv]

A process for each revision trains the same network (two blocks of width 64, float32, one thread, 4,096
positions in all). They take turns, so that what else the machine does meets both; a ratio is that of the
least processor times. Above 1, a step took longer in the older revision. Mixers below 0.95 are measured once
more, and named if they stay there (exit code 1). Rows of a table that are not measured stay as they are.
"""

import argparse
import contextlib
import csv
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch

from selfpretrain.data.dataset import SequenceDataset, generator
from selfpretrain.data.spec import Classes, SequenceSpec, Tokens
from selfpretrain.errors import UnknownName
from selfpretrain.objectives.classify import Classify
from selfpretrain.registry import find, names
from selfpretrain.system.startup import keep_memory
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Stage
from selfpretrain.training.step import prepare, step

ROOT = Path(__file__).resolve().parents[1]
WIDTH, POSITIONS, EVEN = 64, 4096, 0.95
HEAD = ("mixer", "ms, here", "before / here")
Process = subprocess.Popen[str]


def step_of(mixer: str, length: int) -> Callable[[], None]:
    """A training step of a mixer on one batch."""
    torch.manual_seed(0)
    form = SequenceSpec(Tokens(16), length, Classes(("no", "yes")))
    stage = Stage(Classify(), Budget(steps=1), batch=max(1, POSITIONS // length))
    settings = find("mixers", mixer)()
    network = Model(settings, WIDTH).build(form, stage.objective.head(form, WIDTH, "mean"))
    prepare(network, stage, torch.device("cpu"))
    optimizer = stage.optim.build(network, settings.slow())
    random = np.random.default_rng(0)
    rows = list(random.integers(16, size=(stage.batch, length)))
    data = SequenceDataset.from_sequences(rows, random.integers(2, size=stage.batch))
    batch = data.batch(torch.arange(stage.batch))
    targets = stage.objective.make_targets(batch, form, generator("ask"))
    return lambda: step(network, optimizer, stage, form, targets) and None


def answer() -> None:
    """Train what the lines of the standard input name; print the seconds of each step, nan: no such mixer."""
    torch.set_num_threads(1)
    keep_memory()
    at, train = "", lambda: None
    for line in sys.stdin:
        if line != at:
            mixer, length = line.split()
            try:
                train = step_of(mixer, int(length))
            except UnknownName:
                print(math.nan, flush=True)
                continue
            at = line
            train()
        begin = time.process_time()
        train()
        print(time.process_time() - begin, flush=True)


@contextlib.contextmanager
def revision_of(name: str) -> Iterator[Path]:
    """The source of another revision of this repository."""
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*git, "add", "--detach", "--quiet", f"{folder}/old", name], check=True)
        try:
            yield Path(folder) / "old" / "src"
        finally:
            subprocess.run([*git, "remove", "--force", f"{folder}/old"], check=True)


def child(source: Path) -> Process:
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, "--child"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, text=True, **pipes)


def seconds(process: Process, mixer: str, length: int) -> float:
    """Have a process train one step."""
    assert process.stdin is not None and process.stdout is not None
    print(mixer, length, file=process.stdin, flush=True)
    return float(process.stdout.readline())


def least(sides: list[Process], mixer: str, length: int, rounds: int) -> tuple[float, ...]:
    """The least time of a step on each side, in turns, of which each begins every other."""
    taken: dict[int, list[float]] = {side: [] for side in range(len(sides))}
    for turn in range(rounds):
        for side in sorted(taken, reverse=turn % 2 == 1):
            taken[side].append(seconds(sides[side], mixer, length))
    return tuple(min(times) for times in taken.values())


def measured(
    revision: str, mixers: list[str], length: int, rounds: int
) -> Iterator[tuple[str, float, float]]:
    """Yield each mixer with the seconds of a step here, and how many times as many the revision takes."""
    with revision_of(revision) as source, child(ROOT / "src") as here, child(source) as there:
        for mixer in mixers:
            new, old = least([here, there], mixer, length, rounds)
            if old / new < EVEN:
                again = least([there, here], mixer, length, 2 * rounds)
                old, new = (min(pair) for pair in zip((old, new), again, strict=True))
            yield mixer, new, old / new


def main() -> None:
    """Print the table; end with 1 if a mixer has become slower."""
    if sys.argv[1:] == ["--child"]:
        answer()
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision")
    parser.add_argument("--mixers", default="all")
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    mixers = names("mixers") if given.mixers == "all" else given.mixers.split(",")
    found, slower = {}, []
    for mixer, new, ratio in measured(given.revision, mixers, given.length, given.rounds):
        found[mixer] = f"{1000 * new:.1f}", "new" if math.isnan(ratio) else f"{ratio:.2f}"
        print(mixer, *found[mixer], sep="  ", flush=True)
        slower += [mixer] * (ratio < EVEN)
    if given.table:
        write(given.table, found)
    if slower:
        sys.exit(f"slower than {given.revision}: {', '.join(slower)}")


def write(table: Path, found: dict[str, tuple[str, str]]) -> None:
    """Write rows by name, among those that the table has."""
    kept = list(csv.reader(table.open(), delimiter="\t"))[1:] if table.exists() else []
    rows = {name: (ms, ratio) for name, ms, ratio in kept} | found
    lines = [HEAD, *((name, *rows[name]) for name in sorted(rows))]
    table.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
