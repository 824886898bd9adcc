"""Train, test and publish one stage of a recipe."""

import contextlib
import hashlib
import traceback
from collections.abc import Iterator
from pathlib import Path

import torch

from ..config import to_dict
from ..errors import Interrupted, SelfPretrainError, StageFailed, StoreError
from ..registry import name_of
from ..system import distributed
from ..system.events import Event, emit
from ..system.files import FORMAT, Json, digest_of, write_text
from ..system.hardware import environment
from ..training import code_hash, cost, evaluate
from ..training.build import build_network, training_data
from ..training.model import Network
from ..training.recipe import Recipe, fingerprint, foreign_modules
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
from .plan import read_result
from .workspace import Workspace

ONE_THREAD_BELOW = 5_000_000
"""Parameter count below which a second CPU thread costs more than it gains."""


def run(recipe: Recipe, workspace: Workspace) -> Path:
    """Run all stages of a recipe that are not on disk yet, and return the folder of the last, tested one."""
    for i, prefix in enumerate(recipe.prefixes()):
        run_stage(prefix, workspace, tested=i == len(recipe.stages) - 1)
    return workspace.stage(recipe).path


def run_stage(recipe: Recipe, workspace: Workspace, tested: bool) -> None:
    """Run the last stage of a recipe unless it is on disk; its earlier stages must be.

    Args:
        tested: whether to score the test split, once, after training.

    Raises:
        Interrupted: if asked to stop; the stage resumes from its checkpoint next time.
        StageFailed: if an unexpected error occurred; the traceback is in the stage's folder.
    """
    stage = workspace.stage(recipe)
    result = None
    reused = False
    while result is None:  # None: another machine took over; wait for it, then read its result
        with _attempt(stage, workspace, tested) as attempt:
            emit(Event("start", stage.name))
            reused = attempt is None
            result = (
                _run_attempt(recipe, workspace, attempt, tested) if attempt else read_result(recipe, stage)
            )
    emit(Event("end", stage.name, 1.0, 1.0, {"reused": reused} | result["scores"]))


@contextlib.contextmanager
def _attempt(stage: RunDir, workspace: Workspace, tested: bool) -> Iterator[RunDir | None]:
    """Yield the folder to train in, the same for all processes of torchrun; None if the stage is complete."""
    if not distributed.is_main():
        (path,) = distributed.broadcast([""])
        yield RunDir(Path(path)) if path else None
        return
    with stage.attempt(lambda: is_complete(stage, tested), workspace.stop) as own:
        distributed.broadcast([str(own.path) if own else ""])
        yield own


def is_complete(stage: RunDir, tested: bool) -> bool:
    """Return whether a stage has finished and, if required, been tested."""
    return stage.finished and (not tested or "test" in stage.read(RESULT).get("scores", {}))


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
    first_line = (str(error).splitlines() or [""])[0]
    return StageFailed(f"{attempt.name}: {type(error).__name__}: {first_line} (the traceback is in {trace})")


def _train_and_test(recipe: Recipe, workspace: Workspace, attempt: RunDir, tested: bool) -> Json:
    trained = distributed.any_process(attempt.finished)
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
        folder.write("recipe.json", {"format": FORMAT} | to_dict(recipe))
        libraries = recipe.model.mixer.libraries(workspace.device)
        folder.write("environment.json", environment(workspace.device) | libraries)
        if modules := foreign_modules(recipe):
            sources = {module: code_hash.source_of(module) for module in modules}
            folder.write(SOURCES, {"format": FORMAT, "modules": sources})
    plan = cost.plan(recipe)
    torch.set_num_threads(workspace.threads if plan.parameters > ONE_THREAD_BELOW else 1)
    network, moved = _initial_network(recipe, workspace)
    data = training_data(recipe).preload(workspace.device)
    inputs = TrainerInputs(
        recipe, network, data, evaluate.validation_data(recipe).preload(workspace.device), plan.steps
    )
    state = Trainer(inputs, folder, workspace.stop).run()
    scores = evaluate.validate(network, recipe).scores
    result = _result(recipe, plan, state) | {
        "scores": {"val": scores},
        "transfer": to_dict(moved),
        "data": {"split": "train", "rows": len(data), "sha256": examples_digest(data.digests())},
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
