"""Repeat the comparison of ``make demo`` with other seeds and on other code paths of the processor.

    python experiments/demo_repetitions.py docs/demo/repetitions.tsv --repetitions 20 --lanes here,default

A repetition is what ``make demo`` runs for the Transformer: four seeds of three arms. Repetitions start at
seed 2000, which no setting was chosen with. Lanes are kinds of instructions that PyTorch may use; each gives
other roundings, and therefore other trajectories. Finished repetitions are not run again, and those that
failed are rows too.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
import machines

FIRST_SEED = 2_000
SEEDS = 4
LANES = ("here", "default")  # of tools/machines.py
COLUMNS = (
    "lane",
    "first seed",
    "matched",
    "SPT",
    "gain",
    "low",
    "high",
    "better",
    "matched by seed",
    "SPT by seed",
    "seconds",
)


def repeat(lane: str, first_seed: int, runs: Path) -> list[str]:
    """Return one row of the table: scores, the gain with its 95 % interval, and the verdict."""
    command = [
        *(
            str(Path(sys.executable).with_name("selfpretrain")),
            "compare",
            "--mixers",
            "attention",
            "--jobs",
            "1",
        ),
        *(
            "--first-seed",
            str(first_seed),
            "--seeds",
            str(SEEDS),
            "--runs",
            str(runs / lane),
            "--quiet",
            "--json",
        ),
    ]
    began = time.perf_counter()
    done = subprocess.run(
        command,
        env=os.environ | dict(machines.LANES[lane].variables),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    seconds = time.perf_counter() - began
    outcome = json.loads(done.stdout)
    return [
        lane,
        str(first_seed),
        *summary(outcome["rows"], Path(outcome["report"]).parent),
        f"{seconds:.0f}",
    ]


def summary(rows: list[dict[str, Any]], folder: Path) -> list[str]:
    """Return scores, and the gain over matched compute as the page of the experiment has it, as text."""
    from selfpretrain.report.analysis import analyse
    from selfpretrain.report.results import read

    gain = analyse(read(folder)).tasks[0].headline[0]
    assert gain.estimate is not None, "all seeds have finished"
    low, high = (100 * bound for bound in gain.estimate.bounds)
    by_seed = [[100 * row["score"] for row in rows if row["column"] == arm[1]] for arm in (gain.b, gain.a)]
    means = [f"{sum(scores) / len(scores):.1f}" for scores in by_seed]
    verdict = "yes" if low > 0 else "no"
    seeds = [" ".join(f"{score:.1f}" for score in scores) for scores in by_seed]
    return [*means, f"{100 * gain.estimate.mean:.1f}", f"{low:.1f}", f"{high:.1f}", verdict, *seeds]


def main() -> None:
    """Add the repetitions that are missing, lanes in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--lanes", default=",".join(LANES))
    parser.add_argument("--runs", type=Path, default=Path("runs/demo_repetitions"))
    flags = parser.parse_args()
    if not flags.table.exists():
        flags.table.write_text("\t".join(COLUMNS) + "\n", encoding="utf-8")
    for i in range(flags.repetitions):
        for lane in flags.lanes.split(","):
            first_seed = FIRST_SEED + SEEDS * i
            known = {
                tuple(line.split("\t")[:2]) for line in flags.table.read_text(encoding="utf-8").splitlines()
            }
            if (lane, str(first_seed)) not in known:
                row = repeat(lane, first_seed, flags.runs)
                with flags.table.open("a", encoding="utf-8") as table:
                    table.write("\t".join(row) + "\n")


if __name__ == "__main__":
    main()
