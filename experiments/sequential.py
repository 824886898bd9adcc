"""How many seeds a verdict takes, and how often it is wrong, at the spreads of our tasks, by simulation.

    python experiments/sequential.py [--paths 10000]

The spread between seeds and the error of the test examples are those of the kept studies: read from the
pages of Tables 1 and 9, pooled over the contrasts and the sizes of a model; and from the demonstration, whose
single differences are drawn again, so that their law need not be normal. True gains are none, half of what
was measured, and what was measured. Writes sequential.json, the tables of
docs/sequential.md, and sequential.tsv beside it.
"""

import argparse
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import stdtr
from scipy.stats import norm, t

from selfpretrain.report.format import MINUS, NONE
from selfpretrain.report.sequential import AUTO, SequentialDesign, draw_differences, simulate
from selfpretrain.report.statistics import t_point

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
KEPT = HERE / "sequential.json"
PAGE = DOCS / "sequential.md"
STUDIES = ("amos-table-1-small", "amos-table-9-small")
DEMO = DOCS / "demo" / "repetitions.tsv"
DATA = {
    "Pathfinder (paths)": "paths", "Text (stdlib)": "text", "Image (image-patches)": "pictures",
    "Image (digits)": "digits",
}  # fmt: skip
"""Tasks of the studies, and what the tables call them."""
DESIGNS = {
    "always 6": SequentialDesign(6, 6),
    "4..12": SequentialDesign(4, 12),
    "3..12": SequentialDesign(3, 12),
    "2..12": SequentialDesign(2, 12),
}
T_3_SEEDS = 4.302653
"""Quantile of Student's t behind the intervals of the study, which has three seeds."""
TIE = 1.0
MOST = 24
"""Largest fixed number of seeds that is tried."""
BOUNDS = re.compile(rf"\[([{MINUS}+]?[0-9.]+), ([{MINUS}+]?[0-9.]+)\]")


