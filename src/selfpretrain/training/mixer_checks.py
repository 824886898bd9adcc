"""Checks of a mixer: eleven probes of a fresh layer, three of them also of a whole network in training mode.

Inputs that must not matter (later positions, padding, other sequences) are replaced by random ones, and the
outputs that must not change are compared. A constant shift would not do: norms remove it, and hide the leak.
"""

import contextlib
import copy
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..config import to_dict
from ..data.spec import Classes, SequenceSpec, Values
from ..errors import SelfPretrainError, SpecError, first_line
from ..mixers.base import LayerContext, Mixer
from ..registry import name_of, ships
from ..shapes import PaddingMask, Vectors
from .flops import count_flops
from .model import Model, Network, count_parameters
from .recipe import Recipe, digests_of

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}  # relative to the largest output
DOUBLE = (torch.float64, torch.complex128)
SINGLE = (torch.float32, torch.complex64, torch.bfloat16, torch.float16)
BATCH = 3
NOISE_SCALE = 10.0  # of the inputs that must not matter, relative to the others
HALVINGS = 4  # attempts to find random weights with finite outputs
MAX_PROBE_LENGTH = 512
"""Maximum length of most probes before a study; leaks are probed at the full length, too."""
BATCH_NORM_NOTE = (
    "batch norm averages over later positions while it trains, so that causal pretraining sees a little of "
    "what it is to predict; norm=layer and norm=rms do not"
)


UNSAVED = "keep what it needs in nn.Parameter, nn.ModuleList or a persistent buffer"
UNSAVED_IN_TRAINING = "in training, they depend on earlier batches, or on randomness other than torch's"


class CheckFailed(Exception):
    """A probe failed; the message says which output depends on which input."""


class Undecided(Exception):
    """A probe cannot tell; the message says why."""


@dataclass(frozen=True)
class Probe:
    """The result of one probe."""

    name: str
    result: Literal["ok", "fails", "warns", "not applicable"]
    said: str = ""


@dataclass(frozen=True)
class Check:
    """The results of all probes of a mixer in one layer context."""

    mixer: str
    place: LayerContext
    parameters: int
    flops: float | None  # of a forward and backward pass over one sequence; None if not counted
    probes: tuple[Probe, ...]
    denoises: bool = True  # whether the mixer has an output at every position

    @property
    def failures(self) -> list[str]:
        """Failed probes, one line each."""
        return [f"{probe.name}: {probe.said}" for probe in self.probes if probe.result == "fails"]

    @property
    def objectives(self) -> tuple[str, ...]:
        """Pretraining objectives that suit the mixer: masked if it runs, causal if no future leaks."""
        passed = [probe.name for probe in self.probes if probe.result == "ok"]
        if not (self.denoises and passed):
            return ()
        return ("masked", "causal") if "causality" in passed else ("masked",)


