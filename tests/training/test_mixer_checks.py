"""The probes find the faults that are planted, and those that other people's layers have."""

import json
import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import toys
from contract_toys import Faulty, Future
from selfpretrain.api import comparison as compared
from selfpretrain.cli import app
from selfpretrain.errors import SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.fnet import FNet
from selfpretrain.mixers.lssl import LSSL
from selfpretrain.mixers.s4d import S4D
from selfpretrain.objectives.causal import Causal
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.masked import Masked
from selfpretrain.studies.compare import _size
from selfpretrain.training import cost
from selfpretrain.training.evaluate import evaluate
from selfpretrain.training.mixer_checks import check, check_recipes
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage, build_network, training_data

WIDTH, LENGTH = 8, 40


def failed(mixer, causal=False, length=LENGTH):
    return [line.partition(":")[0] for line in check(mixer, LayerContext(WIDTH, length, causal)).failures]


@pytest.mark.parametrize("fault", ["far", "far in training"])
def test_leaks_of_long_sequences_are_found_at_their_length(fault):
    mixer = Faulty(fault)
    assert failed(mixer, causal=True, length=512) == []
    long = toys.Majority(length=900, shortest=890)
    with pytest.raises(SpecError, match="must not be pretrained causally"):
        check_recipes([replace(spt(mixer), task=long)])
    assert check_recipes([replace(spt(mixer), task=long)], brief=True) == []


def test_an_unstable_lssl_is_warned_of_and_a_stable_layer_is_not():
    """Through the FFT, whose rounding is relative to the largest value of a kernel that grows."""
    found = {}
    for mixer in (LSSL(states=8), Attention(), S4D(states=8)):
        checked = check(mixer, LayerContext(WIDTH, 200, True), ["causality", "causality of any weights"])
        fresh, drawn = checked.probes
        assert fresh.result == "ok"
        assert checked.failures == [] and "causal" in checked.objectives
        found[checked.mixer] = drawn
    assert found["lssl"].result == "warns"
    assert "with random weights, positions from" in found["lssl"].said
    assert found["attention"].result == found["s4d"].result == "ok"


def test_a_probe_that_no_random_weights_allow_is_not_applicable():
    (found,) = check(Faulty("zero"), LayerContext(WIDTH, LENGTH, True), ["causality of any weights"]).probes
    assert (found.result, found.said) == ("not applicable", "random weights give outputs that are not finite")


@pytest.mark.parametrize(
    ("fault", "probes"),
    [
        ("", []),
        ("future", []),
        ("padding", ["padding content", "padding length"]),
        ("padded length", ["padding length"]),
        ("batch", ["batch independence"]),
        ("norm", ["batch independence"]),
        ("dead", ["gradients"]),
        ("blocks", ["odd lengths"]),
        ("table", ["length limit"]),
        ("cut", ["length limit"]),
        ("silent", []),
        ("past alone", []),
        ("silent norm", ["batch independence"]),
        ("silent padding", ["padding content", "padding length"]),
        ("silent batch", ["batch independence"]),
        ("longest", ["batch independence"]),
    ],
)
def test_a_planted_fault_is_found_and_no_other(fault, probes):
    assert failed(Faulty(fault)) == probes


def test_a_leak_is_found_behind_weights_that_begin_at_or_near_zero():
    for sound in ("silent", "past alone"):  # the first output of the latter is 0 up to rounding
        assert failed(Faulty(sound), causal=True) == []
    for fault in ("silent future", "faint future"):
        found = check(Faulty(fault), LayerContext(WIDTH, LENGTH, causal=True))
        assert [line.partition(":")[0] for line in found.failures][:1] == ["causality"]
        assert found.objectives == ("masked",)


def test_a_layer_that_breaks_between_probes_is_told_so():
    assert {"padding length", "batch independence"} <= set(failed(Faulty("output before"), causal=True))


def test_what_cannot_be_told_of_a_network_in_training_is_not_called_sound():
    (found,) = check(Faulty("batch before"), LayerContext(WIDTH, LENGTH), ["batch independence"]).probes
    assert (found.result, found.said) == (
        "not applicable",
        "in training, outputs are random, whatever the seed",
    )


