"""Export: to ONNX or torch.export, and of the weights of a network that the user brought.

An exported model has a dynamic batch size and length. It takes ``inputs``, tokens (B, L) or values (B, L, C),
and ``lengths`` (B,), the number of positions of each row that are not padding. Returned is what the estimator
returns: probabilities (B, K), or (B, L, K) for every position, numbers (B, 1), or embeddings (B, D).
Convolution kernels are computed once and applied directly, in O(L^2), because these formats have no FFT of
dynamic length.
"""

import contextlib
import copy
import importlib.util
import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from ..data.spec import Reals, SequenceSpec, Tokens
from ..errors import SelfPretrainError, SpecError, install
from ..mixers.base import ForeignModule
from ..mixers.common.convolution import Convolution
from ..objectives.common.heads import pool_features
from ..registry import name_of
from ..system.files import explain_output_errors, replace_file, write_bytes
from ..training.model import Network
from .predictor import Predictor

TOLERANCE = 1e-5  # largest difference of outputs; of numbers, in standard deviations of those of training
ULPS = 4  # float32 roundings of the mean of these numbers that are allowed besides
SHORTEST = 3  # shortest input in positions; shorter sequences must be padded
NEEDS = ("onnx", "onnxscript", "onnxruntime")  # packages that an export to ONNX needs
INPUTS = ["inputs", "lengths"]
Function = Callable[[Tensor, Tensor], Tensor]  # padded inputs and lengths -> outputs


