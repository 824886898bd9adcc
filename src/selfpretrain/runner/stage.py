"""Train, test and publish one stage of a recipe, here or in another process (Ray, Slurm)."""

import contextlib
import json
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from ..config import to_dict
from ..errors import (
    DoesNotFit,
    Interrupted,
    SelfPretrainError,
    SpecError,
    StageFailed,
    StoreError,
    first_line,
)
from ..registry import name_of
from ..report.stage_results import RESTORED
from ..system import distributed
from ..system.events import Event, emit
from ..system.files import FORMAT, Json, digest_of, explain_errors, write_text
from ..system.hardware import environment, share_gpu, torch_restored
from ..system.startup import catch_signals, keep_memory
from ..training import code_hash, cost, evaluate
from ..training.memory import LESS_MEMORY, saved_memory
from ..training.recipe import (
    Recipe,
    build_network,
    foreign_modules,
    identity,
    measured,
    stage_id,
    training_data,
)
from ..training.train import Checkpoint, Trained, never, prepare_training, train
from ..training.transfer import TransferResult, transfer_weights
from .plan import PlannedStage, plan_recipes, read_result
from .run_dir import (
    CHECKPOINT,
    ERROR,
    LOG,
    PREDICTIONS,
    RESULT,
    SOURCES,
    WEIGHTS,
    Log,
    RunDir,
    explain_damage,
)
from .workspace import Workspace

ONE_THREAD_BELOW = 5_000_000
"""Parameter count below which a second CPU thread costs more than it gains."""
Outcome = tuple[str, str]
"""How a stage ended (done, failed, unfit, stopped or lost), and why: strings, for any process to read."""
MACHINE_PARTS = ("results", "data", "source", "checkpoint")
"""Parts of a recipe's identity that depend on the machine, the last if it has one."""


def run(recipe: Recipe, workspace: Workspace) -> Path:
    """Run all stages of a recipe that are not on disk yet, and return the folder of the last, tested one."""
    stages = plan_recipes([recipe])
    for stage in stages:
        run_stage(stage, workspace)
    return workspace.folder(stages[-1].id).path


@torch_restored()
def run_stage(stage: PlannedStage, workspace: Workspace) -> None:
    """Train and test a stage unless it is on disk, and publish it by one rename; its parent must be there.

    Raises:
        Interrupted: if asked to stop; the stage resumes from its checkpoint next time.
        StageFailed: if an unexpected error occurred; the traceback is in the stage's folder.
        DoesNotFit: if the GPU has too little memory.
    """
    folder = workspace.folder(stage.id)
    result = None
    reused = False
    while result is None:
        with _attempt(folder, workspace, lambda: is_complete(folder, stage)) as attempt:
            emit(Event("start", stage.id))
            if attempt is None:
                result = read_result(stage, folder)
                reused = True
                break
            try:
                run = StageRun(stage, workspace, attempt)
                if not run.trained:
                    with contextlib.closing(StageCheckpoint(attempt)) as checkpoint:
                        run.save(train(**run.arguments(), checkpoint=checkpoint, log=checkpoint.log))
                run.test()
                result = run.publish()
            except Interrupted:
                raise
            except Exception as error:
                if distributed.world_size() > 1 or attempt.path.exists():
                    reason = _failure(error, attempt)
                    raise reason from (None if reason is error else error)
                # Another machine has taken over: wait for it, then read its result.
                emit(Event("lost", stage.id))
    emit(Event("end", stage.id, 1.0, 1.0, {"reused": reused, "step": result["steps"]} | result["scores"]))


@contextlib.contextmanager
def _attempt(stage: RunDir, workspace: Workspace, done: Callable[[], bool]) -> Iterator[RunDir | None]:
    """Yield the folder to train in, the same for all processes of torchrun; None if the stage is complete."""
    if not distributed.is_main():
        (path,) = distributed.broadcast([""])
        yield RunDir(Path(path)) if path else None
        return
    with stage.attempt(done, workspace.stop) as own:
        distributed.broadcast([str(own.path) if own else ""])
        yield own


