"""The loop: reproducible to the bit, exact after interruption, the same in several processes."""

import functools
import itertools
import json
import math
import os
import shutil
import warnings
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import DEFAULT, Mock

import pytest
import torch
from safetensors.torch import load_file

import several
import torture
import toys
from engines import free_port
from selfpretrain.errors import Interrupted, SpecError, StoreError
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.common.own_network import mixer_of as own
from selfpretrain.mixers.s4d import S4D
from selfpretrain.mixers.window import Window
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.common.joint import Joint
from selfpretrain.objectives.common.masked_inputs import MaskedInputs
from selfpretrain.objectives.latent import Latent
from selfpretrain.objectives.masked import Masked
from selfpretrain.objectives.regress import Regress
from selfpretrain.runner.run_dir import CHECKPOINT, RunDir
from selfpretrain.runner.stage import run
from selfpretrain.runner.workspace import Workspace
from selfpretrain.system import distributed
from selfpretrain.system.events import listen
from selfpretrain.training import evaluate as evaluation
from selfpretrain.training import train as trainer
from selfpretrain.training.model import Model
from selfpretrain.training.optim import Optim
from selfpretrain.training.recipe import Budget, Recipe, Stage, build_network
from selfpretrain.training.train import TrainingData

SPT = Recipe(
    toys.Majority(shortest=20),
    Model(Attention(heads=2), width=16, depth=1, dropout=0.1),
    (Stage(Masked(0.5), Budget(steps=12), evals=3), Stage(Classify(), Budget(steps=15), evals=5)),
)


def weights(folder):
    return load_file(folder / "weights.safetensors")


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def result(folder):
    content = RunDir(folder).read("result.json")
    content["cost"].pop("seconds")
    content["files"].pop("log.jsonl")  # it holds seconds, too
    return content


def lines(folder):
    every = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in every]


