"""Try settings on validation, one line of text each, and keep what came out: no line is tried twice.

    python experiments/trials.py trials.txt docs/log.tsv [--runs FOLDER] [--data-root FOLDER]

A line of the first file names a task, a mixer, an arm (``selfpretrain list arms``, or pretrain, which is the
first stage of spt alone), and settings as ``selfpretrain compare -s`` takes them; ``arm.members=3`` changes
the arm itself, and ``objective=causal``, ``seed=1001`` and ``start=0.5,0.1`` (the spread of the first vectors
of symbols and of positions) are settings, too:

    paths attention spt objective=masked task.size=10 model.depth=3 pretrain.budget.steps=2000
    paths attention ensemble objective=causal arm.decay=10 scratch.optim.lr=1e-3

The test split is not read. Times are seconds of one thread.
"""

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from selfpretrain.config import with_setting
from selfpretrain.objectives.base import Denoise
from selfpretrain.registry import find
from selfpretrain.runner.plan import plan_recipes
from selfpretrain.runner.run_dir import WEIGHTS
from selfpretrain.runner.stage import run_stage
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.recipes.defaults import denoising_objective, small_arms
from selfpretrain.training import evaluate, model
from selfpretrain.training.recipe import Recipe, Stage, build_network, training_data

SEED = 1_000
"""No report uses it."""
USUAL = (model.SYMBOL_STD, model.POSITION_STD)
COLUMNS = ("trial", "model", "stages", "parameters", "denoising loss", "train", "val", "best step", "seconds")


def recipe(line: str) -> Recipe:
    """What a line asks for."""
    name, mixer, arm_name, *words = line.split()
    settings = {key: text for key, text in map(parted, words) if key != "start"}
    objective, seed = settings.pop("objective", "masked"), int(settings.pop("seed", SEED))
    task = find("tasks", name)()
    arm = find("arms", "spt" if arm_name == "pretrain" else arm_name)()
    task, arm = changed(task, "task", settings), changed(arm, "arm", settings)
    arms = small_arms(task, find("mixers", mixer)(), denoising_objective(task, objective))
    for path, text in settings.items():
        if path.partition(".")[0] not in ("task", "arm"):
            arms = arms.with_setting(path, text)
    if reason := arm.refusal(task, arms):
        sys.exit(f"error: {line}: {reason}")
    whole = replace(arm.recipe(task, arms), seed=seed)
    return whole.upto(0) if arm_name == "pretrain" else whole


def changed(spec: Any, word: str, settings: dict[str, str]) -> Any:
    """A task or an arm with the settings whose path begins with a word."""
    for path, text in settings.items():
        if path.startswith(f"{word}."):
            spec = with_setting(spec, path.removeprefix(f"{word}."), text)
    return spec


def parted(word: str) -> tuple[str, str]:
    """A setting and its value."""
    key, _, text = word.partition("=")
    return key, text


def started(line: str, runs: Path) -> Path:
    """Let networks start as a line asks for; the folder of runs that start so."""
    asked = dict(map(parted, line.split())).get("start", "")
    spreads = map(float, asked.split(",")) if asked else USUAL
    model.SYMBOL_STD, model.POSITION_STD = spreads
    return runs / f"start-{asked}" if asked else runs


def tried(line: str, runs: Path) -> list[str]:
    """Run what a line asks for; one text for each of ``COLUMNS``."""
    workspace, asked = Workspace.of(started(line, runs), "cpu", "1"), recipe(line)
    begun, parts = time.process_time(), []
    for stage in plan_recipes([asked], tested=False):
        run_stage(replace(stage, starts=True), workspace)  # the weights of the last one are kept, too
        parts.append(workspace.folder(stage.id).read("result.json"))
    network = build_network(asked)
    network.load_state_dict(workspace.stage(asked).load(WEIGHTS)[0])
    train, val = (
        evaluate.score_training_data(network, asked, training_data(asked)).scores["score"],
        parts[-1]["scores"]["val"]["score"],
    )
    net = asked.model
    shape = f"{net.width}x{net.depth} expand {net.expand} {net.encoding} dropout {net.dropout:g}"
    denoised = isinstance(asked.stages[0].objective, Denoise)
    loss = f"{parts[0]['scores']['val']['loss']:.4f}" if denoised else ""
    figures = f"{parts[-1]['cost']['parameters']}", loss, f"{train:.4f}", f"{val:.4f}"
    steps = zip(asked.stages, parts, strict=True)
    words = "; ".join(f"{part['steps']} steps {stage_words(stage)}" for stage, part in steps)
    spent = time.process_time() - begun
    return [line, shape, words, *figures, f"{parts[-1]['best_step']}", f"{spent:.0f}"]


def stage_words(stage: Stage) -> str:
    """How a stage is trained."""
    optim = stage.optim
    return f"of {stage.batch} at {optim.lr:g} decay {optim.weight_decay:g} {stage.objective}"


def main() -> None:
    """Try what has not been tried."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trials", type=Path)
    parser.add_argument("log", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs/trials"))
    parser.add_argument("--data-root")
    flags = parser.parse_args()
    if flags.data_root:
        os.environ["SELFPRETRAIN_DATA"] = flags.data_root
    torch.set_num_threads(1)
    if not flags.log.exists():
        flags.log.write_text("\t".join(COLUMNS) + "\n", encoding="utf-8")
    for line in map(" ".join, map(str.split, flags.trials.read_text(encoding="utf-8").splitlines())):
        known = {row.split("\t")[0] for row in flags.log.read_text(encoding="utf-8").splitlines()}
        if not line or line.startswith("#") or line in known:
            continue
        with flags.log.open("a", encoding="utf-8") as log:
            log.write("\t".join(tried(line, flags.runs)) + "\n")


if __name__ == "__main__":
    main()
