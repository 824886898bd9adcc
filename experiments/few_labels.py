"""Few labels and many sequences: what fit keeps, its network, training from scratch and simple methods.

    python experiments/few_labels.py --minutes 60
    python experiments/few_labels.py --only nouns/300/0 sentences/100

Data are fetched by pip, since they may not be shipped. What is finished is kept in few_labels.json next to
this file, so that the same command goes on where it was stopped. It writes what docs/few-labels.md shows:
the data in few-labels-facts.tsv, scores in few-labels-scores.tsv, every draw in few-labels.tsv (``--page``
does so without measuring). Test examples are never used for a choice.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from few_labels_data import SETS, Data, Examples, fetch, whole
from selfpretrain.report.format import MINUS, NONE

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from tables import Table, write_tsv

HERE = Path(__file__).resolve().parent
KEPT = HERE / "few_labels.json"
PAGE = HERE.parent / "docs" / "few-labels.md"
LABELS = (20, 100, 300, 1000)
SEEDS = (0, 1, 2)
METHODS = ("scratch", "SPT", "simple", "simple, all sequences", "fit")
LONGER = "†"
"""Mark of fits with another time limit than the default one."""
EARLIER = "‡"
"""Mark of fits before averages of the two best simple methods were candidates."""
ALONE = "§"
"""Mark of fits whose network is that of the best setting, before the two best were averaged."""
ONE_POOLING = "¶"
"""Mark of fits, and of training from scratch, before poolings were searched."""
DRAWS = 1000
"""Bootstrap resamples of the test sequences."""

Entry = dict[str, Any]
Parts = tuple[list[Any], list[Any], list[Any], list[Any]]
"""Sequences and labels, None where hidden, to learn from; sequences and labels of the test."""


def divided(data: Data, examples: Examples, number: int, seed: int) -> Parts:
    """Return one draw of labels and of the test.

    Where people are known, those of the test are others, and labels come from as few people as possible.
    """
    random = np.random.RandomState(seed)
    if examples.people is None:
        order = random.permutation(len(examples.X))
        held = order[: data.tested]
        rest = order[data.tested :]
    else:
        rows = [random.permutation(np.flatnonzero(examples.people == p)) for p in np.unique(examples.people)]
        people = [rows[i] for i in random.permutation(len(rows))]
        held = np.concatenate(people[: data.tested])
        rest = np.concatenate(people[data.tested :])
    y = [examples.y[i] if place < number else None for place, i in enumerate(rest)]
    return [examples.X[i] for i in rest], y, [examples.X[i] for i in held], [examples.y[i] for i in held]


def measure(data: Data, parts: Parts, number: int, seed: int, fits: bool, minutes: float | None) -> Entry:
    """Return scores and seconds of every method on one draw of labels, and how they differ."""
    from selfpretrain.estimators.search import FINALISTS

    X, y, Z, z = parts
    found: Entry = {"load": [os.getloadavg()[0]], "methods": {}}
    counts: dict[str, np.ndarray] = {}

    def keep(name: str, predicted: list[Any], seconds: float, **about: Any) -> None:
        counts[name] = np.array([data.count(a, list_of(b)) for a, b in zip(z, predicted, strict=True)])
        about |= {"score": round(score(counts[name]), 4), "seconds": round(seconds, 1)}
        found["methods"][name] = about

    for name, simple in chosen_simple(data, parts, number, seed).items():
        keep(name, simple.predictions, simple.seconds, method=simple.name)
    start = time.process_time()
    scratch = data.make(random_state=seed, objective=None, model="network").fit(X[:number], y[:number])
    keep("scratch", list(scratch.predict(Z)), time.process_time() - start)
    if fits:
        begun = time.monotonic()
        start = time.process_time()
        model = data.make(random_state=seed, minutes=minutes).fit(X, y)
        seconds = time.process_time() - start
        found |= {"wall": round(time.monotonic() - begun, 1), "time_limit": minutes, "kept": model.kept_}
        found |= {"leaderboard": model.leaderboard_, "trials": model.trials_, "finalists": FINALISTS}
        keep("fit", list(model.predict(Z)), seconds)
        model.simple_ = ()
        keep("SPT", list(model.predict(Z)), seconds)
    found["load"].append(os.getloadavg()[0])
    found["differences"] = differences(counts)
    return found


def chosen_simple(data: Data, parts: Parts, number: int, seed: int) -> dict[str, Any]:
    """Return the simple method with the best validation score, of labels alone and of all sequences."""
    from few_labels_simple import simple_methods

    X, y, Z, _ = parts
    reader = data.make(random_state=seed, scale="smoke").fit(X, y)  # reads sequences; its network is not used
    methods = simple_methods(reader, Z)
    found = {}
    for name, unlabelled in (("simple", False), ("simple, all sequences", True)):
        found[name] = max((m for m in methods if m.unlabelled == unlabelled), key=lambda m: m.validation)
    return found


def list_of(predicted: Any) -> Any:
    """Return the labels of positions as a list, and one label as it is."""
    return predicted.tolist() if isinstance(predicted, np.ndarray) else predicted


def score(counts: np.ndarray) -> float:
    """Return what is right of all, from counts (sequences, 2)."""
    right, total = counts.sum(0)
    return float(right / total)


def differences(counts: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """Return SPT minus every other method with a 95 % bootstrap interval over the test sequences."""
    if "SPT" not in counts:
        return {}
    drawn = np.random.RandomState(0).randint(len(counts["SPT"]), size=(DRAWS, len(counts["SPT"])))
    found = {}
    for name, other in counts.items():
        if name not in ("SPT", "fit"):
            gaps = [score(counts["SPT"][rows]) - score(other[rows]) for rows in drawn]
            low, high = np.quantile(gaps, (0.025, 0.975))
            gap = score(counts["SPT"]) - score(other)
            found[name] = [round(float(value), 4) for value in (gap, low, high)]
    return found


def rows(kept: Mapping[str, Entry]) -> Iterator[tuple[Data, int, list[Entry]]]:
    """Yield data set, number of labels and entries of all seeds, of what is kept."""
    for data in SETS:
        for number in LABELS:
            entries = [kept[key] for seed in SEEDS if (key := f"{data.name}/{number}/{seed}") in kept]
            if entries:
                yield data, number, entries


def score_table(kept: Mapping[str, Entry]) -> Table:
    """Return the means over seeds in %, the best in bold."""
    lines = [["data", "labels", *METHODS, "seeds"]]
    for data, number, entries in rows(kept):
        values = {
            name: [100 * each["methods"][name]["score"] for each in entries if name in each["methods"]]
            for name in METHODS
        }
        best = max(round(mean(found), 1) for found in values.values() if found)
        cells = [_cell(values[name], best) for name in METHODS]
        if any(each.get("time_limit") for each in entries):
            cells[-1] += f" {LONGER}"
        if any(measured_earlier(each) for each in entries):
            cells[-1] += f" {EARLIER}"
        if any("kept" in each and "finalists" not in each for each in entries):
            cells[-1] += f" {ALONE}"
        if any(measured_with_one_pooling(each) for each in entries) and data.count is whole:
            cells[-1] += f" {ONE_POOLING}"
        lines.append([data.name, f"{number:,}", *cells, str(len(entries))])
    return [*lines, *missing_rows(kept)]


def measured_earlier(entry: Entry) -> bool:
    """Return whether a fit had several simple methods to choose from, and only one average."""
    names = [row["name"] for row in entry.get("leaderboard", [])]
    averages = sum(name.startswith("average of ") for name in names)
    return averages == 1 and len(names) > averages + 2  # besides the network and one method


def measured_with_one_pooling(entry: Entry) -> bool:
    """Return whether the network of a fit was not tried with several poolings."""
    return "kept" in entry and not any("pooling" in trial for trial in entry["trials"])


def missing_rows(kept: Mapping[str, Entry]) -> Table:
    """Return a row per data set that says for which numbers of labels nothing has been measured."""
    found = []
    for data in SETS:
        numbers = [
            n for n in LABELS if n <= data.most and not any(f"{data.name}/{n}/{s}" in kept for s in SEEDS)
        ]
        if numbers:
            named = ", ".join(f"{n:,}" for n in numbers)
            found.append([data.name, named, *([NONE] * len(METHODS)), "not measured"])
    return found


def _cell(values: list[float], best: float) -> str:
    if not values:
        return NONE
    spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    shown = f"{mean(values):.1f}{spread}"
    return f"**{shown}**" if round(mean(values), 1) == best else shown


def draw_table(kept: Mapping[str, Entry]) -> Table:
    """Return a row per draw: SPT minus the other methods in points, what ``fit`` kept, seconds and load."""
    others = METHODS[:1] + METHODS[2:4]
    gains = [f"SPT {MINUS} {name}" for name in others]
    lines = [["data", "labels", "seed", *gains, "kept", "processor s", "wall s", "limit", "load", "simple s"]]
    for key, entry in sorted(kept.items(), key=lambda item: _place(item[0])):
        found = [entry["differences"].get(other) for other in others]
        if any(found) or "kept" in entry:
            lines.append([*key.split("/"), *map(_gain, found), *_fit(entry)])
    return lines


def _gain(found: list[float] | None) -> str:
    if found is None:
        return NONE
    gain, low, high = (100 * value for value in found)
    return f"{gain:+.1f} ({low:+.1f} to {high:+.1f})"


def _place(key: str) -> tuple[int, int, int]:
    name, number, seed = key.split("/")
    return [data.name for data in SETS].index(name), int(number), int(seed)


def _fit(entry: Entry) -> list[str]:
    """Return what a fit kept, its seconds of the processor and of the clock, and those of simple methods."""
    if "kept" not in entry:
        return [NONE] * 6
    methods = entry["methods"]
    what = entry["kept"].removeprefix("kept: ").split(", accuracy")[0]
    used = methods["fit"].get("seconds")
    simple = sum(methods[m]["seconds"] for m in METHODS[2:4] if m in methods)
    seconds = [NONE if used is None else f"{used:.0f}", f"{entry['wall']:.0f}"]
    limit = f"{entry['time_limit'] or 10:.0f} min"
    return [what, *seconds, limit, f"{max(entry['load']):.1f}", f"{simple:.1f}"]


def fact_table(facts: Mapping[str, Entry]) -> Table:
    """Return what the data sets are."""
    lines = [["data", "what", "from", "sequences", "positions", "test", "commonest answer"]]
    for data in SETS:
        if data.name in facts:
            known = facts[data.name]
            size = f"{known['shortest']} to {known['longest']}"
            counted = [f"{known['sequences']:,}", size, known["test"], f"{100 * known['commonest']:.1f}"]
            lines.append([data.name, data.about, f"`{data.source}`", *counted])
    return lines


def facts_of(data: Data, examples: Examples) -> Entry:
    """Return number and lengths of the sequences, and the share of the commonest label."""
    lengths = [len(x) for x in examples.X]
    labels = [label for y in examples.y for label in ([y] if isinstance(y, str) else y) if label is not None]
    _, counts = np.unique(labels, return_counts=True)
    test = f"{data.tested:,}" + (" people" if examples.people is not None else "")
    found = {"sequences": len(lengths), "shortest": min(lengths), "longest": max(lengths), "test": test}
    return found | {"commonest": round(float(counts.max() / counts.sum()), 4)}


def write(page: Path, kept: Entry) -> None:
    """Write the tables of what is kept into files beside a page: facts, scores and draws."""
    beside = {
        "-facts.tsv": fact_table(kept["facts"]),
        "-scores.tsv": score_table(kept["draws"]),
        ".tsv": draw_table(kept["draws"]),
    }
    for end, table in beside.items():
        write_tsv(page.with_name(page.stem + end), table)


def finished() -> Entry:
    """Return what is kept, also by another process since this one began."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {"facts": {}, "draws": {}}


