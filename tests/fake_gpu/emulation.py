"""A GPU that is not there: tensors that say cuda:0, hold their numbers in main memory, and are watched.

Operations on tensors of two devices are refused, as CUDA refuses them. ``watch`` counts kernels and finds
what waits for the device. Import it after the guard is loaded; answers of ``torch.cuda`` are replaced.
"""

import contextlib
import traceback
import weakref
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import safetensors.torch
import torch
from fake_gpu import recurrent
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

aten = torch.ops.aten
CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
FREE = 40 << 30
"""Bytes of free memory, and a half of all."""
WHOLE = ("cat", "stack", "mm", "bmm", "index_select", "gather", "scatter", "embedding")
"""Operations that take no tensor of another device; most take one without axes, as a number."""
TAKE_BOTH = {
    *(aten.copy_, aten._to_copy, aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_),
    *(aten._unsafe_index, aten.set_, aten.is_same_size, aten._has_compatible_shallow_copy_type),
}
WAIT = {
    *(aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten._unique2, aten.unique_dim, aten.equal),
    *(aten.unique_consecutive, aten.repeat_interleave, aten.bincount, aten.histc, aten.multinomial),
    *(aten._linalg_eigh, aten._linalg_svd, aten._linalg_check_errors),
}
"""Operations whose result, or its shape, is a number that the processor needs."""
INDEX = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}
VIEWS = {
    *("view", "_unsafe_view", "reshape", "transpose", "permute", "expand", "slice", "select", "unsqueeze"),
    *("squeeze", "detach", "alias", "t", "as_strided", "split", "split_with_sizes", "unbind", "empty"),
    *("empty_like", "empty_strided", "new_empty", "new_empty_strided", "view_as_real", "view_as_complex"),
    *("unfold", "diagonal", "_local_scalar_dense", "lift_fresh", "_conj", "real", "imag", "is_pinned"),
    *("_reshape_alias", "chunk", "narrow", "mT", "unflatten", "resolve_conj", "view_as", "resize_"),
}
"""Operations without a kernel."""


@dataclass
class Watch:
    """What an emulated GPU did: kernels by name, and waits by operation and line of code."""

    kernels: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)


_watches: list[Watch] = []


@contextlib.contextmanager
def watch() -> Iterator[Watch]:
    """Count kernels and waits."""
    found = Watch()
    _watches.append(found)
    try:
        yield found
    finally:
        _watches.remove(found)


def _note_wait(what: str) -> None:
    if _watches:
        frames = reversed(traceback.extract_stack())
        line = next((f"{f.filename}:{f.lineno}" for f in frames if "/selfpretrain/" in f.filename), "a test")
        for each in _watches:
            each.waits[f"{what} at {line}"] += 1


@dataclass
class Memory:
    """The memory of the emulated GPU: what lives, the most that lived at once, and what there is."""

    limit: int = 2 * FREE
    live: int = 0
    peak: int = 0
    storages: dict[int, tuple] = field(default_factory=dict)

    def hold(self, numbers):
        """Count the storage of a tensor until it is released; refuse what does not fit, as CUDA does."""
        storage = numbers.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self.storages:
            return
        if self.live + size > self.limit:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size >> 20} MiB.")
        self.storages[key] = weakref.ref(storage, lambda _: self.release(key)), size
        self.live += size
        self.peak = max(self.peak, self.live)

    def release(self, key):
        """Count a storage no longer."""
        self.live -= self.storages.pop(key)[1]


MEMORY = Memory()


class EmulatedTensor(torch.Tensor):
    """A tensor of the emulated GPU; ``numbers`` are in main memory."""

    numbers: torch.Tensor

    @staticmethod
    def __new__(cls, numbers):
        size, layout = (
            numbers.size(),
            {"strides": numbers.stride(), "storage_offset": numbers.storage_offset()},
        )
        kind = {"dtype": numbers.dtype, "layout": numbers.layout, "device": CUDA}
        made = torch.Tensor._make_wrapper_subclass(cls, size, **layout, **kind)
        made.numbers = numbers
        return made

    def __repr__(self):
        return f"EmulatedTensor({self.numbers})"

    def numpy(self, *args, **kwargs):
        raise TypeError("can't convert cuda:0 device type tensor to numpy; use Tensor.cpu() first")

    __array__ = __reduce_ex__ = numpy

    def tolist(self):
        _note_wait("tolist")
        return self.detach().numbers.tolist()

    def new_tensor(self, data, **kwargs):
        _note_wait("new_tensor")
        return torch.tensor(data, dtype=kwargs.get("dtype", self.dtype)).to(CUDA)

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        return _dispatch(op, args, kwargs or {})

    __torch_function__ = torch._C._disabled_torch_function_impl


