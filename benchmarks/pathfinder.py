"""Pathfinder images per second and core, beside the published generator.

    python benchmarks/pathfinder.py [--seconds 5]

Times are processor time of one thread, compilation and tables excluded. The published generator was measured
once, with the same parameters: 8.1 images/s at 32 pixels, 0.66 at 128, 7.0 at 256.
"""

import argparse
import time

import numpy as np

from selfpretrain.tasks.generators.pathfinder import Settings, images, seeds

PUBLISHED = {32: 8.1, 128: 0.66, 256: 7.0}
BATCH = {32: 500, 64: 20, 128: 50, 256: 200}


def rate(settings: Settings, seconds: float) -> float:
    """Images per second of processor time."""
    images(seeds(0, np.arange(1)), settings)
    done, number, start = 0, BATCH[settings.resolution], time.process_time()
    while (spent := time.process_time() - start) < seconds:
        images(seeds(1, np.arange(done, done + number)), settings)
        done += number
    return done / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5, help="processor time per resolution")
    seconds = parser.parse_args().seconds
    for resolution in (32, 64, 128, 256):
        fast = rate(Settings(resolution), seconds)
        beside = f", {fast / PUBLISHED[resolution]:,.0f} times" if resolution in PUBLISHED else ""
        print(f"{resolution:3d} pixels: {fast:7,.0f} images/s{beside}")


if __name__ == "__main__":
    main()
