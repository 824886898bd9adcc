"""Synthetic folders of experiments, as training would leave them, without training."""

import itertools
import json
from dataclasses import asdict, dataclass, field

import numpy as np
import pytest
from safetensors.numpy import save_file

from selfpretrain.report import page, paper_numbers
from selfpretrain.report.paper_numbers import PaperNumber
from selfpretrain.system.files import SEAL, json_bytes, write_json

COLUMNS = ("scratch", "scratch (matched)", "SPT")
PRETRAIN_STEPS, STEPS = 400, 600


@dataclass(frozen=True)
class Scene:
    """A study to be made up: true test score of every row in the three columns, and what is odd about it."""

    rows: dict[str, tuple[float, float, float]] = field(
        default_factory=lambda: {"attention": (0.60, 0.61, 0.72), "s4d": (0.70, 0.705, 0.71)}
    )
    seeds: int = 3
    kind: str = "classes"
    test: int = 1600
    noise: float = 0.01  # standard deviation of the true score between seeds
    missing: frozenset[tuple[str, str, int]] = frozenset()
    predictions: bool = True
    groups: int = 0  # of test examples that are no independent evidence; 0: all are
    baselines: dict[str, float] = field(
        default_factory=lambda: {"byte n-grams + logistic regression": 0.536, "majority class": 0.14}
    )
    notes: tuple[str, ...] = ("All arms were tuned on the same grid of 3 learning rates, with one seed.",)
    title: str = "Does self-pretraining beat training from scratch?"
    task: str = ""  # where several tasks are made up below one folder
    label: str = ""  # what a paper calls the task
    reported: dict[tuple[str, str], PaperNumber] = field(default_factory=dict)  # by row and column


MEASURE = {
    "title": "Attention distance", "x": "block", "y": "positions",
    "series": [{"label": "before", "x": [0, 1], "y": [3.2, 4.1]}],
}  # fmt: skip
PAPER = "toy2024"
"""A paper that reports what the tests need, under the name of a real one."""


@pytest.fixture
def make(tmp_path):
    """Write an experiment on one or several tasks below a folder of runs; its folder."""
    return lambda *scenes, **changes: write_experiment(tmp_path / "runs", scenes, changes)


@pytest.fixture(scope="session")
def scene():
    """The description of a task of an experiment to be made up."""
    return Scene


@pytest.fixture(scope="module")
def paper():
    """A paper that reports numbers as a test wants them."""
    count = itertools.count()

    def reported(row, value, unit="%", remark=""):
        return PaperNumber(PAPER, "Table 8", row, f"Image {next(count)} %", value, unit, remark)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(paper_numbers.PAPERS, PAPER, "Amos et al. (2024)")
        yield reported


@pytest.fixture(scope="module")
def whole(tmp_path_factory, paper, drawing):
    """Two tasks with other metrics, six seeds, numbers of a paper, two missing cells; with its pages."""
    rows = {"attention": (0.60, 0.61, 0.72), "s4d": (0.70, 0.705, 0.71)}
    of_paper = {
        ("attention", "SPT"): paper("Transformer", 84.95),
        ("s4d", "SPT"): paper("S4", 0.8772, "", "as a fraction"),
        ("s4d", "scratch"): paper("S4", None, "", "did not learn"),
    }
    missing = frozenset({("attention", "SPT", 3), ("attention", "SPT", 5)})
    first = Scene(rows, seeds=6, task="digits", label="Image", reported=of_paper, missing=missing, test=300)
    breaths = {("s4d", "SPT"): paper("S4", 1.31, "breaths")}
    second = Scene(
        rows, seeds=6, kind="reals", task="bidmc", label="BIDMC", baselines={}, test=200, reported=breaths
    )
    folder = write_experiment(tmp_path_factory.mktemp("runs"), [first, second], {"measures": [MEASURE]})
    with drawing():
        page.write(folder)
    return folder


