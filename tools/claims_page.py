"""Write ``docs/claims.md``: every claim of the papers, and what the kept results of our studies say of it.

``tools/claims.tsv`` is typed: a claim per line, and the comparisons that bear on it, one per line; lines
without a claim go on with the one above. Numbers of papers come from ``studies/reported/``. Nothing is
trained, and no verdict is typed. Run it after
``tools/studies.py``:

    python tools/claims_page.py [--data-root FOLDER] [STUDY ...]

With names of studies, claims on which they do not bear keep their rows.
"""

import argparse
import csv
import functools
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).parent))

from selfpretrain.report import diagnostics, format, over_tasks
from selfpretrain.report.analysis import (
    LEADS,
    Analysis,
    Difference,
    Standing,
    TaskAnalysis,
    analyse,
    difference,
    judge,
)
from selfpretrain.report.paper_numbers import PAPERS, look_up
from selfpretrain.report.results import Metric, read
from selfpretrain.runner.workspace import Workspace
from studies import page as made_page

TABLE = Path(__file__).with_name("claims.tsv")
PAGE = Path(__file__).parents[1] / "docs" / "claims.md"
HEAD = """# Claims

What papers claim about scores, speed or why, and what our studies say of it at the small scale: two cores,
mostly three seeds, at most 64 positions on most tasks, and other tasks in place of the papers'. None of this
tests the papers' numbers: that takes their data, their budgets and a GPU (`--scale paper`).

| verdict | claims | meaning |
| --- | --- | --- |
{verdicts}

*Holds in* counts the comparisons whose interval agrees, and those whose interval is against the claim. *In
the middle* is the median comparison, in points of accuracy, with a 95 % interval over seeds and test
examples (over seeds alone on training data), not corrected for the number of claims. Unfold a cell for all
of its comparisons. Of most papers under *Others* we know the abstract alone; their claims are in our words.
"""
MEANING = {
    "supported": "no interval leaves another reading",
    "partly supported": "some intervals hold both readings, the others agree",
    "mixed": "tasks or rows disagree",
    "open": "every interval holds both readings",
    "partly contradicted": "some intervals hold both readings, the others are against it",
    "contradicted": "no interval leaves another reading",
    "silent": "not measured with this version of the package",
}
OWN = ("Amos et al. (2024)", "Coser & Orvieto (2025)", "Gu et al. (2022)")
"""Papers with a section of their own."""
LOSSES = {Standing.WORSE, Standing.BEHIND}
SUPPORTED, CONTRADICTED, OPEN, MIXED, SILENT = "supported", "contradicted", "open", "mixed", "silent"
PARTLY = "partly"
"""Before a verdict that holds for some of the intervals, where the others hold both."""
FILES = {citation: paper for paper, citation in PAPERS.items()}
WAITS = "waits to be measured with this version"
Line = dict[str, str]
Read = Callable[[str], Analysis | None]


class Finding(NamedTuple):
    """What one comparison says of a claim: a verdict, of what, by how much, and that in words."""

    verdict: str
    where: str
    value: float
    shown: str


def page(read_study: Read, known: dict[str, str]) -> str:
    """Return the text of the page; claims in ``known`` keep their row."""
    sections: dict[str, list[str]] = {}
    verdicts: Counter[str] = Counter()
    for lines in grouped():
        paper = lines[0]["paper"]
        row = known.get(_claim(lines[0])) or _row(lines, read_study)
        verdicts[row.split("**")[1]] += 1
        sections.setdefault(paper if paper in OWN else "Others", []).append(row)
    counts = (f"| **{verdict}** | {verdicts[verdict]} | {said} |" for verdict, said in MEANING.items())
    parts = [HEAD.format(verdicts="\n".join(counts))]
    for section, rows in sections.items():
        parts += [f"## {section}\n", "| claim | paper | verdict | holds in | in the middle | studies |"]
        parts += ["| --- | --- | --- | --- | --- | --- |", *rows, ""]
    return "\n".join(parts)


def grouped() -> list[list[Line]]:
    """The lines of every claim."""
    found: list[list[Line]] = []
    with TABLE.open(encoding="utf-8", newline="") as file:
        for raw in csv.DictReader(file, delimiter="\t"):
            line = {key: value or "" for key, value in raw.items()}
            if line["claim"]:
                found.append([])
            found[-1].append(line)
    return found


