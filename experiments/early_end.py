"""What ``fit`` saves, and loses, by training no network where a simple method is right on all of validation.

    python experiments/early_end.py Trace Coffee GunPoint ECG200

Sets of the UCR archive (docs/ucr.md says how to get them; Trace is not among those from PyPI). Every set is
fitted on the archive's training series with ``exhaustive=True``, as ``fit`` did before, and with the default,
and scored once on its test series. Rows are added to docs/early-end.tsv as they are measured, and those that
it has are not measured again.
"""

import argparse
import csv
import time
from pathlib import Path
from typing import Any

from selfpretrain import SequenceClassifier
from selfpretrain.tasks.base import load_task

TABLE = Path(__file__).resolve().parents[1] / "docs" / "early-end.tsv"
WAYS: dict[str, dict[str, Any]] = {"all": {"exhaustive": True}, "default": {}}


def measure(name: str, way: str) -> dict[str, Any]:
    """Return the row of the table of one set, fitted in one way."""
    train, test = load_task(f"ucr:{name}")._read()
    model = SequenceClassifier(**WAYS[way])
    wall, processor = time.monotonic(), time.process_time()
    model.fit(train[:, 1:], train[:, 0])
    seconds = {"seconds": time.monotonic() - wall, "processor": time.process_time() - processor}
    kept = model.kept_.removeprefix("kept: ").partition(", accuracy")[0]
    row = {"set": name, "series": len(train), "fit": way} | {k: f"{v:.0f}" for k, v in seconds.items()}
    row |= {"settings": len({(t["objective"], t["rate"], t["pooling"]) for t in model.trials_})}
    return row | {"test accuracy": f"{model.score(test[:, 1:], test[:, 0]):.3f}", "kept": kept}


def main() -> None:
    """Measure what the table lacks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sets", nargs="+")
    for name in parser.parse_args().sets:
        for way in WAYS:
            rows = list(csv.DictReader(TABLE.open(), delimiter="\t")) if TABLE.exists() else []
            if (name, way) in [(row["set"], row["fit"]) for row in rows]:
                continue
            rows.append(measure(name, way))
            with TABLE.open("w", newline="") as file:
                table = csv.DictWriter(file, rows[-1], delimiter="\t", lineterminator="\n")
                table.writeheader()
                table.writerows(rows)


if __name__ == "__main__":
    main()