def is_complete(folder: RunDir, stage: PlannedStage) -> bool:
    """Return whether a stage has finished, with the test scores and the weights that are required.

    Bundled results have no weights, so a stage that another one starts from is trained again.
    """
    if not folder.finished or (stage.starts and not folder.has(WEIGHTS)):
        return False
    return not stage.tested or "test" in folder.read(RESULT).get("scores", {})


def _failure(error: Exception, attempt: RunDir) -> SelfPretrainError:
    """Write the reason of a failure to the attempt's folder, and return a one-line error."""
    trace = attempt.path / ERROR
    text = f"{error}\n" if isinstance(error, SelfPretrainError) else traceback.format_exc()
    with contextlib.suppress(StoreError):  # e.g. the disk is full
        write_text(trace, text)
    if isinstance(error, SelfPretrainError):
        return error
    if isinstance(error, torch.OutOfMemoryError):
        traceback.clear_frames(error.__traceback__)  # they hold tensors, and the next stage needs the memory
        return DoesNotFit(f"{attempt.name}: the GPU ran out of memory; {LESS_MEMORY}")
    return StageFailed(f"{attempt.name}: {first_line(error)} (the traceback is in {trace})")


class StageRun:
    """One attempt at a stage: its examples and network, and the files that it leaves in a folder."""

    def __init__(self, stage: PlannedStage, workspace: Workspace, folder: RunDir) -> None:
        self.stage = stage
        self.workspace = workspace
        self.folder = folder
        self.main = distributed.is_main()
        if self.main and folder.finished and not folder.has(WEIGHTS):  # a bundled result: train again
            folder.drop(RESULT)
            folder.drop(RESTORED)
        self.examples = training_data(stage.recipe)
        self.recipe = measured(stage.recipe, self.examples)
        self.network = build_network(stage.recipe)
        self.transferred: TransferResult | None = None
        self.result: Json = {}
        self.trained = distributed.any_process(self.main and folder.finished)
        if self.trained:
            self.result = read_result(stage, folder)
            weights, _ = folder.load(WEIGHTS, self.result.get("weights", ""))
            with explain_damage(folder, WEIGHTS):
                self.network.load_state_dict(weights)
        elif stage.parent is not None:
            parent = workspace.folder(stage.parent)
            weights, _ = parent.load(WEIGHTS, parent.read(RESULT).get("weights", ""))
            self.transferred = transfer_weights(weights, self.network, self.recipe.last.transfer)
        self.network.to(workspace.device)

    @cached_property
    def cost(self) -> cost.Cost:
        """Return the steps and FLOPs, as planned."""
        return self.stage.cost or cost.plan(self.stage.recipe)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of ``train``, after writing recipe, environment and foreign source."""
        recipe = self.recipe
        device = self.workspace.device
        torch.set_num_threads(self.workspace.threads if self.cost.parameters > ONE_THREAD_BELOW else 1)
        stage, data, said = prepare_training(recipe, self.network, self.examples, self.cost.steps, device)
        if said:
            emit(Event("memory", self.stage.id, numbers={"said": said}))
        saving = saved_memory(recipe.last, stage)
        if self.main:
            plain = to_dict(self.stage.recipe)
            self.folder.write("recipe.json", {"format": FORMAT} | plain)
            place = environment(device) | recipe.model.mixer.libraries(device)
            self.folder.write("environment.json", place | ({"memory saved by": saving} if saving else {}))
            if modules := foreign_modules(plain):
                sources = {module: code_hash.source_of(module) for module in modules}
                self.folder.write(SOURCES, {"format": FORMAT, "modules": sources})
        return {
            "stage": stage,
            "network": self.network,
            "data": data,
            "seed": recipe.seed,
            "number": len(recipe.stages),
            "slow": recipe.model.mixer.slow(),
            "stop": self.workspace.stop,
        }

    def save(self, trained: Trained) -> None:
        """Write the weights and the result without test scores."""
        last = self.recipe.last
        digest = examples_digest(self.examples.digests())
        self.result = {
            "format": FORMAT,
            "fingerprint": self.stage.id.rpartition("-")[2],
            "recipe": to_dict(self.stage.recipe),
            "objective": name_of(last.objective),
            "steps": trained.step,
            "epochs": trained.step / self.cost.per_epoch,
            "best_step": trained.best_step,
            "stopped": trained.stopped,
            "cost": {
                "parameters": self.cost.parameters,
                "flops": self.cost.flops_per_step * trained.step,
                "seconds": round(trained.seconds, 3),
                "padding": self.cost.padding,
                "examples": trained.step * last.batch,
            },
            "scores": {"val": trained.scores},
            "transfer": to_dict(self.transferred),
            "data": {"split": "train", "rows": len(self.examples), "sha256": digest},
        }
        if self.main:
            self.result["weights"] = self.folder.save(WEIGHTS, self.network.state_dict())
            self.result["files"] = {LOG: digest_of((self.folder.path / LOG).read_bytes())}
            self.folder.write(RESULT, self.result)
            self.folder.drop(CHECKPOINT)

    def test(self) -> None:
        """Score the training examples and, this once, the test split, if the stage is to be tested."""
        if not self.stage.tested or "test" in self.result["scores"]:
            return
        tested = evaluate.test(self.network, self.recipe)
        trained = evaluate.score_training_data(self.network, self.recipe, self.examples)
        self.result["scores"] |= {"train": trained.scores, "test": tested.scores}
        if self.main:
            if arrays := tested.arrays():
                self.result.setdefault("files", {})[PREDICTIONS] = self.folder.save(PREDICTIONS, arrays)
            self.folder.write(RESULT, self.result)

    def publish(self) -> Json:
        """Rename the folder to that of the stage, and return the result."""
        distributed.barrier()
        if self.main:
            self.folder.publish()
        distributed.barrier()  # the next stage loads the published weights
        return self.result


class StageCheckpoint(Checkpoint):
    """The checkpoint and the log of a stage, in the folder of an attempt; only the first process writes."""

    def __init__(self, folder: RunDir) -> None:
        self.folder = folder
        self._log: Log | None = None

    def load(self) -> tuple[dict[str, torch.Tensor], Json] | None:
        """Return what was saved last, after cutting the log back to what it was then."""
        size = 0
        saved = None
        if self.folder.has(CHECKPOINT):
            tensors, state = self.folder.load(CHECKPOINT)
            with self.explain_damage():
                if state.pop("stage") != self.folder.name:
                    raise ValueError("it is of another stage")
                size = int(state.pop("log"))
            saved = tensors, state
        if distributed.is_main():
            self._log = Log(self.folder.path / LOG, size)
        return saved

    def save(self, tensors: Mapping[str, torch.Tensor], state: Json) -> None:
        """Save tensors and state; the log is on disk before a checkpoint that refers to its size."""
        if self._log is not None:
            place = {"stage": self.folder.name, "log": self._log.sync()}
            self.folder.save(CHECKPOINT, tensors, state | place)

    def log(self, kind: str, progress: float, numbers: Json) -> None:
        """Append a line to the log, and send it to displays and trackers."""
        if self._log is not None:
            self._log.write({"kind": kind} | numbers)
            emit(Event(kind, self.folder.name, progress, 1.0, numbers))

    def explain_damage(self) -> contextlib.AbstractContextManager[None]:
        """Turn errors in the content of a checkpoint into one line that names the file."""
        return explain_damage(self.folder, CHECKPOINT)

    def close(self) -> None:
        """Flush the log to disk, and close it."""
        if self._log is not None:
            self._log.sync()
            self._log.close()


def examples_digest(digests: list[str]) -> str:
    """Return one hash for a set of training examples from their hashes, independent of order."""
    return digest_of("\n".join(sorted(digests)).encode())


@dataclass(frozen=True)
class RemoteStage:
    """A stage to run in another process, with the identity that it has where it was planned."""

    stage: PlannedStage
    workspace: Workspace
    identity: Json  # versions of numerics and data, hashes of modules from other packages

    @classmethod
    def of(cls, stage: PlannedStage, workspace: Workspace) -> "RemoteStage":
        """Return the stage with an absolute runs folder, on a GPU if the executor's settings ask for one."""
        remote = replace(
            workspace,
            runs=workspace.runs.absolute(),
            device=workspace.stage_device,
            threads=max(1, int(workspace.number("cpus", 1.0))),
            stop=never,
            trackers=(),
            executor="serial",
        )
        parts = identity(stage.recipe)
        return cls(stage, remote, {name: parts[name] for name in MACHINE_PARTS if name in parts})

    def run(self, stop: Callable[[], bool] = never) -> Outcome:
        """Run the stage if it has the same identity here, until a signal or ``stop`` asks to stop."""
        keep_memory()
        if gpus := self.workspace.number("gpus", 0.0):
            share_gpu(max(1, int(1 / gpus)))
        try:
            with catch_signals() as stop_requested:
                if stage_id(self.stage.recipe) != self.stage.id:
                    why = "; ".join(_differences(self.stage.recipe, self.identity)) or "another version"
                    raise SpecError(f"{self.stage.id} would be another stage here: {why}")
                workspace = replace(self.workspace, stop=lambda: stop_requested() or stop())
                run_stage(self.stage, workspace)
        except Interrupted as error:
            return "stopped", str(error)
        except SelfPretrainError as error:
            return "unfit" if isinstance(error, DoesNotFit) else "failed", str(error)
        return "done", ""


