"""Training: one loop with early stopping for pretraining, finetuning and training from scratch.

The batch, the masked positions and the learning rate of a step are pure functions of seed and step. All
other state (weights, their average, optimizer, dropout's random state, best weights so far) is in the
checkpoint, so that a resumed run is bit-identical to an uninterrupted one.
"""

import contextlib
import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..config import is_ours
from ..data.dataloader import BatchSampler, PrefetchLoader
from ..data.dataset import PRELOADED, SequenceDataset, generator
from ..data.spec import SequenceSpec
from ..errors import Interrupted, SpecError
from ..mixers.base import ForeignModule
from ..objectives.base import ObjectiveBatch, scores_of
from ..objectives.common.latent import move_average
from ..registry import name_of
from ..system import distributed
from ..system.hardware import gpu_memory
from .evaluate import evaluate, reduce_sums, validation_data
from .memory import GB, fit_stage, saved_memory
from .model import Network
from .optim import set_lr_factor
from .recipe import Recipe, Stage, build_network, measured, training_data
from .step import accumulate_sums, prepare, step
from .trace import Untraceable
from .transfer import freeze

CLOCK_STEPS = 50
"""Steps between two checks of the `hours` limit in distributed training."""
CHECKPOINT_SECONDS = 20.0
"""Seconds between two checkpoints; as many times what saving takes, if that is more than a second."""
COOLDOWN = 0.2
"""Share of a time limit in which the learning rate falls to 0 if the steps do not fit into it."""
LINES = 100
"""Training-loss lines in the log of a stage."""
TIMED = 20
"""Most steps of a stage that are timed beforehand, after two that warm up."""
ENOUGH = 1.0
"""Seconds of steps after which no further one is timed."""
FITTED = ("accuracy", "r2")
"""Training metrics logged with the loss; they are computed from the outputs of the training steps."""

Stop = Callable[[], bool]
"""Whether to stop; asked after every step."""
Log = Callable[[str, float, dict[str, Any]], None]
"""Takes "train" or "val", the share of the budget that is used, and numbers by name."""


def never() -> bool:
    """Return False: the default stop condition."""
    return False


def no_log(kind: str, progress: float, numbers: dict[str, Any]) -> None:
    """Drop a line of the log."""


class Checkpoint:
    """Where a stage keeps what it needs to go on after an interruption; this one keeps nothing."""

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return the tensors and the state that were saved last; None if there are none."""
        return None

    def save(self, tensors: Mapping[str, Tensor], state: dict[str, Any]) -> None:
        """Save tensors and a state of plain values."""

    def explain_damage(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which errors in the content of a checkpoint name it."""
        return contextlib.nullcontext()


@dataclass(frozen=True)
class TrainingData:
    """The examples to train on and to validate on, and what their sequences and targets are."""

    form: SequenceSpec
    train: SequenceDataset
    val: SequenceDataset


def prepare_training(
    recipe: Recipe, network: Network, examples: SequenceDataset, steps: int | None, device: str
) -> tuple[Stage, TrainingData, str]:
    """Freeze what the last stage of a recipe does not train, and return the stage and its data for ``train``.

    On a GPU the stage saves memory if it would not fit as it is, see ``fit_stage``. How it does, or why
    nobody knows what it takes, is returned, too; "" if there is nothing to say.

    Args:
        recipe: its last objective knows what it counts, see ``measured``.
        examples: those to train on.
        steps: length of the budget; None: it is in seconds.

    Raises:
        DoesNotFit: if a step needs more memory than the GPU has.
    """
    stage = recipe.last
    share = PRELOADED
    said = ""
    if torch.device(device).type == "cuda":
        memory = distributed.smallest(gpu_memory(device)) / GB
        longest = int(examples.longest.max())
        padded = bool((examples.lengths < longest).any())
        try:
            fit = fit_stage(recipe, memory, longest, padded, distributed.world_size())
            stage = fit.applied_to(stage)
            share = min(share, max(0.0, 1 - fit.gigabytes / memory))
            said = saved_memory(recipe.last, stage)
        except Untraceable as error:
            said = f"not known beforehand ({error})"
    freeze(network, stage.freeze)
    if not stage.objective.masks_inputs:
        freeze(network, ("*embed.mask_token",))
    if not stage.objective.reads_inputs:
        examples = examples.preload(device, share)
    data = TrainingData(recipe.task_of(stage).form, examples, validation_data(recipe).preload(device, share))
    return replace(stage, budget=stage.budget.as_steps(steps)), data, said


