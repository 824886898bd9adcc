"""What self-pretraining gives beside simple methods on labelled sequences that come with packages.

    pip install aeon seglearn gender-guesser rdata
    MLBENCH=folder python experiments/data_sets.py --minutes 30

Set by set, smallest first, each kept in data_sets.json when it is finished; the same command goes on from
there, and writes docs/log-data-sets.tsv. ``--page`` writes it without measuring. Every method
stands here as its user would write it and keeps the settings it comes with; none saw a test split before.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from labelled import SETS, Labelled
from selfpretrain.report.format import MINUS, NONE, plural

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from tables import Table, write_tsv

HERE = Path(__file__).parent
KEPT, PAGE = HERE / "data_sets.json", HERE.parent / "docs" / "log.md"
SEEDS = 3
ARMS = {"scratch": "scratch", "scratch (matched)": "matched", "SPT": "SPT"}
"""Arms of a comparison, and what the page calls them."""
OTHERS = ("matched", "scratch")
"""What self-pretraining is compared with."""
Entry = dict[str, Any]


def selfpretraining(name: str, X: list[Any], y: Any, split: list[str], groups: Any) -> Any:
    import selfpretrain

    selfpretrain.import_arrays(name, X, y, split=split, groups=groups)
    return selfpretrain.SequenceClassifier().compare(name, seeds=SEEDS)


def minirocket(X: Any, y: Any, Z: Any) -> Any:
    from aeon.classification.convolution_based import MiniRocketClassifier

    longest = max(len(x) for x in [*X, *Z])
    X, Z = (np.stack([np.pad(x.T, ((0, 0), (0, longest - len(x)))) for x in part]) for part in (X, Z))
    return MiniRocketClassifier(random_state=0).fit(X, y).predict(Z)


def warping(X: Any, y: Any, Z: Any) -> Any:
    from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier

    return KNeighborsTimeSeriesClassifier().fit([x.T for x in X], y).predict([z.T for z in Z])


def boosting(X: Any, y: Any, Z: Any) -> Any:
    from sklearn.ensemble import GradientBoostingClassifier

    X, Z = (np.stack([np.concatenate([x.mean(0), x.std(0), x.min(0), x.max(0)]) for x in p]) for p in (X, Z))
    return GradientBoostingClassifier(random_state=0).fit(X, y).predict(Z)


def boosted_counts(X: Any, y: Any, Z: Any) -> Any:
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.feature_extraction.text import CountVectorizer

    count = CountVectorizer(analyzer="char").fit(X)
    return GradientBoostingClassifier(random_state=0).fit(count.transform(X), y).predict(count.transform(Z))


def grams(X: Any, y: Any, Z: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    count = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 4))
    return make_pipeline(count, LogisticRegression(max_iter=1000)).fit(X, y).predict(Z)


def places(X: Any, y: Any, Z: Any) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    longest = max(len(x) for x in X)
    X, Z = ([list(x[:longest].ljust(longest)) for x in part] for part in (X, Z))
    known = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=1000))
    return known.fit(X, y).predict(Z)


def fitted(X: Any, y: Any, Z: Any) -> tuple[Any, str]:
    import selfpretrain

    model = selfpretrain.SequenceClassifier(random_state=0).fit(X, y)
    return model.predict(Z), model.kept_


Answer = Callable[[Any, Any, Any], Any]
OF_VALUES: dict[str, Answer] = {"MiniRocket": minirocket, "1-NN DTW": warping, "boosting": boosting}
OF_WORDS: dict[str, Answer] = {"boosting": boosted_counts, "n-grams": grams, "places": places}
SIMPLE = ("MiniRocket", "1-NN DTW", "boosting", "n-grams", "places")


def spent() -> float:
    """Seconds of the processor, of this process and of those that it has waited for."""
    found = os.times()
    return found.user + found.system + found.children_user + found.children_system


def simple(data: Labelled) -> dict[str, Entry]:
    """Accuracy and seconds of the methods that suit the sequences, after one call that compiles."""
    found: dict[str, Entry] = {}
    (X, y), (Z, right) = data.train, data.test
    some = np.concatenate([np.flatnonzero(y == k)[:2] for k in np.unique(y)])
    for name, answer in (OF_WORDS if data.words else OF_VALUES).items():
        answer([X[row] for row in some], y[some], Z[:3])
        start = spent()
        given = answer(X, y, Z)
        found[name] = {"accuracy": float(np.mean(given == right)), "seconds": spent() - start}
    return found


def of_fit(data: Labelled) -> Entry:
    """Return accuracy and seconds of the default ``fit``, and what it kept."""
    start = spent()
    given, kept = fitted(data.train[0], data.train[1].astype(str), data.test[0])
    accuracy = float(np.mean(given == data.test[1].astype(str)))
    return {"accuracy": accuracy, "seconds": spent() - start, "kept": kept}


def symbols(words: list[str], alphabet: str) -> list[np.ndarray]:
    """Words as numbers of their letters."""
    return [np.array([alphabet.index(letter) for letter in word]) for word in words]


def ours(data: Labelled) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """Arms with the accuracy of every seed and the seconds of one training; differences with intervals."""
    from selfpretrain.report.analysis import analyse_task

    alphabet = "".join(sorted(set("".join(data.train[0] + data.test[0])))) if data.words else ""
    X, Z = (symbols(p[0], alphabet) if data.words else p[0] for p in (data.train, data.test))
    y = np.concatenate([data.train[1], data.test[1]]).astype(str)
    split = ["train"] * len(X) + ["test"] * len(Z)
    groups = None
    if data.groups is not None:  # nobody of the training part is in the test
        groups = np.concatenate([data.groups, np.full(len(Z), data.groups.max() + 1)])
    start, clock = spent(), time.monotonic()
    results = selfpretraining(data.name, X + Z, y, split, groups)
    share = (spent() - start) / (time.monotonic() - clock)
    (task,) = results.tasks
    arms = {}
    for arm, name in ARMS.items():
        cells = [cell for cell in task.cells if cell.column == arm]
        seconds = share * sum(cell.seconds for cell in cells) / len(cells)
        arms[name] = {"accuracy": [cell.score for cell in cells], "seconds": seconds}
    gains = {}
    for gain in analyse_task(task).gains:
        assert gain.estimate is not None
        against = ARMS[gain.b[1]]
        gains[against] = {"difference": gain.estimate.mean, "half": gain.estimate.half}
    return arms, gains


def measured(data: Labelled) -> Entry:
    """Everything that the page says of a set."""
    with tempfile.TemporaryDirectory() as folder:
        known = simple(data)
        before = os.environ.get("SELFPRETRAIN_DATA", "")
        os.environ["SELFPRETRAIN_DATA"] = folder
        arms, gains = ours(data)
        os.environ["SELFPRETRAIN_DATA"] = before
    return {"facts": data.facts, "simple": known, "arms": arms, "gains": gains}


def finished() -> dict[str, Entry]:
    """What is kept, also by another process since this one began."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}


