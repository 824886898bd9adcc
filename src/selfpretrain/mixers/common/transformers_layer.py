"""Mixers whose layer comes out of a model of Hugging Face transformers (extra ``hf``).

A tiny model of the library is built, so that the library's own rules initialise the layer, and the layer is
taken out of it. The library's modules are not changed: a layer runs a copy of its forward pass in which some
functions are replaced. Kernels of other packages run on a GPU in bfloat16 only, PyTorch code everywhere else.

The functions put in place take the library's arguments and are computed by ``mixers.ops``. They give the
numbers of the library's own PyTorch code, without its loops over positions, whose backward pass takes time
quadratic in the length (Mamba, RG-LRU, RWKV-4) or dozens of steps per chunk (Kimi delta attention). They
compute in single precision under autocast and in double precision where the layer does.
"""

import abc
import contextlib
import importlib
import inspect
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ...errors import SpecError, install
from ...registry import name_of
from ...shapes import Vectors
from ..base import LayerContext, Mixer, State
from ..ops._exact import full_precision
from ..ops.delta_rule import gated_delta_rule, unit
from ..ops.linear_attention import decayed_attention
from ..ops.selective_scan import cpu_selective_scan, is_faster
from .attention_heads import head_size
from .cells import Directions, RecurrentCell, gated_scan

LIBRARY = "transformers"
Function = Callable[..., Any]
DISPATCH = "is_new_implementation", "implementation"
"""Variables of the library's decorator of functions with kernels: whether one is installed, and what runs."""
Channels = Float[Tensor, "B D L"]
Heads = Float[Tensor, "B L H E"]
Places = Float[Tensor, "B L D"]


class TransformersMixer(Mixer):
    """Base class of mixers that take their layer out of a model of transformers.

    Subclasses name the layer and the settings of the model. Two layers, one per direction, unless causal.
    """

    layer: ClassVar[str]  # folder of the model in transformers.models, and class of the layer
    model: ClassVar[str]  # class of the model, without "Model"
    operations: ClassVar[Mapping[str, Function]] = {}  # functions in place of the library's, by its names
    single: ClassVar[bool] = False  # whether the whole layer computes in single precision under autocast

    @abc.abstractmethod
    def config(self, context: LayerContext) -> dict[str, Any]:
        """Return the settings of the model that differ from ``usual``."""

    def arguments(self, x: Vectors) -> dict[str, Any]:
        """Return the arguments of the layer's forward pass after the first."""
        return {}

    def prepare(self, layer: Any) -> None:
        """Adjust a layer that the library has just initialised."""
        scale_convolutions(layer)

    def build(self, context: LayerContext) -> nn.Module:
        """Return the layer, one per direction unless causal."""
        return Directions(context, lambda: TransformersCell(self, context))

    def libraries(self, device: str) -> dict[str, str]:
        """Return the version of transformers, and the kernels that run on a device, if any."""
        kind = self.classes()[2]
        fast = kernels(kind).values() if device.startswith("cuda") else ()
        packages = ", ".join(sorted({_package(function) for function in fast}))
        said = f"kernels of {packages} in bf16" if packages else "no kernels"
        return {LIBRARY: f"{version(LIBRARY)}, {said}"}

    def classes(self) -> tuple[Any, Any, Any]:
        """Return the classes of the config, the model and the layer.

        Raises:
            SpecError: if the library is not installed, or does not have them.
        """
        folder, _, layer = self.layer.partition(".")
        try:
            library = importlib.import_module(LIBRARY)
            code = importlib.import_module(f"{LIBRARY}.models.{folder}.modeling_{folder}")
            return (
                getattr(library, f"{self.model}Config"),
                getattr(code, f"{self.model}Model"),
                getattr(code, layer),
            )
        except (ImportError, AttributeError) as error:
            if isinstance(error, ModuleNotFoundError) and error.name == LIBRARY:
                how = f"needs the library transformers: {install('hf')}"
                raise SpecError(f"{name_of(self)} {how}") from error
            had = f"transformers {version(LIBRARY)} has no {layer}"
            advice = install("hf", upgrade=True)
            raise SpecError(f"{name_of(self)}: {had}; {advice}") from error


class TransformersCell(RecurrentCell):
    """A causal layer of transformers; its state is not handed on."""

    def __init__(self, mixer: TransformersMixer, context: LayerContext) -> None:
        super().__init__()
        config, model, kind = mixer.classes()
        with offline():
            made = model(config(**usual(context.width) | mixer.config(context)))
        layers = [module for module in made.modules() if isinstance(module, kind)]
        self.layer = layers[min(context.block, len(layers) - 1)]
        mixer.prepare(self.layer)
        self.arguments = mixer.arguments
        self.single = mixer.single
        self.plain = forward_of(kind, mixer.operations)
        self.fast = forward_of(kind, mixer.operations, kernels(kind)) if kernels(kind) else None

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Return the outputs of the layer."""
        if self.fast and x.is_cuda and torch.is_autocast_enabled("cuda"):
            y = self.fast(self.layer, x, **self.arguments(x))
        else:
            x = x.to(state_dtype(x)) if self.single else x
            plain = contextlib.nullcontext()
            precision: Any = full_precision(x.device) if self.single else plain
            with KeepDouble() if x.dtype == torch.float64 else precision:
                y = self.plain(self.layer, x, **self.arguments(x))
        return (y[0] if isinstance(y, tuple) else y), state


class KeepDouble(TorchFunctionMode):
    """Leaves double precision as it is where norms and decays of the library round to single precision."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        single = function is torch.Tensor.float or (function is torch.Tensor.to and torch.float32 in args)
        if single and args[0].dtype == torch.float64:
            return args[0]
        return function(*args, **(kwargs or {}))


