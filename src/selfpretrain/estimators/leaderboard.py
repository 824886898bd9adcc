"""Candidates of a fit, networks and simple methods alike: their scores on the same validation examples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.dataset import SequenceDataset
from ..system.files import Json
from .predictor import Output
from .scores import bootstrap, resamples
from .simple import Answering, Answers, AveragePredictor, SimplePredictor, average_answers

METRICS: dict[Output, str] = {
    "softmax": "accuracy",
    "number": "R2",
    "sigmoid": "micro F1",
    "softmax per position": "accuracy",
}
"""Kind of output -> metric of the leaderboard."""
SMALLEST = 1e-6
"""Least probability in the log loss: one example is not to decide alone."""


@dataclass(frozen=True)
class Candidate:
    """A trained model and its answers on validation examples that it was not trained on."""

    name: str
    model: Answering
    answers: Answers
    seconds: float
    parameters: int


def answers(model: Answering, examples: SequenceDataset) -> Answers:
    """Return true values and outputs on labelled examples: of positions (n, L) and (n, L, K), padded."""
    targets = examples.targets.numpy()
    if model.output == "softmax per position":
        padded = np.zeros((*targets.shape, model.form.target.outputs), dtype=np.float32)
        for row, of_sequence in enumerate(model.position_probabilities(examples)):
            padded[row, : len(of_sequence)] = of_sequence
        return targets, padded
    outputs = model.probabilities(examples)
    return (targets.astype(np.float64), outputs[:, 0]) if model.output == "number" else (targets, outputs)


def finite(found: Answers) -> bool:
    """Return whether all outputs are finite numbers."""
    return bool(np.isfinite(found[1]).all())


def score(output: Output, found: Answers) -> float:
    """Return the metric of the leaderboard; -inf where it is not defined."""
    return _metric(output, *_counted(output, found))


def quality(output: Output, found: Answers) -> tuple[float, float]:
    """Return the metric of the leaderboard and, for equal ones, minus the log loss; larger is better."""
    y_true, outputs = found
    if output == "number":
        return score(output, found), 0.0
    if output == "sigmoid":
        chosen = np.where(y_true > 0, outputs, 1 - outputs)
    else:
        known = y_true >= 0
        chosen = np.take_along_axis(outputs[known], y_true[known][:, None].astype(np.int64), axis=1)
    return score(output, found), float(np.log(chosen.clip(SMALLEST)).mean()) if chosen.size else 0.0


def _counted(output: Output, found: Answers) -> Answers:
    """Return answers as ``_metric`` takes them.

    Of positions how many are right and known in each example; of numbers, squared errors and the variance of
    all true values, which resamples keep: one with a single true value has no variance of its own.
    """
    y_true, outputs = found
    if output == "number":
        return (y_true - outputs) ** 2, np.full(len(y_true), y_true.var())
    if output == "softmax per position":
        known = y_true >= 0
        return ((outputs.argmax(2) == y_true) & known).sum(1), known.sum(1)
    return found


def _metric(output: Output, y_true: np.ndarray, outputs: np.ndarray) -> float:
    """Return the metric of what ``_counted`` returns."""
    if output == "softmax":
        return float((y_true == outputs.argmax(1)).mean())
    if output == "softmax per position":
        return float(y_true.sum() / max(1, outputs.sum()))
    if output == "sigmoid":
        predicted = outputs > 0.5
        total = predicted.sum() + (y_true > 0).sum()
        return float(2 * (predicted & (y_true > 0)).sum() / total) if total else 1.0
    spread = float(outputs.sum())
    return 1 - float(y_true.sum()) / spread if spread else -np.inf


def ranked(candidates: list[Candidate]) -> list[Candidate]:
    """Return the candidates, the best first; of equal scores that with the smaller log loss.

    Validation is often perfect for several methods where labels are few.
    """
    return sorted(candidates, key=lambda each: quality(each.model.output, each.answers), reverse=True)


def averages(network: Candidate, simple: list[Candidate]) -> list[Candidate]:
    """Return the averages of the network and the best simple method, of the two best, and of all three."""
    if not simple:
        return []
    best, *others = ranked(simple)
    pair = [best, *others[:1]]
    groups = [[network, best]] if not others else [[network, best], pair, [network, *pair]]
    return [average_of(members) for members in groups]


def average_of(members: Sequence[Candidate]) -> Candidate:
    """Return the candidate whose answers are the averages of those of its members."""
    *most, last = (each.name for each in members)
    return Candidate(
        f"average of {', '.join(most)} and {last}",
        AveragePredictor(tuple(each.model for each in members)),
        average_answers([each.answers for each in members]),
        sum(each.seconds for each in members),
        sum(each.parameters for each in members),
    )


def chosen(order: list[Candidate], groups: np.ndarray | None = None) -> Candidate:
    """Return the candidate to keep: an average if its probabilities are the best of all, else the best.

    An average is kept if its log loss (of numbers, its error) is the smallest and its score at most two
    standard errors below the best one: where there are folds, validation asks one network at a time, and all
    of them predict later. A network is kept if it is more than one standard error above the best simple
    method; otherwise that method is kept, which is smaller and faster. Standard errors are those of the
    difference on the same validation examples.

    Args:
        groups: (n,) groups of the validation examples, which are resampled as a whole.

    Source: the rule of one standard error of Breiman et al. (1984), Classification and Regression Trees.
    """
    best = order[0]
    surest = max(order, key=lambda each: sureness(each.model.output, each.answers))
    if isinstance(surest.model, AveragePredictor) and _errors_above(best, surest, groups) <= 2:
        return surest
    simple = next((each for each in order if isinstance(each.model, SimplePredictor)), best)
    return best if _errors_above(best, simple, groups) > 1 else simple


def sureness(output: Output, found: Answers) -> float:
    """Return minus the log loss, or R2 of numbers; larger is better."""
    metric, likelihood = quality(output, found)
    return metric if output == "number" else likelihood


def _errors_above(
    best: Candidate, other: Candidate, groups: np.ndarray | None = None, draws: int = 200
) -> float:
    """Return by how many standard errors one score is above the other, from bootstrap resamples."""
    output = best.model.output
    counted = [_counted(output, each.answers) for each in (best, other)]
    differences = []
    for drawn in resamples(len(best.answers[0]), groups, draws):
        above, below = (_metric(output, *(part[drawn] for part in each)) for each in counted)
        differences.append(above - below)
    gap = score(output, best.answers) - score(output, other.answers)
    return gap / max(float(np.std(differences)), SMALLEST)


def rows(candidates: list[Candidate], groups: np.ndarray | None = None, draws: int = 200) -> list[Json]:
    """Return the name, score with a 95 % bootstrap interval, seconds and parameters of every candidate."""
    return [_row(each, groups, draws) for each in candidates]


def _row(candidate: Candidate, groups: np.ndarray | None, draws: int) -> Json:
    output = candidate.model.output

    def measures(*drawn: Any) -> dict[str, float]:
        return {"score": _metric(output, *drawn)}

    found = bootstrap(measures, _counted(output, candidate.answers), groups, draws)["score"]
    return {
        "name": candidate.name,
        "metric": METRICS[output],
        "score": found.value,
        "low": found.low,
        "high": found.high,
        "seconds": round(candidate.seconds, 1),
        "parameters": candidate.parameters,
    }


def text(table: list[Json], kept: str) -> str:
    """Return the leaderboard as lines of text, with an asterisk at what is kept."""
    lines = [f"  {table[0]['metric']:>8}  95 % interval    seconds  parameters  (validation; * is kept)"]
    for row in table:
        mark = "*" if row["name"] == kept else " "
        interval = f"[{row['low']:.3f}, {row['high']:.3f}]"
        cost = f"{row['seconds']:7.0f}  {row['parameters']:10,}"
        lines.append(f"{mark} {row['score']:8.3f}  {interval:15}  {cost}  {row['name']}")
    return "\n".join(lines)


def kept_line(table: list[Json], kept: str, network: str) -> str:
    """Return what was kept in one line, e.g. "kept: logistic regression on ..., accuracy 0.698 (...)"."""
    by_name = {row["name"]: row for row in table}
    line = f"kept: {_described(by_name[kept])}"
    others = [row for row in table if row["name"] != network]
    if kept != network:
        return f"{line}; the network: {_described(by_name[network])}"
    return f"{line}; next: {_described(others[0])}" if others else line


def _described(row: Json) -> str:
    return f"{row['name']}, {row['metric']} {row['score']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
