"""Tables that the report leaves out: cost and calibration of every model, confusion, models against models.

python examples/breakdown.py [FOLDER]

FOLDER is that of a comparison or study in a folder of runs. Without it, a small one is made first.
"""

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
from sklearn.metrics import confusion_matrix

import selfpretrain
from selfpretrain.report.analysis import difference
from selfpretrain.report.statistics import calibration


def main() -> None:
    """Print the tables of every task."""
    if len(sys.argv) > 1:
        results = selfpretrain.read_results(Path(sys.argv[1]))
    else:
        workspace = selfpretrain.Workspace.of(Path("runs"))
        results = selfpretrain.compare(
            "digits", mixers=("attention", "s4d"), seeds=1, scale="smoke", workspace=workspace
        )
    for task in results.tasks:
        print(f"\n{task.label}: seconds, FLOPs; of 100 % confidence, mean and calibration error; confusion")
        for row in task.rows:
            for column in task.columns:
                cells = list(task.at(row, column).values())  # one per seed
                kept = [cell.scored.predictions for cell in cells]
                seconds = np.mean([cell.seconds for cell in cells])
                flops = np.mean([cell.flops for cell in cells])
                print(f"{row}, {column}: {seconds:.0f} s, {flops:.3g} FLOP")
                if task.card.kind == "classes" and all(each.confidence is not None for each in kept):
                    target = np.concatenate([each.target for each in kept])
                    prediction = np.concatenate([each.prediction for each in kept])
                    confidence = np.concatenate([each.confidence for each in kept]) / 255
                    bins = calibration(confidence, prediction == target)
                    error = sum(share * abs(sure - right) for sure, right, share in bins)
                    print(f"  {confidence.mean():.1%} confident, off by {error:.1%}")
                    print(confusion_matrix(target, prediction))
        for column in task.headline:
            for a, b in combinations(task.rows, 2):
                found = difference(task, (a, column), (b, column))
                if found.estimate:
                    bounds = found.estimate.bounds or ("one seed has", "no interval")
                    print(f"{column}: {a} minus {b} {found.estimate.mean:+.3f}, {bounds}")


if __name__ == "__main__":  # stages run in processes of their own, which import this file again
    main()
