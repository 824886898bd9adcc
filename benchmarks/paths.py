"""Images of paths per second and core.

    python benchmarks/paths.py [--seconds 2]

Times are processor time of one thread, compilation excluded; curves and distractors grow with the grid.
"""

import argparse
import time

import numpy as np

from selfpretrain.tasks.generators.paths import CurveRules, PathImages
from selfpretrain.tasks.paths import Paths

BATCH = 2_000


def rate(rules: CurveRules, seconds: float) -> float:
    """Images per second of processor time."""
    images, labels = np.zeros((BATCH, rules.size**2), dtype=np.uint8), np.zeros(BATCH, dtype=np.int64)
    PathImages(0, rules, BATCH).fill(images, labels, 100)
    stream, done, start = PathImages(1, rules, 10_000_000), 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        done += stream.fill(images, labels, BATCH)
    return done / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2, help="processor time per size")
    seconds = parser.parse_args().seconds
    for size in (8, 12, 16, 24, 32, 48, 64):
        rules = Paths(size=size).rules
        said = f"curves of {rules.shortest} to {rules.longest} cells, {rules.distractors} distractors"
        print(f"{size:2d} cells a side, {said}: {rate(rules, seconds):9,.0f} images/s")


if __name__ == "__main__":
    main()
