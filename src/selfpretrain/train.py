"""The training loop. There is one.

What happens at a step is a pure function of seed and step: which examples, which positions are hidden,
which learning rate. What cannot be computed afresh (weights, optimizer, dropout's random state, best
weights so far) is in the checkpoint, so that a run continues exactly where it was cut, down to the bit.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from . import world
from .batch import Examples, Order, generator
from .errors import Interrupted, SpecError
from .evaluate import evaluate
from .model import Network
from .optim import set_rate
from .recipe import Recipe
from .store import Folder, Log

CHECKPOINT = "checkpoint.safetensors"
CHECKPOINT_SECONDS = 20.0
LINES = 100
"""Lines of training loss in a stage's log."""

Tell = Callable[[dict[str, Any]], None]
Stop = Callable[[], bool]


@dataclass
class State:
    """Everything that changes during a stage, besides tensors."""

    step: int = 0
    seconds: float = 0.0
    evals: int = 0
    lines: int = 0
    best_score: float = -math.inf
    best_step: int = 0
    since_best: int = 0  # validations
    rate: float = 1.0  # what a plateau has left of the learning rate
    stopped: str = ""  # why it ended: budget, patience or diverged
    log: int = 0  # bytes of the log at the checkpoint


@dataclass(frozen=True)
class Material:
    """What a stage works with."""

    recipe: Recipe  # its last stage is the one to train
    network: Network
    train: Examples
    val: Examples
    steps: int | None  # None: until the budget's seconds are over


