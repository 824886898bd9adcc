"""Checks of a mixer: ten probes of a fresh layer, three of them also of a whole network in training mode.

Inputs that must not matter (later positions, padding, other sequences) are replaced by random ones, and the
outputs that must not change are compared. A constant shift would not do: norms remove it, and hide the leak.
"""

import copy
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from ..config import is_ours, to_dict
from ..data.spec import Classes, SequenceSpec, Values
from ..errors import SelfPretrainError, SpecError, first_line
from ..mixers.base import LayerContext, Mixer, Positions
from ..registry import name_of, names
from ..shapes import PaddingMask, Vectors
from .flops import count_flops
from .model import Model
from .recipe import Recipe

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
"""Tolerance for rounding errors, relative to the largest output."""
ROWS = 3
"""Batch size of the probes."""
NOISE_SCALE = 10.0
"""Scale of the inputs that must not matter, relative to the others."""
MAX_PROBE_LENGTH = 512
"""Maximum length of most probes before a study; leaks are probed at the full length, too."""
BATCH_NORM_NOTE = (
    "batch norm averages over later positions while it trains, so that causal pretraining sees a little of "
    "what it is to predict; norm=layer and norm=rms do not"
)


class CheckFailed(Exception):
    """A probe failed; the message says which output depends on which input."""

    def __init__(self, message: str, position: int | None = None, by: float | None = None) -> None:
        super().__init__(message)
        self.position = position
        self.by = by


class Unsteady(Exception):
    """Two passes over the same inputs give different outputs, so that a probe cannot decide."""


@dataclass(frozen=True)
class Probe:
    """The result of one probe."""

    name: str
    result: Literal["ok", "fails", "warns", "not applicable"]
    said: str = ""
    position: int | None = None  # first position whose output changed
    by: float | None = None  # largest change of an output


@dataclass(frozen=True)
class Check:
    """The results of all probes of a mixer in one layer context."""

    mixer: str
    place: LayerContext
    parameters: int
    flops: (
        float | None
    )  # of a forward and backward pass over one sequence; None if it fails or is not counted
    probes: tuple[Probe, ...]
    denoises: bool = True  # whether the mixer has an output at every position

    @property
    def failures(self) -> list[str]:
        """Failed probes, one line each."""
        return [f"{probe.name}: {probe.said}" for probe in self.probes if probe.result == "fails"]

    @property
    def passed(self) -> list[str]:
        """Names of the probes that passed; none if the layer does not run."""
        return [probe.name for probe in self.probes if probe.result == "ok"]

    @property
    def objectives(self) -> tuple[str, ...]:
        """Pretraining objectives that suit the mixer: masked if it runs, causal if no future leaks."""
        if not self.denoises:
            return ()
        return ("masked",) * bool(self.passed) + ("causal",) * ("causality" in self.passed)