class Exported(nn.Module):
    """The ensemble as one module.

    Args:
        longest: length for which convolution kernels are precomputed; 0: compute them in every call.
    """

    def __init__(self, predictor: Predictor, longest: int = 0) -> None:
        super().__init__()
        self.networks = nn.ModuleList(copy.deepcopy(list(predictor.networks)))
        self.first = cast(Network, self.networks[0])
        self.output = predictor.output
        self.temperature = predictor.temperature
        self.fixed = predictor.form.length if predictor.model.mixer.fixed_length else 0
        self.pooling = predictor.model.pooling
        for module in self.networks.modules():
            if longest and isinstance(module, Convolution):
                _freeze_kernel(module, longest)
        self.cpu().eval()

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Return the averaged predictions for a padded batch."""
        if self.fixed:
            missing = self.fixed - inputs.shape[1]
            inputs = nn.functional.pad(inputs, [0, 0] * (inputs.ndim - 2) + [0, missing])
        padding_mask = torch.arange(inputs.shape[1], device=inputs.device)[None] < lengths[:, None]
        if self.output == "embedding":
            features = self.first.features(inputs, padding_mask)
            return pool_features(self.first.head, features, padding_mask, self.pooling)
        outputs = torch.stack([network(inputs, padding_mask) for network in self.networks])
        if self.output == "positions":
            outputs = outputs.unflatten(1, (inputs.shape[0], inputs.shape[1]))
        if self.output == "reals":
            return outputs.mean(0)
        logits = outputs / self.temperature
        return (logits.sigmoid() if self.output == "sets" else logits.softmax(-1)).mean(0)


def _freeze_kernel(layer: Convolution, longest: int) -> None:
    """Precompute the kernel of a layer; the kernel of a shorter length is a prefix of it."""
    with torch.no_grad():
        layer.register_buffer("frozen", layer.kernel(longest + 1).float(), persistent=False)
    kernel = layer.get_buffer("frozen")
    layer.kernel = lambda length: kernel[..., :length]  # type: ignore[method-assign]


def export(predictor: Predictor, path: str | Path, length: int | None = None) -> float:
    """Write a model as ``.onnx`` or ``.pt2``, and return its largest difference from the network's outputs.

    The file is loaded again and compared with the network on batch sizes and lengths not used in tracing.

    Args:
        length: longest sequence to support; None: the longest of training.

    Raises:
        SpecError: if the format is unknown or needs an extra, the network cannot be exported, or the outputs
            differ by more than ``TOLERANCE``, or what rounding explains.
    """
    path = Path(path)
    if path.suffix not in (".onnx", ".pt2"):
        raise SpecError(f"{path.name}: a model is exported to .onnx, or to .pt2 of torch.export")
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if path.suffix == ".onnx" and missing:
        raise SpecError(f"ONNX needs {', '.join(missing)}: {install('onnx')}")
    form = predictor.form
    if form.views > 1 and predictor.output != "embedding":
        raise SpecError(f"a model of examples of {form.views} sequences cannot be exported, only saved")
    if predictor.output == "positions" and predictor.model.mixer.fixed_length:
        raise SpecError("labels of positions by a mixer of fixed length cannot be exported, only saved")
    longest = max(length or form.length, SHORTEST + 1)
    bounded = predictor.networks[0].embed.adds_positions or predictor.model.mixer.fixed_length
    if longest > form.length and bounded:
        raise SpecError(f"the network knows {form.length} positions, and cannot be exported for {longest}")
    try:
        program = _program(Exported(predictor, longest), form, longest)
        with explain_output_errors(path), replace_file(path) as temporary:
            exported = _write(program, path.suffix, temporary)
    except SelfPretrainError:
        raise
    except Exception as error:  # torch raises many types for a network that it cannot trace
        reason = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"
        mixer = name_of(predictor.model.mixer)
        raise SpecError(f"a network with {mixer} cannot be exported: {reason}") from error
    difference = _difference(exported, Exported(predictor), form, longest)
    allowed = TOLERANCE
    if predictor.output == "reals" and isinstance(form.target, Reals):
        rounding = ULPS * float(np.finfo(np.float32).eps) * abs(form.target.centre)
        allowed = TOLERANCE * form.target.spread + rounding
    if not difference <= allowed:
        raise SpecError(f"the exported model differs by {difference:.1e} from the network; do not use {path}")
    return difference


def _program(module: Exported, form: SequenceSpec, longest: int) -> torch.export.ExportedProgram:
    rows = torch.export.Dim("rows", min=1)
    positions = torch.export.Dim("positions", min=SHORTEST, max=longest)
    shapes = {"inputs": {0: rows, 1: positions}, "lengths": {0: rows}}
    batch = _batch(form, 3, max(SHORTEST + 1, longest // 2))
    with torch.no_grad():
        module(*_batch(form, 1, longest))  # grow position tables to the full length before tracing
        return torch.export.export(module, batch, dynamic_shapes=shapes)


def _write(program: torch.export.ExportedProgram, suffix: str, path: Path) -> Function:
    """Write the program to a file, load the file again, and return it as a function."""
    if suffix == ".pt2":
        whole = io.BytesIO()
        torch.export.save(program, whole)
        path.write_bytes(whole.getvalue())
        return torch.export.load(io.BytesIO(path.read_bytes())).module()
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime reports every start otherwise
    import onnxruntime

    with _quietly():
        torch.onnx.export(
            program, (), path, dynamo=True, external_data=False, verbose=False,
            input_names=INPUTS, output_names=["answers"],
        )  # fmt: skip
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])

    def run(inputs: Tensor, lengths: Tensor) -> Tensor:
        feed = {"inputs": inputs.numpy(), "lengths": lengths.numpy()}
        return torch.from_numpy(np.asarray(session.run(None, feed)[0]))

    return run


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keep back what torch says of its own exporter: deprecated calls, missing packages."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


@torch.no_grad()
def _difference(exported: Function, network: Function, form: SequenceSpec, longest: int) -> float:
    """Return the largest absolute difference over batches of sizes that were not traced."""
    sizes = [(1, SHORTEST), (2, longest), (5, max(SHORTEST, longest // 3)), (4, longest - 1)]
    batches = [_batch(form, rows, positions) for rows, positions in sizes]
    return max(float((exported(*batch) - network(*batch)).abs().max()) for batch in batches)


def _batch(form: SequenceSpec, rows: int, positions: int) -> tuple[Tensor, Tensor]:
    """Return random inputs and lengths; the first sequence has the full length."""
    random = torch.Generator().manual_seed(rows)
    lengths = torch.randint(1, positions + 1, (rows,), generator=random)
    lengths[0] = positions
    if isinstance(form.signal, Tokens):
        return torch.randint(0, form.signal.vocab, (rows, positions), generator=random), lengths
    noise = torch.randn(rows, positions, form.signal.channels, generator=random)
    return noise * torch.tensor(form.signal.spread) + torch.tensor(form.signal.centre), lengths


def save_backbone(predictor: Predictor, path: str | Path) -> str:
    """Write the weights of the first network's backbone as ``.safetensors``, and return what they are.

    Those of a whole backbone have the names of its own ``state_dict``; those of layers that are stacked have
    the number of their block before them, like those of an ``nn.ModuleList``. Embedding, head and, around
    layers, our norms and MLPs are not written.

    Raises:
        SpecError: if the mixer is one of this package, or the file is not called ``.safetensors``.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise SpecError(f"{path.name}: weights are written to a file called .safetensors")
    found = [block.mixer for block in predictor.networks[0].blocks]
    layers = [layer for layer in found if isinstance(layer, ForeignModule)]
    if not layers:
        mixer = name_of(predictor.model.mixer)
        raise SpecError(f"{mixer} is a mixer of this package; -o FOLDER saves the whole model")
    whole = predictor.model.mixer.whole
    tensors = {
        name if whole else f"{number}.{name}": weight.detach().cpu().clone()  # tied weights share memory
        for number, layer in enumerate(layers)
        for name, weight in layer.own_weights().items()
    }
    write_bytes(path, safetensors.torch.save(tensors, {"format": "pt"}))
    stacked = "" if whole else f"nn.ModuleList of {len(layers)} times "
    return f"{len(tensors)} tensors of {stacked}{layers[0].origin}"
