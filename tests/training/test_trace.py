"""A step traced from shapes: what it counts agrees with steps that are run, and with itself."""

import csv
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jaxtyping
import pytest
import torch

import own_networks
import paper_data
import toys
from selfpretrain.data.dataset import generator
from selfpretrain.errors import SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.common.own_network import mixer_of
from selfpretrain.mixers.exprnn import ExpRNN
from selfpretrain.mixers.mega import Mega
from selfpretrain.mixers.s4d import S4D
from selfpretrain.mixers.slstm import SLSTM
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.common.joint import Joint
from selfpretrain.objectives.latent import Latent
from selfpretrain.objectives.masked import Masked
from selfpretrain.registry import find, name_of
from selfpretrain.system import distributed
from selfpretrain.tasks.base import DatasetStub
from selfpretrain.training import cost, flops, shortcuts, trace
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage, build_network, training_data
from selfpretrain.training.trace import StepTrace, Untraceable, trace_step
from steps import SHORT, STEPWISE, every_mixer

TASK = toys.Majority(length=64, shortest=64)
LOOSE = {"gru": 0.05, "lstm": 0.05, "sinkhorn": 0.05, "reformer": 0.05}
"""Relative tolerance of FLOPs where CUDA computes otherwise than the CPU."""
CELLS = Path(__file__).with_name("paper_peaks.tsv")


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch):
    """Checks of annotations are off: they keep tensors for longer, and peaks of memory count those."""
    monkeypatch.setattr(trace, "TRACES", {})
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def recipe(mixer, objective=None, task=TASK, depth=2, causal=False, norm="layer", **stage):
    model = Model(mixer, width=32, depth=depth, expand=0 if mixer.whole else 2, norm=norm, causal=causal)
    return Recipe(task, model, (Stage(objective or Classify(), Budget(steps=1), **({"batch": 4} | stage)),))


@every_mixer
def test_flops_are_those_of_a_pass_that_is_run(name):
    mixer = find("mixers", name)(**SHORT.get(name, {}))
    task = toys.Majority(length=24, shortest=24) if name_of(mixer) in STEPWISE else TASK
    made, form = recipe(mixer, task=task, depth=1), task.form
    data = DatasetStub(form, 4, 4, 4).examples("train")
    targets = made.last.objective.make_targets(data.batch(torch.arange(4)), form, generator("cost"))
    counted = flops.count_step(build_network(made), made.last.objective, form, targets)
    traced = trace_step(made)
    assert traced.flops == pytest.approx(counted, rel=LOOSE.get(name_of(mixer), 0.02))
    assert traced.kernels > 0 and traced.bytes_moved > 0 and traced.independent


@pytest.mark.parametrize("objective", [Classify(), Masked(), Joint(Classify(), Masked())], ids=name_of)
def test_the_peak_holds_weights_optimizer_and_activations(objective):
    made = recipe(Attention(), objective)
    weights = sum(p.numel() * p.element_size() for p in build_network(made).parameters())
    found = trace_step(made)
    assert found.peak_bytes > 4 * weights


def test_a_network_that_is_built_from_numbers_is_traced_without():
    made = recipe(mixer_of("own_networks:starts_from_numbers")())
    assert trace_step(made).kernels > 0


@pytest.mark.parametrize("error", [ValueError, AttributeError, IndexError, SpecError, RuntimeError])
def test_whatever_a_network_raises_without_numbers_is_said_in_one_line(error, monkeypatch):
    def fail(*_):
        raise error("no numbers\nhere")

    monkeypatch.setattr(own_networks.NeedsNumbers, "forward", fail)
    with pytest.raises(Untraceable, match=f"^{error.__name__}: no numbers$"):
        trace_step(recipe(mixer_of("own_networks:NeedsNumbers")()))


def test_traces_that_ship_are_for_forecasts_and_a_step_is_traced_as_the_code_is(monkeypatch):
    made = recipe(Attention())
    now = trace_step(made)
    old = replace(now, kernels=0)
    monkeypatch.setattr(trace, "shipped_traces", lambda: {trace.trace_key(made, 64, False): old})
    monkeypatch.setattr(trace, "TRACES", {})
    assert trace.known_trace(made, 64, False) == old and trace_step(made) == now
    assert trace.known_trace(made, 32, False) == trace_step(made, 32)