def study_settings() -> list[dict[str, Any]]:
    """Return gain, spread and error of the examples of every task and model of the study, in points."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    pages = [(DOCS / "studies" / name / "report.md").read_text(encoding="utf-8") for name in STUDIES]
    for line in "\n".join(pages).splitlines():
        parts = [part.strip() for part in line.strip("|").split("|")]
        bounds = [[_number(text) for text in pair] for pair in BOUNDS.findall(line)]
        of_gains = (
            parts[0] in DATA and len(bounds) == 2 and len(parts) > 6
        )  # a longer row than of other tables
        if of_gains and parts[2].endswith("scratch (matched)"):
            of_seeds, of_both = ((high - low) / 2 for low, high in bounds)
            of_examples = math.sqrt(max(of_both**2 - of_seeds**2, 0.0)) / 1.96
            spread = of_seeds * math.sqrt(3) / T_3_SEEDS
            place = DATA[parts[0]], parts[1].partition(" · ")[0]
            found.setdefault(place, []).append([_number(parts[-3]), spread, of_examples])
    settings = []
    for (data, model), rows in found.items():
        gains, spreads, errors = np.array(rows).T
        pooled = float(np.sqrt(np.mean(spreads**2)))
        settings.append(
            {"data": data, "model": model, "gain": round(float(gains.mean()), 1),
             "spread": round(pooled, 1), "examples": round(float(errors.mean()), 2)}
        )  # fmt: skip
    return settings


def demo_differences() -> NDArray[np.float64]:
    """Return the single differences of the demonstration, in points."""
    head, *lines = DEMO.read_text(encoding="utf-8").splitlines()
    places = [head.split("\t").index(name) for name in ("SPT by seed", "matched by seed")]
    ours, theirs = (
        np.concatenate([np.array(line.split("\t")[at].split(), float) for line in lines]) for at in places
    )
    return ours - theirs


def outcome(
    differences: NDArray[np.float64], gain: float, design: SequentialDesign, examples: float
) -> dict[str, float]:
    """Return the percentages decided, wrong, and held at all analyses; and the seeds that this took."""
    found = simulate(differences, gain, TIE, design, examples)
    wrong = (
        (found.better & (gain <= TIE)) | (found.worse & (gain >= -TIE)) | (found.equal & (abs(gain) > TIE))
    )
    decided = float(found.decided.mean())
    return {
        "decided": 100 * decided,
        "wrong": 100 * float(wrong.mean()),
        "covered": 100 * float(found.covered.mean()),
        "seeds": float(found.seeds.mean()),
        "seeds_of_decided": float(found.seeds[found.decided].mean()) if decided else math.nan,
    }


def measure(paths: int) -> list[dict[str, Any]]:
    """Return every setting with the outcomes of every design at three true gains."""
    settings = study_settings()
    single = demo_differences()
    settings.append(
        {"data": "demo", "model": "Transformer", "gain": round(float(single.mean()), 1),
         "spread": round(float(single.std(ddof=1)), 1), "examples": 0.0}
    )  # fmt: skip
    rng = np.random.default_rng(1)
    lines = []
    for number, each in enumerate(settings):
        for gain in (0.0, each["gain"] / 2, each["gain"]):
            if each["data"] == "demo":
                drawn = rng.choice(single - single.mean(), (paths, MOST)) + gain
            else:
                drawn = draw_differences(gain, each["spread"], MOST, each["examples"], paths, number)
            found = {name: outcome(drawn, gain, design, each["examples"]) for name, design in DESIGNS.items()}
            fixed = _as_good(drawn, gain, each["examples"], found["4..12"]["decided"])
            lines.append(each | {"true": round(gain, 2), "designs": found, "as_good": fixed})
    return lines


def rare_failures(share: float, paths: int) -> dict[str, tuple[float, float]]:
    """Return by design how often, in percent, two arms of equal mean are called better and worse.

    The first is at 95 % in this share of its seeds and at chance, 50 %, in the others. The scores of the
    second are normal around the same mean, with a spread of a point.
    """
    random = np.random.default_rng(0)
    first = np.where(random.random((paths, AUTO.last)) < share, 95.0, 50.0)
    second = 95 * share + 50 * (1 - share) + random.standard_normal(first.shape)
    found = {name: simulate(first - second, 0.0, TIE, DESIGNS[name]) for name in ("4..12", "always 6")}
    return {name: (100 * each.better.mean(), 100 * each.worse.mean()) for name, each in found.items()}


def alternatives(paths: int) -> list[dict[str, float]]:
    """Return half-widths in standard errors of the mean, after some seeds, of designs that cover at 95 %.

    "spending" is O'Brien and Fleming's boundary, z = c * sqrt(12 / n) turned into a t quantile of the same p,
    with c calibrated by simulation. "anytime" is the confidence sequence of the t mixture: it ends where the
    Bayes factor of a normal prior of variance g on the effect, in standard deviations, reaches 1 / 0.05.
    """
    rng = np.random.default_rng(3)
    n = np.arange(1, AUTO.last + 1)
    drawn = rng.standard_normal((paths, AUTO.last))
    mean = drawn.cumsum(1) / n
    squares = (drawn**2).cumsum(1) - n * mean**2
    at = np.array([*AUTO]) - 1
    statistic = mean[:, at] * np.sqrt(n[at] * at / squares[:, at])
    z = norm.isf(stdtr(at, -np.abs(statistic))) * np.sqrt(n[at] / AUTO.last)
    c = float(np.quantile(z.max(1), 0.95))
    return [
        {
            "seeds": number,
            "fixed": t_point(number - 1),
            "repeated": t_point(number - 1, AUTO.confidence),
            "spending": float(t.isf(norm.sf(c * math.sqrt(AUTO.last / number)), number - 1)),
            "anytime, g = 1": _anytime(number, 1.0),
            "anytime, g = 10": _anytime(number, 10.0),
        }
        for number in (4, 5, 6, 8, 10, 12)
    ]


def _anytime(n: int, g: float) -> float:
    """Return the t statistic at which the Bayes factor of the t mixture is 20; infinite if it never is."""

    def log_excess(x: float) -> float:  # x = t**2 / (n - 1)
        return n / 2 * math.log((1 + x) / (1 + x / (1 + n * g))) - math.log1p(n * g) / 2 - math.log(20)

    return math.sqrt(brentq(log_excess, 0, 1e9) * (n - 1)) if log_excess(1e9) > 0 else math.inf


def comparisons(kept: dict[str, Any]) -> list[list[str]]:
    """Return how often designs decide and err, and the seeds they take, a row per model and true gain."""
    names = [name for name in DESIGNS if name != "always 6"]
    head = ["data", "model", "spread", "true gain", "4..12 wrong", "all analyses held", "always 6 held"]
    rows = [[*head, "always 6", *names, "always as good as 4..12"]]
    for line in kept["settings"]:
        found, six = line["designs"]["4..12"], line["designs"]["always 6"]
        numbers = [f"{value:.1f}" for value in (found["wrong"], found["covered"], six["covered"])]
        shares = [f"{six['decided']:.0f} %", *(_share(line["designs"][name]) for name in names)]
        fixed = str(line["as_good"] or f"more than {MOST}") if line["true"] else NONE
        place = [*_place(line).split(" | "), f"{line['spread']:.1f}", f"{line['true']:+.1f}"]
        rows.append([*place, *numbers, *shares, fixed])
    return rows


def tables(kept: dict[str, Any]) -> str:
    """Return the table of the page: half-widths of other designs."""
    names = list(kept["alternatives"][0])
    text = [f"| {' | '.join(names)} |", f"|{' ---: |' * len(names)}"]
    for line in kept["alternatives"]:
        widths = (f"{line[name]:.2f}".replace("inf", "none") for name in names[1:])
        text.append(f"| {line['seeds']} | {' | '.join(widths)} |")
    return "\n".join(text)


def write(page: Path, kept: dict[str, Any]) -> None:
    """Replace the table between the marks of the page, and the file beside it."""
    before, rest = page.read_text(encoding="utf-8").split("<!-- tables -->\n")
    after = rest.split("<!-- end of tables -->")[1]
    page.write_text(
        f"{before}<!-- tables -->\n{tables(kept)}\n<!-- end of tables -->{after}", encoding="utf-8"
    )
    rows = "\n".join("\t".join(row) for row in comparisons(kept))
    page.with_suffix(".tsv").write_text(rows + "\n", encoding="utf-8")


def main() -> None:
    """Simulate, keep the numbers, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--paths", type=int, default=10_000)
    paths = parser.parse_args().paths
    text = json.dumps({"paths": paths, "settings": measure(paths), "alternatives": alternatives(40 * paths)})
    kept = json.loads(text, parse_float=lambda number: round(float(number), 2))
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    write(PAGE, kept)


def _as_good(differences: NDArray[np.float64], gain: float, examples: float, decided: float) -> int | None:
    """Return the smallest fixed number of seeds that decides as often; None if above ``MOST``."""
    numbers = range(2, MOST + 1)
    good = (
        n
        for n in numbers
        if outcome(differences, gain, SequentialDesign(n, n), examples)["decided"] >= decided
    )
    return next(good, None)


def _number(text: str) -> float:
    return float(text.replace(MINUS, "-"))


def _place(line: dict[str, Any]) -> str:
    return f"{line['data']} | {line['model']}"


def _share(found: dict[str, float]) -> str:
    return f"{found['decided']:.0f} %, {found['seeds']:.1f} seeds, {100 * found['seeds'] / 6:.0f} %"


if __name__ == "__main__":
    main()
