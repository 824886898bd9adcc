"""Repeat the comparison of ``make demo`` with other seeds and on other code paths of the processor.

    python experiments/demo_repetitions.py docs/demo/repetitions.tsv --repetitions 20 --lanes here,default
    python experiments/demo_repetitions.py docs/demo/lru.tsv --mixer lru

A repetition is what ``make demo`` runs for one architecture, without the arm that nothing is compared with:
four seeds of two arms. Repetitions start at
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


def repeat(mixer: str, lane: str, first_seed: int, runs: Path) -> list[str]:
    """Return one row of the table: scores, the gain with its 95 % interval, and the verdict."""
    program = Path(sys.executable).with_name("selfpretrain")
    options = f"--mixers {mixer} --arms matched,spt --first-seed {first_seed} --seeds {SEEDS} --jobs 1"
    command = [str(program), "compare", *options.split(), "--quiet", "--json", "--runs", str(runs / lane)]
    began = time.perf_counter()
    environment = os.environ | dict(machines.LANES[lane].variables)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    seconds = time.perf_counter() - began
    outcome = json.loads(done.stdout)
    (verdict,) = outcome["verdicts"]
    arms = [verdict["against"], verdict["arm"]]
    by_seed = [[100 * row["score"] for row in outcome["rows"] if row["column"] == arm] for arm in arms]
    gain = [100 * value for value in (verdict["difference"], *verdict["interval"])]
    numbers = [f"{value:.1f}" for value in (*(sum(scores) / SEEDS for scores in by_seed), *gain)]
    seeds = [" ".join(f"{score:.1f}" for score in scores) for scores in by_seed]
    return [lane, str(first_seed), *numbers, "yes" if gain[1] > 0 else "no", *seeds, f"{seconds:.0f}"]


def main() -> None:
    """Add the repetitions that are missing, lanes in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--mixer", default="attention")
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
                row = repeat(flags.mixer, lane, first_seed, flags.runs)
                with flags.table.open("a", encoding="utf-8") as table:
                    table.write("\t".join(row) + "\n")


if __name__ == "__main__":
    main()