class Fit:
    """One stage's training, from its start or its checkpoint to its end.

    Raises:
        SpecError: if several processes cannot share the batch or the clock.
    """

    def __init__(self, material: Material, folder: Folder, tell: Tell, stop: Stop) -> None:
        self.network, self.train, self.val = material.network, material.train, material.val
        self.steps, self.folder, self.tell, self.stop = material.steps, folder, tell, stop
        recipe = material.recipe
        self.stage, self.form, self.seed = recipe.last, recipe.task_of(recipe.last).form, recipe.seed
        self.key = f"{len(recipe.stages)}"
        self._check_world()
        self.order = Order(self.train.longest, self.stage.batch, self.seed)
        self.optimizer = self.stage.optim.build(self.network, recipe.model.mixer.slow())
        self.device = next(self.network.parameters()).device
        self.network_at_work: nn.Module = self.network
        if world.size() > 1:
            self.network_at_work = DistributedDataParallel(self.network)
        self.state, self.best = State(), _copied(self.network)
        self.running = torch.zeros(2, device=self.device)  # loss, steps since the last line of the log

    def run(self) -> State:
        """Train to the end, leaving the selected weights in the network.

        Raises:
            Interrupted: if ``stop`` asked for it; a checkpoint is there.
        """
        torch.manual_seed(generator(self.seed, "dropout", self.key).initial_seed())
        self._resume()
        self.network_at_work.train()
        log = Log(self.folder.path / "log.jsonl", self.state.log) if world.first() else None
        saved = clock = time.perf_counter()
        while not self.state.stopped:
            self._step()
            now = time.perf_counter()
            self.state.seconds += now - clock
            clock = now
            spoken = self._speak(log)
            if self._asked_to_stop(spoken):
                self._save(log)
                raise Interrupted("stopped; the same command goes on from here")
            if now - saved > CHECKPOINT_SECONDS:
                self._save(log)
                saved = time.perf_counter()
        if log:
            log.close()
        if self.stage.select == "best":
            self.network.load_state_dict(self.best)
        return self.state

    @property
    def progress(self) -> float:
        """Share of the budget that is used, in [0, 1]."""
        if self.steps is not None:
            return min(1.0, self.state.step / self.steps)
        return min(1.0, self.state.seconds / (self.stage.budget.seconds or 1.0))

    def _step(self) -> None:
        step, objective = self.state.step, self.stage.objective
        set_rate(self.optimizer, self.stage.optim.shape(self._schedule_position()) * self.state.rate)
        batch = self.train.batch(self.order.rows(step)).to(self.device)
        whole = objective.ask(batch, self.form, generator(self.seed, "ask", self.key, step))
        mine = whole.part(world.rank(), world.size()) if world.size() > 1 else whole
        answers = self.network_at_work(mine.batch.inputs, mine.batch.valid, mine.hidden, mine.counts)
        # The average over processes follows: each gives its share of the batch's mean times their number.
        loss = objective.loss(answers, mine, self.form) * (world.size() / whole.size.clamp(min=1))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.stage.optim.clip:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.stage.optim.clip)
        self.optimizer.step()
        self.running[0] += loss.detach()
        self.running[1] += 1
        self.state.step += 1

    def _schedule_position(self) -> float:
        # The middle of the step: the first is not at rate zero, and neither is the last.
        return self.progress if self.steps is None else (self.state.step + 0.5) / self.steps

    def _speak(self, log: Log | None) -> bool:
        """Write and tell what is due; whether anything was."""
        state, before = self.state, (self.state.lines, self.state.evals)
        if math.floor(self.progress * LINES) > state.lines:
            state.lines = math.floor(self.progress * LINES)
            self._say(log, self._losses())
        if math.floor(self.progress * self.stage.evals) > state.evals and not state.stopped:
            state.evals = math.floor(self.progress * self.stage.evals)
            self._say(log, self._validate())
        if self.progress >= 1 and not state.stopped:
            state.stopped = "budget"
        return (state.lines, state.evals) != before

    def _losses(self) -> dict[str, Any]:
        total, steps = (world.sums(self.running.clone()) / world.size()).tolist()
        self.running.zero_()
        loss = total / max(steps, 1)
        if not math.isfinite(loss):
            self.state.stopped = "diverged"
        return {"kind": "train", "loss": loss, "lr": self.optimizer.param_groups[0]["lr"]}

    def _validate(self) -> dict[str, Any]:
        state, optim = self.state, self.stage.optim
        scores = evaluate(self.network, self.stage.objective, self.val, self.form).scores
        state.since_best += 1
        if scores["score"] > state.best_score:
            state.best_score, state.best_step, state.since_best = scores["score"], state.step, 0
            self.best = _copied(self.network)
        elif optim.schedule == "plateau" and state.since_best % optim.wait == 0:
            state.rate *= optim.factor
        if self.stage.patience and state.since_best >= self.stage.patience:
            state.stopped = "patience"
        return {"kind": "val"} | scores

    def _say(self, log: Log | None, line: dict[str, Any]) -> None:
        where = {"step": self.state.step, "epoch": self.state.step / self.order.per_epoch}
        line = line | where | {"seconds": round(self.state.seconds, 3)}
        if log:
            log.write(line)
            self.tell(line | {"progress": self.progress})

    def _asked_to_stop(self, spoken: bool) -> bool:
        if self.state.stopped:
            return False
        # Several processes must agree, which costs a message: only when there is something to say anyway.
        return self.stop() if world.size() == 1 else spoken and world.agreed(self.stop())

    def _save(self, log: Log | None) -> None:
        if log is None:
            return
        self.state.log = log.size
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        for i, entry in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{name}": value for name, value in entry.items()}
        tensors |= {"random.cpu": torch.get_rng_state(), "running": self.running}
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        self.folder.save(CHECKPOINT, tensors, dataclasses.asdict(self.state))

    def _resume(self) -> None:
        if not self.folder.has(CHECKPOINT):
            return
        tensors, state = self.folder.load(CHECKPOINT)
        self.state = State(**state)
        self.network.load_state_dict(_under("network.", tensors))
        self.best = {name: value.to(self.device) for name, value in _under("best.", tensors).items()}
        self.running = tensors["running"].to(self.device)
        entries: dict[int, dict[str, Tensor]] = {}
        for key, value in _under("optimizer.", tensors).items():
            i, _, name = key.partition(".")
            entries.setdefault(int(i), {})[name] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": entries, "param_groups": groups})
        torch.set_rng_state(tensors["random.cpu"])
        if "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], self.device)

    def _check_world(self) -> None:
        if self.stage.batch % world.size():
            raise SpecError(f"a batch of {self.stage.batch} does not divide among {world.size()} processes")
        if self.steps is None and world.size() > 1:
            raise SpecError("a budget in seconds needs a single process; give steps, epochs or FLOPs")


def _copied(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