def wanted(only: list[str]) -> list[tuple[Data, int, int]]:
    """Return draws in the order of measuring: those asked for in their order, or all, seed 0 of all first.

    Raises:
        SystemExit: if a name stands for none.
    """
    everything = [(data, n, seed) for seed in SEEDS for data in SETS for n in LABELS if n <= data.most]
    if not only:
        return everything
    found = []
    for name in only:
        some = [each for each in everything if f"{each[0].name}/{each[1]}/{each[2]}/".startswith(f"{name}/")]
        if not some:
            sys.exit(f"error: no draw {name}; they are SET/LABELS/SEED, of {', '.join(d.name for d in SETS)}")
        found += some
    return found


def run(flags: argparse.Namespace) -> None:
    """Measure the draws that are not kept, within the time given."""
    end = time.monotonic() + 60 * flags.minutes
    read: dict[str, Examples] = {}
    for data, number, seed in wanted(flags.only):
        key = f"{data.name}/{number}/{seed}"
        known = finished()["draws"].get(key)
        if time.monotonic() > end or (known and (flags.simple or "kept" in known)):
            continue
        if data.name not in read:
            read = {data.name: data.read(fetch(data, flags.folder))}
        parts = divided(data, read[data.name], number, seed)
        entry = measure(data, parts, number, seed, not flags.simple, flags.time_limit)
        kept = finished()
        kept["facts"][data.name] = facts_of(data, read[data.name])
        kept["draws"][key] = entry
        KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(key, entry["methods"], flush=True)


def main() -> None:
    """Measure what is not kept, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="*", default=[], help="SET, SET/LABELS or SET/LABELS/SEED, in this order"
    )
    parser.add_argument("--simple", action="store_true", help="no fits, which take minutes: the rest")
    parser.add_argument("--minutes", type=float, default=60, help="begin no draw after this time")
    parser.add_argument(
        "--time-limit", type=float, help="of each fit, in minutes; the default is that of fit"
    )
    parser.add_argument("--folder", type=Path, default=Path("few_labels_data"), help="for the packages")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    flags = parser.parse_args()
    if not flags.page:
        run(flags)
    write(PAGE, finished())


if __name__ == "__main__":
    main()