def write_experiment(runs, scenes, changes):
    """An experiment of one task is a comparison, one of several a study."""
    design = changes.pop("design", None)
    tasks = [_write_task(runs, scene) | {"design": design} for scene in scenes]
    alone = {"name": "compare", "title": scenes[0].title, "scale": "small", "about": {}}
    several = {
        "name": "toy-table", "title": "Is it better?", "scale": "small", "figure": "bars",
        "about": {"Question": "Is *it*?", "What differs": "All of it.", "Expected": "Yes."},
        "interpretation": "It is, a **little**.", "asked": 9, "different": 7,
    }  # fmt: skip
    names = ",".join(task["card"]["name"] for task in tasks)
    command = f"selfpretrain compare {names} --mixers {','.join(scenes[0].rows)} --seeds {scenes[0].seeds}"
    content = {
        "format": 3, "version": "0.1.0", "created": "2026-11-21T10:00:00+00:00", "command": command,
        "tasks": tasks,
    } | (alone if len(scenes) == 1 and "name" not in changes else several) | changes  # fmt: skip
    lone = f"compare-{names}-1a2b3c4d5e"
    folder = runs / (lone if content["name"] == "compare" else f"{content['name']}-{content['scale']}")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "study.json", content)
    return folder


def _write_task(runs, scene):
    """The stages of all cells; and the task as study.json has it."""
    cells = [
        {"row": row, "column": column, "seed": seed, "folders": _stages(scene.task, row, column, seed)}
        for row in scene.rows
        for column in COLUMNS
        for seed in range(scene.seeds)
    ]
    for cell in cells:
        number = scene.reported.get((cell["row"], cell["column"]))
        cell["reported"] = number and asdict(number)
        if (cell["row"], cell["column"], cell["seed"]) not in scene.missing:
            _write_cell(runs, scene, cell)
    return _task_of(scene, cells)


def _task(scene):
    return scene.task or ("stdlib" if scene.kind == "classes" else "gearbox")


def _stages(task, row, column, seed):
    tag = f"{task or 'toy'}-{row}-{column.replace(' (', '-').replace(')', '')}-{seed}"
    scored = f"stages/{tag}-classify"
    return [f"stages/{tag}-masked", scored] if column == "SPT" else [scored]


def _task_of(scene, cells):
    classes = scene.kind == "classes"
    task = {
        "name": _task(scene),
        "about": "Which part of the standard library does a line of code come from?"
        if classes
        else "How much is left of a gearbox's life, from its vibration?",
        "source": "Python 3.11 standard library",
        "licence": "PSF-2.0",
        "signal": "tokens, 256 symbols" if classes else "values, 2 channels",
        "length": 64,
        "target": "8 classes" if classes else "one real number, hours",
        "kind": scene.kind,
        "train": 2000,
        "val": 800,
        "test": scene.test,
        "labelled": 2000,
        "chance": 0.125 if classes else None,
        "overlap": {"train/val": 0, "train/test": 0, "val/test": 0},
    }
    metric = (
        {"name": "accuracy", "unit": "%", "factor": 100, "digits": 1, "tie": 0.01}
        if classes
        else {"name": "r2", "unit": "", "factor": 1, "digits": 3, "tie": 0.01}
    )
    return {
        "name": scene.label or task["name"],
        "card": task,
        "metric": metric,
        "baselines": scene.baselines,
        "contrasts": [["SPT", "scratch (matched)"], ["SPT", "scratch"]],
        "cells": cells,
        "notes": list(scene.notes),
    }


def _write_cell(runs, scene, cell):
    at = COLUMNS.index(cell["column"])
    rows = list(scene.rows)
    random = np.random.default_rng([rows.index(cell["row"]), at, cell["seed"]])
    truth = scene.rows[cell["row"]][at] + scene.noise * random.standard_normal()
    prediction, target = (_classes if scene.kind == "classes" else _reals)(scene.test, truth, random)
    scores = _scores(scene.kind, prediction, target)
    width = 84232 + 5100 * rows.index(cell["row"])
    if len(cell["folders"]) == 2:
        cost = _cost(width, 0.9e12, 21.4 + cell["seed"])
        scores_of_it = {"val": {"score": -1.3, "loss": 1.3}}
        _write_stage(runs / cell["folders"][0], "masked", scores_of_it, cost, PRETRAIN_STEPS)
    flops, steps = (2.3e12, 1000) if cell["column"] == "scratch (matched)" else (1.4e12, STEPS)
    folder = runs / cell["folders"][-1]
    test = {"val": {**scores, "score": scores["score"] + 0.01}, "test": scores}
    _write_stage(folder, "classify", test, _cost(width, flops, 31.2 + cell["seed"]), steps)
    _write_log(folder, scores["score"], steps, 0.1 if at < 2 else 0.35, random)
    if scene.predictions:
        answers = {"prediction": prediction, "target": target}
        if scene.groups:
            answers["cluster"] = np.arange(len(target)) % scene.groups
        save_file(answers, folder / "predictions.safetensors")


