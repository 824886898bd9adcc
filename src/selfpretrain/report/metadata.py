"""Metadata sections of a report: data, model selection, environment."""

from collections import Counter
from collections.abc import Callable, Iterable

from . import format
from .analysis import Analysis
from .results import TaskResults

Facts = tuple[tuple[str, str], ...]
"""(name, text) pairs."""


def data(analysis: Analysis) -> Facts:
    """Return origin, licence, size and split overlap of the data of every task."""
    return _by_task(analysis, _data)


def _data(task: TaskResults) -> Facts:
    card = task.record.task
    overlap = ", ".join(f"{pair} {n}" for pair, n in card.overlap.items())
    return (
        ("task", f"{card.name}: {card.about}"),
        ("source", card.source),
        ("licence", card.licence),
        ("sequences", f"{card.signal}, up to {card.length} positions"),
        ("target", card.target),
        (
            "examples",
            f"{card.train} train ({card.labelled} labelled), {card.val} validation, {card.test} test",
        ),
        ("equal sequences in two splits", overlap or "not counted"),
    )


def selection(analysis: Analysis) -> Facts:
    """Return the rule of model selection; best step, steps and stopping reason of the runs of every arm."""
    rule = "the step with the best validation score; the test split is read once, after the last stage"
    return (("rule", rule), *_by_task(analysis, _selection))


def _selection(task: TaskResults) -> Facts:
    facts = []
    for column in task.columns:
        done = [cell.scored for cell in task.finished if cell.column == column]
        if done:
            reasons = Counter(stage.stopped for stage in done)
            stopped = ", ".join(f"{n} by {reason}" for reason, n in reasons.items())
            best = _range(stage.best_step for stage in done)
            steps = _range(stage.steps for stage in done)
            facts.append((column, f"best step {best} of {steps}; stopped {stopped}"))
    return tuple(facts)


def environment(analysis: Analysis) -> Facts:
    """Return versions, devices and commits of all scored runs."""
    found: dict[str, dict[str, None]] = {}  # ordered sets of values
    commits: dict[str, None] = {}
    for kept in (cell.scored.environment for cell in analysis.results.cells if cell.finished):
        for name, value in kept.items():
            if name not in ("git", "format"):
                found.setdefault(name, {})[str(value)] = None
        if git := kept.get("git"):
            commits[f"{git.get('commit')}{' with uncommitted changes' if git.get('dirty') else ''}"] = None
    facts = found | ({"git": commits} if commits else {})
    return tuple((name, ", ".join(values)) for name, values in facts.items())


def _by_task(analysis: Analysis, facts: Callable[[TaskResults], Facts]) -> Facts:
    """Collect the facts of every task; with several tasks, each name starts with its task."""
    several = len(analysis.tasks) > 1
    return tuple(
        (f"{task.label}: {name}" if several else name, text)
        for task in analysis.results.tasks
        for name, text in facts(task)
    )


def _range(values: Iterable[int]) -> str:
    found = sorted(set(values))
    return str(found[0]) if len(found) == 1 else f"{found[0]}{format.NONE}{found[-1]}"