def test_a_look_ahead_is_found_where_it_is_forbidden():
    found = check(Faulty("future"), LayerContext(WIDTH, LENGTH, causal=True))
    probe = found.probes[0]
    assert (probe.name, probe.result) == ("causality", "fails")
    assert (said := re.search(r"first at position 0, by up to ([\d.]+)", probe.said))
    assert 1 < float(said[1]) < 100
    assert found.objectives == ("masked",)


@pytest.mark.parametrize("fault", ["future with a mask", "future of a remainder"])
def test_a_look_ahead_is_found_with_masks_and_at_odd_lengths(fault):
    assert "causality" in failed(Faulty(fault), causal=True)
    assert "causality" not in failed(Faulty(fault))


def test_outputs_of_single_precision_that_are_no_numbers_and_noise():
    for fault in ("single", "rounding"):
        assert failed(Faulty(fault), causal=True) == [], "single precision inside is no fault"
    found = check(Faulty("nan"), LayerContext(WIDTH, LENGTH, causal=True))
    assert found.failures == ["length limit: the outputs are not finite"], "and nothing else is blamed"
    assert found.objectives == ()
    assert "evaluation determinism" in failed(Faulty("noise"))


def test_batches_that_meet_in_training_only_are_told_so():
    state = torch.get_rng_state()
    (line,) = check(Faulty("norm"), LayerContext(WIDTH, LENGTH)).failures
    assert "in training" in line
    assert "in training" not in check(Faulty("batch"), LayerContext(WIDTH, LENGTH)).failures[0]
    assert torch.equal(torch.get_rng_state(), state), "probing leaves no trace"


def test_a_layer_that_does_not_run_gets_one_reason_and_a_sound_one_its_cost():
    found = check(Faulty("table"), LayerContext(WIDTH, 100))
    assert (len(found.failures), found.objectives, found.flops) == (1, (), None)
    assert [probe.name for probe in found.probes] == ["length limit"]
    found = check(Faulty(), LayerContext(WIDTH, LENGTH, causal=True))
    assert found.failures == []
    assert found.flops == 6 * LENGTH * WIDTH * WIDTH  # of one sequence
    assert found.parameters == WIDTH * WIDTH + WIDTH


def spt(mixer, objective=None, model=None):
    stages = (
        Stage(objective or Causal(), Budget(steps=2), batch=4),
        Stage(Classify(), Budget(steps=2), batch=4),
    )
    return Recipe(toys.Majority(), model or Model(mixer, width=WIDTH, depth=1, causal=True), stages)


def test_causal_pretraining_of_a_leak_is_refused():
    with pytest.raises(SpecError, match=r"^future must not .*positions from 1 on.*--objective masked$"):
        check_recipes([spt(Future())])
    assert check_recipes([spt(Attention()), spt(Faulty())]) == []


def test_other_faults_are_noted_once():
    noted = check_recipes([spt(Faulty("dead")), replace(spt(Faulty("dead")), seed=1)])
    assert noted == ["faulty: gradients: parameter dead gets no gradient"]


def test_a_batch_norm_under_a_causal_objective_is_noted_once():
    seeing, blind = (
        Model(Attention(), width=WIDTH, depth=1, causal=True, norm=n) for n in ("batch", "layer")
    )
    (noted,) = check_recipes(
        [spt(Attention(), model=seeing), replace(spt(Attention(), model=seeing), seed=1)]
    )
    assert "batch norm averages over later positions" in noted
    assert check_recipes([spt(Attention(), model=blind), spt(Attention(), Masked(), seeing)]) == []


