"""Record what README.md shows of ``selfpretrain fit``: German nouns, a twentieth of them with their gender.

    python experiments/fit_demo.py FOLDER

It writes ``words.csv`` into the folder, with 20,000 nouns of a package that pip fetches, fits a model as
README.md says, keeps all that was printed in ``printed.txt``, and of it what README.md has room for in
docs/demo/fit.txt. ``python tools/readme.py`` puts that there. What is printed by then is not measured again.
"""

import csv
import random
import subprocess
import sys
from pathlib import Path

from few_labels_data import SETS, fetch

SHOWN = Path(__file__).resolve().parents[1] / "docs" / "demo" / "fit.txt"
COMMAND = "fit words.csv --sequence word --label gender -o model"
NUMBER, LABELLED = 20_000, 1_000


def write_words(folder: Path) -> None:
    """Write nouns with their gender, of which all but the first thousand keep it to themselves."""
    (data,) = (data for data in SETS if data.name == "nouns")
    examples = data.read(fetch(data, folder))
    drawn = random.Random(0).sample(list(zip(examples.X, examples.y, strict=True)), NUMBER)
    with (folder / "words.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["word", "gender"])
        table.writerows([word, gender if at < LABELLED else ""] for at, (word, gender) in enumerate(drawn))


def shown(printed: str) -> str:
    """Return what is kept, the best with a network, and the network alone, of a leaderboard; then scores."""
    head, *rows = printed.rpartition("by which the best was chosen")[2].splitlines()[1:]
    (kept,) = (row for row in rows if row.startswith("*"))
    best, *_, alone = (row for row in rows if row.startswith(" ") and "SPT" in row)
    (why,) = (row.partition("; ")[0] for row in rows if row.startswith("kept: "))
    (score,) = (row for row in rows if row.startswith("accuracy: "))
    (where,) = (row for row in rows if row.startswith("on the test split"))
    return "\n".join([head, kept, best, alone, why, score, where]) + "\n"


def main() -> None:
    """Measure if nothing is printed yet, and keep what is shown."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "printed.txt"
    if not kept.exists():
        write_words(folder)
        command = [sys.executable, "-m", "selfpretrain", *COMMAND.split()]
        done = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
        )
        kept.write_text(done.stdout, encoding="utf-8")
    SHOWN.write_text(shown(kept.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