def usual(width: int) -> dict[str, Any]:
    """Return settings of a model of this width that is as small as it can be around its layers.

    Weights start with variance 1 / width: the library's 0.02 is meant for widths of thousands, and layers of
    width 64 would start with outputs near zero.
    """
    return {
        "vocab_size": 8,
        "hidden_size": width,
        "num_hidden_layers": 2,
        "initializer_range": width**-0.5,
        "use_cache": False,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def delta_rule_sizes(context: LayerContext, heads: int, taps: int) -> dict[str, Any]:
    """Return the settings of layers with a gated delta rule, whose heads share the width."""
    size = head_size(context, heads)
    return {
        "linear_num_key_heads": heads,
        "linear_num_value_heads": heads,
        "linear_key_head_dim": size,
        "linear_value_head_dim": size,
        "linear_conv_kernel_dim": taps,
        "intermediate_size": context.width,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
    }


@torch.no_grad()
def scale_convolutions(layer: nn.Module) -> None:
    """Draw kernels of depthwise convolutions as PyTorch does: by their number of taps, not by the width."""
    for part in layer.modules():
        if isinstance(part, nn.Conv1d):
            nn.init.kaiming_uniform_(part.weight, a=5**0.5)


def forward_of(
    kind: type[nn.Module], operations: Mapping[str, Function], kept: Collection[str] = ()
) -> Function:
    """Return the forward pass of a layer of the library with some functions replaced.

    Functions for which a kernel may be installed are replaced by ``operations``, or else by the PyTorch code
    that the library has for them.

    Args:
        kept: names of functions to keep as they are in the library.
    """
    forward = inspect.unwrap(kind.forward)  # without hooks of other libraries
    named = forward.__globals__
    plain = {name: inspect.unwrap(named[name]) for name in _dispatched(forward)} | dict(operations)
    replaced = {name: function for name, function in plain.items() if name not in kept}
    # Without a name: the compiler would look functions up in the module of that name.
    mine = {name: each for name, each in (named | replaced).items() if name != "__name__"}
    parts = forward.__code__, mine, forward.__name__, forward.__defaults__, forward.__closure__
    copy = types.FunctionType(*parts)
    copy.__kwdefaults__ = forward.__kwdefaults__
    return copy


def kernels(kind: type[nn.Module]) -> dict[str, Function]:
    """Return the installed kernels that a layer of the library would run, by the library's names."""
    found = _dispatched(inspect.unwrap(kind.forward))
    installed, runs = DISPATCH
    return {name: variables[runs] for name, variables in found.items() if variables[installed]}


def _dispatched(forward: types.FunctionType) -> dict[str, Mapping[str, Any]]:
    """Return the variables of the library's decorator for every function of it that a forward pass calls."""
    found: dict[str, Mapping[str, Any]] = {}
    for name in forward.__code__.co_names:
        variables: dict[str, Any] = {}  # of all decorators around the function
        function = forward.__globals__.get(name)
        while isinstance(function, types.FunctionType):
            variables |= inspect.getclosurevars(function).nonlocals
            function = getattr(function, "__wrapped__", None)
        if DISPATCH[0] in variables:
            found[name] = variables
    return found


def _package(function: Function) -> str:
    """Return the name and version of the package that a function comes from."""
    module = function.__module__.partition(".")[0]
    try:
        distribution = packages_distributions().get(module, [module])[0]
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        return module


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Keep the library from downloading: where ``kernels`` is installed, RWKV's constructor asks for one."""
    constants: Any = importlib.import_module("huggingface_hub.constants")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def selective_scan(
    hidden_states: Channels,
    dt: Channels,
    A: Float[Tensor, "D N"],
    B: Float[Tensor, "B N L"],
    C: Float[Tensor, "B N L"],
    D: Float[Tensor, "D"],
    z: Channels,
    delta_bias: Float[Tensor, "D"],
    delta_softplus: bool,
    return_last_state: bool = False,
    use_mambapy: bool = False,
    use_associative_scan: bool = False,
) -> Channels:
    """Return the state space model of Mamba-1, gated.

    h[t] = exp(dt[t] A) h[t-1] + dt[t] B[t] u[t],  y[t] = (C[t]^T h[t] + D u[t]) SiLU(z[t])
    """
    kind = state_dtype(hidden_states)
    u, dt, B, C, z = (x.mT.to(kind) for x in (hidden_states, dt, B, C, z))
    with full_precision(u.device):
        dt = F.softplus(dt + delta_bias.to(kind))
        if is_faster(u):
            y = cpu_selective_scan(dt * u, dt, A.to(kind), B, C)
        else:
            h = gated_scan(torch.exp(dt[..., None] * A.to(kind)), (dt * u)[..., None] * B[:, :, None])
            y = (h @ C[..., None])[..., 0]
        y = y + D.to(kind) * u
    return (y * F.silu(z)).mT


def rnn_scan(
    hidden_states: Places, recurrent_gate: Places, reset: Bool[Tensor, "B L 1"], recurrent_states: None = None
) -> tuple[Places, None]:
    """Return h[t] = a[t] h[t-1] + u[t] of RG-LRU, with a zero at the start of a sequence; keep no state."""
    kind = state_dtype(hidden_states)
    with full_precision(hidden_states.device):
        h = gated_scan((recurrent_gate * ~reset).to(kind), hidden_states.to(kind))
    return h.to(hidden_states.dtype), None


def rwkv_attention(
    time_decay: Float[Tensor, "D"],
    time_first: Float[Tensor, "D"],
    key: Places,
    value: Places,
    state: None = None,
    return_state: bool = False,
) -> tuple[Places, None]:
    """Return the weighted mean of the values so far, as in RWKV-4.

    At t, s < t has weight exp(k[s] - (t - 1 - s) exp(time_decay)), and t has weight exp(k[t] + time_first).
    Sums are divided by exp(m[t]), where m is the largest exponent so far, so that nothing overflows.
    """
    kind = state_dtype(key)
    k = key.to(kind)
    v = value.to(kind)
    with full_precision(k.device):
        w = -time_decay.to(kind).exp()
        drift = w * torch.arange(k.shape[1], device=k.device, dtype=kind)[:, None]
        m = ((k - drift).detach().cummax(dim=1).values + drift).detach()
        before = F.pad(m[:, :-1], (0, 0, 1, 0), value=-torch.inf)
        kept = torch.exp(before + w - m)
        new = torch.exp(k - m)
        over, under = (gated_scan(kept, x) for x in (new * v, new))
        over, under = (F.pad(x[:, :-1], (0, 0, 1, 0)) for x in (over, under))
        now = k + time_first.to(kind)
        highest = torch.maximum(before, now).detach()
        past = torch.exp(before - highest)
        here = torch.exp(now - highest)
        y = (past * over + here * v) / (past * under + here)
    return y.to(key.dtype), None


def delta_rule(
    query: Heads,
    key: Heads,
    value: Heads,
    g: Tensor,
    beta: Float[Tensor, "B L H"],
    initial_state: None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = True,
    cu_seqlens: None = None,
) -> tuple[Heads, None]:
    """Return the gated delta rule for queries and keys of any length, which become unit vectors.

    Args:
        g: logarithms of the decay, (B, L, H) or (B, L, H, M).
    """
    kind = state_dtype(query)
    q, k = (unit(x.transpose(1, 2).to(kind)) for x in (query, key))
    v = value.transpose(1, 2).to(kind)
    g = (g if g.ndim == query.ndim else g[..., None]).transpose(1, 2).to(kind)
    beta = beta.transpose(1, 2)[..., None].to(kind)
    state = v.new_zeros(*v.shape[:2], k.shape[-1], v.shape[-1])
    y, _ = gated_delta_rule(q * k.shape[-1] ** -0.5, k, v, g, beta, state)
    return y.transpose(1, 2).to(query.dtype), None


def mlstm(
    query: Float[Tensor, "B H L M"],
    key: Float[Tensor, "B H L M"],
    value: Float[Tensor, "B H L E"],
    igate: Float[Tensor, "B H L"],
    fgate: Float[Tensor, "B H L"],
    c_initial: None = None,
    n_initial: None = None,
    m_initial: None = None,
) -> tuple[Float[Tensor, "B H L E"], None]:
    """Return the recurrence of mLSTM, whose input gate exp(i) the layer keeps below exp(15).

    C[t] = sigmoid(f[t]) C[t-1] + exp(i[t]) k[t] v[t]^T,  n the same with a one for v,
    h[t] = C[t]^T q[t] / max(|n[t]^T q[t]|, 1)
    """
    kind = state_dtype(query)
    q, k, v, i, f = (x.to(kind) for x in (query, key, value, igate, fgate))
    v = F.pad(v, (0, 1), value=1.0)
    state = v.new_zeros(*v.shape[:2], k.shape[-1], v.shape[-1])
    decay = F.logsigmoid(f)[..., None]
    h, _ = decayed_attention(q * k.shape[-1] ** -0.5, k * i.exp()[..., None], v, decay, state)
    return (h[..., :-1] / h[..., -1:].abs().clamp(min=1)).to(query.dtype), None


def state_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype of a recurrence over x: at least single precision."""
    return torch.promote_types(x.dtype, torch.float32)
