"""How far the score that ``fit`` prints for what it keeps is from the truth, by simulation.

    python benchmarks/kept_score.py [--only "text none 60"] [--sets 40]

Every data set has new sequences and balanced labels: texts of random letters whose last one agrees with the
label as often as chance ("none"), in 65 % ("weak") or 97 % ("strong"), or noise. Linear methods, all settings
of them, are validated on the folds of ``fit`` beside a network that knows nothing; "whole" are fits of tiny
networks, whose interval of before is that of their leaderboard. The truth is 0.5 without signal, else the
accuracy on 2,000 new sequences. What is measured is kept in kept_score.json, where the same command goes on.
Writes docs/estimators.tsv, a table of the page beside it.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from selfpretrain import SequenceClassifier
from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import SequenceSpec
from selfpretrain.estimators import leaderboard
from selfpretrain.estimators.in_memory import InMemoryTask
from selfpretrain.estimators.scores import bootstrap
from selfpretrain.estimators.search import fold_data
from selfpretrain.estimators.simple import Candidate, candidates_for
from tables import Table, write_tsv

HERE = Path(__file__).resolve().parent
KEPT = HERE / "kept_score.json"
PAGE = HERE.parent / "docs" / "estimators.md"
LETTERS = np.array(list("abcdefghij"))
SHARES = {"none": 0.5, "weak": 0.65, "strong": 0.97}
CELLS = {
    "text none 30": 70, "text none 60": 70, "text none 200": 40, "text weak 30": 50, "text weak 60": 50,
    "text weak 200": 25, "text strong 30": 40, "text strong 60": 40, "values none 60": 40, "whole none 60": 6,
}  # fmt: skip
"""Kind, signal and number of labels -> number of data sets."""
TEST = 2000
TINY = {"width": 8, "depth": 1, "epochs": 1, "pretrain_epochs": 0.1}
Row = list[float]


def data_set(kind: str, signal: str, n: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return n sequences with balanced labels, and those of the test after them."""
    random = np.random.default_rng([n, seed, list(SHARES).index(signal)])
    size = n + TEST
    if kind == "values":
        noise = random.standard_normal((size, 30))
        y = random.integers(0, 2, size)
        y[:n] = random.permutation(np.arange(n) % 2)
        return noise, y
    codes = random.integers(0, 10, (size, 8))
    y = random.integers(0, 2, size)
    y[:n] = random.permutation(np.arange(n) % 2)
    if signal != "none":
        agrees = random.random(size) < SHARES[signal]
        codes[:, -1] = random.integers(0, 5, size) + np.where(np.where(agrees, y, 1 - y) == 1, 0, 5)
    first = random.integers(0, 4, size)
    return ["".join(LETTERS[row[start:]]) for row, start in zip(codes, first, strict=True)], y


def simple_methods(X: Any, y: np.ndarray, n: int, seed: int) -> tuple[list[Candidate], np.ndarray, Any]:
    """Return all linear methods with the answers of their settings, the true classes, and the test data."""
    estimator = SequenceClassifier(random_state=seed)
    estimator.seed_ = seed
    task = estimator._as_task(X[:n], y[:n])
    data = task.data()
    held = fold_data(data, seed)
    methods = estimator._simple_methods(task, [*map(InMemoryTask, held)])
    found = [
        methods.refitted(methods.validated(method), data.whole)
        for method in candidates_for(data.form, data.whole)
        if not method.boosted
    ]
    read = estimator._read(X[n:], reset=False)
    if estimator.alphabet_ is not None:
        alphabet = estimator.alphabet_
        read = alphabet.with_signs(alphabet.with_unknown(alphabet.shifted(read)))
    return found, found[0].answers[0], read.examples(data.form.signal, np.full(TEST, -1, dtype=np.int64))


@dataclass(frozen=True)
class Ignorant:
    """A network that gives every class the same probability."""

    form: SequenceSpec
    output = "classes"

    def probabilities(self, data: SequenceDataset) -> np.ndarray:
        """Return (n, 2)."""
        return np.full((len(data), 2), 0.5)


def measured(kind: str, signal: str, n: int, seed: int) -> Row:
    """Return the score by which was chosen and the corrected one, each with its interval, and the truth."""
    X, y = data_set(kind, signal, n, seed)
    if kind == "whole":
        model = SequenceClassifier(**TINY, random_state=seed).fit(X[:n], y[:n])
        best = next(row for row in model.leaderboard_ if model.kept_.startswith(f"kept: {row['name']}, "))
        kept = model.kept_score_
        truth = 0.5 if signal == "none" else model.score(X[n:], y[n:])
        return [best["score"], best["low"], best["high"], kept.value, kept.low, kept.high, truth]
    found, actual, test = simple_methods(X, y, n, seed)
    network = leaderboard.Candidate(
        "network", Ignorant(found[0].model.form), (actual, np.full((n, 2), 0.5)), 0.0, 0
    )
    verdict = leaderboard.judge(network, found, None, 5)
    truth = 0.5 if signal == "none" else accuracy(y[n:], verdict.kept.model.probabilities(test))["score"]
    before = bootstrap(accuracy, verdict.kept.answers)["score"]
    score = verdict.score
    return [before.value, before.low, before.high, score.value, score.low, score.high, truth]


def accuracy(y: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """Return the accuracy, as a metric of ``bootstrap``."""
    return {"score": float((y == probabilities.argmax(1)).mean())}


def table(kept: dict[str, list[Row]]) -> Table:
    """Return bias and coverage of the score by which was chosen, and of the corrected one."""
    rows = [["data, labels", "sets", "truth", "chosen by: bias", "covered", "kept: bias", "covered", "width"]]
    for name, found in kept.items():
        score, low, high, value, lower, upper, truth = np.transpose(found)
        error = value - truth
        rows.append(
            [name, str(len(found)), f"{truth.mean():.3f}", f"{np.mean(score - truth):+.3f}",
             f"{np.mean((low <= truth) & (truth <= high)):.0%}",
             f"{error.mean():+.3f} ± {1.96 * error.std() / len(error) ** 0.5:.3f}",
             f"{np.mean((lower <= truth) & (truth <= upper)):.0%}", f"{np.mean(upper - lower):.2f}"]
        )  # fmt: skip
    return rows


def write(page: Path, kept: dict[str, list[Row]]) -> None:
    """Write the table of what is kept into the file beside a page."""
    write_tsv(page.with_suffix(".tsv"), table(kept))


def main() -> None:
    """Measure what is not kept yet, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(CELLS))
    parser.add_argument("--sets", type=int, help="data sets of each kind; else as many as are kept")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    given = parser.parse_args()
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    for name in () if given.page else given.only:
        kind, signal, labels = name.split()
        rows = kept.setdefault(name, [])
        for seed in range(len(rows), given.sets or CELLS[name]):
            rows.append([round(x, 4) for x in measured(kind, signal, int(labels), seed)])
            lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in kept.items()]
            KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    write(PAGE, kept)


if __name__ == "__main__":
    main()
