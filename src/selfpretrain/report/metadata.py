"""Metadata sections of a report: data, model selection, environment."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from . import format
from .analysis import Analysis
from .results import TaskResults

Facts = list[tuple[str, str]]
RULE = "the step with the best validation score; the test split is read once, after the last stage"


def by_task(analysis: Analysis, facts: Callable[[TaskResults], Facts]) -> tuple[tuple[str, str], ...]:
    """Collect the facts of every task; with several tasks, each name starts with its task."""
    several = len(analysis.tasks) > 1
    return tuple(
        (f"{task.label}: {name}" if several else name, text)
        for task in analysis.results.tasks
        for name, text in facts(task)
    )


def data(task: TaskResults) -> Facts:
    """Return origin, licence, size and split overlap of a task's data."""
    card = task.record.task
    counts = f"{card.train} train ({card.labelled} labelled), {card.val} validation, {card.test} test"
    overlap = ", ".join(f"{pair} {n}" for pair, n in card.overlap.items())
    return [
        ("task", f"{card.name}: {card.about}"),
        ("source", card.source),
        ("licence", card.licence),
        ("sequences", f"{card.signal}, up to {card.length} positions"),
        ("target", card.target),
        ("examples", counts),
        ("equal sequences in two splits", overlap or "not counted"),
    ]


def selection(task: TaskResults) -> Facts:
    """Return the best step, the number of steps and the stopping reason of the runs of every arm."""
    facts = []
    for column in task.columns:
        done = [cell.scored for cell in task.finished if cell.column == column]
        if done:
            best, steps = _range(s.best_step for s in done), _range(s.steps for s in done)
            why = ", ".join(f"{n} by {reason}" for reason, n in Counter(s.stopped for s in done).items())
            facts.append((column, f"best step {best} of {steps}; stopped {why}"))
    return facts


def environment(analysis: Analysis) -> Facts:
    """Return versions, devices and commits of all scored runs."""
    kept = [cell.scored.environment for cell in analysis.results.cells if cell.finished]
    names = dict.fromkeys(name for found in kept for name in found if name not in ("git", "format"))
    facts = [(name, _distinct(str(found[name]) for found in kept if name in found)) for name in names]
    commits = _distinct(_commit(found["git"]) for found in kept if found.get("git"))
    return facts + ([("git", commits)] if commits else [])


def _commit(git: dict[str, Any]) -> str:
    return f"{git.get('commit')}{' with uncommitted changes' if git.get('dirty') else ''}"


def _distinct(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def _range(values: Iterable[int]) -> str:
    found = sorted(set(values))
    return str(found[0]) if len(found) == 1 else f"{found[0]}{format.NONE}{found[-1]}"
