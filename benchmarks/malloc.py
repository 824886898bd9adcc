"""What keeping freed memory in the process gains: the training loop with and without ``launch.keep_memory``.

    python benchmarks/malloc.py [--mixers attention,s4d] [--lengths 256,1024,4096] [--width 64]

The whole loop (data order, batches, masking, optimizer, checkpoints) of a network of 3 blocks, one thread.
Every figure comes from a fresh process, memory kept and default taking turns: processor time per step (median
over the rounds) and the peak of the resident set. Batches have as many sequences as make up ``--positions``.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"

DEPTH = 3


def measure(mixer: str, length: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Processor seconds per step and peak bytes of this process."""
    import torch
    from loop import Noise, ours

    from selfpretrain.objectives.masked import Masked
    from selfpretrain.registry import find
    from selfpretrain.system.startup import keep_memory
    from selfpretrain.training.model import Model
    from selfpretrain.training.recipe import Budget, Recipe, Stage

    torch.set_num_threads(1)
    keep_memory()
    steps, batch = arguments.steps, max(1, arguments.positions // length)
    model = Model(find("mixers", mixer)(), width=arguments.width, depth=DEPTH)
    stage = Stage(Masked(), Budget(steps=steps), batch=batch, evals=1)
    recipe = Recipe(Noise(length), model, (stage,))
    ours(recipe, 2)
    start = time.process_time()
    ours(recipe, steps)
    seconds = (time.process_time() - start) / steps
    return {"seconds": seconds, "bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}


def ask(mixer: str, length: int, kept: str) -> dict[str, float]:
    """The same in a fresh process."""
    command = [sys.executable, __file__, *sys.argv[1:], "--child", f"{mixer}/{length}"]
    done = subprocess.run(
        command, env=os.environ | {"SPT_MALLOC": kept}, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print one line per mixer and length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mixers", default="attention,s4d")
    parser.add_argument("--lengths", default="256,1024,4096")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--positions", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        mixer, length = arguments.child.split("/")
        print(json.dumps(measure(mixer, int(length), arguments)))
        return
    print("mixer          L     default       kept   gain (of rounds)        peak of default, kept")
    for mixer in arguments.mixers.split(","):
        for length in map(int, arguments.lengths.split(",")):
            pairs = [[ask(mixer, length, kept) for kept in "01"] for _ in range(arguments.rounds)]
            print(line(mixer, length, pairs), flush=True)


def line(mixer: str, length: int, pairs: list[list[dict[str, float]]]) -> str:
    """Medians over the rounds."""
    gains = [default["seconds"] / kept["seconds"] for default, kept in pairs]
    seconds, sizes = (
        [statistics.median(side[key] for side in sides) for sides in zip(*pairs, strict=True)]
        for key in ("seconds", "bytes")
    )
    times = " ".join(f"{1e3 * s:7.1f} ms" for s in seconds)
    peaks = ", ".join(f"{size / 1e6:.0f} MB" for size in sizes)
    gain = f"{statistics.median(gains):.2f}x ({min(gains):.2f}-{max(gains):.2f})"
    return f"{mixer:10s} {length:5d}  {times}   {gain:20s}   {peaks}"


if __name__ == "__main__":
    main()
