"""What believing costs: `spt report` over 2,000 stages, and the share of `spt compare` spent on verifying.

    python benchmarks/trust.py [--seeds 250] [--rows 2]

A comparison is run at the smoke scale; its stages are then copied under other names until there are
rows * seeds * 4 of them, each sealed anew. Times are processor time; verifying is what is spent on
digests, on reading predictions and on counting scores again.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from selfpretrain.report import evidence, results
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies._running import Request, carry_out, comparison
from selfpretrain.system import files
from selfpretrain.training import run_dir

CHECKS = ("read_predictions", "contradiction", "sha256_of")
VERIFYING = [
    (module, name)
    for module in (results, evidence, files, run_dir)
    for name in CHECKS
    if hasattr(module, name)
]


@contextmanager
def clocked() -> Iterator[list[float]]:
    """Seconds of processor time spent on verifying meanwhile, nested calls counted once."""
    spent, depth = [0.0], [0]

    def timed(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            begin, depth[0] = time.process_time(), depth[0] + 1
            try:
                return work(*given, **named)
            finally:
                depth[0] -= 1
                spent[0] += 0.0 if depth[0] else time.process_time() - begin

        return run

    with ExitStack() as stack:
        for module, name in VERIFYING:
            stack.enter_context(patch.object(module, name, timed(getattr(module, name))))
        yield spent


def multiply(folder: Path, rows: int, seeds: int) -> int:
    """Copy the cells of the first seed of an experiment of one row; how many stages there are then."""
    record, runs = json.loads((folder / "study.json").read_text()), folder.parent
    (task,) = record["tasks"]
    first, made = [cell for cell in task["cells"] if cell["seed"] == 0], set[str]()
    task["cells"] = []
    for at in range(rows * seeds):
        for cell in first:
            names = [f"{where[:-10]}{at:05x}{where[-5:]}" for where in cell["stages"]]
            for old, new in zip(cell["stages"], names, strict=True):
                if new not in made:
                    shutil.copytree(runs / old, runs / new)
                    result = files.read_json(runs / new / "result.json")
                    files.write_json(runs / new / "result.json", result | {"fingerprint": new[-10:]})
                    made.add(new)
            task["cells"].append(cell | {"row": f"row {at % rows}", "seed": at // rows, "stages": names})
    files.write_json(folder / "study.json", record)
    return len(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=250)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as runs:
        request = Request(comparison("stdlib", ("attention",), "causal", 1, "smoke", {}), "smoke")
        begin = time.process_time()
        with clocked() as spent:
            found = carry_out(request, Workspace(Path(runs), quiet=True))
        took = time.process_time() - begin
        print(f"compare, smoke: {took:.2f} s, verifying {spent[0]:.3f} s = {100 * spent[0] / took:.2f} %")
        stages = multiply(found.folder, given.rows, given.seeds)
        begin = time.process_time()
        with clocked() as spent:
            results.read(found.folder)
        took = time.process_time() - begin
        print(f"reading {stages:,} stages: {took:.2f} s, of which verifying {spent[0]:.2f} s")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "selfpretrain", "report", str(found.folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"spt report, {stages:,} stages: {took:.2f} s of processor time")


if __name__ == "__main__":
    main()