def known_rows(asked: list[str]) -> dict[str, str]:
    """Return the rows of the page as it is, by claim, for claims on which none of these studies bears."""
    if not asked:
        return {}
    studies = [{line["study"] for line in lines} - {""} for lines in grouped()]
    others = [lines for lines, of in zip(grouped(), studies, strict=True) if of and not of & set(asked)]
    rows = PAGE.read_text(encoding="utf-8").splitlines()
    starts = {_claim(lines[0]) for lines in others}
    return {start: row for start in starts for row in rows if row.startswith(start)}


def _claim(line: Line) -> str:
    """Return how the row of a claim begins: what is claimed, and where."""
    paper = "" if line["paper"] in OWN else f", {line['paper']}"
    reported = line["where"] + paper + (f": {in_numbers(line)}" if line["reported"] else "")
    return f"| {line['claim']} | {reported} |"


def _row(lines: list[Line], read_study: Read) -> str:
    """Return the row of a claim in the table."""
    said, words, all_of_it = list[Finding](), list[str](), list[str]()
    for line in lines:
        if not line["study"]:
            words.append(line["note"] or line["b"])
            continue
        analysis = read_study(line["study"])
        found = list(findings(line, analysis)) if analysis else []
        said += found
        words.append(f"[{line['study']}](studies/{line['study']}-small/report.md)")
        note = f"*{line['note']}*: " if line["note"] else ""
        all_of_it.append(note + ("; ".join(f"{x.where}: {x.shown}" for x in found) or WAITS))
    verdict = together([finding.verdict for finding in said])
    studies = ", ".join(dict.fromkeys(words))
    if said:
        studies += f" <details><summary>all</summary>{'<br>'.join(all_of_it)}</details>"
    return f"{_claim(lines[0])} **{verdict}** | {_counted(said)} | {_middle(said)} | {studies} |"


def _counted(said: list[Finding]) -> str:
    """Return how many comparisons agree, and how many are against."""
    if not said:
        return format.NONE
    verdicts = Counter(finding.verdict for finding in said)
    against = f", {verdicts[CONTRADICTED]} against" if verdicts[CONTRADICTED] else ""
    return f"{verdicts[SUPPORTED]} of {len(said)}{against}"