@dataclass
class Trained:
    """How far training has come: the part of a checkpoint that is not tensors, and what ``train`` returns."""

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
    scores: dict[str, float] = field(default_factory=dict)  # of the selected weights on val


def train(
    stage: Stage,
    network: Network,
    data: TrainingData,
    *,
    seed: int = 0,
    number: int = 1,
    slow: Mapping[str, float] | None = None,
    checkpoint: Checkpoint | None = None,
    log: Log = no_log,
    stop: Stop = never,
) -> Trained:
    """Train a network in place by one stage, and load the selected weights into it.

    Nothing but ``checkpoint`` knows of files. The random state of torch is set, and left as training ends.

    Args:
        stage: its budget is in steps, epochs or seconds; one in FLOPs is turned into steps by a plan.
        network: trained on the device where it is; its frozen weights stay as they are.
        number: place of the stage in its recipe, from 1; equal stages of a recipe draw other numbers.
        slow: highest learning rates by name patterns inside a mixer, see ``Mixer.slow``.

    Raises:
        Interrupted: if ``stop`` returned True; a checkpoint has been saved.
        SpecError: if the batch does not divide among the processes, or a budget in seconds has several.
    """
    run = _Run(stage, network, data, seed, number, slow or {}, checkpoint or Checkpoint(), log)
    with contextlib.closing(run.batches):
        while not run.state.stopped:
            set_lr_factor(run.optimizer, run.lr_factor())
            targets = run.batches.batch(run.state.step)
            run.add(*step(run.wrapped_network, run.optimizer, stage, data.form, targets))
            logged = run.log_and_validate()
            if run.should_stop(stop, logged):
                run.save()
                raise Interrupted("stopped; the same command resumes from here")
            run.save_if_due()
    if stage.select == "best":
        network.load_state_dict(run.best)
    elif run.average:
        network.load_state_dict(run.average)
    run.average = {}  # the network has the selected weights, which are those to score
    if not run.state.scores:
        run.state.scores = run.score()
    return run.state


def seconds_on_gpu(recipe: Recipe, device: str) -> float:
    """Return the seconds of a step of a recipe's last stage on a GPU, trained as the stage would be.

    Raises:
        DoesNotFit: if a step needs more memory than the GPU has.
    """
    with distributed.alone():
        examples = training_data(recipe)
        recipe = measured(recipe, examples)
        network = build_network(recipe).to(device)
        stage, data, _ = prepare_training(recipe, network, examples, TIMED, device)
        slow = recipe.model.mixer.slow()
        run = _Run(stage, network, data, recipe.seed, len(recipe.stages), slow, Checkpoint(), no_log)
        with contextlib.closing(run.batches):
            run.advance(1)
            seconds = run.advance(1)
            number = max(1, min(TIMED, int(ENOUGH / max(seconds, 1e-9))))
            return run.advance(number) / number


