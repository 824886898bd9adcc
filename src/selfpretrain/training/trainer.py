"""The trainer: one loop with early stopping for pretraining, finetuning and training from scratch.

The batch, the masked positions and the learning rate of a step are pure functions of seed and step. All
other state (weights, optimizer, dropout's random state, best weights so far) is in the checkpoint, so that a
resumed run is bit-identical to an uninterrupted one.
"""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..data.dataloader import BatchSampler, PrefetchLoader
from ..data.dataset import SequenceDataset, generator
from ..errors import Interrupted, SpecError
from ..system import distributed
from ..system.events import Event, emit, listen
from .evaluate import evaluate, reduce_sums
from .model import Network
from .optim import set_lr_factor
from .recipe import Recipe
from .run_dir import CHECKPOINT, CHECKPOINT_SECONDS, LOG, Log, RunDir, explain_damage
from .step import accumulate_sums, backward, prepare

CLOCK_STEPS = 50
"""Steps between two checks of the `hours` limit in distributed training."""
COOLDOWN = 0.2
"""Share of a time limit in which the learning rate falls to 0 if the steps do not fit into it."""
LINES = 100
"""Training-loss lines in the log of a stage."""
FITTED = ("accuracy", "r2")
"""Training metrics logged with the loss; they are computed from the outputs of the training steps."""

Stop = Callable[[], bool]


@dataclass
class State:
    """The part of a checkpoint that is not tensors."""

    step: int = 0
    seconds: float = 0.0
    evals: int = 0
    lines: int = 0
    best_score: float = -math.inf
    best_step: int = 0
    plateau_best: float = -math.inf  # score that the plateau schedule compares with
    waited: int = 0  # validations since that score was reached or the learning rate lowered
    since_best: int = 0  # validations without improvement
    rate: float = 1.0  # product of the plateau schedule's reductions of the learning rate
    stopped: str = ""  # why training ended: budget, hours, patience or diverged
    log: int = 0  # size of the log at the checkpoint, in bytes


@dataclass(frozen=True)
class TrainerInputs:
    """Recipe, network and data of the stage to train."""

    recipe: Recipe  # its last stage is trained
    network: Network
    train: SequenceDataset
    val: SequenceDataset
    steps: int | None  # None: the budget is in seconds


