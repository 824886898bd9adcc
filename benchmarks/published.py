"""Published code of state space models, loaded from checkouts and wrapped for measuring.

    git clone https://github.com/state-spaces/s4
    git clone https://github.com/ag1988/dlr
    git clone https://github.com/facebookresearch/mega
    pip install einops opt_einsum omegaconf tqdm

Only the one file that holds the layer is loaded. What it imports besides (Lightning's logging, fairseq's
decoding) is replaced by empty stand-ins, and its compiled and lazy kernels are kept out, so that the plain
PyTorch path runs, on any machine.
"""

import hashlib
import importlib.util
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn

FILES = {
    "s4": "models/s4/s4.py",
    "dlr": "src/models/sequence/ss/standalone/dss.py",
    "mega": "fairseq/modules/exponential_moving_average.py",
}
STAND_INS: dict[str, dict[str, Any]] = {
    "pytorch_lightning": {},
    "pytorch_lightning.utilities": {"rank_zero_only": lambda function: function},
    "fairseq": {},
    "fairseq.incremental_decoding_utils": {"with_incremental_state": lambda kind: kind},
    "published": {"__path__": []},
    "published.attention": {"Attention": None},
}
KEPT_OUT = ("pykeops", "extensions")


def load(name: str, checkout: Path) -> ModuleType:
    """The file of a checkout that holds the layer."""
    path = checkout / FILES[name]
    if not path.exists():
        sys.exit(f"error: {path} is not there; give the checkout's root folder to --{name}")
    for module, content in STAND_INS.items():
        sys.modules[module] = ModuleType(module)
        vars(sys.modules[module]).update(content)
    sys.modules.update(dict.fromkeys(KEPT_OUT))  # None: importing them fails
    logging.disable(logging.WARNING)
    place = importlib.util.spec_from_file_location(f"published.{name}", path)
    loaded = importlib.util.module_from_spec(place)
    try:
        place.loader.exec_module(loaded)
    except ImportError as error:
        sys.exit(f"error: {path}: {error}; run `pip install einops opt_einsum omegaconf tqdm`")
    return loaded


def version(name: str, checkout: Path) -> str:
    """The file and the first digits of its SHA-256: a checkout may have no history."""
    path = checkout / FILES[name]
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"


def s4_kernel(code: ModuleType, width: int, length: int, rows: int = 1) -> nn.Module:
    """S4: diagonal plus low rank, N = 64."""
    return _Kernel(code.SSMKernelDPLR(d_model=width, l_max=length, channels=rows, verbose=False), length)


def s4_kernels(code: ModuleType, width: int, length: int) -> nn.Module:
    """The same with one kernel per direction."""
    return s4_kernel(code, width, length, rows=2)


def s4d_kernel(code: ModuleType, width: int, length: int) -> nn.Module:
    """S4D: linear frequencies, zero-order hold, N = 64."""
    return _Kernel(code.SSMKernelDiag(d_model=width, init="diag-lin", disc="zoh", verbose=False), length)


def dlr_kernel(code: ModuleType, width: int, length: int) -> nn.Module:
    """DLR: N = 1024 modes shared by all channels."""
    rates = {"Lambda": 1e-4, "Lambda_re": 1e-4, "W": 1e-4}
    return _Kernel(code.DLRKernel(width, N=1024, lr=code.DictConfig(rates)), length)


def ema_kernel(code: ModuleType, width: int, length: int) -> nn.Module:
    """MEGA's moving average: 16 terms per channel, one direction."""
    return _Average(code.MultiHeadEMA(width, ndim=16), length)


def s4_layer(code: ModuleType, width: int, length: int) -> nn.Module:
    """The whole bidirectional S4 layer: kernel, convolution, GELU, linear map, GLU."""
    return code.S4Block(width, transposed=False, l_max=length, bidirectional=True, mode="dplr", verbose=False)


def convolution(code: ModuleType, kernel: nn.Parameter, skip: nn.Parameter) -> nn.Module:
    """The bidirectional convolution of the S4 layer alone, with a kernel of its own."""
    settings = {"bidirectional": True, "transposed": False, "activation": None}
    layer = code.FFTConv(kernel.shape[1], l_max=kernel.shape[2], mode="diag", init="diag-lin", **settings)
    layer.kernel, layer.D = _Given(kernel), nn.Parameter(skip[None].detach().clone())
    return layer


class _Kernel(nn.Module):
    def __init__(self, kernel: nn.Module, length: int) -> None:
        super().__init__()
        self.inner, self.length = kernel, length

    def forward(self) -> Tensor:
        return self.inner(L=self.length)[0]


class _Average(nn.Module):
    def __init__(self, layer: nn.Module, length: int) -> None:
        super().__init__()
        self.inner, self.length = layer, length

    def forward(self) -> Tensor:
        return self.inner._compute_kernel(self.length)[None]


class _Given(nn.Module):
    def __init__(self, kernel: nn.Parameter) -> None:
        super().__init__()
        self.kernel = nn.Parameter(kernel.detach().clone())

    def forward(self, L: int, rate: float, state: None) -> tuple[Tensor, None]:
        return self.kernel, None
