"""GPUs: what they compute, hold and cost, and how long a traced step takes on one.

seconds = max(FLOPs / (share peak), bytes / (share bandwidth), kernels launch)

Two numbers are fitted, ``SHARE`` and ``LAUNCH``, to 18 steps of the papers' networks that were measured on an
H100 (docs/speed.md); all are within 1.4 times of it. Of the six times of an epoch on an A100 that Coser &
Orvieto (2025) print in footnote 3, for their code, those on ListOps are 3.5 times ours, the others
within twice.
"""

from dataclasses import dataclass

from ..errors import SpecError, nearest
from .recipe import Precision
from .trace import StepTrace

SHARE = 0.47
"""Share of bandwidth that training reaches, fitted; of the peak, too, which decided none of these steps."""
LAUNCH = 42e-6
"""Seconds from one kernel to the next in a network whose kernels are small, of Python and PyTorch; fitted."""
EVALUATED = 1 / 3
"""Cost of an example in an evaluation, as a share of one in training: a forward pass alone."""


@dataclass(frozen=True)
class Gpu:
    """A GPU; numbers from the maker's data sheets."""

    half: float  # FLOP/s of dense products of 16-bit numbers, with sums in 32 bits
    single: float  # FLOP/s of 32-bit numbers
    bandwidth: float  # bytes/s of its memory
    gigabytes: float  # of its memory
    dollars: float | None  # per hour; None: nobody has looked it up
    bf16: bool = True  # whether it has units for bfloat16, without which stages are in single precision

    @property
    def precision(self) -> Precision:
        """Usual precision of stages on it."""
        return "bf16" if self.bf16 else "fp32"

    def price(self, hours: float) -> float | None:
        """Return the dollars of some hours; None if the price is not known."""
        return None if self.dollars is None else hours * self.dollars

    def bill(self, hours: float) -> str:
        """Return hours, and their price if it is known, in words."""
        price = self.price(hours)
        return f"{hours:,.0f} hours" + ("" if price is None else f" and {price:,.0f} dollars")

    def seconds(self, trace: StepTrace) -> float:
        """Return the estimated seconds of a step."""
        rate = SHARE * self.half if self.bf16 else min(SHARE * self.half, self.single)
        return max(trace.flops / rate, trace.bytes_moved / (SHARE * self.bandwidth), trace.kernels * LAUNCH)


# Prices: RunPod, Community Cloud, read on 2026-11-09 (a100, h100) and in March 2026 (3090, 4090, L4). They
# change by the week, and differ fivefold between vendors.
GPUS = {
    "a100": Gpu(312e12, 19.5e12, 2.039e12, 80.0, 1.39),
    "h100": Gpu(989e12, 67e12, 3.35e12, 80.0, 2.69),
    "3090": Gpu(71e12, 35.6e12, 0.936e12, 24.0, 0.22),
    "rtx4090": Gpu(165e12, 82.6e12, 1.008e12, 24.0, 0.34),
    "l4": Gpu(121e12, 30.3e12, 0.3e12, 24.0, 0.44),
    "v100": Gpu(125e12, 15.7e12, 0.9e12, 32.0, None, bf16=False),
    "t4": Gpu(65e12, 8.1e12, 0.32e12, 16.0, None, bf16=False),
}
CPU_CORE = 2.5e10
"""FLOP/s of a small network on one CPU core, assumed where nothing was measured."""


def find_gpu(name: str) -> Gpu:
    """Return a GPU by its name; an H200 counts as an H100.

    Raises:
        SpecError: if it is not in ``GPUS``.
    """
    plain = name.lower().replace(" ", "").replace("h200", "h100").replace("rtx3090", "3090")
    if plain not in GPUS:
        raise SpecError(f"--gpu {name}: its peak is not known{nearest(plain, GPUS)}")
    return GPUS[plain]
