"""A CSV file of your own: take it in, look at it, train one network on it in two stages.

python examples/own_csv.py [--steps 500] [--runs FOLDER] [--data FOLDER]

The file has a row per sequence: its label, whose it is, and one column per position. ``selfpretrain data
import`` does the same from the command line, and ``selfpretrain compare --task steps`` then compares
architectures on it.
"""

import argparse
import csv
import json
import os
import random
from pathlib import Path

import selfpretrain
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.masked import Masked


def write_table(path: Path) -> None:
    """Made-up data: how twenty people step, slow or fast."""
    draw = random.Random(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["pace", "person", *(f"t{i}" for i in range(24))])
        for person in range(20):
            for pace in ("slow", "fast") * 5:
                wave = draw.uniform(0.1, 0.3) if pace == "slow" else draw.uniform(0.4, 0.6)
                steps = [round((i * wave) % 1 + draw.gauss(0, 0.1), 3) for i in range(24)]
                table.writerow([pace, f"p{person}", *steps])


def main() -> None:
    """From a file to test scores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--data", type=Path, default=Path("data"), help="where imported data are kept")
    flags = parser.parse_args()
    flags.data.mkdir(parents=True, exist_ok=True)
    os.environ["SELFPRETRAIN_DATA"] = str(flags.data.absolute())

    table = flags.data / "steps.csv"
    write_table(table)
    options = selfpretrain.ImportOptions(label="pace", group="person", sequence="t*")
    selfpretrain.import_data(table, "steps", options)
    task = selfpretrain.load_task("steps")
    people = [set(task.load(split).groups.tolist()) for split in ("train", "val", "test")]
    assert not people[0] & people[1] and not people[0] & people[2], "nobody is in two splits"

    stages = (
        selfpretrain.Stage(Masked(rate=0.25), selfpretrain.Budget(steps=flags.steps)),
        selfpretrain.Stage(Classify(), selfpretrain.Budget(steps=flags.steps)),
    )
    model = selfpretrain.Model(Attention(heads=2), width=16, depth=1)
    recipe = selfpretrain.Recipe(task, model, stages, seed=0)
    folder = selfpretrain.run(recipe, selfpretrain.Workspace(flags.runs))
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    print(f"{100 * result['scores']['test']['accuracy']:.1f} % of test sequences; everything else: {folder}")


if __name__ == "__main__":
    main()
