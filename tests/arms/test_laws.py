"""Laws that every arm on the shelf keeps; a new file is tested without being named here."""

import functools
import json

import pytest

import toys
from flop_witness import counted_in_all, counted_step
from selfpretrain.api import comparison
from selfpretrain.config import from_dict, to_dict
from selfpretrain.errors import SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.s4d import S4D
from selfpretrain.mixers.wavegan import WaveGAN
from selfpretrain.objectives.common.augmented import Augmented
from selfpretrain.objectives.masked import Masked
from selfpretrain.registry import find, first_line, name_of, names
from selfpretrain.report.results import read_stage
from selfpretrain.runner.plan import Plan, plan_recipes
from selfpretrain.runner.stage import run
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.arms.base import Arm, contrasts_of, recipes_by_column, resolve_arms
from selfpretrain.studies.recipes.arms import MATCHED, SPT
from selfpretrain.studies.recipes.defaults import small_arms
from selfpretrain.training import cost
from selfpretrain.training.recipe import fingerprint, training_data

ARMS = {name: find("arms", name) for name in names("arms")}
every_arm = pytest.mark.parametrize("name", ARMS)


QUICK = {("matched", "words"), ("matched", "ragged words"), ("joint", "words")}
"""Arms whose FLOPs on words an independent counter counts in the default suite."""
TASKS = {
    "equal": toys.Majority(length=16, shortest=16, examples=120),
    "unequal": toys.Majority(length=24, shortest=20, examples=120),
    "values": toys.Majority(length=16, shortest=16, examples=120, signal="values"),
    "words": toys.Words(length=8, shortest=8, examples=400),
    "ragged words": toys.Words(length=12, shortest=4, examples=400, labelled=60),
}
every_task = pytest.mark.parametrize("task", ["equal", "unequal", "values"])
USUAL = Attention(2)
ONLY = {"autocorrelation": S4D(states=8)}
"""Arms that attention does not have, with a mixer that has them."""


@functools.cache
def arms_of(task, steps=400, mixer=USUAL):
    """Network and stages of a comparison on a toy, small enough to count."""
    arms = small_arms(TASKS[task], mixer, Masked(0.3))
    batch = 32 if "words" in task else 8
    for setting in (f"stage.budget.steps={steps}", f"stage.batch={batch}", "model.width=32", "stage.evals=2"):
        arms = arms.with_setting(*setting.split("="))
    return arms


@functools.cache
def recipe_of(name, task, like=None):
    """The recipe of an arm with the mixer that it, or the arm that it is like, is tested with."""
    mixer = ONLY.get(like or name, USUAL)
    return ARMS[name]().recipe(TASKS[task], arms_of(task, mixer=mixer))


@functools.cache
def print_of(name, task):
    return fingerprint(recipe_of(name, task))


def allowed(name, task):
    """The FLOPs that an arm may spend: those of the matched arm, or of finetuning."""
    usual = {"matched": "matched", "finetuning": "scratch"}[ARMS[name].compute]
    return cost.COUNTED.total(recipe_of(usual, task, like=name))


@every_arm
def test_says_what_it_is(name):
    arm = ARMS[name]()
    assert isinstance(arm, Arm) and name_of(arm) == name
    assert first_line(arm).endswith(".") and arm.column
    assert [other for other in ARMS if ARMS[other].column == arm.column] == [name]
    assert arm.column not in arm.against
    assert from_dict(json.loads(json.dumps(to_dict(arm)))) == arm


@every_arm
@every_task
def test_recipe_is_no_other_arms_and_has_the_data_of_scratch(name, task):
    recipe = recipe_of(name, task)
    plain = json.loads(json.dumps(to_dict(recipe)))
    assert from_dict(plain, ("toys",)) == recipe
    assert [other for other in ARMS if print_of(other, task) == print_of(name, task)] == [name]
    assert recipe.seed == 0 and recipe.task == TASKS[task]
    assert recipe.last.objective.labelled and recipe.last.fraction == 1 and recipe.last.source is None
    plain = recipe_of("scratch", task, like=name)
    assert training_data(recipe).digests() == training_data(plain).digests()
    assert not any(prefix.last.objective.labelled for prefix in recipe.prefixes()[:-1])


@every_arm
@pytest.mark.parametrize("task", ["equal", "unequal"])
def test_compute_is_what_the_arm_may_use(name, task):
    assert cost.COUNTED.total(recipe_of(name, task)) == pytest.approx(allowed(name, task), rel=0.01)


@pytest.mark.parametrize(
    ("name", "task"),
    [
        pytest.param(name, task, marks=[pytest.mark.slow] * (task != "equal" and (name, task) not in QUICK))
        for task in ("equal", "words", "ragged words")
        for name in ARMS
    ],
)
def test_compute_is_the_same_by_an_independent_counter(name, task):
    """Of words, most FLOPs are those of the head at predicted positions."""
    usual = {"matched": "matched", "finetuning": "scratch"}[ARMS[name].compute]
    allowed = counted_in_all(recipe_of(usual if usual == "scratch" else "spt", task, like=name), step_of)
    assert counted_in_all(recipe_of(name, task), step_of) == pytest.approx(allowed, rel=0.01)