class Emulation(TorchDispatchMode):
    """Tensors that are made on the device are emulated, in this thread."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        return _dispatch(op, args, kwargs or {})


def _dispatch(op, args, kwargs):
    flat, shape = tree_flatten((args, kwargs))
    here = [x for x in flat if isinstance(x, EmulatedTensor)]
    if not here and not _is_cuda(kwargs.get("device")):
        return op(*args, **kwargs)
    packet = getattr(op, "overloadpacket", op)
    others = [x for x in flat if isinstance(x, torch.Tensor) and not isinstance(x, EmulatedTensor)]
    if packet is aten.is_pinned:
        return False
    _refuse_two_devices(packet, here, others)
    _observe(packet, args, kwargs, here, others)
    plain = [x.numbers if isinstance(x, EmulatedTensor) else x for x in flat]
    plain_args, plain_kwargs = tree_unflatten(plain, shape)
    if _is_cuda(kwargs.get("device")):
        plain_kwargs = plain_kwargs | {"device": CPU}
    if plain_kwargs.get("pin_memory"):
        plain_kwargs.pop("pin_memory")
    result = recurrent.CELLS.get(packet, op)(*plain_args, **plain_kwargs)
    if _leaves_device(packet, args, kwargs):
        return args[0] if packet is aten.copy_ else result
    if torch.Tag.inplace_view in getattr(op, "tags", ()):
        _repeat_on_shapes(op, args, kwargs)
    same = {id(x.numbers): x for x in here} | {
        id(x): x for x in others
    }  # in place: the tensor that was given
    return tree_map_only(torch.Tensor, lambda x: same[id(x)] if id(x) in same else _emulated(x), result)


def _repeat_on_shapes(op, args, kwargs):
    """Change the shape that an emulated tensor says, as that of its numbers was changed in place."""
    with no_dispatch():
        torch._C._set_meta_in_tls_dispatch_include(True)
        try:
            op(*args, **kwargs)
        finally:
            torch._C._set_meta_in_tls_dispatch_include(False)


def _is_cuda(device):
    return device is not None and torch.device(device).type == "cuda"


def _emulated(x):
    numbers = x.resolve_conj().resolve_neg()
    MEMORY.hold(numbers)
    return EmulatedTensor(numbers)


def _leaves_device(packet, args, kwargs):
    """Whether the result is in main memory."""
    target = kwargs.get("device")
    to_cpu = target is not None and not _is_cuda(target)
    return to_cpu or (packet is aten.copy_ and not isinstance(args[0], EmulatedTensor))


def _refuse_two_devices(packet, here, others):
    if not here or packet in TAKE_BOTH:
        return
    if any(x.dim() for x in others) or (others and packet.__name__ in WHOLE):
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
            f"({packet}, of the CPU {[tuple(x.shape) for x in others]})"
        )


def _observe(packet, args, kwargs, here, others):
    """Count the kernel, and note if the processor waits for its result."""
    if not _watches:
        return
    if packet.__name__ not in VIEWS:
        for each in _watches:
            each.kernels[packet.__name__] += 1
    if here and (packet in WAIT or (packet in INDEX and _counts_rows(args[1], others))):
        _note_wait(packet.__name__)
    elif packet is aten._to_copy:
        leaves = kwargs.get("device") is not None and not _is_cuda(kwargs["device"])
        if (leaves or not here) and not (kwargs.get("non_blocking") and not leaves):
            _note_wait("copy")
    elif packet is aten.copy_ and others and not (kwargs.get("non_blocking") or args[2:3] == (True,)):
        _note_wait("copy_")


def _counts_rows(indices, others):
    """Whether the number of rows depends on numbers, or indices are copied to the device first."""
    masks = (torch.bool, torch.uint8)
    chosen = [x for x in tree_flatten(indices)[0] if isinstance(x, torch.Tensor)]
    return bool(others) or any(x.dtype in masks for x in chosen)


def _submit(self, function, *args, **kwargs):
    """Start work in a thread, which has the emulated GPU too."""

    def work():
        with Emulation():
            return function(*args, **kwargs)

    return _plain_submit(self, work)


def _tensor(data, *, device=None, **kwargs):
    """Make a tensor of Python numbers, which CUDA copies and waits for."""
    if not _is_cuda(device):
        return _plain_tensor(data, device=device, **kwargs)
    _note_wait("tensor")
    return _emulated(_plain_tensor(data, **kwargs))


class Stream:
    """A stream of the emulated GPU, on which everything has ended as soon as it is asked for."""

    def __init__(self, device=None):
        pass

    def wait_stream(self, other):
        pass

    wait_event = wait_stream

    def record_event(self):
        pass


def _save(tensors, metadata=None):
    return _plain_save({name: x.cpu() for name, x in tensors.items()}, metadata)


_plain_submit, ThreadPoolExecutor.submit = ThreadPoolExecutor.submit, _submit
_plain_tensor, torch.tensor = torch.tensor, _tensor
_plain_save, safetensors.torch.save = safetensors.torch.save, _save
_random = torch.zeros(16, dtype=torch.uint8)
ANSWERS = {
    **{"is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0},
    **{"get_device_name": "emulated GPU", "is_bf16_supported": True, "get_device_capability": (9, 0)},
    **{"max_memory_allocated": 10 << 20, "memory_allocated": 1 << 20, "mem_get_info": (FREE, 2 * FREE)},
    **{"get_rng_state": _random, "set_rng_state": None, "manual_seed": None, "manual_seed_all": None},
    **{"max_memory_reserved": 12 << 20, "set_sync_debug_mode": None},
    **{"synchronize": None, "empty_cache": None, "reset_peak_memory_stats": None, "set_device": None},
    "_lazy_init": None,
    "stream": contextlib.nullcontext(),
}
"""What torch.cuda answers, whatever it is asked."""
for _name, _answer in ANSWERS.items():
    setattr(torch.cuda, _name, lambda *_, _answer=_answer, **__: _answer)
torch.cuda.Stream, torch.cuda.current_stream = Stream, Stream
torch.Tensor.pin_memory = lambda self, *_: self
torch.Tensor.is_pinned = lambda self, *_: False
torch.__future__.set_overwrite_module_params_on_conversion(True)
torch.utils._foreach_utils._foreach_supported_types.append(EmulatedTensor)  # lists are one kernel, as on CUDA