def test_a_mixer_that_cannot_be_causal_is_refused_at_once(tmp_path, capsys):
    arguments = ["compare", "--task", "toys:Majority", "--mixers", "fnet", "--runs", str(tmp_path)]
    assert app.run([*arguments, "--objective", "causal", "--scale", "smoke"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "fnet" in said
    assert "--objective masked" in said


def check_command(capsys, *arguments):
    code = app.run(["check", *arguments, "--length", str(LENGTH)])
    return code, capsys.readouterr()


def test_the_command_reports_as_json(capsys):
    code, said = check_command(capsys, "contract_toys:Future", "--json", "--causal")
    (found,) = json.loads(said.out)["checks"]
    assert (code, found["mixer"], found["objectives"]) == (1, "future", ["masked"])
    assert [probe["result"] for probe in found["probes"]].count("fails") == 1


def test_a_layer_that_prints_leaves_json_alone(capsys):
    code, said = check_command(capsys, "contract_toys:Loud", "--json")
    assert code == 0 and json.loads(said.out)["checks"] and "shape" in said.err


def test_a_layer_that_prints_in_a_worker_leaves_json_alone(capfd, tmp_path):
    command = ["compare", "--task", "digits", "--mixers", "contract_toys:Loud", "--scale", "smoke", "--json"]
    assert app.run([*command, "--seeds", "1", "--jobs", "2", "--runs", str(tmp_path)]) == 0
    said = capfd.readouterr()
    assert json.loads(said.out)["rows"] and "shape" in said.err


def test_the_command_probes_every_form_and_plain_modules(capsys):
    code, said = check_command(capsys, "window")
    assert (code, said.out.count("can be pretrained: masked")) == (0, 2)
    code, said = check_command(capsys, "contract_toys:Means", "--causal")
    assert (code, "masked, causal" in said.out) == (0, True)
    code, said = check_command(capsys, "torch.nn:Bilinear")
    assert (code, "cannot be built" in said.err) == (2, True)
    code, said = check_command(capsys, "contract_toys:TABLE")
    assert code == 2


def test_batches_of_fixed_length_models_have_one_length():
    plain, fixed = (training_data(spt(m, Classify(), Model(m, WIDTH, 1))) for m in (S4D(), FNet()))
    rows = plain.longest.argsort()[:3]
    assert plain.batch(rows).inputs.shape[1] < fixed.batch(rows).inputs.shape[1] == toys.Majority().length
    assert torch.equal(fixed.batch(rows).padding_mask.sum(1), plain.lengths[0, rows])
    assert fixed.digests() == plain.digests()


def test_answers_of_fixed_length_models_do_not_depend_on_the_batch():
    recipe = spt(FNet(), Classify(), Model(FNet(), WIDTH, 1))
    network, data, form = build_network(recipe), training_data(recipe), recipe.task.form
    shortest = data.take(data.lengths[0].argsort()[:30])

    def loss(examples):
        return evaluate(network, Classify(), examples, form).scores["loss"] * len(examples)

    for examples, same in ((shortest, True), (replace(shortest, padded=0), False)):
        alone = sum(loss(examples.take(torch.tensor([i]))) for i in range(len(examples)))
        assert (abs(alone - loss(examples)) < 1e-4) == same


def test_fixed_length_enters_the_cost():
    recipe = spt(FNet(), Classify(), Model(FNet(), WIDTH, 1))
    full = replace(recipe, task=toys.Majority(shortest=24))
    assert cost.plan(recipe).flops_per_step == pytest.approx(cost.plan(full).flops_per_step)
    lengths = training_data(recipe).lengths.double()
    assert cost.plan(recipe).padding == pytest.approx(1 - float(lengths.mean()) / 24, abs=0.01)
    assert cost.plan(full).padding == 0


@given(goal=st.integers(16, 96), heads=st.sampled_from([1, 2, 4]), by=st.sampled_from(["params", "flops"]))
@settings(max_examples=4, deadline=None)
def test_matched_architectures_are_equally_large(goal, heads, by):
    mixers = (Attention(), S4D(states=16), Attention(heads))
    width = {"attention 1.model.width": goal // 8 * 8}
    comparison = compared(toys.Majority(shortest=24), mixers, "masked", 1, "smoke", width).match_size(by)
    first, *others = (_size(comparison.tasks[0], arms, by) for arms in comparison.architectures[0])
    for size, arms in zip(others, comparison.architectures[0][1:], strict=True):
        step = 2 if isinstance(arms.model.mixer, S4D) else 2 * heads
        coarse = step / arms.model.width  # half a step of width is a whole one of its square
        assert abs(size / first - 1) < max(0.05, 1.1 * coarse)
        assert arms.model.width % step == 0
        assert arms.scratch_model == arms.model
    assert len(comparison.notes()) == len(comparison.architectures[0]) + 3