@functools.cache
def step_of(recipe):
    return counted_step(recipe, 300 if isinstance(recipe.task, toys.Words) else 60)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder in which arms share what they have in common."""
    return tmp_path_factory.mktemp("runs")


@every_arm
def test_test_split_is_read_once(name, runs, monkeypatch):
    read = []
    load = toys.Majority.load
    monkeypatch.setattr(toys.Majority, "load", lambda task, split: (read.append(split), load(task, split))[1])
    arms = arms_of("unequal", steps=6, mixer=ONLY.get(name, USUAL))
    recipe = ARMS[name]().recipe(TASKS["unequal"], arms)
    workspace = Workspace(runs, quiet=True)
    assert [stage.tested for stage in plan_recipes([recipe])] == [False] * (len(recipe.stages) - 1) + [True]
    read.clear()
    folder = run(recipe, workspace)
    assert read.count("test") == 1
    result = read_stage(folder)
    assert 0 <= result.scores["test"]["score"] <= 1


@every_arm
def test_mixers_without_outputs_at_positions_are_refused_or_trained(name):
    arms = small_arms(TASKS["equal"], WaveGAN(channels=2, stages=2), Masked(0.3))
    if not ARMS[name]().refusal(TASKS["equal"], arms):
        assert cost.COUNTED.plan(ARMS[name]().recipe(TASKS["equal"], arms)).steps


def test_differences_of_spt_come_first_and_need_two_arms():
    arms = resolve_arms(["joint", "matched", "spt"])
    first, *rest = contrasts_of(arms)
    assert first == (SPT, MATCHED)
    assert all(treatment == arms[0].column for treatment, _ in rest) and len(rest) == 2
    assert contrasts_of(resolve_arms(["spt", "matched", "scratch"])) == contrasts_of(
        resolve_arms(["scratch", "matched", "spt"])
    )


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (["spt"], "no two of these arms are compared with each other: spt; matched and spt are"),
        (["spt", "matched", "spt"], "arm 'SPT' is given twice"),
        (["matched", "stp"], "no arm called 'stp'; did you mean 'spt'"),
    ],
)
def test_choices_that_compare_nothing_are_refused(chosen, message):
    with pytest.raises(SpecError, match=message):
        resolve_arms(chosen)


def test_augmentation_of_the_task_is_that_of_all_arms():
    settings = {"task.augment": True, "pretrain.optim.lr": 0.002}
    study = comparison("digits", ("attention",), None, 1, "smoke", settings, arms=tuple(names("arms")))
    columns = [cell.column for cell in study.cells()]
    missing = {arm.column for arm in ARMS.values()} - {*columns}
    assert missing == {ARMS["joint"].column, *(ARMS[name].column for name in ONLY)}
    assert any("labels and denoising at once is not offered" in note for note in study.notes())
    for cell in study.cells():
        for stage in cell.recipe.stages:
            averaged = getattr(stage.objective, "objective", None)  # of an ensemble
            assert isinstance(stage.objective, Augmented) or isinstance(averaged, Augmented), cell.column


@pytest.mark.parametrize(
    ("task", "value", "message"),
    [("state-tracking", "true", "declares no changes"), ("digits", 2, "use true or false")],
)
def test_augmentation_that_is_not_there_is_refused(task, value, message):
    with pytest.raises(SpecError, match=message):
        comparison(task, ("attention",), None, 1, "smoke", {"task.augment": value})


def test_arms_of_another_package_are_found_by_path():
    assert resolve_arms(["matched", "selfpretrain.studies.arms.joint:JointTraining"])[1] == ARMS["joint"]()


class Nothing(Arm):
    """An arm of somebody else, who has forgotten to return its recipe."""

    column = "nothing"
    against = (MATCHED,)

    def recipe(self, task, arms, planner=cost.COUNTED):
        """Return nothing."""


def test_an_arm_that_returns_no_recipe_is_named(monkeypatch):
    plain = Nothing()
    monkeypatch.setattr(Nothing, "recipe", lambda self, task, arms, planner=None: None)
    with pytest.raises(SpecError, match="arm nothing: recipe returns None; return a Recipe"):
        recipes_by_column(toys.Majority(), arms_of("equal"), chosen=["matched", plain])


def test_a_comparison_has_the_chosen_arms_in_their_order_and_says_what_they_are():
    study = comparison(
        TASKS["equal"], (Attention(2),), None, 1, "smoke", {}, arms=("joint", "matched", "spt")
    )
    experiment = study.experiment("smoke")
    columns = [ARMS[name].column for name in ("joint", "matched", "spt")]
    assert [cell.column for cell in experiment.cells] == columns
    assert experiment.contrasts[0] == (SPT, MATCHED)
    assert f"{columns[0]}: {first_line(ARMS['joint']())}" in experiment.notes
    other = comparison(TASKS["equal"], (Attention(2),), None, 1, "smoke", {})
    folders = [Plan.of(each.experiment("smoke")).experiment.folder for each in (study, other)]
    assert folders[0] != folders[1]
