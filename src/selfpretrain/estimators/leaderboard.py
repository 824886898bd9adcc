"""Candidates of a fit, networks and simple methods alike: their scores on the same validation examples.

What is kept is chosen by these scores, and the largest of many is too good. So the score of what is kept is
another one: all choices are made again on resamples of the examples, and what is chosen there is scored on
the examples that the resample left out.

Source: Tsamardinos, Greasidou and Borboudakis (2018), Bootstrapping the out-of-sample predictions for
efficient and accurate cross-validation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal, TypeVar

import numpy as np
from scipy import stats

from ..data.dataset import SequenceDataset
from ..data.spec import Target
from ..system.files import Json
from .predictor import Output
from .scores import Score, resamples
from .simple import (
    AVERAGED,
    Answering,
    Answers,
    AveragePredictor,
    Candidate,
    Options,
    SimplePredictor,
    average_answers,
)

UNDEFINED: dict[Output, float] = {"reals": -np.inf, "sets": 1.0}
"""What is predicted -> metric where nothing can be counted; else 0."""
SMALLEST = 1e-6  # least probability in the log loss: one example is not to decide alone
DRAWS = 200  # resamples of the validation examples
ABOVE = 1.0  # standard errors by which a network must be above what would be kept without it
BELOW = 2.0  # standard errors by which the score of an average may be below the best one
POWER = 4  # power of the score on validation that weighs a member of an average (Large et al. 2019)
LEAST = 0.5  # weight, over that of the best, below which a simple method is left out of averages
LEAST_OF_NUMBERS = 0.1  # the same of numbers, whose weights differ more
OF_FOLDS = 1.8
"""Variance of a score on five folds, over that on as many independent examples: networks and methods of two
folds share most of their training examples, and err alike. Measured by ``benchmarks/kept_score.py``."""

Kind = Literal["network", "simple", "average", "simple average"]
"""What a candidate is: an average has the network among its members, a simple average has not."""
Key = int | tuple[Any, ...]  # number of an option, or those of which an average is made
T = TypeVar("T")


def answers(model: Answering, examples: SequenceDataset) -> Answers:
    """Return true values and outputs on labelled examples: of positions (n, L) and (n, L, K), padded."""
    targets = examples.targets.numpy()
    if model.output == "positions":
        padded = np.zeros((*targets.shape, model.form.target.outputs), dtype=np.float32)
        for row, of_sequence in enumerate(model.position_probabilities(examples)):
            padded[row, : len(of_sequence)] = of_sequence
        return targets, padded
    outputs = model.probabilities(examples)
    return (targets.astype(np.float64), outputs[:, 0]) if model.output == "reals" else (targets, outputs)


def score(output: Output, found: Answers) -> float:
    """Return the metric of the leaderboard; -inf where it is not defined."""
    return quality(output, found)[0]


def quality(output: Output, found: Answers) -> tuple[float, float]:
    """Return the metric of the leaderboard and, for equal ones, minus the log loss; larger is better."""
    return _quality(output, _tally(output, found).sum(0))


def _quality(output: Output, sums: np.ndarray) -> tuple[float, float]:
    """Return the quality of answers, given the sums of their tallies."""
    hits, of, likely, known = sums.tolist()
    return hits / of if of else UNDEFINED.get(output, 0.0), likely / known if known else 0.0


def _metrics(output: Output, sums: np.ndarray) -> np.ndarray:
    """Return the metric, given the sums of tallies (..., 4)."""
    undefined = np.full(sums.shape[:-1], UNDEFINED.get(output, 0.0))
    return np.divide(sums[..., 0], sums[..., 1], out=undefined, where=sums[..., 1] > 0)


def _tally(output: Output, found: Answers, unit: np.ndarray | None = None) -> np.ndarray:
    """Return (units, 4): metric and minus log loss are ratios of the sums of two columns each.

    R2 is relative to the variance of all true values, also in resamples: one with a single true value has no
    variance of its own.

    Args:
        unit: (n,) number of the unit of every example, its group; None: it is one by itself.
    """
    y_true, outputs = found
    nothing = np.zeros(len(y_true))
    if output == "reals":
        spread = np.full(len(y_true), y_true.var())
        columns = [spread - (y_true - outputs) ** 2, spread, nothing, nothing]
    elif output == "sets":
        positive = y_true > 0
        predicted = outputs > 0.5
        likely = np.log(np.where(positive, outputs, 1 - outputs).clip(SMALLEST))
        hits = (predicted & positive).sum(1)
        columns = [2 * hits, predicted.sum(1) + positive.sum(1), likely.sum(1), nothing + y_true.shape[1]]
    else:
        known = (y_true >= 0).reshape(len(y_true), -1)
        right = (outputs.argmax(-1) == y_true).reshape(known.shape) & known
        actual = y_true.clip(0)[..., None].astype(np.int64)
        chosen = np.take_along_axis(outputs, actual, -1)
        likely = np.log(chosen.clip(SMALLEST)).reshape(known.shape)
        columns = [right.sum(1), known.sum(1), (likely * known).sum(1), known.sum(1)]
    rows = np.stack(columns, axis=1).astype(np.float64)
    return rows if unit is None else np.stack([np.bincount(unit, column) for column in rows.T], axis=1)


def ranked(candidates: list[Candidate]) -> list[Candidate]:
    """Return the candidates, the best first, see ``_rank``; equal ones in their order."""
    return sorted(candidates, key=lambda each: _rank(quality(each.model.output, each.answers)), reverse=True)


def _rank(found: tuple[float, float]) -> tuple[float, float]:
    """Return a quality as candidates are ranked by it: of equal scores that with the smaller log loss.

    Validation is often perfect for several methods where labels are few. Their log losses tell how sure they
    are and not how right, so these are equal.
    """
    score, _ = found
    return found if score < 1 else (score, 0.0)


def averages(network: Candidate | None, simple: list[Candidate]) -> list[Candidate]:
    """Return the averages of the network and the best simple method, of the best ones, and of all these."""
    return [average_of(members) for members in _averaged(network, best_of(simple))]


def best_of(simple: list[Candidate]) -> list[Candidate]:
    """Return the simple methods that may be kept, alone or in an average, the best first."""
    if not simple:
        return []
    order = ranked(simple)
    output = order[0].model.output
    return _near(output, order, [score(output, each.answers) for each in order])


def _near(output: Output, order: list[T], scores: list[float]) -> list[T]:
    """Return the first of some methods, as far as their scores weigh enough."""
    weights = [_weight(output, found) for found in scores]
    least = (LEAST_OF_NUMBERS if output == "reals" else LEAST) * max(weights, default=0.0)
    return [each for each, weight in zip(order, weights, strict=True) if weight >= least][:AVERAGED]


def _averaged(network: T | None, some: list[T]) -> list[list[T]]:
    """Return the members of every average, given some simple methods, the best first."""
    first = some[:1]
    found = [some] if network is None else [[network, *first], some, [network, *some]]
    return [members for at, members in enumerate(found) if len(members) > 1 and members not in found[:at]]


def average_of(members: Sequence[Candidate]) -> Candidate:
    """Return the candidate whose answers are the averages of those of its members, the better weighing more.

    Source: Large, Lines and Bagnall (2019), A probabilistic classifier ensemble weighting scheme based on
    cross-validated accuracy estimates.
    """
    answers = [each.answers for each in members]
    shares = _shares(members[0].model.output, answers)
    return Candidate(
        average_name([each.name for each in members]),
        AveragePredictor(tuple(each.model for each in members), shares),
        average_answers(answers, shares),
        sum(each.seconds for each in members),
        sum(each.parameters for each in members),
    )


def _shares(output: Output, parts: Sequence[Answers]) -> tuple[float, ...]:
    """Return the weight of every member of an average; they add up to 1."""
    weights = [_weight(output, score(output, found)) for found in parts]
    return tuple(weight / sum(weights) for weight in weights)


def _weight(output: Output, found: float) -> float:
    """Return how much a score on validation weighs; of numbers, it is the inverse of their squared error.

    Source: of numbers, Bates and Granger (1969), The combination of forecasts.
    """
    if output == "reals":
        return max(1 / max(1 - found, SMALLEST), SMALLEST)
    return max(found, SMALLEST) ** POWER


def average_name(names: Sequence[str]) -> str:
    """Return the name of an average of methods, or that of the only one."""
    *most, last = names
    return f"average of {', '.join(most)} and {last}" if most else last


def chosen(order: list[Candidate], groups: np.ndarray | None = None) -> Candidate:
    """Return the candidate to keep, an average unless validation shows that something else is better.

    An average is kept if its log loss (of numbers, its error) is the smallest of all and its score at most
    ``BELOW`` standard errors below the best one: where there are folds, validation asks one network at a
    time, and all of them predict later. Otherwise the average of the best simple methods is kept, unless it
    is further below the best of them: validation can hardly tell them apart, and they err on different
    examples. A network is kept if it is more than ``ABOVE`` standard errors above what would be kept without
    it, which is smaller and faster. Standard errors are those of the difference on the same examples.

    Args:
        groups: (n,) groups of the validation examples, which are resampled as a whole.

    Source: the rule of one standard error of Breiman et al. (1984), Classification and Regression Trees.
    """
    output = order[0].model.output
    unit = _units(groups)
    tallies = [_tally(output, each.answers, unit) for each in order]
    return order[_kept(output, tallies, [_kind(each.model) for each in order])]


def _kind(model: Answering) -> Kind:
    if isinstance(model, AveragePredictor):
        simple = all(isinstance(each, SimplePredictor) for each in model.members)
        return "simple average" if simple else "average"
    return "simple" if isinstance(model, SimplePredictor) else "network"


def _units(groups: np.ndarray | None) -> np.ndarray | None:
    return None if groups is None else np.unique(groups, return_inverse=True)[1]


def _kept(output: Output, tallies: list[np.ndarray], kinds: list[Kind]) -> int:
    """Return the place of what is kept."""
    found = [_quality(output, tally.sum(0)) for tally in tallies]
    order = sorted(range(len(found)), key=lambda place: _rank(found[place]), reverse=True)
    best = order[0]
    surest = max(order, key=lambda place: _sureness(output, found[place]))
    if "average" in kinds[surest] and _errors_above(output, tallies[best], tallies[surest]) <= BELOW:
        return surest
    simple = [place for place in order if kinds[place] == "simple"] or [best]
    average = next((place for place in order if kinds[place] == "simple average"), simple[0])
    behind = _errors_above(output, tallies[simple[0]], tallies[average]) > BELOW
    usual = simple[0] if behind else average
    networks = kinds[best] in ("network", "average")
    return best if networks and _errors_above(output, tallies[best], tallies[usual]) > ABOVE else usual


def sureness(output: Output, found: Answers) -> float:
    """Return minus the log loss, or R2 of numbers; larger is better."""
    return _sureness(output, quality(output, found))


def _sureness(output: Output, found: tuple[float, float]) -> float:
    return found[0] if output == "reals" else found[1]


@lru_cache(maxsize=2)
def _counts(n: int) -> np.ndarray:
    """Return (draws, n) how often resamples hold each of n units."""
    return np.stack([np.bincount(drawn, minlength=n) for drawn in resamples(n, None, DRAWS)]).astype(float)


def errors_above(output: Output, best: Answers, other: Answers, groups: np.ndarray | None = None) -> float:
    """Return by how many standard errors the score of some answers is above that of others."""
    unit = _units(groups)
    return _errors_above(output, _tally(output, best, unit), _tally(output, other, unit))


def _errors_above(output: Output, best: np.ndarray, other: np.ndarray) -> float:
    """Return by how many standard errors one score is above the other, from bootstrap resamples."""
    above, below = (_metrics(output, _counts(len(tally)) @ tally) for tally in (best, other))
    with np.errstate(invalid="ignore"):  # of targets that are all equal, R2 is not defined
        gap = _metrics(output, best.sum(0)) - _metrics(output, other.sum(0))
        return float(gap) / max(float(np.std(above - below)), SMALLEST)


class _Contest:
    """All choices of a fit, made again on resamples of its validation examples."""

    def __init__(self, network: Candidate | None, simple: list[Candidate], groups: np.ndarray | None) -> None:
        candidates = [*([network] if network else []), *simple]
        self.output = candidates[0].model.output
        self.unit = _units(groups)
        self.answers: list[Answers] = []
        self.keys: list[list[int]] = []  # the options of every candidate, the network first
        for each in candidates:
            options = each.options.answers if each.options else [each.answers]
            self.keys.append(list(range(len(self.answers), len(self.answers) + len(options))))
            self.answers += options
        self.of_network: Options | None = None
        if network is not None:
            self.of_network = network.options or Options([network.answers])
        self.tallies: dict[Key, np.ndarray] = {}

    def corrected(self) -> float:
        """Return the score, on what resamples leave out, of what is kept in them."""
        units = len(self.tally(0))
        left_out = np.zeros(4)
        for counts in _counts(units):
            left_out += (counts == 0) @ self.tally(self.kept(counts))
        return _quality(self.output, left_out)[0]

    def kept(self, counts: np.ndarray) -> Key:
        """Return what is kept in a resample: an option, or the members of an average.

        Args:
            counts: (units,) how often it holds each.
        """
        of_bag = partial(self.quality, counts=counts)
        network = None if self.of_network is None else self._network(self.of_network, counts)
        alone = [] if network is None else [network]
        simple: list[Key] = [max(keys, key=of_bag) for keys in self.keys[len(alone) :]]
        order = sorted(simple, key=lambda key: _rank(of_bag(key)), reverse=True)
        near = _near(self.output, order, [of_bag(key)[0] for key in order])
        mixed = [tuple(each) for each in _averaged(network, near)]
        keys = [*alone, *simple, *mixed]
        kinds: list[Kind] = ["simple" if key in simple else "network" for key in (*alone, *simple)]
        kinds += ["simple average" if set(members) <= set(simple) else "average" for members in mixed]
        bag = np.repeat(np.arange(len(counts)), counts.astype(int))
        return keys[_kept(self.output, [self.tally(key)[bag] for key in keys], kinds)]

    def _network(self, options: Options, counts: np.ndarray) -> Key:
        """Return the setting of the network that is the best in a resample, or the average of two."""
        keys = self.keys[0]
        first = counts
        if options.first is not None:
            unit = np.arange(len(counts)) if self.unit is None else self.unit
            first = counts * np.isin(np.arange(len(counts)), unit[options.first])
        order = sorted(keys, key=lambda key: -self.quality(key, first)[0])
        if options.kinds:
            order[1:] = sorted(order[1:], key=lambda key: options.kinds[key] == options.kinds[order[0]])
        pair = tuple(order[: options.finalists])
        best = max(pair, key=lambda key: self.quality(key, counts)[0])
        alone, both = (_sureness(self.output, self.quality(key, counts)) for key in (best, pair))
        return pair if both > alone else best

    def quality(self, key: Key, counts: np.ndarray) -> tuple[float, float]:
        """Return the quality of an option, or an average, in a resample."""
        return _quality(self.output, counts @ self.tally(key))

    def tally(self, key: Key) -> np.ndarray:
        """Return the tally of an option, or of the average of several."""
        if key not in self.tallies:
            self.tallies[key] = _tally(self.output, self._answers(key), self.unit)
        return self.tallies[key]

    def _answers(self, key: Key) -> Answers:
        if not isinstance(key, tuple):
            return self.answers[key]
        parts = [self._answers(each) for each in key]
        if self.of_network is not None and set(key) <= set(self.keys[0]):  # settings of the network
            return average_answers(parts)
        # Shares are those of all examples: in resamples they would hardly differ.
        return average_answers(parts, _shares(self.output, parts))


@dataclass(frozen=True)
class Verdict:
    """What is kept, its corrected score, the leaderboard, and what was kept in one line."""

    kept: Candidate
    score: Score
    table: list[Json]
    line: str


def judge(
    network: Candidate | None, simple: list[Candidate], groups: np.ndarray | None, folds: int
) -> Verdict:
    """Choose among a network, simple methods and averages; see ``chosen``, ``kept_score`` and ``rows``.

    Args:
        network: None: it is not a candidate.
    """
    order = ranked([*([network] if network else []), *simple, *averages(network, simple)])
    kept = chosen(order, groups)
    score = kept_score(kept, network, simple, groups, folds)
    table = rows(order, groups, folds)
    return Verdict(kept, score, table, kept_line(table, kept.name, (network or kept).name, score))


def kept_score(
    kept: Candidate,
    network: Candidate | None,
    simple: list[Candidate],
    groups: np.ndarray | None,
    folds: int,
) -> Score:
    """Return the score of what is kept, corrected for all choices that led to it, with a 95 % interval.

    The interval ends where that of the uncorrected score does, if that is higher: what predicts has learned
    from all labels, where the models of folds and resamples had fewer.

    Args:
        kept: what is kept of the network, the simple methods, and averages.
        folds: number of folds of which the validation examples are.
    """
    contest = _Contest(network, simple, groups)
    tally = _tally(contest.output, kept.answers, contest.unit)
    uncorrected = _score(contest.output, _quality(contest.output, tally.sum(0))[0], tally, folds)
    if len(contest.answers) == 1 or len(tally) < 2:  # no resample leaves the only unit out
        return uncorrected
    found = _score(contest.output, contest.corrected(), tally, folds)
    return replace(found, high=max(found.high, uncorrected.high))


def _score(output: Output, value: float, tally: np.ndarray, folds: int) -> Score:
    """Return a score with its 95 % interval, whose width is that of the score of a tally.

    Shares have Wilson's interval, with as many examples as give that standard error, or with one per unit if
    all are right; R2 has one that is symmetric in log(1 - R2).

    Source: Wilson (1927), Probable inference, the law of succession, and statistical inference.
    """
    units = len(tally)
    own, total = _quality(output, tally.sum(0))[0], tally[:, 1].sum()
    if units < 2 or not total or not np.isfinite(value):
        return Score(value, np.nan, np.nan)
    residuals = tally[:, 0] - own * tally[:, 1]
    variance = units / (units - 1) * float(residuals @ residuals) / total**2
    inflated = OF_FOLDS if folds > 1 else 1.0
    width = float(stats.t.ppf(0.975, units - 1)) * inflated**0.5
    if output == "reals":
        factor = np.exp(width * variance**0.5 / max(1 - own, SMALLEST))
        return Score(value, 1 - (1 - value) * factor, 1 - (1 - value) / factor)
    n = own * (1 - own) / variance if variance > 0 else units
    square = width**2 / n
    centre = (value + square / 2) / (1 + square)
    half = (square * (value * (1 - value) + square / 4)) ** 0.5 / (1 + square)
    return Score(value, max(0.0, centre - half), min(1.0, centre + half))


def rows(candidates: list[Candidate], groups: np.ndarray | None = None, folds: int = 1) -> list[Json]:
    """Return the name, validation score with a 95 % interval, seconds and parameters of every candidate."""
    return [
        scored(each.name, each.model.form.target, each.answers, groups, folds)
        | {"seconds": round(each.seconds, 1), "parameters": each.parameters}
        for each in candidates
    ]


def scored(name: str, target: Target, found: Answers, groups: np.ndarray | None, folds: int) -> Json:
    """Return name, metric and score with a 95 % interval of some answers on validation."""
    tally = _tally(target.kind, found, _units(groups))
    of_metric = _score(target.kind, _quality(target.kind, tally.sum(0))[0], tally, folds)
    about: Json = {"name": name, "metric": target.metric.replace("r2", "R2")}
    return about | {"score": of_metric.value, "low": of_metric.low, "high": of_metric.high}


def text(table: list[Json], kept: str) -> str:
    """Return the leaderboard as lines of text, with an asterisk at what is kept."""
    said = "scores on validation, by which the best was chosen; they are optimistic (* is kept):"
    return "\n".join([said, heading(table[0]), *(line(row, row["name"] == kept) for row in table)])


def heading(row: Json) -> str:
    """Return the names of the columns of ``line``."""
    return f"  {row['metric']:>8}  95 % interval    seconds  parameters"


def line(row: Json, kept: bool = False) -> str:
    """Return a row of the leaderboard as text."""
    interval = f"[{row['low']:.3f}, {row['high']:.3f}]"
    size = f"{row['parameters']:,}" if "parameters" in row else ""
    mark = "*" if kept else " "
    return f"{mark} {row['score']:8.3f}  {interval:15}  {row['seconds']:7.0f}  {size:>10}  {row['name']}"


def kept_line(table: list[Json], kept: str, network: str, found: Score) -> str:
    """Return what was kept in one line, e.g. "kept: logistic regression on ..., accuracy 0.698 (...)"."""
    by_name = {row["name"]: row for row in table}
    line = f"kept: {kept}, {table[0]['metric']} {found}"
    if len(table) == 1:
        return line
    if np.isfinite(found.low):
        line += f", corrected for the choice; uncorrected: {by_name[kept]['score']:.3f}"
    else:  # of one example
        line += ", not corrected for the choice"
    if kept != network:
        return f"{line}, the network: {_described(by_name[network])}"
    others = [row for row in table if row["name"] != network]
    return f"{line}, next: {_described(others[0])}" if others else line


def _described(row: Json) -> str:
    return f"{row['name']}, {row['metric']} {row['score']:.3f}"