class StopAfter:
    """Asks to stop once, after so many steps."""

    def __init__(self, steps):
        self.left = steps

    def __call__(self):
        self.left -= 1
        return self.left == 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Where the recipe has been run; to be read only."""
    toys.settle()
    workspace = Workspace(tmp_path_factory.mktemp("undisturbed"))
    run(SPT, workspace)
    return workspace


def test_the_same_recipe_gives_the_same_bits(undisturbed, tmp_path):
    a = undisturbed.stage(SPT).path
    b, c = (run(replace(SPT, seed=seed), Workspace(tmp_path)) for seed in (0, 1))
    assert equal(weights(a), weights(b)) and not equal(weights(a), weights(c))
    assert result(a) == result(b)
    assert lines(a) == lines(b)


@pytest.mark.parametrize(
    ("mixer", "optim", "average", "objective", "cuts"),
    [
        (Attention(heads=2), Optim(schedule="plateau", wait=1), 0.0, Masked(0.5), [1, 11]),
        (S4D(states=4), Optim(), 0.0, Latent("masked", "features", "sigreg"), [14, 1, 1, 2]),
        (Attention(heads=2), Optim(optimizer="muon"), 0.9, Latent("masked", "average"), [1, 11, 5]),
    ],
)
def test_interrupted_is_the_same_as_undisturbed(tmp_path, mixer, optim, average, objective, cuts):
    stages = tuple(replace(stage, optim=optim, average=average) for stage in SPT.stages)
    stages = (replace(stages[0], objective=objective), *stages[1:])
    recipe = replace(SPT, model=replace(SPT.model, mixer=mixer), stages=stages)
    whole = run(recipe, Workspace(tmp_path / "whole"))
    for cut in cuts:
        with pytest.raises(Interrupted, match="resumes from here"):
            run(recipe, Workspace(tmp_path / "cut", stop=StopAfter(cut)))
    folder = run(recipe, Workspace(tmp_path / "cut"))
    assert equal(weights(folder), weights(whole))
    assert result(folder) == result(whole)
    assert lines(folder) == lines(whole)


def test_a_cut_long_after_the_checkpoint_repeats_what_was_lost(undisturbed, tmp_path):
    """As after SIGKILL: the log is longer than the checkpoint knows, and is cut back."""
    stage = Workspace(tmp_path / "cut").stage(SPT.upto(0))
    with pytest.raises(Interrupted):
        run(SPT, Workspace(tmp_path / "cut", stop=StopAfter(5)))
    (attempt,) = stage.attempts
    kept = (attempt.path / CHECKPOINT).read_bytes()
    with pytest.raises(Interrupted):
        run(SPT, Workspace(tmp_path / "cut", stop=StopAfter(4)))
    (attempt.path / CHECKPOINT).write_bytes(kept)
    assert equal(weights(run(SPT, Workspace(tmp_path / "cut"))), weights(undisturbed.stage(SPT).path))
    assert lines(stage.path) == lines(undisturbed.stage(SPT.upto(0)).path)


def test_an_attempt_that_was_taken_over_is_waited_for(undisturbed, tmp_path):
    """Another machine takes the attempt away in mid-training, and publishes the stage first."""
    recipe = SPT.upto(0)
    elsewhere = undisturbed.stage(recipe).path
    here, told = Workspace(tmp_path / "here").stage(recipe), []

    class TakenAfter(StopAfter):
        def __call__(self):
            if super().__call__():
                (attempt,) = here.attempts
                attempt.path.rename(tmp_path / "taken")
                shutil.copytree(elsewhere, here.path)
                (here.path / "theirs").touch()
            return False

    with listen(told.append):
        folder = run(recipe, Workspace(tmp_path / "here", stop=TakenAfter(5)))
    assert (folder / "theirs").exists()
    assert here.attempts == []
    assert equal(weights(folder), weights(elsewhere))
    assert [event.kind for event in told if event.kind in ("lost", "end")] == ["lost", "end"]
    assert not (tmp_path / "taken" / "result.json").exists()


def lose_a_tensor(folder, tensors, state):
    folder.save(CHECKPOINT, {k: v for k, v in tensors.items() if k != "running"}, state)


def lose_a_field(folder, tensors, state):
    folder.save(CHECKPOINT, tensors, state | {"another": 1})


def reshape(folder, tensors, state):
    folder.save(CHECKPOINT, {k: v[None] for k, v in tensors.items()}, state)


def of_another_stage(folder, tensors, state):
    folder.save(CHECKPOINT, tensors, state | {"stage": "toys-attention-causal-0123456789"})


def cut_off(folder, tensors, state):
    path = folder.path / CHECKPOINT
    path.write_bytes(path.read_bytes()[:-100])


def shorten_the_log(folder, tensors, state):
    (folder.path / "log.jsonl").write_bytes((folder.path / "log.jsonl").read_bytes()[:-3])


HARMS = (lose_a_tensor, lose_a_field, reshape, of_another_stage, cut_off, shorten_the_log)


def test_no_stage_goes_on_from_what_it_did_not_leave(tmp_path):
    recipe = SPT.upto(0)
    with pytest.raises(Interrupted):
        run(recipe, Workspace(tmp_path / "left", stop=StopAfter(5)))
    for harm in HARMS:
        here = Workspace(tmp_path / harm.__name__)
        shutil.copytree(tmp_path / "left", here.runs)
        (folder,) = here.stage(recipe).attempts
        harm(folder, *folder.load(CHECKPOINT))
        said = r"is damaged.*delete this one file, checkpoint\.safetensors"
        with pytest.raises(StoreError, match=said) as caught:
            run(recipe, here)
        assert len(str(caught.value).splitlines()) == 1, harm
    folder.drop(CHECKPOINT)
    run(recipe, here)


def test_patience_ends_early(tmp_path):
    stage = Stage(Classify(), Budget(steps=60), Optim(lr=1e-9), evals=20, early_stopping_patience=3)
    assert result(run(replace(SPT, stages=(stage,)), Workspace(tmp_path)))["stopped"] == "patience"


@pytest.mark.parametrize("average", [0.0, 0.5])
def test_divergence_is_a_result_not_a_crash(tmp_path, average):
    optim = Optim(lr=1e38, clip=0.0, schedule="constant")
    stage = Stage(Classify(), Budget(steps=40), optim, evals=4, average=average)
    content = result(run(replace(SPT, stages=(stage,)), Workspace(tmp_path)))
    assert content["stopped"] == "diverged"
    assert 0 <= content["scores"]["test"]["accuracy"] <= 1
    assert math.isfinite(content["scores"]["val"]["loss"])  # the best weights are the initial ones


@pytest.mark.parametrize("patience", [0, 2])
def test_weights_that_are_not_finite_are_never_the_best_though_they_name_a_class(tmp_path, patience):
    optim = Optim(lr=1e38, clip=0.0, schedule="constant")
    stage = Stage(Classify(), Budget(steps=400), optim, evals=400, early_stopping_patience=patience)
    folder = run(replace(SPT, stages=(stage,)), Workspace(tmp_path))
    seen = [line for line in lines(folder) if line["kind"] == "val"]
    assert seen and all(math.isnan(line["loss"]) and 0 < line["accuracy"] < 1 for line in seen)
    assert all(weight.isfinite().all() for weight in weights(folder).values())
    assert math.isfinite(result(folder)["scores"]["val"]["loss"])
    assert (result(folder)["stopped"], result(folder)["best_step"]) == ("diverged", 0)


def test_budgets(tmp_path):
    def of(budget):
        return result(run(supervised(budget=budget, evals=1), Workspace(tmp_path)))

    assert (of(Budget(steps=7))["steps"], of(Budget(epochs=2.0))["steps"]) == (7, 6)
    content = of(Budget(flops=1e7))
    assert content["cost"]["flops"] == pytest.approx(1e7, rel=0.5 / content["steps"] + 1e-6)
    content = of(Budget(seconds=0.3))
    assert content["steps"] > 1 and content["stopped"] == "budget"
    with pytest.raises(SpecError, match="lower the batch size"):
        run(supervised(batch=64, fraction=0.5), Workspace(tmp_path))


OTHERS = ({"mixer": S4D(states=4)}, {"norm": "batch"})


def train_as(rank, port, recipes, workspace):
    """Train as torchrun would have a process do it."""
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ.update(address, RANK=str(rank), WORLD_SIZE="2")
    with distributed.process_group("cpu"):
        for recipe in recipes:
            run(recipe, workspace)


def test_two_processes_give_the_losses_of_one(tmp_path):
    stages = tuple(replace(stage, budget=Budget(steps=4), evals=1) for stage in SPT.stages)
    plain = replace(SPT, model=replace(SPT.model, dropout=0.0), stages=stages)
    recipes = [plain, *(replace(plain, model=replace(plain.model, **other)) for other in OTHERS)]
    for recipe in recipes:  # first, so that all of its FLOPs are counted once
        run(recipe, Workspace(tmp_path / "one"))
    port, workspace = free_port(), Workspace(tmp_path / "two")
    pids = [
        torture.forked(functools.partial(train_as, rank, port, recipes, workspace), tmp_path)
        for rank in range(2)
    ]
    ended = [torture.ended(pid, tmp_path) for pid in pids]
    assert [each.code for each in ended] == [0, 0], ended
    folders = sorted((tmp_path / "one" / "stages").iterdir())
    assert len(folders) == 6
    for one in folders:
        two = tmp_path / "two" / "stages" / one.name
        for a, b in zip(lines(one), lines(two), strict=True):
            # Biases before a batch norm have no gradient but rounding; Adam blows it up, validation shows it.
            if a["kind"] == "train" or result(one)["recipe"]["model"]["norm"] != "batch":
                assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)


def evaluate_as(rank, port, folder):
    """Evaluate as torchrun would have a process do it whose device has room for other batches."""
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ.update(address, RANK=str(rank), WORLD_SIZE="2")
    evaluation._batch_size = lambda *_: (7, 5)[rank]
    with distributed.process_group("cpu"):
        torch.save(scored(), folder / f"{rank}.pt")


def scored():
    toys.settle()
    task = toys.Majority()
    network = SPT.model.build(task.form, Classify().head(task.form, SPT.model.width, "mean"))
    found = evaluation.evaluate(network, Classify(), task.load("val"), task.form)
    return found.scores, found.predictions, found.confidence


def test_processes_with_room_for_other_batches_score_every_example_once(tmp_path):
    port = free_port()
    pids = [
        torture.forked(functools.partial(evaluate_as, rank, port, tmp_path), tmp_path) for rank in range(2)
    ]
    ended = [torture.ended(pid, tmp_path) for pid in pids]
    assert [each.code for each in ended] == [0, 0], ended
    scores, predictions, confidence = scored()
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt")
        assert found[0] == pytest.approx(scores, rel=1e-6)
        assert torch.equal(found[1], predictions)
        torch.testing.assert_close(found[2], confidence, rtol=1e-5, atol=0)


# ---- limits, plateaus and criteria


def supervised(**settings):
    """The supervised stage alone, with other settings."""
    return replace(SPT, stages=(replace(SPT.stages[1], **settings),))


def test_hours_end_a_stage_with_a_validation_and_its_best_weights(tmp_path):
    never, now = (Budget(steps=15, hours=hours) for hours in (1.0, 1e-9))
    long = run(supervised(budget=never, evals=1), Workspace(tmp_path))
    short = run(supervised(budget=now, evals=1), Workspace(tmp_path))
    assert (result(long)["stopped"], result(long)["steps"]) == ("budget", 15)
    assert (result(short)["stopped"], result(short)["steps"], result(short)["best_step"]) == ("hours", 1, 1)
    assert [line["kind"] for line in lines(short)].count("val") == 1
    without = run(supervised(budget=Budget(steps=15), evals=1), Workspace(tmp_path))
    assert equal(weights(long), weights(without))


def test_the_rate_falls_before_a_time_limit_that_comes_before_the_last_step(tmp_path, monkeypatch):
    """A second per step: of a hundred steps, twenty fit."""
    clock = itertools.count()
    monkeypatch.setattr(trainer.time, "perf_counter", lambda: float(next(clock)))
    folder = run(supervised(budget=Budget(steps=100, hours=20 / 3600), evals=1), Workspace(tmp_path))
    rates = [line["lr"] for line in lines(folder) if line["kind"] == "train"]
    assert result(folder)["stopped"] == "hours"
    assert rates[-1] < 0.5 * max(rates)
    ample = run(supervised(budget=Budget(steps=10, hours=20 / 3600), evals=1), Workspace(tmp_path))
    without = run(supervised(budget=Budget(steps=10), evals=1), Workspace(tmp_path))
    assert equal(weights(ample), weights(without))


@pytest.mark.parametrize("evals", [30, 10])
def test_a_plateau_lasts_epochs_however_often_it_is_validated(tmp_path, evals):
    """96 examples in batches of 32 are three steps, two epochs six; at this rate nothing gets better."""
    optim = Optim(lr=1e-12, schedule="plateau", warmup=0.0, plateau_wait_epochs=2.0)
    made = lines(run(supervised(budget=Budget(steps=30), evals=evals, optim=optim), Workspace(tmp_path)))
    best = next(line["step"] for line in made if line["kind"] == "val")
    course = {line["step"]: line["lr"] for line in made if line["kind"] == "train"}
    each = 30 // evals * -(-6 * evals // 30)  # steps from one validation to the first one six steps later
    expected = {step: 1e-12 * 0.2 ** max(0, (step - 1 - best) // each) for step in course}
    assert course == pytest.approx(expected)
    assert course[30] < 1e-14


@pytest.mark.parametrize(
    ("mode", "wait", "seed"),
    [
        ("max", {"plateau_wait_epochs": 3.0}, 1),
        ("min", {"wait": 3}, 2),
    ],
)
def test_a_plateau_lowers_the_rate_when_torch_does(tmp_path, monkeypatch, mode, wait, seed):
    """An epoch is one step; gains are around the threshold; "min" is of losses, our scores are below 0."""
    sign = 1 if mode == "max" else -1
    random = torch.rand(32, generator=torch.Generator().manual_seed(seed))
    course = (1 + 2e-4 * sign * (random - 0.3).cumsum(0)).tolist()
    scores = ({"score": sign * score, "loss": 0.0} for score in course)
    monkeypatch.setattr(trainer, "evaluate", lambda *_: SimpleNamespace(scores=next(scores)))
    optim = Optim(lr=0.1, schedule="plateau", warmup=0.0, plateau_threshold=1e-4, factor=0.9, **wait)
    made = supervised(budget=Budget(steps=32), batch=96, optim=optim, evals=32)
    folder = run(made, Workspace(tmp_path))
    weight = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(weight, mode, factor=0.9, patience=2, eps=0)
    expected = []
    for score in course:
        expected.append(weight.param_groups[0]["lr"])
        plateau.step(score)
    assert [line["lr"] for line in lines(folder) if line["kind"] == "train"] == pytest.approx(expected)
    assert 2 < len(set(expected)) < 32 // 3, "there were several falls, and gains between them"


@pytest.mark.parametrize(
    ("signal", "objective", "criterion"),
    [
        ("tokens", Classify(), "score"),
        ("tokens", Masked(0.5), "accuracy"),
        ("values", Masked(0.5, "l1"), "r2"),
    ],
)
def test_the_best_weights_are_those_of_the_criterion(tmp_path, signal, objective, criterion):
    task = toys.Majority(signal=signal, shortest=24)
    stage = Stage(objective, Budget(steps=24), Optim(lr=0.1), evals=24, criterion=criterion)
    folder = run(replace(SPT, task=task, stages=(stage,)), Workspace(tmp_path))
    vals = [line for line in lines(folder) if line["kind"] == "val"]
    best = max(vals, key=lambda line: line[criterion])
    assert result(folder)["best_step"] == best["step"]
    assert result(folder)["scores"]["val"][criterion] == pytest.approx(best[criterion])


@pytest.mark.parametrize("objective", [Regress(), MaskedInputs(Regress()), Joint(Regress(), Masked(0.3))])
def test_the_loss_selects_where_equal_targets_have_no_r2(objective):
    task = several.majority("reals")
    train = task.load("train")
    val = replace(train, targets=torch.ones_like(train.targets))
    stage = Stage(objective, Budget(steps=8), Optim(lr=0.1), evals=8)
    network = build_network(Recipe(task, Model(Attention(2), 8, 1), (stage,)))
    losses = {}

    def log(kind, progress, numbers):
        if kind == "val":
            assert math.isnan(numbers["r2"])
            losses[numbers["step"]] = numbers["loss"]

    found = trainer.train(stage, network, TrainingData(task.form, train, val), log=log)
    assert found.best_step == min(losses, key=losses.get) and found.best_score == -min(losses.values())
    assert found.scores["loss"] == min(losses.values())


def a_run(mixer=None, checkpoint=None):
    stage = SPT.last
    network = build_network(Recipe(SPT.task, Model(mixer or Attention(2), 16, 1), (stage,)))
    data = SPT.task.load("train")
    return trainer._Run(
        stage,
        network,
        TrainingData(SPT.task.form, data, data),
        0,
        1,
        {},
        checkpoint or trainer.Checkpoint(),
        trainer.no_log,
    )


def test_checkpoints_that_take_long_are_rare(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(trainer.time, "perf_counter", lambda: clock.now)

    class Slow(trainer.Checkpoint):
        def save(self, tensors, state):
            saved.append(clock.now)
            clock.now += 10.0

    for seconds, most in ((20.0, 1 / 20), (0.0, 1.0)):
        monkeypatch.setattr(trainer, "CHECKPOINT_SECONDS", seconds)
        saved, start, made = [], clock.now, a_run(checkpoint=Slow())
        for _ in range(1000):
            clock.now += 1.0
            made.clock = clock.now
            made.save_if_due()
        assert 0 < 10.0 * len(saved) <= most * (clock.now - start)
    assert len(saved) == 1000, "0 seconds: after every step"


@pytest.mark.parametrize(("mixer", "sends"), [(Window(heads=2), False), (own("own_networks:Conv")(), True)])
@pytest.mark.filterwarnings("error:`broadcast_buffers`")
def test_processes_send_buffers_of_other_code_alone(mixer, sends, monkeypatch):
    """Those of this package are equal in all, and sparse attention plans anew when they change."""

    def warned(*arguments, **settings):
        warnings.warn("`broadcast_buffers` is deprecated.", FutureWarning, stacklevel=2)
        return DEFAULT

    wrap = Mock(side_effect=warned)
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    monkeypatch.setattr(trainer, "DistributedDataParallel", wrap)
    a_run(mixer).batches.close()
    assert wrap.call_args.kwargs == {"broadcast_buffers": sends}


def test_a_criterion_that_is_not_measured_is_refused(tmp_path):
    with pytest.raises(SpecError, match="criterion=r2: Classify measures score, accuracy, loss"):
        run(supervised(criterion="r2"), Workspace(tmp_path))