@pytest.mark.parametrize(
    "how", [{"dropout": 0.1}, {"norm": "batch"}, {"mixer": Mega(dropout=0.1)}, {"norm": "rms"}], ids=str
)
def test_a_trace_knows_whether_examples_depend_on_others_or_on_random_numbers(how):
    made = recipe(Attention())
    found = trace_step(replace(made, model=replace(made.model, **how)))
    assert found.independent == (how == {"norm": "rms"})


@pytest.mark.parametrize("name", ["Drops", "DropsWeights", "Normalises"])
def test_a_trace_sees_random_numbers_and_batches_that_no_module_has(name):
    assert not trace_step(recipe(mixer_of(f"own_networks:{name}")())).independent


@pytest.mark.parametrize(
    ("norm", "objective"), [("batch", Classify()), ("layer", Latent(guard="sigreg"))], ids=["norm", "sigreg"]
)
def test_processes_of_a_group_trace_and_count_as_one_alone_does(norm, objective, monkeypatch):
    """The batch of a trace is the share of a process already, and others may not be counting now."""
    made = recipe(Attention(), objective, causal=True, norm=norm)
    data = DatasetStub(made.task.form, 4, 4, 4).examples("train")

    def found():
        targets = objective.make_targets(data.batch(torch.arange(4)), made.task.form, generator("cost"))
        counted = flops.count_step(build_network(made), objective, made.task.form, targets)
        trace.TRACES.clear()
        return trace_step(made), counted

    single = found()
    monkeypatch.setattr(distributed.dist, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed.dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(distributed.dist, "get_rank", lambda: 1)
    assert (distributed.world_size(), distributed.rank()) == (2, 1)
    assert found() == single


def test_an_average_of_weights_takes_their_size_and_only_it_changes_the_key():
    made = recipe(Attention())
    with_average = made.with_last(replace(made.last, average=0.9))
    weights = sum(x.numel() * x.element_size() for x in build_network(made).state_dict().values())
    assert trace_step(with_average).peak_bytes - trace_step(made).peak_bytes == weights
    assert trace.trace_key(made, 64, False) != trace.trace_key(with_average, 64, False)


def test_what_saves_memory_takes_less():
    def peak(**how):
        return trace_step(recipe(Attention(), depth=4, batch=64, **how)).peak_bytes

    usual, again, parts = peak(), peak(activation_checkpointing=True), peak(grad_accumulation=4)
    assert again < 0.7 * usual and parts < 0.5 * usual and peak(precision="bf16") < 0.9 * usual


def test_many_micro_batches_are_told_from_two():
    made = recipe(Attention(), batch=64, grad_accumulation=4)
    found, whole = trace_step(made), trace._trace
    network = trace.network_on_meta(made)
    assert_alike(found, whole(network, made, 64, False, None), 0.01)


def test_a_step_grows_linearly_with_the_batch():
    one, two, four = (trace_step(recipe(S4D(), batch=n)) for n in (8, 16, 32))
    assert one.kernels == two.kernels == four.kernels
    assert four.flops - two.flops == pytest.approx(2 * (two.flops - one.flops), rel=1e-6)
    assert four.peak_bytes - two.peak_bytes == pytest.approx(2 * (two.peak_bytes - one.peak_bytes), rel=0.01)


@pytest.mark.parametrize("mixer", [ExpRNN(), pytest.param(SLSTM(), marks=pytest.mark.slow)], ids=name_of)
def test_steps_of_many_kernels_are_extrapolated(mixer, monkeypatch):
    made = recipe(mixer, causal=True, task=toys.Majority(length=128, shortest=128), depth=1, batch=64)
    monkeypatch.setattr(trace, "MANY", None)
    whole = trace_step(made)
    monkeypatch.setattr(trace, "MANY", 500)
    monkeypatch.setattr(trace, "TRACES", {})
    assert_alike(trace_step(made), whole, 0.02)


def assert_alike(found: StepTrace, expected: StepTrace, tolerance: float) -> None:
    for name in ("flops", "kernels", "bytes_moved", "peak_bytes"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=tolerance), name


@pytest.mark.parametrize("name", ["attention", "s4", "mega", "mamba2", "dlr"])
def test_shortcuts_find_the_shapes_that_pytorch_finds(name, monkeypatch):
    made = recipe(find("mixers", name)(), depth=1, precision="bf16")
    quick = trace_step(made)
    monkeypatch.setattr(trace, "TRACES", {})
    monkeypatch.setattr(shortcuts, "SHORTCUTS", {})
    assert trace_step(made) == quick


def test_masks_of_two_examples_stand_for_all():
    targets = trace._targets(recipe(Attention(), Masked(0.5), batch=6), 64, padded=True)
    assert targets.batch.inputs.shape == (6, 64) and targets.batch.inputs.is_meta
    assert targets.rows.shape == (int(targets.loss_mask.sum()),)
    real = Masked(0.5).make_targets(
        DatasetStub(TASK.form, 6, 6, 6).examples("train").batch(torch.arange(6)), TASK.form, generator("x")
    )
    assert len(targets.rows) == pytest.approx(len(real.rows), rel=0.25)


def cells():
    with CELLS.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.mark.slow
@pytest.mark.parametrize("line", cells(), ids=lambda line: "-".join(list(line.values())[:5]))
def test_steps_of_the_papers_take_no_more_than_they_did(line, tmp_path):
    """Memory and kernels, which an edit of a mixer, the network or the step may raise unnoticed."""
    with paper_data.stubbed(tmp_path) as planner:
        found = trace_step(paper_recipe(line, planner), padded=line["padded"] == "yes")
    assert found.peak_bytes / 2**30 <= 1.05 * float(line["gigabytes"])
    assert found.kernels <= 1.05 * int(line["kernels"])


@pytest.mark.slow
def test_traces_that_ship_are_those_of_the_code(tmp_path):
    """Twelve of them: all take eight minutes. In a process of its own: checks of annotations hold tensors."""
    tests = Path(__file__).parents[1]
    folders = (Path(__file__).parent, tests / "support", tests)
    call = f"test_trace.differing(pathlib.Path({str(tmp_path)!r}))"
    code = f"import pathlib, test_trace; print(*{call}, sep='\\n')"
    paths = os.pathsep.join(map(str, (*folders, *filter(None, [os.environ.get("PYTHONPATH")]))))
    command = [sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stdout.strip(), f"{done.stdout}other steps than those that ship: tools/traces.py --again"


def differing(folder: Path) -> list[str]:
    """Titles of the stages, twelve drawn of some, whose steps are not those that ship."""
    titles = []
    with paper_data.stubbed(folder) as planner:
        steps = dict(shipped_steps(planner))
        assert len(steps) > 100
        for key in random.Random(0).sample(sorted(steps), 12):
            made, length, padded = steps[key]
            now, then = trace_step(made, length, padded), trace.shipped_traces()[key]
            whole = {name: float(round(getattr(now, name))) for name in ("flops", "bytes_moved")}
            rounded = replace(now, **whole)
            size = trace.shipped_sizes()[cost.network_key(made)]
            if (rounded, cost.size_below_head(made)) != (then, size):
                titles.append(made.title)
    return titles


def shipped_steps(planner):
    """Stages of some studies whose steps ship, by their keys."""
    for name in ("amos-table-2", "lra-zoo", "modern-zoo", "rivals"):
        for cell in find("studies", name).at_scale("paper", 1).cells(planner):
            for prefix in cell.recipe.prefixes():
                made = replace(prefix, stages=(replace(prefix.last, precision="bf16"),))
                how = trace.longest_batch(made, training_data(made))
                if trace.trace_key(made, *how) in trace.shipped_traces():
                    yield trace.trace_key(made, *how), (made, *how)


def paper_recipe(line, planner):
    """The recipe that ends with the stage of a line."""
    for cell in find("studies", line["study"]).at_scale("paper", 1).cells(planner):
        for made in cell.recipe.prefixes():
            stage = made.last
            here = (name_of(made.task_of(stage)), name_of(made.model.mixer), name_of(stage.objective))
            if (*here, str(stage.batch)) == tuple(line[n] for n in ("task", "mixer", "objective", "batch")):
                return replace(made, stages=(replace(stage, precision="bf16"),))
    raise AssertionError(f"no stage is that of {line}")