def check(mixer: Mixer, place: LayerContext, probes: Collection[str] = ()) -> Check:
    """Probe a mixer in a layer context; torch's global random state is not changed.

    Args:
        probes: names of ``PROBES``; empty: all, and FLOPs are counted.

    Raises:
        SpecError: if the mixer cannot be built in this context.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = _layer(mixer, place)
        parameters = count_parameters(layer.module)
        first_pass = _try_probe("length limit", _first_pass, layer)
        if first_pass.result == "fails":
            # The reason may be weights that are never set: they hold what was in memory, at times NaN.
            drawn = _try_probe("initialisation", _initialisation, layer)
            failed = (first_pass, drawn) if drawn.result == "fails" else (first_pass,)
            return Check(name_of(mixer), place, parameters, None, failed)
        network = _network(layer)
        results = tuple(_run_probe(name, layer, network) for name in probes or PROBES)
        flops = None
        if not probes:
            trained = _training_copy(layer)
            x = trained.draw()[:1].requires_grad_()
            with contextlib.suppress(Exception):  # reported by the probe "gradients"
                flops = count_flops(trained.module, lambda: trained.run(x, None).sum())
        return Check(name_of(mixer), place, parameters, flops, results, mixer.denoises)


_cache: dict[str, Check] = {}


def check_recipes(recipes: Iterable[Recipe], brief: bool = False) -> list[str]:
    """Probe the mixers from outside this package, each once, and return one line per failed probe.

    Batch norm in causal pretraining is reported, too; it is not an error because published recipes use it.

    Args:
        brief: probe for leaks at ``MAX_PROBE_LENGTH`` positions at most, not at the length of the task.

    Raises:
        SpecError: if a mixer that leaks the future is to be pretrained causally.
    """
    problems: dict[str, None] = {}  # an ordered set
    for recipe in recipes:
        model = recipe.model
        causal = any(stage.objective.needs_causal for stage in recipe.stages)
        if causal and model.norm == "batch":
            problems[BATCH_NORM_NOTE] = None
        if ships("mixers", model.mixer):
            continue  # the tests of this package check it
        length = recipe.task_of(recipe.last).form.length
        short = min(length, MAX_PROBE_LENGTH)
        for probed in sorted({short, short if brief else length}):
            place = LayerContext(model.width, probed, model.causal, model.encoding == "rotary")
            plain = to_dict([model.mixer, place])
            key = json.dumps([plain, digests_of(plain)], sort_keys=True)
            if key not in _cache:
                _cache[key] = check(model.mixer, place, () if probed <= MAX_PROBE_LENGTH else IN_TRAINING)
            found = _cache[key]
            if causal and "causal" not in found.objectives:
                reason = next(iter(found.failures), "its outputs are random")
                advice = "use --objective masked"
                raise SpecError(f"{found.mixer} must not be pretrained causally ({reason}); {advice}")
            problems |= dict.fromkeys(f"{found.mixer}: {failure}" for failure in found.failures)
    return list(problems)


@dataclass(frozen=True)
class _Subject:
    """A module under test: a layer, or a network in training mode."""

    mixer: Mixer
    place: LayerContext
    module: nn.Module
    run: Callable[[Vectors, PaddingMask], Vectors]
    random: torch.Generator
    dtype: torch.dtype = torch.float64
    rounds: bool = False  # whether it computes with fewer digits inside
    during: str = ""

    @torch.no_grad()
    def __call__(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        torch.manual_seed(0)  # dropout and other randomness inside is the same in every call
        before = x.clone()
        y = self.run(x, padding_mask)
        if not torch.equal(before, x):
            raise CheckFailed("it changes its inputs in place, and those of the residual path with them")
        if y.shape != x.shape:
            raise CheckFailed(f"inputs of shape {tuple(x.shape)} give outputs of shape {tuple(y.shape)}")
        return y

    def switched(self, training: bool) -> "_Subject":
        """Put the module into training or evaluation mode, and return the subject."""
        self.module.train(training)
        return self

    def draw(self, length: int | None = None) -> Vectors:
        """Return random sequences, by default of the context's length."""
        shape = (BATCH, length or self.place.length, self.place.width)
        return torch.randn(shape, generator=self.random, dtype=self.dtype)

    def compare(self, unchanged: Bool[Tensor, "B L"], padding_mask: PaddingMask, what: str) -> None:
        """Check that outputs at these real positions do not change when all other inputs are replaced."""
        x = self.draw(unchanged.shape[1])
        other = torch.where(unchanged[..., None], x, NOISE_SCALE * self.draw(unchanged.shape[1]))
        where = unchanged if padding_mask is None else unchanged & padding_mask
        first = self(x, padding_mask)
        try:
            self.assert_equal(first, self(other, padding_mask), where, what)
        except CheckFailed:
            if torch.equal(first.nan_to_num(), self(x, padding_mask).nan_to_num()):
                raise
            # They change without replacing anything.
            raise Undecided(f"{self.during}outputs are random, whatever the seed") from None

    def assert_equal(self, a: Vectors, b: Vectors, where: Bool[Tensor, "B L"], what: str) -> None:
        """Check that outputs do not differ at these positions by more than rounding errors."""
        difference = (a - b).abs().amax(-1).nan_to_num(torch.inf).masked_fill(~where, 0)
        tolerance = TOLERANCE[torch.float32 if self.rounds else self.dtype]
        # An output that is 0 up to rounding, as before a delay, is measured by the others, up to 1.
        scale = max(float(a[where].abs().max()), min(1.0, float(a.abs().nan_to_num(0.0, 0.0).max())))
        changed = difference > tolerance * scale
        if changed.any():
            position = int(changed.any(0).nonzero()[0])
            size = f"first at position {position}, by up to {float(difference.max()):.2g}"
            raise CheckFailed(f"{self.during}{what}, {size}")