def check(mixer: Mixer, place: LayerContext, names: Iterable[str] | None = None) -> Check:
    """Probe a mixer in a layer context; torch's global random state is not changed.

    Args:
        names: names of ``PROBES``; None: all.

    Raises:
        SpecError: if the mixer cannot be built in this context.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = _layer(mixer, place)
        parameters = sum(p.numel() for p in layer.module.parameters())
        first_pass = _try_probe("length limit", _first_pass, layer)
        if first_pass.result == "fails":
            # The reason may be weights that are never set: they hold what was in memory, at times NaN.
            drawn = _try_probe("initialisation", _initialisation, layer)
            rest = [
                drawn
                if drawn.result == "fails" and name == drawn.name
                else Probe(name, "not applicable", "the layer does not run")
                for name in names or PROBES
            ]
            probes = (first_pass, *(probe for probe in rest if probe.name != first_pass.name))
            return Check(name_of(mixer), place, parameters, None, probes)
        network = _network(layer)
        probes = tuple(_run_probe(name, layer, network) for name in names or PROBES)
        flops = None if names else _flops(layer)
        return Check(name_of(mixer), place, parameters, flops, probes, mixer.denoises)


def check_recipes(recipes: Iterable[Recipe], brief: bool = False) -> list[str]:
    """Probe the mixers from outside this package, each once, and return one line per failed probe.

    Batch norm in causal pretraining is reported, too; it is not an error because published recipes use it.

    Args:
        brief: probe for leaks at ``MAX_PROBE_LENGTH`` positions at most, not at the length of the task.

    Raises:
        SpecError: if a mixer that leaks the future is to be pretrained causally.
    """
    problems: list[str] = []
    for recipe in recipes:
        model = recipe.model
        mixer = recipe.model.mixer
        causal = any(stage.objective.needs_causal for stage in recipe.stages)
        problems += (
            [BATCH_NORM_NOTE] if causal and model.norm == "batch" and BATCH_NORM_NOTE not in problems else []
        )
        if name_of(mixer) in names("mixers") and is_ours(type(mixer).__module__):
            continue  # the tests of this package check it
        task_length = recipe.task_of(recipe.last).form.length
        for length in sorted(
            {min(task_length, MAX_PROBE_LENGTH), min(task_length, MAX_PROBE_LENGTH) if brief else task_length}
        ):
            result = _cached_check(
                mixer, LayerContext(model.width, length, model.causal, model.encoding == "rotary")
            )
            problems += [problem for problem in _problems(result, causal) if problem not in problems]
    return problems


def _problems(result: Check, causal: bool) -> list[str]:
    if causal and "causal" not in result.objectives:
        reason = next(iter(result.failures), "its outputs are random")
        raise SpecError(f"{result.mixer} must not be pretrained causally ({reason}); use --objective masked")
    return [f"{result.mixer}: {failure}" for failure in result.failures]


_cache: dict[str, Check] = {}


def _cached_check(mixer: Mixer, place: LayerContext) -> Check:
    key = json.dumps([to_dict(mixer), to_dict(place)], sort_keys=True)
    if key not in _cache:
        _cache[key] = check(mixer, place, None if place.length <= MAX_PROBE_LENGTH else IN_TRAINING)
    return _cache[key]


@dataclass(frozen=True)
class _Subject:
    """A module under test: a layer, or a network in training mode."""

    mixer: Mixer
    place: LayerContext
    module: nn.Module
    run: Callable[[Vectors, PaddingMask], Vectors]
    random: torch.Generator
    dtype: torch.dtype = torch.float64
    during: str = ""

    @torch.no_grad()
    def __call__(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        torch.manual_seed(0)  # dropout and other randomness inside is the same in every call
        y = self.run(x, padding_mask)
        if y.shape != x.shape:
            raise CheckFailed(f"inputs of shape {tuple(x.shape)} give outputs of shape {tuple(y.shape)}")
        return y

    def draw(self, length: int | None = None) -> Vectors:
        """Return random sequences, by default of the context's length."""
        shape = (ROWS, length or self.place.length, self.place.width)
        return torch.randn(shape, generator=self.random, dtype=self.dtype)

    def compare(self, unchanged: Bool[Tensor, "B L"], padding_mask: PaddingMask, what: str) -> None:
        """Check that outputs at kept positions do not change when all other inputs are replaced.

        Raises:
            CheckFailed: if they do.
            Unsteady: if they also change without replacing anything.
        """
        x = self.draw()
        other = torch.where(unchanged[..., None], x, NOISE_SCALE * self.draw())
        first = self(x, padding_mask)
        try:
            self.assert_equal(first, self(other, padding_mask), unchanged, what)
        except CheckFailed:
            if not torch.equal(first.nan_to_num(), self(x, padding_mask).nan_to_num()):
                raise Unsteady from None
            raise

    def assert_equal(self, a: Vectors, b: Vectors, unchanged: Bool[Tensor, "B L"], what: str) -> None:
        """Raise CheckFailed if outputs differ at kept positions."""
        difference = (a - b).abs().amax(-1).nan_to_num(torch.inf).masked_fill(~unchanged, 0)
        changed = difference > TOLERANCE[self.dtype] * max(1.0, float(a[unchanged].abs().max()))
        if changed.any():
            position = int(changed.any(0).nonzero()[0])
            by = float(difference.max())
            raise CheckFailed(
                f"{self.during}{what}, first at position {position}, by up to {by:.2g}", position, by
            )


def _layer(mixer: Mixer, place: LayerContext) -> _Subject:
    try:
        # A copy: the probes change its precision and its weights, of which the user's code may keep some.
        module = copy.deepcopy(mixer.build(place)).eval()
    except SelfPretrainError:
        raise
    except Exception as error:
        raise SpecError(f"{name_of(mixer)} cannot be built: {_first_line(error)}") from error
    subject = _Subject(mixer, place, module, module, torch.Generator().manual_seed(0))
    module.double()
    try:
        if subject(subject.draw()).dtype == subject.dtype:
            return subject
    except Exception:  # it supports fp32 only, or does not run at all
        pass
    module.float()
    return replace(subject, dtype=torch.float32)