class Trainer:
    """The trainer of one stage, which starts from the checkpoint if there is one.

    Raises:
        SpecError: if the batch does not divide among the processes, or a budget in seconds has several.
    """

    def __init__(self, inputs: TrainerInputs, folder: RunDir, stop: Stop) -> None:
        self.network = inputs.network
        self.train = inputs.train
        self.val = inputs.val
        self.steps = inputs.steps
        self.folder = folder
        self.stop = stop
        recipe = inputs.recipe
        self.stage = recipe.last
        self.form = recipe.task_of(recipe.last).form
        self.seed = recipe.seed
        self.key = f"{len(recipe.stages)}"
        self._check_clock()
        self.sampler = BatchSampler(self.train.longest, self.stage.batch, self.seed)
        self.device = next(self.network.parameters()).device
        source = torch.device("cpu") if self.stage.objective.reads_inputs else self.device
        self.batches = PrefetchLoader(self.train, self.sampler, source)
        self.optimizer = self.stage.optim.build(self.network, recipe.model.mixer.slow())
        prepare(self.network, self.stage, self.device)
        self.wrapped_network: nn.Module = self.network
        if distributed.world_size() > 1:
            self.wrapped_network = DistributedDataParallel(self.network)
        self.state = State()
        self.best = _copy_weights(self.network)
        # Since the last line of the log: sum of losses and number of steps; metric sums.
        self.running = torch.zeros(2, device=self.device)
        self.sums = dict[str, Tensor]()

    def run(self) -> State:
        """Train until the stage ends, and load the selected weights into the network.

        Raises:
            Interrupted: if ``stop`` returned True; a checkpoint has been saved.
        """
        # Only dropout uses torch's global random state; resuming replaces it by that of the checkpoint.
        torch.manual_seed(generator(self.seed, "dropout", self.key).initial_seed())
        self._resume()
        self.wrapped_network.train()
        log = Log(self.folder.path / LOG, self.state.log) if distributed.is_main() else None
        with contextlib.ExitStack() as stack:
            stack.callback(self.batches.close)
            if log:
                stack.enter_context(contextlib.closing(log))
                stack.enter_context(listen(log.log_event))
            self._train(log)
            if log:
                log.sync()
        if self.stage.select == "best":
            self.network.load_state_dict(self.best)
        return self.state

    def _train(self, log: Log | None) -> None:
        saved = clock = time.perf_counter()
        while not self.state.stopped:
            self._step()
            now = time.perf_counter()
            self.state.seconds += now - clock
            clock = now
            logged = self._log_and_validate()
            if self._should_stop(logged):
                self._save(log)
                raise Interrupted("stopped; the same command resumes from here")
            if now - saved > CHECKPOINT_SECONDS:
                self._save(log)
                saved = time.perf_counter()

    @property
    def progress(self) -> float:
        """Share of the budget used, in [0, 1]."""
        if self.steps is not None:
            return min(1.0, self.state.step / self.steps)
        return min(1.0, self.state.seconds / (self.stage.budget.seconds or 1.0))

    def _step(self) -> None:
        step = self.state.step
        objective = self.stage.objective
        set_lr_factor(self.optimizer, self._lr_factor() * self.state.rate)
        random = generator(self.seed, "ask", self.key, step)
        targets = objective.make_targets(self.batches.batch(step), self.form, random).to(self.device)
        self.optimizer.zero_grad(set_to_none=True)
        loss, sums = backward(self.wrapped_network, self.stage, self.form, targets)
        if self.stage.optim.clip:
            for network in self.network.networks():
                nn.utils.clip_grad_norm_(network.parameters(), self.stage.optim.clip)
        self.optimizer.step()
        self.running[0] += loss
        self.running[1] += 1
        accumulate_sums(self.sums, sums)
        self.state.step += 1

    def _lr_factor(self) -> float:
        # Evaluated at the middle of the step: neither the first nor the last step has a rate of zero.
        step = self.state.step + 0.5
        progress = self.progress if self.steps is None else step / self.steps
        return self.stage.optim.lr_factor(progress, step) * self._cooldown()

    def _cooldown(self) -> float:
        """Return 1, or what falls to 0 at the end of a time limit that comes before the last step."""
        hours = self.stage.budget.hours
        # The clocks of several processes differ, and their learning rates must not.
        if hours is None or distributed.world_size() > 1:
            return 1.0
        used = min(1.0, self.state.seconds / (3600 * hours))
        return 1.0 if self.progress >= used else min(1.0, (1 - used) / COOLDOWN)

    def _log_and_validate(self) -> bool:
        """Log and validate where due; return whether any of it was, or the time limit is reached."""
        state = self.state
        before = (self.state.lines, self.state.evals)
        if math.floor(self.progress * LINES) > state.lines:
            state.lines = math.floor(self.progress * LINES)
            self._emit("train", self._training_metrics())
        # Validations are spaced by progress rather than steps, so that budgets in seconds have them, too.
        due = math.floor(self.progress * self.stage.evals)
        late = self._time_is_up()
        if (due > state.evals or late) and not state.stopped:
            state.evals = due
            self._emit("val", self._validate())
        if (late or self.progress >= 1) and not state.stopped:
            state.stopped = "budget" if self.progress >= 1 else "hours"
        return late or (state.lines, state.evals) != before

    def _time_is_up(self) -> bool:
        """Return whether the `hours` limit is reached; several processes agree every `CLOCK_STEPS` steps."""
        hours = self.stage.budget.hours
        if hours is None or (distributed.world_size() > 1 and self.state.step % CLOCK_STEPS):
            return False
        return distributed.any_process(self.state.seconds >= 3600 * hours)

    def _training_metrics(self) -> dict[str, float]:
        # Losses are summed on the device and read here only: reading each one would synchronise every step.
        total, steps = (distributed.all_reduce(self.running.clone()) / distributed.world_size()).tolist()
        scores = self.stage.objective.scores(reduce_sums(self.sums, self.device)) if self.sums else {}
        self.running.zero_()
        self.sums = {}
        loss = total / max(steps, 1)
        if not math.isfinite(loss):
            self.state.stopped = "diverged"
        fit = {name: scores[name] for name in FITTED if math.isfinite(scores.get(name, math.nan))}
        return {"loss": loss, "lr": self.optimizer.param_groups[0]["lr"]} | fit

    def _validate(self) -> dict[str, float]:
        state = self.state
        criterion = self.stage.criterion
        stage = self.stage
        scores = evaluate(self.network, stage.objective, self.val, self.form, stage.precision).scores
        if criterion not in scores:
            kind = type(self.stage.objective).__name__
            raise SpecError(f"criterion={criterion}: {kind} measures {', '.join(scores)}")
        state.since_best += 1
        if scores[criterion] > state.best_score:
            state.best_score = scores[criterion]
            state.best_step = state.step
            state.since_best = 0
            self.best = _copy_weights(self.network)
        if self.stage.optim.schedule == "plateau" and self._plateau_reached(scores[criterion]):
            state.rate *= self.stage.optim.factor
        if self.stage.early_stopping_patience and state.since_best >= self.stage.early_stopping_patience:
            state.stopped = "patience"
        return scores

    def _plateau_reached(self, score: float) -> bool:
        """Return whether the plateau schedule lowers the learning rate now, and count from there.

        As ``torch.optim.lr_scheduler.ReduceLROnPlateau`` whose patience is one less than the wait.
        """
        optim, state = self.stage.optim, self.state
        state.waited += 1
        least = state.plateau_best
        improved = score > max(least * (1 + optim.plateau_threshold), least * (1 - optim.plateau_threshold))
        if improved:
            state.plateau_best = score
        wait: float = optim.wait
        if optim.plateau_wait_epochs is not None:
            per_step = self.stage.evals * self.progress / state.step
            wait = round(optim.plateau_wait_epochs * self.sampler.per_epoch * per_step, 6)
        late = state.waited >= wait
        if improved or late:
            state.waited = 0
        return late and not improved

    def _emit(self, kind: str, numbers: dict[str, float]) -> None:
        if distributed.is_main():
            position = {"step": self.state.step, "epoch": self.state.step / self.sampler.per_epoch}
            numbers = numbers | position | {"seconds": round(self.state.seconds, 3)}
            emit(Event(kind, self.folder.name, self.progress, 1.0, numbers))

    def _should_stop(self, logged: bool) -> bool:
        if self.state.stopped:
            return False
        # Processes must agree, which costs an all-reduce: only at steps that log or validate anyway.
        if distributed.world_size() == 1:
            return self.stop()
        return logged and distributed.any_process(self.stop())

    def _save(self, log: Log | None) -> None:
        if log is None:
            return
        # The log must be on disk before a checkpoint that refers to its size.
        self.state.log = log.sync()
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        for i, entry in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{name}": value for name, value in entry.items()}
        tensors |= {"random.cpu": torch.get_rng_state(), "running": self.running}
        tensors |= {f"sum.{name}": value for name, value in self.sums.items()}
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        self.folder.save(CHECKPOINT, tensors, dataclasses.asdict(self.state) | {"stage": self.folder.name})

    def _resume(self) -> None:
        if self.folder.has(CHECKPOINT):
            tensors, state = self.folder.load(CHECKPOINT)
            with explain_damage(self.folder, CHECKPOINT):
                if state.pop("stage", self.folder.name) != self.folder.name:
                    raise ValueError("it is of another stage")
                state.pop("dropped", None)  # in checkpoints of earlier versions
                self._load_state(tensors, State(**state))

    def _load_state(self, tensors: dict[str, Tensor], state: State) -> None:
        self.state = state
        self.network.load_state_dict(_strip_prefix("network.", tensors))
        self.best = {name: value.to(self.device) for name, value in _strip_prefix("best.", tensors).items()}
        self.running = tensors["running"].to(self.device)
        self.sums = {name: value.to(self.device) for name, value in _strip_prefix("sum.", tensors).items()}
        entries: dict[int, dict[str, Tensor]] = {}
        for key, value in _strip_prefix("optimizer.", tensors).items():
            i, _, name = key.partition(".")
            entries.setdefault(int(i), {})[name] = value
        # Parameter groups follow from the recipe, and their learning rates are set at every step.
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": entries, "param_groups": groups})
        torch.set_rng_state(tensors["random.cpu"])
        if "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], self.device)

    def _check_clock(self) -> None:
        if self.steps is None and distributed.world_size() > 1:
            raise SpecError("a budget in seconds needs a single process; give steps, epochs or FLOPs")


def _copy_weights(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def _strip_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