def _layer(mixer: Mixer, place: LayerContext) -> _Subject:
    try:
        # A copy: the probes change its precision and its weights, of which the user's code may keep some.
        module = copy.deepcopy(mixer.build(place)).eval()
    except SelfPretrainError:
        raise
    except Exception as error:
        raise SpecError(f"{name_of(mixer)} cannot be built: {first_line(error)}") from error
    subject = _Subject(mixer, place, module, module, torch.Generator().manual_seed(0))
    module.double()
    with contextlib.suppress(Exception), _Casts() as casts:  # it supports fp32 only, or does not run at all
        if subject(subject.draw()).dtype == subject.dtype:
            rounds = casts.round or any(each.dtype in SINGLE for each in module.parameters())
            return replace(subject, rounds=rounds)
    module.float()
    return replace(subject, dtype=torch.float32)


class _Casts(TorchFunctionMode):
    """Notes whether something of double precision becomes something of single precision."""

    round = False

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Return the result of a function."""
        result = function(*args, **(kwargs or {}))
        if args and isinstance(args[0], Tensor) and isinstance(result, Tensor):
            self.round |= args[0].dtype in DOUBLE and result.dtype in SINGLE
        return result


def _training_copy(subject: _Subject) -> _Subject:
    """Return a new copy of the layer in training mode: some layers have no gradients in eval mode."""
    copied = _layer(subject.mixer, subject.place)
    copied.module.train()
    return copied


def _network(layer: _Subject) -> _Subject:
    """Return a network of one block with this mixer in training mode, from values to the head's inputs."""
    place = layer.place
    positions: Literal["rotary", "auto"] = "rotary" if place.rotary else "auto"
    model = Model(layer.mixer, place.width, depth=1, causal=place.causal, positions=positions)
    form = SequenceSpec(Values(channels=place.width), place.length, Classes(("a", "b")))
    network = model.build(form, nn.Identity()).train()
    _with_precision(network, layer.dtype)
    return replace(layer, module=network, run=network.features, during="in training, ")


