"""Train, test and publish one stage of a recipe, here or in another process (Ray, Slurm)."""

import contextlib
import hashlib
import json
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ..config import to_dict
from ..errors import Interrupted, SelfPretrainError, SpecError, StageFailed, StoreError, first_line
from ..registry import name_of
from ..system import distributed
from ..system.events import Event, emit
from ..system.files import FORMAT, Json, digest_of, explain_errors, write_text
from ..system.hardware import environment, share_gpu
from ..system.startup import catch_signals, keep_memory
from ..training import code_hash, cost, evaluate
from ..training.model import Network
from ..training.recipe import (
    Recipe,
    build_network,
    fingerprint,
    foreign_modules,
    identity,
    measured,
    training_data,
)
from ..training.run_dir import (
    CHECKPOINT,
    ERROR,
    LOG,
    PREDICTIONS,
    RESULT,
    SOURCES,
    WEIGHTS,
    RunDir,
    explain_damage,
)
from ..training.trainer import State, Trainer, TrainerInputs
from ..training.transfer import TransferResult, freeze, transfer_weights
from .archive import RESTORED
from .plan import Job, read_result
from .workspace import Workspace, never

ONE_THREAD_BELOW = 5_000_000
"""Parameter count below which a second CPU thread costs more than it gains."""
Outcome = tuple[str, str]
"""How a stage ended (done, failed, stopped or lost), and why: strings, readable without this package."""
MACHINE_PARTS = ("results", "data", "source")
"""Parts of a recipe's identity that depend on the machine."""


def run(recipe: Recipe, workspace: Workspace) -> Path:
    """Run all stages of a recipe that are not on disk yet, and return the folder of the last, tested one."""
    for i, prefix in enumerate(recipe.prefixes()):
        last = i == len(recipe.stages) - 1
        run_stage(prefix, workspace, tested=last, starts=not last)
    return workspace.stage(recipe).path


def run_stage(recipe: Recipe, workspace: Workspace, tested: bool, starts: bool) -> None:
    """Run the last stage of a recipe unless it is on disk; its earlier stages must be.

    Args:
        tested: whether to score the test split, once, after training.
        starts: whether another stage starts from its weights; a result without them is trained again.

    Raises:
        Interrupted: if asked to stop; the stage resumes from its checkpoint next time.
        StageFailed: if an unexpected error occurred; the traceback is in the stage's folder.
    """
    stage = workspace.stage(recipe)
    result = None
    reused = False
    while result is None:  # None: another machine took over; wait for it, then read its result
        with _attempt(stage, workspace, lambda: is_complete(stage, tested, starts)) as attempt:
            emit(Event("start", stage.name))
            reused = attempt is None
            result = (
                _run_attempt(recipe, workspace, attempt, tested) if attempt else read_result(recipe, stage)
            )
    emit(Event("end", stage.name, 1.0, 1.0, {"reused": reused} | result["scores"]))


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


def is_complete(stage: RunDir, tested: bool, starts: bool) -> bool:
    """Return whether a stage has finished, with the test scores and the weights that are required.

    Results from an archive have no weights.
    """
    if not stage.finished or (starts and not stage.has(WEIGHTS)):
        return False
    return not tested or "test" in stage.read(RESULT).get("scores", {})


def _run_attempt(recipe: Recipe, workspace: Workspace, attempt: RunDir, tested: bool) -> Json | None:
    """Train, test and publish a stage; return None if another machine has taken over the attempt."""
    try:
        return _train_and_test(recipe, workspace, attempt, tested)
    except Interrupted:
        raise
    except Exception as error:
        if distributed.world_size() == 1 and not attempt.path.exists():
            emit(Event("lost", attempt.name))
            return None
        raise _failure(error, attempt) from error


def _failure(error: Exception, attempt: RunDir) -> SelfPretrainError:
    """Write the reason of a failure to the attempt's folder, and return a one-line error."""
    trace = attempt.path / ERROR
    if isinstance(error, SelfPretrainError):
        with contextlib.suppress(StoreError):  # e.g. the disk is full
            write_text(trace, f"{error}\n")
        return error
    write_text(trace, traceback.format_exc())
    return StageFailed(f"{attempt.name}: {first_line(error)} (the traceback is in {trace})")


def _train_and_test(recipe: Recipe, workspace: Workspace, attempt: RunDir, tested: bool) -> Json:
    if distributed.is_main() and attempt.finished and not attempt.has(WEIGHTS):
        attempt.drop(RESULT)
        attempt.drop(RESTORED)
    trained = distributed.any_process(distributed.is_main() and attempt.finished)
    result = read_result(recipe, attempt) if trained else _train(recipe, workspace, attempt)
    if tested and "test" not in result["scores"]:
        _test(recipe, workspace, attempt, result)
    distributed.barrier()
    if distributed.is_main():
        attempt.publish()
    distributed.barrier()  # the next stage loads the published weights
    return result