@dataclass(eq=False)
class _Run:
    """What ``train`` knows at a step: network, optimizer, batches, and how far it is."""

    stage: Stage
    network: Network
    data: TrainingData
    seed: int
    number: int
    slow: Mapping[str, float]
    checkpoint: Checkpoint
    log: Log

    def __post_init__(self) -> None:
        stage = self.stage
        network = self.network
        self.sampler = BatchSampler(self.data.train.longest, stage.batch, self.seed)
        self.steps = stage.budget.in_steps(self.sampler.per_epoch)
        if self.steps is None and distributed.world_size() > 1:
            raise SpecError("a budget in seconds needs a single process; give steps, epochs or FLOPs")
        self.device = next(network.parameters()).device
        self.batches = PrefetchLoader(self.targets_at, self.device)
        self.optimizer = stage.optim.build(network, self.slow)
        prepare(network, stage, self.device)
        self.wrapped_network: nn.Module = network
        if distributed.world_size() > 1:
            # Buffers of our layers are constant, or equal in all processes. Sending them would change their
            # version, and sparse attention would plan anew in every step.
            others = any(isinstance(each, ForeignModule) for each in network.modules())
            with warnings.catch_warnings():  # torch's new name for it sends buffers once all the same
                warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
                self.wrapped_network = DistributedDataParallel(network, broadcast_buffers=others)
        self.state = Trained()
        self.best = _copy_weights(network)
        self.average = _copy_weights(network) if stage.average else {}
        # Since the last line of the log: sum of losses and number of steps; metric sums.
        self.running = torch.zeros(2, device=self.device)
        self.sums = dict[str, Tensor]()
        # Dropout and the directions of SIGReg use torch's global random state, equal in all processes.
        # Resuming replaces it by that of the checkpoint.
        torch.manual_seed(generator(self.seed, "dropout", f"{self.number}").initial_seed())
        if saved := self.checkpoint.load():
            with self.checkpoint.explain_damage():
                self._resume(*saved)
        self.wrapped_network.train()
        self.saved = self.clock = time.perf_counter()
        self.saving = 0.0  # seconds that the last checkpoint took

    @property
    def progress(self) -> float:
        """Share of the budget used, in [0, 1]."""
        if self.steps is not None:
            return min(1.0, self.state.step / self.steps)
        return min(1.0, self.state.seconds / (self.stage.budget.seconds or 1.0))

    def targets_at(self, step: int) -> ObjectiveBatch:
        """Return the batch of a step, with its labels and masks."""
        objective = self.stage.objective
        batch = self.data.train.batch(self.sampler.rows(step))
        random = generator(self.seed, "ask", f"{self.number}", step)
        if not objective.reads_inputs:
            batch = batch.to(self.device)
        return objective.make_targets(batch, self.data.form, random).to(self.device)

    def add(self, loss: Tensor, sums: dict[str, Tensor]) -> None:
        """Add the loss and the metric sums of a step, and the time since the one before.

        The average a of weights moves towards the weights w: a_k = d a_(k-1) + (1 - d) w_k after step k. The
        decay d is ``average``, or (1 + k) / (10 + k) if that is less: initial weights are forgotten.
        """
        self.running[0] += loss
        self.running[1] += 1
        accumulate_sums(self.sums, sums)
        self.state.step += 1
        if self.average:
            decay = min(self.stage.average, (1 + self.state.step) / (10 + self.state.step))
            move_average(self.average, self.network.state_dict(), 1 - decay)
        now = time.perf_counter()
        self.state.seconds += now - self.clock
        self.clock = now

    def advance(self, number: int) -> float:
        """Train some steps without log or validation, and return their seconds on the GPU.

        It works behind the processor, so the clock is read when it has ended what it was given.
        """
        torch.cuda.synchronize(self.device)
        start = time.perf_counter()
        for _ in range(number):
            targets = self.batches.batch(self.state.step)
            self.add(*step(self.wrapped_network, self.optimizer, self.stage, self.data.form, targets))
        torch.cuda.synchronize(self.device)
        return time.perf_counter() - start

    def lr_factor(self) -> float:
        """Return the learning rate of this step as a share of its base."""
        # Evaluated at the middle of the step: neither the first nor the last step has a rate of zero.
        middle = self.state.step + 0.5
        progress = self.progress if self.steps is None else middle / self.steps
        factor = self.stage.optim.lr_factor(progress, middle)
        hours = self.stage.budget.hours
        # The clocks of several processes differ, and their learning rates must not.
        if hours is None or distributed.world_size() > 1:
            return factor * self.state.rate
        # The rate falls to 0 at the end of a time limit that comes before the last step.
        used = min(1.0, self.state.seconds / (3600 * hours))
        cooldown = 1.0 if self.progress >= used else min(1.0, (1 - used) / COOLDOWN)
        return factor * cooldown * self.state.rate

    def log_and_validate(self) -> bool:
        """Log and validate where due; return whether any of it was, or the time limit is reached."""
        state = self.state
        before = (state.lines, state.evals)
        if math.floor(self.progress * LINES) > state.lines:
            state.lines = math.floor(self.progress * LINES)
            self._write("train", self._training_metrics())
        # Validations are spaced by progress rather than steps, so that budgets in seconds have them, too.
        due = math.floor(self.progress * self.stage.evals)
        hours = self.stage.budget.hours
        late = False
        # The clocks of several processes differ: they agree every `CLOCK_STEPS` steps.
        if hours is not None and (distributed.world_size() == 1 or state.step % CLOCK_STEPS == 0):
            late = distributed.any_process(state.seconds >= 3600 * hours)
        if (due > state.evals or late) and not state.stopped:
            state.evals = due
            self._write("val", self._validate())
        if (late or self.progress >= 1) and not state.stopped:
            state.stopped = "budget" if self.progress >= 1 else "hours"
        return late or (state.lines, state.evals) != before

    def _training_metrics(self) -> dict[str, float]:
        # Losses are summed on the device and read here only: reading each one would synchronise every step.
        total, steps = (distributed.all_reduce(self.running.clone()) / distributed.world_size()).tolist()
        scores = scores_of(self.stage.objective, reduce_sums(self.sums, self.device)) if self.sums else {}
        self.running.zero_()
        self.sums = {}
        loss = total / max(steps, 1)
        if not math.isfinite(loss):
            self.state.stopped = "diverged"
            if self.stage.select == "last":
                self.state.scores = {}  # those of the last validation are of other weights
        fit = {name: scores[name] for name in FITTED if math.isfinite(scores.get(name, math.nan))}
        return {"loss": loss, "lr": self.optimizer.param_groups[0]["lr"]} | fit

    def score(self) -> dict[str, float]:
        """Return the scores on the validation split, of the average of weights if there is one."""
        stage = self.stage
        data = self.data
        trained = _copy_weights(self.network) if self.average else {}
        if self.average:
            self.network.load_state_dict(self.average)
        scores = evaluate(self.network, stage.objective, data.val, data.form, stage.precision).scores
        if self.average:
            self.network.load_state_dict(trained)
        return scores

    def _validate(self) -> dict[str, float]:
        state = self.state
        criterion = self.stage.criterion
        scores = self.score()
        if criterion not in scores:
            kind = type(self.stage.objective).__name__
            raise SpecError(f"criterion={criterion}: {kind} measures {', '.join(scores)}")
        value = scores[criterion]
        # Weights that are not finite answer, too: with the first class, which may be the most frequent.
        finite = math.isfinite(scores["loss"])
        if math.isnan(value) and criterion != "accuracy":  # R2 of equal targets
            objective = type(self.stage.objective)
            author = next(each for each in objective.__mro__ if "scores" in vars(each))
            if finite and not is_ours(author.__module__):
                kind = name_of(self.stage.objective)
                raise SpecError(f"{kind}: {criterion} is NaN in validation; return a number from its scores")
            value = -scores["loss"]
        state.since_best += 1
        improved = finite and value > state.best_score
        if improved:
            state.best_score = value
            state.best_step = state.step
            state.since_best = 0
            kept = self.average or self.network.state_dict()
            self.best = {name: value.detach().clone() for name, value in kept.items()}
        if improved or self.stage.select == "last":
            state.scores = scores
        if self.stage.optim.schedule == "plateau" and self._plateau_reached(value):
            state.rate *= self.stage.optim.factor
        if self.stage.early_stopping_patience and state.since_best >= self.stage.early_stopping_patience:
            state.stopped = "patience" if finite else "diverged"
        return scores

    def _plateau_reached(self, score: float) -> bool:
        """Return whether the plateau schedule lowers the learning rate now, and count from there.

        As ``torch.optim.lr_scheduler.ReduceLROnPlateau`` whose patience is one less than the wait.
        """
        optim = self.stage.optim
        state = self.state
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

    def _write(self, kind: str, numbers: dict[str, float]) -> None:
        state = self.state
        place = {"step": state.step, "epoch": state.step / self.sampler.per_epoch}
        self.log(kind, self.progress, numbers | place | {"seconds": round(state.seconds, 3)})

    def should_stop(self, stop: Stop, logged: bool) -> bool:
        """Return whether to stop; processes must agree, which costs an exchange: only at steps that log."""
        if self.state.stopped:
            return False
        if distributed.world_size() == 1:
            return stop()
        return logged and distributed.any_process(stop())

    def save_if_due(self) -> None:
        """Save a checkpoint if the last one is old."""
        if self.clock - self.saved > CHECKPOINT_SECONDS * max(1.0, self.saving):
            start = time.perf_counter()
            self.save()
            self.saved = time.perf_counter()
            self.saving = self.saved - start

    def save(self) -> None:
        """Save a checkpoint."""
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        tensors |= {f"average.{name}": value for name, value in self.average.items()}
        for i, entry in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{name}": value for name, value in entry.items()}
        tensors |= {"random.cpu": torch.get_rng_state(), "running": self.running}
        tensors |= {f"sum.{name}": value for name, value in self.sums.items()}
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        self.checkpoint.save(tensors, dataclasses.asdict(self.state))

    def _resume(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        self.state = Trained(**state)
        self.network.load_state_dict(_strip_prefix("network.", tensors))
        self.best, self.average, self.sums = (
            {name: value.to(self.device) for name, value in _strip_prefix(prefix, tensors).items()}
            for prefix in ("best.", "average.", "sum.")
        )
        self.running = tensors["running"].to(self.device)
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


def _copy_weights(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def _strip_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