def _middle(said: list[Finding]) -> str:
    """Return the median comparison, of an even number the lower one."""
    if not said:
        return format.NONE
    middle = sorted(said, key=lambda finding: finding.value)[(len(said) - 1) // 2]
    return f"{middle.shown} ({middle.where})"


def in_numbers(line: Line) -> str:
    """Return what the paper reports; ``{table; row; column}`` becomes the number, a gain with its sign."""

    def number(place: re.Match[str]) -> str:
        table, row, column = place[1].split("; ")
        value = look_up(FILES[line["paper"]], (table, row, column)).value
        return f"{value:+g}" if column.endswith(", gain") else f"{value:g}"

    return re.sub(r"\{(.+?)\}", number, line["reported"])


def together(verdicts: list[str]) -> str:
    """Return the verdict on a claim from those of all comparisons; one that is open is never dropped."""
    words = set(verdicts)
    if not words:
        return SILENT
    clear = words - {OPEN}
    if not clear:
        return OPEN
    if len(clear) > 1:
        return MIXED
    (word,) = clear
    return f"{PARTLY} {word}" if OPEN in words else word


def findings(line: Line, analysis: Analysis) -> Iterator[Finding]:
    """What the comparisons of a line say, task by task and row by row, or averaged over tasks."""
    if line["task"] == "average":
        for ours, theirs in _rows(line["row"], analysis.tasks[0]):
            averaged = over_tasks.difference(analysis, (ours, line["a"]), (theirs, line["b"]))
            label = f"average of {len(averaged.values)} tasks"
            yield from _compared(line, averaged, analysis.tasks[0].metric, label)
        return
    for task in analysis.tasks:
        if not fnmatch(task.task.card.name, line["task"]):
            continue
        if line["relation"] in ("rises", "falls"):
            yield from _trend(line, task)
            continue
        for ours, theirs in _rows(line["row"], task):
            compared = difference(task.task, (ours, line["a"]), (theirs, line["b"]))
            if line["relation"].endswith("fits >"):
                yield from _on_training(line, task, compared)
            else:
                yield from _compared(line, compared, task.metric, task.label)


def _compared(line: Line, compared: Difference, metric: Metric, label: str) -> Iterator[Finding]:
    """What a difference on test data says; nothing if it is not measured."""
    if compared.estimate is None:
        return
    rule = {"=": _equal, ">": _larger, ">=": _no_smaller}[line["relation"]]
    mean = compared.estimate.mean
    shown = f"{format.signed(metric, mean)} {format.interval(metric, compared.estimate.bounds)}"
    yield Finding(rule(compared.standing), _where(label, compared), mean, shown)


def _rows(pattern: str, task: TaskAnalysis) -> list[tuple[str, str]]:
    if " / " in pattern:
        ours, theirs = pattern.split(" / ")
        return [(ours, theirs)]
    return [(row, row) for row in task.task.rows if fnmatch(row, pattern)]


def _larger(standing: Standing) -> str:
    if standing in LEADS:
        return SUPPORTED
    return CONTRADICTED if standing in LOSSES | {Standing.EQUAL} else OPEN


def _equal(standing: Standing) -> str:
    if standing is Standing.EQUAL:
        return SUPPORTED
    return CONTRADICTED if standing in {Standing.BETTER, Standing.WORSE} else OPEN


def _no_smaller(standing: Standing) -> str:
    if standing in LEADS | {Standing.EQUAL}:
        return SUPPORTED
    return CONTRADICTED if standing in LOSSES else OPEN


def _on_training(line: Line, task: TaskAnalysis, compared: Difference) -> Iterator[Finding]:
    found = diagnostics.train_and_test(task, compared)
    if found is None:
        return
    word = _larger(judge(found[0], task.metric.tie))
    if line["relation"].startswith("not"):
        word = {SUPPORTED: CONTRADICTED, CONTRADICTED: SUPPORTED}.get(word, word)
    bounds = format.interval(task.metric, found[0].bounds)
    shown = f"{format.signed(task.metric, found[0].mean)} {bounds} on training data"
    yield Finding(word, _where(task.label, compared), found[0].mean, shown)


def _trend(line: Line, task: TaskAnalysis) -> Iterator[Finding]:
    """Whether gains fall or rise over the rows of an architecture, from the first to the last."""
    families: dict[str, list[Difference]] = {}
    for row in task.task.rows:
        compared = difference(task.task, (row, line["a"]), (row, line["b"]))
        if compared.estimate is not None:
            families.setdefault(row.partition(" · ")[0], []).append(compared)
    for family, gains in families.items():
        (low, high), (low_, high_) = ((d.estimate.bounds or (0.0, 0.0)) for d in (gains[0], gains[-1]))
        word = OPEN
        if low > high_ or low_ > high:
            word = SUPPORTED if (low > high_) == (line["relation"] == "falls") else CONTRADICTED
        steps = ", ".join(format.signed(task.metric, d.estimate.mean) for d in gains)
        change = gains[-1].estimate.mean - gains[0].estimate.mean
        yield Finding(word, f"{task.label}, {family}", change, steps)


def _where(label: str, compared: Difference) -> str:
    (ours, a), (theirs, b) = compared.a, compared.b
    rows = ours if ours == theirs else ""
    arms = f"{a} {format.MINUS} {b}" if rows else f"{ours} {a} {format.MINUS} {theirs} {b}"
    return f"{label}, {rows}, {arms}" if rows else f"{label}, {arms}"


def reading(runs: Path) -> Read:
    """Studies as the results that ship tell them, each read once; none of one that lacks a stage."""
    workspace = Workspace.of(runs, "cpu", "1")

    @functools.cache
    def of(name: str) -> Analysis | None:
        folder = made_page(name, workspace)
        return analyse(read(folder)) if folder else None

    return of


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root")
    parser.add_argument("studies", nargs="*")
    flags = parser.parse_args()
    if flags.data_root:
        os.environ["SELFPRETRAIN_DATA"] = flags.data_root
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as runs:
        PAGE.write_text(page(reading(Path(runs)), known_rows(flags.studies)), encoding="utf-8")


if __name__ == "__main__":
    main()