def _train(recipe: Recipe, workspace: Workspace, folder: RunDir) -> Json:
    if distributed.is_main():
        plain = to_dict(recipe)
        folder.write("recipe.json", {"format": FORMAT} | plain)
        libraries = recipe.model.mixer.libraries(workspace.device)
        folder.write("environment.json", environment(workspace.device) | libraries)
        if modules := foreign_modules(plain):
            sources = {module: code_hash.source_of(module) for module in modules}
            folder.write(SOURCES, {"format": FORMAT, "modules": sources})
    plan = cost.plan(recipe)
    torch.set_num_threads(workspace.threads if plan.parameters > ONE_THREAD_BELOW else 1)
    network, moved = _initial_network(recipe, workspace)
    data = training_data(recipe)
    recipe = measured(recipe, data)
    digest = examples_digest(data.digests())
    if not recipe.last.objective.reads_inputs:
        data = data.preload(workspace.device)
    inputs = TrainerInputs(
        recipe, network, data, evaluate.validation_data(recipe).preload(workspace.device), plan.steps
    )
    state = Trainer(inputs, folder, workspace.stop).run()
    scores = evaluate.validate(network, recipe).scores
    result = _result(recipe, plan, state) | {
        "scores": {"val": scores},
        "transfer": to_dict(moved),
        "data": {"split": "train", "rows": len(data), "sha256": digest},
    }
    if distributed.is_main():
        result["weights"] = folder.save(WEIGHTS, network.state_dict())
        result["files"] = {LOG: digest_of((folder.path / LOG).read_bytes())}
        folder.write("result.json", result)
        folder.drop(CHECKPOINT)
    distributed.barrier()  # all processes read these weights next, for testing
    return result


def _test(recipe: Recipe, workspace: Workspace, folder: RunDir, result: Json) -> None:
    network = build_network(recipe)
    (weights, _) = folder.load(WEIGHTS, result.get("weights", ""))
    with explain_damage(folder, WEIGHTS):
        network.load_state_dict(weights)
    recipe = measured(recipe, training_data(recipe))
    tested = evaluate.test(network.to(workspace.device), recipe)
    result["scores"] |= {"train": evaluate.score_training_data(network, recipe).scores, "test": tested.scores}
    if distributed.is_main():
        arrays: dict[str, torch.Tensor] = {}
        if tested.predictions is not None:
            arrays = {"prediction": tested.predictions.to(tested.targets.dtype), "target": tested.targets}
            if tested.confidence is not None:  # 8 bits are enough for a reliability curve
                arrays["confidence"] = (255 * tested.confidence).round().to(torch.uint8)
        elif tested.shares is not None:
            counts = tested.shares.long().unbind(1)
            arrays = dict(
                zip(("prediction", "asked", "target"), map(torch.Tensor.contiguous, counts), strict=True)
            )
        if arrays:
            arrays |= {} if tested.clusters is None else {"cluster": tested.clusters}
            result.setdefault("files", {})[PREDICTIONS] = folder.save(PREDICTIONS, arrays)
        folder.write("result.json", result)


def _initial_network(recipe: Recipe, workspace: Workspace) -> tuple[Network, TransferResult | None]:
    network = build_network(recipe)
    moved = None
    previous = len(recipe.stages) - 2
    if previous >= 0:
        folder = workspace.stage(recipe.upto(previous))
        weights, _ = folder.load(WEIGHTS, folder.read("result.json").get("weights", ""))
        moved = transfer_weights(weights, network, recipe.last.transfer)
    freeze(network, recipe.last.freeze)
    if not recipe.last.objective.masks_inputs:
        freeze(network, ("*embed.mask_token",))
    return network.to(workspace.device), moved


def _result(recipe: Recipe, plan: cost.Plan, state: State) -> Json:
    return {
        "format": FORMAT,
        "fingerprint": fingerprint(recipe),
        "recipe": to_dict(recipe),
        "objective": name_of(recipe.last.objective),
        "steps": state.step,
        "epochs": state.step / plan.per_epoch,
        "best_step": state.best_step,
        "stopped": state.stopped,
        "cost": {
            "parameters": plan.parameters,
            "flops": plan.flops_per_step * state.step,
            "seconds": round(state.seconds, 3),
            "padding": plan.padding,
            "examples": state.step * recipe.last.batch,
        },
    }


def examples_digest(digests: list[str]) -> str:
    """Return one hash for a set of training examples from their hashes, independent of order."""
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()


@dataclass(frozen=True)
class RemoteStage:
    """A stage to run in another process, with the identity that it has where it was planned."""

    job: Job
    workspace: Workspace
    identity: Json  # versions of numerics and data, hashes of modules from other packages

    @classmethod
    def of(cls, job: Job, workspace: Workspace) -> "RemoteStage":
        """Return the job with an absolute runs folder, on a GPU if the executor's settings ask for one."""
        remote = replace(
            workspace,
            runs=workspace.runs.absolute(),
            device=workspace.stage_device,
            stop=never,
            trackers=(),
            executor="serial",
        )
        parts = identity(job.recipe)
        return cls(job, remote, {name: parts[name] for name in MACHINE_PARTS})

    def run(self, stop: Callable[[], bool] = never) -> Outcome:
        """Run the stage if it has the same identity here, until a signal or ``stop`` asks to stop."""
        keep_memory()
        if gpus := self.workspace.number("gpus", 0.0):
            share_gpu(max(1, int(1 / gpus)))
        try:
            with catch_signals() as stop_requested:
                self._check()
                workspace = replace(self.workspace, stop=lambda: stop_requested() or stop())
                run_stage(self.job.recipe, workspace, self.job.tested, self.job.starts)
        except Interrupted as error:
            return "stopped", str(error)
        except SelfPretrainError as error:
            return "failed", str(error)
        return "done", ""

    def _check(self) -> None:
        name = self.workspace.stage(self.job.recipe).name
        if name != self.job.name:
            differences = "; ".join(_differences(self.job.recipe, self.identity))
            raise SpecError(
                f"{self.job.name} would be another stage here: {differences or 'another version'}"
            )


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
    with explain_errors(path, "read"):
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    total = max(1, int(result["steps"]))
    for line in map(json.loads, lines):
        kind = line.pop("kind")
        emit(Event(kind, stage.name, min(1.0, line.get("step", 0) / total), 1.0, line))
    emit(Event("end", stage.name, 1.0, 1.0, {"reused": False} | result["scores"]))


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
