"""What a training draws, as it happens: all that must be equal on every machine."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import toys
from selfpretrain.runner import stage as runner
from selfpretrain.runner.run_dir import LOG, RunDir
from selfpretrain.runner.workspace import Workspace
from selfpretrain.training import step, train
from selfpretrain.training.recipe import Recipe, build_network

HASHED = ("data", "batches", "masks", "draws", "shapes", "rates")


@dataclass
class Witness:
    """What a training draws.

    Hashes stand for what is equal to the bit: the training data, the batches in their order, the masks, the
    state of the random generator before every step, names and shapes of the weights, learning rates.

    The initial weights differ by a rounding between processors, since PyTorch draws normal numbers with other
    kernels on each; a hash of rounded weights would differ where one of them is just between two roundings.
    Their sum with random signs is given instead: another draw changes it by about the square root of their
    number, and a rounding of each by less than ``spread``.
    """

    whole: Recipe
    nudge: int = 0  # move the initial weights by a rounding each, up or down as this seed says; 0: do not
    steps: int = 0
    parameters: int = 0
    flops: float = 0.0
    loss: float = 0.0  # of the last stage, on the validation examples
    weights: float = 0.0
    spread: float = 0.0
    parts: Mapping[str, list[bytes]] = field(default_factory=lambda: {name: [] for name in HASHED})

    def exact(self) -> dict[str, str]:
        """What is equal to the bit, by name."""
        numbers = {name: f"{getattr(self, name):.0f}" for name in ("steps", "parameters", "flops")}
        return numbers | {name: sha256(*parts) for name, parts in self.parts.items()}

    def build_network(self, recipe: Recipe) -> nn.Module:
        """Stand in for the function of that name."""
        network = build_network(recipe)
        # The golden numbers are of an earlier loop, which built the last network again to test it.
        times = 2 if recipe == self.whole else 1
        for name, tensor in [*network.state_dict().items()] * times:
            self.parts["shapes"].append(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            values = tensor.double().flatten()
            self.weights += float(values @ signs(name, len(values)))
            self.spread += 1e-7 * float(values.abs().sum())
        if self.nudge:
            nudged(network, self.nudge)
        return network

    def step(self, network, optimizer, stage, form, targets):
        """Stand in for the function of that name."""
        batch = targets.batch
        self.parts["draws"].append(torch.get_rng_state().numpy().tobytes())
        self._keep("batches", batch.inputs, batch.padding_mask, batch.lengths, batch.weights, batch.targets)
        self._keep("masks", targets.masked, targets.loss_mask, targets.size)
        return step.step(network, optimizer, stage, form, targets)

    def read(self, folder: RunDir) -> None:
        """Add what a finished stage has written."""
        result = folder.read("result.json")
        self.steps += result["steps"]
        self.parameters += result["cost"]["parameters"]
        self.flops += result["cost"]["flops"]
        self.loss = result["scores"]["val"]["loss"]
        self.parts["data"].append(result["data"]["sha256"].encode())
        for line in map(json.loads, (folder.path / LOG).read_text().splitlines()):
            if line["kind"] == "train":
                self.parts["rates"].append(f"{line['step']} {line['lr']:.9e}\n".encode())

    def _keep(self, name: str, *tensors: Tensor | None) -> None:
        for tensor in tensors:
            if tensor is None:
                self.parts[name].append(b"none")
            else:
                self.parts[name].append(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
                self.parts[name].append(tensor.contiguous().numpy().tobytes())


def witnessed(recipe: Recipe, runs: Path, nudge: int = 0) -> Witness:
    """Run a recipe in an empty folder and return what it drew."""
    witness = Witness(recipe, nudge)
    workspace = Workspace(runs)
    toys.settle()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "build_network", witness.build_network)
        patch.setattr(train, "step", witness.step)
        runner.run(recipe, workspace)
    for prefix in recipe.prefixes():
        witness.read(RunDir(workspace.stage(prefix).path))
    return witness


@torch.no_grad()
def nudged(network: nn.Module, seed: int) -> None:
    """Move every weight to the next number of single precision, up or down."""
    for name, parameter in network.named_parameters():
        up = signs(f"{seed} {name}", parameter.numel()).view_as(parameter)
        parameter.mul_((1 + 1e-7 * up).to(parameter.dtype))


def signs(key: str, n: int) -> Tensor:
    """Return n random signs, which depend on nothing but the key."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:7], "big")
    return torch.randint(2, (n,), generator=torch.Generator().manual_seed(seed)).double() * 2 - 1


def sha256(*parts: bytes) -> str:
    """Return the first half of the hash of some bytes."""
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]