def _classes(n, accuracy, random):
    """Easy examples are easy for every run: difficulty is a property of the example."""
    common = np.random.default_rng(99)
    target, ease = common.integers(0, 8, n), common.normal(0, 1, n)
    logit = np.log(accuracy / (1 - accuracy))
    right = random.random(n) < 1 / (1 + np.exp(-(logit * 1.3 + ease)))
    return np.where(right, target, (target + 1) % 8).astype(np.int64), target.astype(np.int64)


def _reals(n, r2, random):
    common = np.random.default_rng(99)
    target = common.normal(50, 12, n)
    error = 0.7 * common.normal(0, 1, n) + 0.3 * random.normal(0, 1, n)
    error *= 12 * np.sqrt(max(1 - r2, 0.0)) / error.std()
    return (target + error).astype(np.float32), target.astype(np.float32)


def _scores(kind, prediction, target):
    if kind == "classes":
        accuracy = float((prediction == target).mean())
        return {"score": accuracy, "accuracy": accuracy, "loss": 1.5 * (1 - accuracy) + 0.4}
    error = target.astype(np.float64) - prediction
    r2 = 1 - float((error**2).sum() / ((target - target.mean(dtype=np.float64)) ** 2).sum())
    return {
        "score": r2,
        "r2": r2,
        "mae": float(np.abs(error).mean()),
        "rmse": float(np.sqrt((error**2).mean())),
    }


def _cost(parameters, flops, seconds):
    return {"parameters": parameters, "flops": flops, "seconds": seconds, "padding": 0.03, "examples": 19200}


def _write_stage(folder, objective, scores, cost, steps):
    folder.mkdir(parents=True, exist_ok=True)
    result = {
        "format": 1, "fingerprint": folder.name, "recipe": {"is": "selfpretrain.training.recipe:Recipe"},
        "objective": objective, "scores": scores, "steps": steps, "epochs": round(steps * 32 / 2000, 1),
        "best_step": int(steps * 0.7), "stopped": "budget", "cost": cost, "transfer": None,
        "data": {"split": "train", "rows": 2000, "sha256": "0" * 64},
    }  # fmt: skip
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "recipe.json").write_text(json.dumps({"format": 1} | result["recipe"]))
    environment = {
        "python": "3.11.7", "torch": "2.13.0+cpu", "numpy": "2.4.6", "selfpretrain": "0.1.0",
        "platform": "Linux-6.1-x86_64-with-glibc2.36", "processor": "x86_64", "device": "cpu", "threads": 1,
        "git": {"commit": "0123456789abcdef0123456789abcdef01234567", "dirty": False},
    }  # fmt: skip
    (folder / "environment.json").write_text(json.dumps(environment))


def _write_log(folder, end, steps, start, random):
    lines = []
    for step in range(steps // 20, steps + 1, steps // 20):
        epoch = step / 62
        share = 1 - np.exp(-4 * step / steps)
        score = start + (end - start) * share + 0.006 * random.standard_normal()
        lines.append(
            {"kind": "train", "step": step, "epoch": epoch, "loss": 2 - score, "lr": 1e-3, "seconds": 1}
        )
        lines.append(
            {"kind": "val", "step": step, "epoch": epoch, "score": score, "loss": 2 - score, "seconds": 1}
        )
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def edit(path, change):
    """Change a JSON file in place; one with a digest gets another."""
    content = json.loads(path.read_text())
    change(content)
    path.write_bytes(json_bytes(content) if SEAL in content else json.dumps(content).encode())


@pytest.fixture(name="edit")
def edit_fixture():
    """Change a JSON file in place."""
    return edit