def measure(kept: dict[str, Entry], wanted: list[str], minutes: float) -> None:
    """Measure sets that are not kept yet, as long as there is time for another one."""
    start = time.monotonic()
    for name in wanted:
        if "fit" in kept.get(name, {}):
            continue
        if time.monotonic() - start > 60 * minutes:
            print(f"{name}: left for another time", flush=True)
            continue
        warnings.simplefilter("ignore")  # of encodings, while reading, and of types, while compiling
        try:
            data = SETS[name]()
        except Exception as error:  # a package is not there, or its data
            print(f"{name}: left out, {type(error).__name__}: {error}", flush=True)
            continue
        found = kept.get(name) or measured(data)
        found["fit"] = of_fit(data)
        kept |= finished() | {name: found}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(f"{name}: {json.dumps(kept[name])}", flush=True)


def accuracies(entry: Entry) -> dict[str, float]:
    """Of every method that was tried on a set, the arms by their mean over seeds."""
    found = {name: float(np.mean(arm["accuracy"])) for name, arm in entry["arms"].items()}
    found |= {name: known["accuracy"] for name, known in entry["simple"].items()}
    return found | ({"fit": entry["fit"]["accuracy"]} if "fit" in entry else {})


def score_table(kept: Mapping[str, Entry]) -> Table:
    """What the sets are, accuracy of every method, the best in bold, and what self-pretraining gains."""
    columns = [*ARMS.values(), *SIMPLE, "fit"]
    rows = []
    for name, entry in kept.items():
        found = accuracies(entry)
        best = max(round(100 * value, 1) for value in found.values())
        gains = [entry["gains"][arm] for arm in OTHERS]
        told = [f"{100 * gain['difference']:+.1f} ± {100 * gain['half']:.1f}" for gain in gains]
        rows.append([name, *_about(entry["facts"]), *(_score(found.get(x), best) for x in columns), *told])
    facts = ("what", "train / test", "commonest class")
    return [["data", *facts, *columns, *(f"SPT {MINUS} {other}" for other in OTHERS)], *rows]


def _about(facts: Entry) -> list[str]:
    low, high = facts["shortest"], facts["longest"]
    size = f"{low}" if low == high else f"{low} to {high}"
    size += f" positions, {plural(facts['channels'], 'channel')}" if facts["channels"] else " symbols"
    counts = f"{facts['train']:,} / {facts['test']:,}, {facts['division']}"
    return [
        f"{facts['about']} ({facts['classes']} classes, {size})",
        counts,
        f"{100 * facts['commonest']:.1f}",
    ]


def _score(value: float | None, best: float) -> str:
    if value is None:
        return NONE
    shown = f"{100 * value:.1f}"
    return f"**{shown}**" if round(100 * value, 1) == best else shown


def write(page: Path) -> None:
    """Write the table of what is kept beside a page, in the order of the sets."""
    kept = finished()
    table = score_table({name: kept[name] for name in SETS if name in kept})
    write_tsv(page.with_name(f"{page.stem}-data-sets.tsv"), table)


def main() -> None:
    """Measure what is not kept, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--minutes", type=float, default=60, help="begin no set after so many")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    wanted = arguments.sets.split(",")
    if unknown := set(wanted) - set(SETS):
        sys.exit(f"error: no set {', '.join(sorted(unknown))}; there are {', '.join(SETS)}")
    if not arguments.page:
        measure(finished(), wanted, arguments.minutes)
    if PAGE.exists():
        write(PAGE)


if __name__ == "__main__":
    main()