def run_remote(stage: RemoteStage) -> Outcome:
    """Run a stage until a signal asks to stop."""
    return stage.run()


def replay(stage: RunDir) -> None:
    """Replay log and scores of a finished stage as events in this process, for its trackers and displays.

    Raises:
        StoreError: if the stage has not finished, or is damaged.
    """
    result = stage.read(RESULT)
    path = stage.path / LOG
    emit(Event("start", stage.name))
    with explain_damage(stage, LOG), explain_errors(path, "read"):
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        events = [json.loads(line) for line in lines]
        kinds = [event.pop("kind") for event in events]
    total = max(1, int(result["steps"]))
    for kind, event in zip(kinds, events, strict=True):
        emit(Event(kind, stage.name, min(1.0, event.get("step", 0) / total), 1.0, event))
    emit(Event("end", stage.name, 1.0, 1.0, {"reused": False, "step": result["steps"]} | result["scores"]))


def _differences(recipe: Recipe, planned: Json) -> Iterator[str]:
    """Yield how numerics, data and modules differ from those where the stage was planned."""
    here = identity(recipe)
    if here["results"] != planned["results"]:
        yield (
            f"selfpretrain here is of numerics {here['results']}, where it was planned of "
            f"{planned['results']}; install the same version"
        )
    tasks = [recipe.task, *map(recipe.task_of, recipe.stages)]
    versions = zip(tasks, here["data"], planned["data"], strict=True)
    yield from dict.fromkeys(
        f"data of {name_of(task)} are version {ours or 'unknown'} here, {theirs or 'unknown'} there"
        for task, ours, theirs in versions
        if ours != theirs
    )
    for module in sorted(here["source"].keys() | planned["source"].keys()):
        if here["source"].get(module) != planned["source"].get(module):
            yield f"{module}.py is another file here than where it was planned"
    if here.get("checkpoint") != planned.get("checkpoint"):
        yield f"the checkpoint of {name_of(recipe.model.mixer)} is another one here, or not on this machine"