def _with_precision(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Change the precision of real numbers; ``module.to`` would make complex parameters real, too."""
    return module.double() if dtype == torch.float64 else module.float()


def _first_pass(subject: _Subject) -> None:
    if not subject(subject.draw()).isfinite().all():
        raise CheckFailed("the outputs are not finite")


PROBES: dict[str, Callable[[_Subject], None]] = {}
"""Probes by name, in their order; a probe raises ``CheckFailed``."""


def _probe(function: Callable[[_Subject], None]) -> Callable[[_Subject], None]:
    """Add a function to ``PROBES``, under its name in words."""
    PROBES[function.__name__.replace("_", " ").strip()] = function
    return function


@_probe
def _causality(subject: _Subject) -> None:
    L = subject.place.length
    _compare_earlier(subject, L, {1, L // 3, L // 2, L - 1})
    _compare_earlier(subject, L, {L // 3}, _example_padding_mask(L), " when a padding mask is given")
    for length in _odd(L):
        if not (subject.during or subject.mixer.fixed_length) and _runs(subject, length):
            _compare_earlier(subject, length, {length // 2, length - 1}, said=f" in sequences of {length}")


def _compare_earlier(
    subject: _Subject, length: int, cuts: set[int], padding_mask: PaddingMask = None, said: str = ""
) -> None:
    """Check that outputs before each cut do not change when inputs from there on are replaced."""
    for cut in sorted(cuts - {0}):
        earlier = (torch.arange(length) < cut).expand(BATCH, length)
        subject.compare(earlier, padding_mask, f"positions from {cut} on reach earlier ones{said}")


def _odd(length: int) -> list[int]:
    """Return odd lengths below another."""
    return sorted({n for n in (1, 7, length - 1 - length % 2) if 0 < n < length})


def _runs(subject: _Subject, length: int) -> bool:
    """Return whether a layer takes this length; the probe "odd lengths" says why not."""
    try:
        subject(subject.draw(length))
    except Exception:
        return False
    return True


@_probe
def _causality_of_any_weights(subject: _Subject) -> None:
    """Probe causality with weights that training might reach: every parameter drawn from N(0, 1).

    Weights are halved until outputs are finite: an unstable recurrence overflows, which would hide its leak.
    """
    _causality(_with_random_weights(subject))


@torch.no_grad()
def _with_random_weights(subject: _Subject) -> _Subject:
    """Return a copy of a layer or network with other weights.

    Raises:
        Undecided: if outputs are not finite with any of them.
    """
    module = copy.deepcopy(subject.module)
    for parameter in module.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=subject.random, dtype=torch.float64))
    run = module.features if isinstance(module, Network) else module
    changed = replace(subject, module=module, run=run, during=f"{subject.during}with random weights, ")
    x = changed.draw()
    for _ in range(HALVINGS):
        if changed(x).isfinite().all():
            return changed
        for parameter in module.parameters():
            parameter.mul_(0.5)
    raise Undecided("random weights give outputs that are not finite")


def _is_silent(layer: _Subject) -> bool:
    """Return whether its outputs are the same at all positions, as where its last weights begin at zero."""
    y = layer(layer.draw())
    return bool((y == y[:1, :1]).all())


@_probe
def _padding_content(subject: _Subject) -> None:
    padding_mask = _example_padding_mask(subject.place.length)
    subject.compare(padding_mask, padding_mask, "padding reaches real positions")


@_probe
def _padding_length(subject: _Subject) -> None:
    n = max(1, subject.place.length // 2)
    x = subject.draw()
    padding_mask = (torch.arange(x.shape[1]) < n).expand(x.shape[:2])
    what = f"{n} positions give other outputs when padded to {x.shape[1]}"
    subject.assert_equal(subject(x[:, :n]), subject(x, padding_mask)[:, :n], padding_mask[:, :n], what)


@_probe
def _batch_independence(subject: _Subject) -> None:
    for row in (0, BATCH - 1):  # a recurrence along the batch reaches the last sequence and not the first
        kept = (torch.arange(BATCH) == row)[:, None].expand(BATCH, subject.place.length)
        subject.compare(kept, None, "sequences of a batch reach each other")
    x = subject.draw()
    if not subject.during:  # in training mode, dropout depends on the batch size
        what = "a sequence alone gives other outputs than in a batch"
        everywhere = torch.ones_like(kept[:1])
        subject.assert_equal(subject(x)[:1], subject(x[:1]), everywhere, what)
        mask = _example_padding_mask(subject.place.length)
        alone = subject(x[1:2], mask[1:2])
        what = "the lengths of other sequences change a sequence"
        subject.assert_equal(subject(x, mask)[1:2], alone, mask[1:2], what)


@_probe
@torch.no_grad()
def _evaluation_determinism(subject: _Subject) -> None:
    x = subject.draw()
    everywhere = torch.ones(x.shape[:2], dtype=torch.bool)
    what = "two passes in evaluation mode give different outputs"
    subject.assert_equal(subject.run(x, None), subject.run(x, None), everywhere, what)


@_probe
def _initialisation(subject: _Subject) -> None:
    """Probe that weights are set, and buffers and they drawn from torch's random state: else seeds differ."""
    before = torch.get_deterministic_debug_mode()
    # Fills new memory with NaN; torch.use_deterministic_algorithms would import the compiler for seconds.
    torch.set_deterministic_debug_mode("warn")
    try:
        built = []
        for _ in range(2):
            torch.manual_seed(0)
            built.append(subject.mixer.build(subject.place))
    finally:
        torch.set_deterministic_debug_mode(before)
    again = dict(built[1].named_parameters())
    for name, weight in built[0].named_parameters():
        if weight.isnan().any():
            raise CheckFailed(f"parameter {name} is never set")
        if not torch.equal(weight, again[name]):
            raise CheckFailed(f"parameter {name} starts otherwise with the same torch seed")
    kept = dict(built[1].named_buffers())
    for name, buffer in built[0].named_buffers():
        if not torch.equal(buffer.nan_to_num(), kept[name].nan_to_num()):
            raise CheckFailed(f"buffer {name} starts otherwise with the same torch seed")


@_probe
def _saved_weights(subject: _Subject) -> None:
    """Probe that ``state_dict`` holds all that outputs depend on: later stages get no more."""
    layer = _training_copy(subject)
    fresh = _with_precision(copy.deepcopy(subject.mixer.build(subject.place)), layer.dtype)  # never run
    for name, kept in fresh.state_dict().items():
        if not isinstance(kept, Tensor):
            raise CheckFailed(
                f"{name} is of type {type(kept).__name__}, and only tensors are saved; {UNSAVED}"
            )
    other = replace(layer, module=fresh, run=fresh)
    for _ in range(2):
        layer(layer.draw())  # in training mode, where a layer may count or average
    try:
        fresh.load_state_dict(layer.module.state_dict())
    except RuntimeError as error:
        raise CheckFailed(f"a new layer does not take them: {' '.join(str(error).split())}") from error
    x = layer.draw()
    everywhere = torch.ones(x.shape[:2], dtype=torch.bool)
    for training, why in ((False, UNSAVED), (True, UNSAVED_IN_TRAINING)):
        first, second = (each(x) for each in (layer.switched(training), other.switched(training)))
        try:
            layer.assert_equal(first, second, everywhere, "a new layer with them gives other outputs")
        except CheckFailed as error:
            if training or torch.equal(first, layer(x)):
                raise CheckFailed(f"{error}; {why}") from None
            raise Undecided("outputs are random, whatever the seed") from None


@_probe
def _gradients(subject: _Subject) -> None:
    subject = _training_copy(subject)
    x = subject.draw().requires_grad_()
    y = subject.run(x, _example_padding_mask(subject.place.length))
    known = {id(each) for each in (x, *subject.module.parameters())}
    for weight in _leaves(y):
        if id(weight) not in known:
            shape = tuple(weight.shape)
            raise CheckFailed(f"a weight of shape {shape} is not a parameter of the module; {UNSAVED}")
    if y.requires_grad:
        y.square().sum().backward()
    if x.grad is None:
        raise CheckFailed("the inputs get no gradient, so that the layers before do not learn from this one")
    for name, parameter in subject.module.named_parameters():
        if parameter.requires_grad and parameter.grad is None:
            raise CheckFailed(f"parameter {name} gets no gradient")
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            raise CheckFailed(f"the gradient of parameter {name} is not finite")


def _leaves(y: Vectors) -> Iterator[Tensor]:
    """Yield the tensors that require gradients and that an output was computed from."""
    todo: list[Any] = [y.grad_fn]
    seen = set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "AccumulateGrad":
            yield node.variable
        todo += [before for before, _ in node.next_functions]


@_probe
def _odd_lengths(subject: _Subject) -> None:
    L = subject.place.length
    for length in _odd(L):
        what = f"sequences of {length} positions"
        try:
            other = subject
            if subject.mixer.fixed_length:  # built again for each length
                other = _layer(subject.mixer, replace(subject.place, length=length))
            y = other(other.draw(length))
        except Exception as error:
            raise CheckFailed(f"{what} fail, of {L} do not: {_reason(error)}") from error
        if not y.isfinite().all():
            raise CheckFailed(f"{what} give outputs that are not finite")


@_probe
def _length_limit(subject: _Subject) -> None:
    L = subject.place.length
    try:
        subject(subject.draw(2 * L))
    except CheckFailed:
        raise
    except Exception as error:
        if not (
            isinstance(error, ValueError | AssertionError) and str(error)
        ):  # else it refuses deliberately
            what = f"made for {L} positions, with {2 * L} it breaks rather than refuse"
            raise CheckFailed(f"{what}: {_reason(error)}") from error


WARNING = "causality of any weights"
"""A probe that warns instead of failing: whether the leak occurs depends on the trained weights."""
IN_TRAINING = ("causality", "padding content", "batch independence")
LEAKS = (*IN_TRAINING, "padding length")


def _run_probe(name: str, layer: _Subject, network: _Subject) -> Probe:
    if name in ("causality", WARNING) and not layer.place.causal:
        return Probe(name, "not applicable", "bidirectional")
    if name == "padding length" and layer.mixer.fixed_length:
        return Probe(name, "not applicable", "of fixed length: batches are padded to the length of the task")

    def probe(subject: _Subject) -> None:
        silent = name in LEAKS and _is_silent(layer)  # nothing would be seen of what it is to learn
        PROBES[name](_with_random_weights(subject) if silent else subject)

    found = _try_probe(name, probe, layer)
    if name == WARNING and found.result == "fails":
        return replace(found, result="warns")
    if name in IN_TRAINING and found.result == "ok":
        in_network = _try_probe(name, probe, network)
        return found if in_network.result == "ok" else in_network
    return found


def _try_probe(name: str, probe: Callable[[_Subject], object], subject: _Subject) -> Probe:
    try:
        probe(subject)
    except CheckFailed as error:
        return Probe(name, "fails", str(error))
    except Undecided as error:
        return Probe(name, "not applicable", str(error))
    except Exception as error:
        return Probe(name, "fails", f"{subject.during}{_reason(error)}")
    return Probe(name, "ok")


def _example_padding_mask(length: int) -> Bool[Tensor, "B L"]:
    """Return a padding mask of three sequences: all positions real, two thirds of them, and one."""
    return torch.arange(length) < torch.tensor([length, max(1, 2 * length // 3), 1])[:, None]


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, SelfPretrainError) else first_line(error)