def _first_pass(subject: _Subject) -> None:
    if not subject(subject.draw()).isfinite().all():
        raise CheckFailed("the outputs are not finite")


def _training_copy(subject: _Subject) -> _Subject:
    """Return a new copy of the layer in training mode: some layers have no gradients in eval mode."""
    copied = _layer(subject.mixer, subject.place)
    copied.module.train()
    return copied


def _network(layer: _Subject) -> _Subject:
    """Return a network of one block with this mixer in training mode, from values to the head's inputs."""
    mixer = layer.mixer
    place = layer.place
    positions: Positions | Literal["auto"] = "rotary" if place.rotary else "auto"
    model = Model(mixer, place.width, depth=1, causal=place.causal, positions=positions)
    form = SequenceSpec(Values(channels=place.width), place.length, Classes(("a", "b")))
    network = model.build(form, nn.Identity()).to(layer.dtype).train()
    return replace(layer, module=network, run=network.features, during="in training, ")


def _causality(subject: _Subject) -> None:
    L = subject.place.length
    for cut in sorted({1, L // 3, L // 2, L - 1} - {0}):
        kept = (torch.arange(L) < cut).expand(ROWS, L)
        subject.compare(kept, None, f"positions from {cut} on reach earlier ones")


def _causality_any_weights(subject: _Subject) -> None:
    """Probe causality with weights that training might reach: every parameter drawn from N(0, 1).

    Weights are halved until outputs are finite: an unstable recurrence overflows, which would hide its leak.
    """
    module = copy.deepcopy(subject.module)
    with torch.no_grad():
        for parameter in module.parameters():
            values = torch.randn(parameter.shape, generator=subject.random, dtype=torch.float64)
            parameter.copy_(values)
    random_weights = replace(subject, module=module, run=module, during="with random weights, ")
    x = random_weights.draw()
    for _ in range(HALVINGS):
        if random_weights(x).isfinite().all():
            _causality(random_weights)
            return
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(0.5)


def _padding_content(subject: _Subject) -> None:
    padding_mask = _example_padding_mask(subject.place.length)
    subject.compare(padding_mask, padding_mask, "padding reaches real positions")


def _padding_length(subject: _Subject) -> None:
    n = max(1, subject.place.length // 2)
    x = subject.draw()
    padding_mask = (torch.arange(x.shape[1]) < n).expand(x.shape[:2])
    what = f"{n} positions give other outputs when padded to {x.shape[1]}"
    subject.assert_equal(subject(x[:, :n]), subject(x, padding_mask)[:, :n], padding_mask[:, :n], what)


def _batch_independence(subject: _Subject) -> None:
    kept = (torch.arange(ROWS) == 0)[:, None].expand(ROWS, subject.place.length)
    subject.compare(kept, None, "sequences of a batch reach each other")
    x = subject.draw()
    if not subject.during:  # in training mode, dropout depends on the batch size
        subject.assert_equal(
            subject(x)[:1], subject(x[:1]), kept[:1], "a sequence alone gives other outputs than in a batch"
        )


@torch.no_grad()
def _determinism(subject: _Subject) -> None:
    x = subject.draw()
    first = subject.run(x, None)
    second = subject.run(x, None)
    everywhere = torch.ones(x.shape[:2], dtype=torch.bool)
    subject.assert_equal(first, second, everywhere, "two passes in evaluation mode give different outputs")


def _initialisation(subject: _Subject) -> None:
    """Probe that every weight is set, and drawn from torch's random state: else seeds do not repeat."""
    first = _weights_from_seed(subject)
    second = _weights_from_seed(subject)
    for name, weight in first.items():
        if weight.isnan().any():
            raise CheckFailed(f"parameter {name} is never set")
        if not torch.equal(weight, second[name]):
            raise CheckFailed(f"parameter {name} starts otherwise with the same torch seed")


def _weights_from_seed(subject: _Subject) -> dict[str, Tensor]:
    """Return the initial weights of a new copy of the layer, with NaN where its code sets none."""
    before = torch.get_deterministic_debug_mode()
    # Fills new memory with NaN; torch.use_deterministic_algorithms would import the compiler for seconds.
    torch.set_deterministic_debug_mode("warn")
    try:
        torch.manual_seed(0)
        return dict(subject.mixer.build(subject.place).named_parameters())
    finally:
        torch.set_deterministic_debug_mode(before)


def _gradients(subject: _Subject) -> None:
    subject = _training_copy(subject)
    subject.run(
        subject.draw().requires_grad_(), _example_padding_mask(subject.place.length)
    ).square().sum().backward()
    for name, parameter in subject.module.named_parameters():
        if parameter.requires_grad and parameter.grad is None:
            raise CheckFailed(f"parameter {name} gets no gradient")
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            raise CheckFailed(f"the gradient of parameter {name} is not finite")


def _odd_lengths(subject: _Subject) -> None:
    L = subject.place.length
    for length in sorted({n for n in (1, 7, L - 1 - L % 2) if 0 < n < L}):
        try:
            # A mixer of fixed length is built again for each length.
            other = (
                _layer(subject.mixer, replace(subject.place, length=length))
                if subject.mixer.fixed_length
                else subject
            )
            y = other(other.draw(length))
        except Exception as error:
            raise CheckFailed(
                f"sequences of {length} positions fail, of {L} do not: {_first_line(error)}"
            ) from error
        if not y.isfinite().all():
            raise CheckFailed(f"sequences of {length} positions give outputs that are not finite")


def _length_limit(subject: _Subject) -> None:
    L = subject.place.length
    try:
        subject(subject.draw(2 * L))
    except CheckFailed:
        raise
    except Exception as error:
        deliberate = isinstance(error, ValueError | AssertionError) and str(error)
        if not deliberate:
            problem = (
                f"made for {L} positions, with {2 * L} it breaks rather than refuse: {_first_line(error)}"
            )
            raise CheckFailed(problem) from error


PROBES: dict[str, Callable[[_Subject], None]] = {
    "causality": _causality,
    "causality of any weights": _causality_any_weights,
    "padding content": _padding_content,
    "padding length": _padding_length,
    "batch independence": _batch_independence,
    "evaluation determinism": _determinism,
    "initialisation": _initialisation,
    "gradients": _gradients,
    "odd lengths": _odd_lengths,
    "length limit": _length_limit,
}
WARNING = "causality of any weights"
"""A probe that warns instead of failing: whether the leak occurs depends on the trained weights."""
HALVINGS = 4
"""Attempts to find random weights with finite outputs."""
IN_TRAINING = ("causality", "padding content", "batch independence")


def _run_probe(name: str, layer: _Subject, network: _Subject) -> Probe:
    if name in ("causality", WARNING) and not layer.place.causal:
        return Probe(name, "not applicable", "bidirectional")
    if name == "padding length" and layer.mixer.fixed_length:
        return Probe(name, "not applicable", "of fixed length: batches are padded to the length of the task")
    by_itself = _try_probe(name, PROBES[name], layer)
    if name == WARNING:
        return replace(by_itself, result="warns") if by_itself.result == "fails" else by_itself
    if by_itself.result != "ok" or name not in IN_TRAINING:
        return by_itself
    in_network = _try_probe(name, PROBES[name], network)
    return in_network if in_network.result == "fails" else by_itself


def _try_probe(name: str, probe: Callable[[_Subject], object], subject: _Subject) -> Probe:
    try:
        probe(subject)
    except CheckFailed as leak:
        return Probe(name, "fails", str(leak), leak.position, leak.by)
    except Unsteady:
        return Probe(name, "not applicable", f"{subject.during}outputs are random, whatever the seed")
    except Exception as error:
        return Probe(name, "fails", f"{subject.during}{_first_line(error)}")
    return Probe(name, "ok")


def _flops(subject: _Subject) -> float | None:
    subject = _training_copy(subject)
    x = subject.draw()[:1].requires_grad_()
    try:
        return sum(count_flops(subject.module, lambda: subject.run(x, None).sum()))
    except Exception:  # reported by the probe "gradients"
        return None


def _example_padding_mask(length: int) -> Bool[Tensor, "B L"]:
    """Return a padding mask of three sequences: all positions real, two thirds of them, and one."""
    return torch.arange(length) < torch.tensor([length, max(1, 2 * length // 3), 1])[:, None]


def _first_line(error: Exception) -> str:
    if isinstance(error, SelfPretrainError):
        return str(error)
    return first_line(error)
