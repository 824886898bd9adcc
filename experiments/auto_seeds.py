"""What a verdict costs with --seeds auto and with always six seeds, in real comparisons.

    python experiments/auto_seeds.py paths stdlib digits words --runs runs-auto

Every task is compared twice in one folder of runs: with seeds added until the verdict is decided, then with
six. Results that both ask for are trained once. "words" is a file of one's own, imported first: English words
with the stressed syllable of 1,000 of them. What is finished is kept in auto_seeds.json next to this file;
docs/sequential.md has the table. Compute is in FLOPs, since a machine is not always equally busy.
"""

import argparse
import csv
import json
import os
import sys
from pathlib import Path
from typing import Any

import few_labels
import selfpretrain
from few_labels_data import SETS, fetch
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.report import format
from selfpretrain.report.analysis import DECIDED, Difference, analyse
from selfpretrain.report.results import ExperimentResults

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from tables import Table, put

HERE = Path(__file__).resolve().parent
KEPT = HERE / "auto_seeds.json"
PAGE = HERE.parent / "docs" / "sequential.md"
FIXED = 6
LABELLED = 1000
VALIDATED = 150
"""Labelled words of the validation split, among the 1,000."""
WORDS = "words"


def import_words(folder: Path, packages: Path) -> None:
    """Store English words as a task, with the stressed syllable of 1,000 of them and of the test words."""
    data = next(each for each in SETS if each.name == "stress")
    parts = few_labels.divided(data, data.read(fetch(data, packages)), LABELLED, 0)
    words, stress, test_words, test_stress = parts
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{WORDS}.csv"
    with file.open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["word", "stress", "split"])
        for place, word in enumerate(words):
            rows.writerow([word, stress[place], "val" if place < VALIDATED else "train"])
        rows.writerows([word, label, "test"] for word, label in zip(test_words, test_stress, strict=True))
    selfpretrain.import_data(file, options=ImportOptions(label="stress", split="split"))


def measure(
    task: str, mixers: tuple[str, ...], workspace: selfpretrain.Workspace
) -> dict[str, dict[str, Any]]:
    """Return the outcome of both designs, by model."""
    found: dict[str, dict[str, Any]] = {}
    for design in ("auto", FIXED):
        results = selfpretrain.compare(
            task, mixers, seeds=design, workspace=workspace, arms=("matched", "spt")
        )
        for gain in analyse(results).tasks[0].headline:
            found.setdefault(gain.a[0], {})[str(design)] = outcome(gain, results)
    return found


def outcome(gain: Difference, results: ExperimentResults) -> dict[str, Any]:
    """Return verdict, interval, seeds and compute of one model; a stage that cells share counts once."""
    assert gain.estimate is not None and gain.estimate.bounds is not None
    cells = [cell for cell in results.cells if cell.row == gain.a[0]]
    costs = {stage.folder: stage.cost.flops for cell in cells for stage in cell.stages}
    return {
        "standing": gain.standing.value,
        "decided": gain.standing in DECIDED,
        "seeds": len(gain.seeds),
        "points": [round(100 * value, 1) for value in (gain.estimate.mean, *gain.estimate.bounds)],
        "flops": float(f"{sum(costs.values()):.4g}"),
    }


def table(kept: dict[str, dict[str, Any]]) -> Table:
    """Return the table of the page: both designs side by side, and the share of compute."""
    rows = [["task", "model", "auto", "seeds", "gain", "always 6", "gain", "compute of auto"]]
    for task, models in kept.items():
        for model, designs in models.items():
            auto = designs["auto"]
            six = designs[str(FIXED)]
            share = f"{100 * auto['flops'] / six['flops']:.0f} %"
            decided = [auto["standing"], str(auto["seeds"]), _gain(auto)]
            rows.append([task, model, *decided, six["standing"], _gain(six), share])
    return rows


def _gain(found: dict[str, Any]) -> str:
    mean, low, high = (f"{value:+.1f}".replace("-", format.MINUS) for value in found["points"])
    return f"{mean} [{low}, {high}]"


def main() -> None:
    """Compare the tasks that are not kept, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--mixers", default="attention")
    parser.add_argument("--runs", type=Path, default=Path("runs-auto"))
    parser.add_argument("--packages", type=Path, default=Path("few_labels_data"))
    flags = parser.parse_args()
    os.environ.setdefault("SELFPRETRAIN_DATA", str(flags.runs / "data"))
    if WORDS in flags.tasks:
        import_words(flags.runs, flags.packages)
    workspace = selfpretrain.Workspace.of(flags.runs, workers="1")
    for task in flags.tasks:
        found = measure(task, tuple(flags.mixers.split(",")), workspace)
        kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
        kept[task] = kept.get(task, {}) | found
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(task, found, flush=True)
    put(PAGE, "real runs", table(json.loads(KEPT.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
