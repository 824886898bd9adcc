"""Two architectures on one task: does self-pretraining close the gap between them?

python examples/compare_two_layers.py [--scale small] [--runs FOLDER] [--jobs N]

The scale "smoke" takes seconds and proves nothing; "small" takes minutes on two cores and is worth reading.
"""

import argparse
from pathlib import Path

import selfpretrain


def main() -> None:
    """Compare, print a line per architecture and arm, and say where the report is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=("smoke", "small"), default="smoke")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--jobs", default="auto", help="stages at once")
    flags = parser.parse_args()

    workspace = selfpretrain.Workspace.of(flags.runs, workers=flags.jobs)
    seeds = 1 if flags.scale == "smoke" else 3
    results = selfpretrain.compare(
        "digits", mixers=("attention", "s4d"), seeds=seeds, scale=flags.scale, workspace=workspace
    )

    scores: dict[tuple[str, str], list[float]] = {}
    for run in results.to_rows():
        scores.setdefault((run["row"], run["column"]), []).append(run["score"])
    for (layer, arm), found in scores.items():
        print(f"{layer:12} {arm:16} {100 * sum(found) / len(found):5.1f} % of test digits")
    print(f"report: {results.folder / 'report.html'}")


if __name__ == "__main__":  # stages run in processes of their own, which import this file again
    main()
