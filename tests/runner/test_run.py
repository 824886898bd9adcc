"""From an experiment to its report: choosing cells, kept results, tuning, executors, what must run again."""

import json
import math
import multiprocessing
import shutil
import signal
import subprocess
import sys
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

import numpy as np
import pytest
import torch

import toys
from engines import run_experiment, trained
from processes import environment
from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import DoesNotFit, Interrupted, SelfPretrainError, SpecError, StoreError
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.classify import Classify
from selfpretrain.report import tables
from selfpretrain.report.analysis import analyse
from selfpretrain.report.results import read
from selfpretrain.report.stage_results import read_predictions
from selfpretrain.runner import archive, experiment_dir, tuning
from selfpretrain.runner.executors import processes
from selfpretrain.runner.executors.base import Ended, Executor
from selfpretrain.runner.experiment_dir import ExperimentFolder
from selfpretrain.runner.plan import Plan, PlannedStage, missing_stages, plan_recipes
from selfpretrain.runner.run import StageQueue, _executor_name, run_recipes
from selfpretrain.runner.run_dir import WEIGHTS, RunDir
from selfpretrain.runner.stage import replay, run_stage
from selfpretrain.runner.stage import run as run_stage_by_stage
from selfpretrain.runner.workspace import Workspace, never
from selfpretrain.studies.amos_figure_4 import Kernels
from selfpretrain.studies.attention_distance import attention_distance
from selfpretrain.studies.coser_table_4 import QueriesAndKeys
from selfpretrain.studies.label_fraction import LabelFraction
from selfpretrain.studies.locality import Locality
from selfpretrain.system.events import listen
from selfpretrain.tasks.digits import Digits
from selfpretrain.training import code_hash
from selfpretrain.training.model import Model
from selfpretrain.training.optim import Optim
from selfpretrain.training.recipe import Budget, Recipe, Stage, build_network


def quiet(folder):
    return Workspace(folder, quiet=True)


@pytest.fixture
def workspace(tmp_path):
    return quiet(tmp_path / "runs")


@pytest.fixture(scope="module")
def experiment():
    """One task of a table, with all of its rows and columns."""
    table = QueriesAndKeys("smoke", 1).experiment("smoke")
    return replace(table, cells=tuple(cell for cell in table.cells if cell.label == "Image"))


@pytest.fixture(scope="module")
def done(experiment, tmp_path_factory):
    """Where the experiment has been run; to be read only."""
    toys.settle()
    workspace = quiet(tmp_path_factory.mktemp("done"))
    run_experiment(experiment, workspace)
    return workspace


def recipes(experiment):
    return [cell.recipe for cell in experiment.cells]


def test_cells_are_chosen_by_row_and_column(experiment):
    assert {c.row for c in experiment.select_cells("identical*")} == {"identical start"}
    assert {c.column for c in experiment.select_cells("*/Q and K")} == {"Q and K"}
    assert experiment.select_cells(None) == list(experiment.cells)
    tasks = {cell.label for cell in experiment.cells}
    assert {c.label for c in experiment.select_cells(f"{min(tasks)}/identical*/*")} == {min(tasks)}
    with pytest.raises(SpecError, match="did you mean 'identical start/scratch'"):
        experiment.select_cells("identical start/scrach")
    with pytest.raises(SpecError, match=rf"for all of this task, {min(tasks)}/\*/\*$"):
        experiment.select_cells(f"{min(tasks)}/*")
    for nothing in ("*/scrach", f"{min(tasks)}/nothing/*"):
        with pytest.raises(SpecError, match="there is no such row and column"):
            experiment.select_cells(nothing)


def test_kept_results_make_the_same_page_without_training(experiment, done, tmp_path, monkeypatch):
    here = ExperimentFolder(Plan.of(experiment), done, tmp_path / "results")
    count = here.keep()
    assert count == len(plan_recipes(recipes(experiment)))
    elsewhere = quiet(tmp_path / "elsewhere")
    there = ExperimentFolder(Plan.of(experiment), elsewhere, tmp_path / "results")
    assert there.restore() == count
    names = trained(monkeypatch)
    run_experiment(experiment, elsewhere)
    assert not names
    pages = [(folder.path / "report.md").read_text().splitlines() for folder in (here, there)]
    assert len(pages[1]) == len(pages[0]) + 1
    assert pages[0] == [line for line in pages[1] if "not trained here but taken from" not in line]
    assert (there.path / "results.csv").read_text() == (here.path / "results.csv").read_text()


def test_how_sure_answers_are_is_kept_with_them(experiment, done):
    for recipe in recipes(experiment):
        kept = read_predictions(done.stage(recipe).path / "predictions.safetensors")
        assert kept.confidence.dtype == np.uint8 and len(kept.confidence) == len(kept.target)
        assert kept.confidence.min() >= 255 // 10 - 1  # of ten classes the most probable one


def test_a_new_stage_on_kept_pretraining_trains_that_again(experiment, done, workspace):
    cell = next(c for c in experiment.cells if c.column == "everything")
    todo = plan_recipes([cell.recipe])
    for stage in todo:
        shutil.copytree(done.folder(stage.id).path, workspace.folder(stage.id).path)
    assert missing_stages(todo, workspace) == []
    pretraining = workspace.stage(cell.recipe.upto(0))
    pretraining.drop(WEIGHTS)  # as if it came from kept results
    assert missing_stages(todo, workspace) == []
    more = [c.recipe for c in experiment.cells if c.row == cell.row]
    assert todo[0].id in {job.id for job in missing_stages(plan_recipes(more), workspace)}
    run_recipes(more, workspace)
    assert missing_stages(plan_recipes(more), workspace) == []
    assert pretraining.has(WEIGHTS)


def test_a_start_whose_weights_go_missing_after_planning_is_trained_again(experiment, done, workspace):
    recipe = next(c for c in experiment.cells if c.column == "everything").recipe
    shutil.copytree(done.runs, workspace.runs)
    pretraining, finetuned = workspace.stage(recipe.upto(0)), workspace.stage(recipe)
    pretraining.drop(WEIGHTS)  # as when another process restores it from kept results
    finetuned.drop("result.json")
    torch.manual_seed(1)
    drawn = torch.rand(3)
    torch.manual_seed(1)
    run_stage_by_stage(recipe, workspace)
    assert pretraining.has(WEIGHTS) and finetuned.finished
    assert (torch.rand(3) == drawn).all()  # training leaves the random numbers of the caller alone


def test_a_kept_result_stays_until_its_stage_is_trained_again(experiment, done, workspace, monkeypatch):
    """Another study that needs its weights, and is interrupted, takes nothing from a complete one."""
    recipe = next(c for c in experiment.cells if c.column == "everything").recipe.upto(0)
    shutil.copytree(done.stage(recipe).path, workspace.stage(recipe).path)
    kept = workspace.stage(recipe)
    kept.drop(WEIGHTS)
    (start,) = [stage for stage in plan_recipes([recipe]) if stage.id == kept.name]
    stage = replace(start, starts=True)

    def stop(**arguments):
        assert kept.finished
        raise Interrupted("stopped")

    monkeypatch.setattr("selfpretrain.runner.stage.train", stop)
    with pytest.raises(Interrupted):
        run_stage(stage, workspace)
    assert kept.finished and not kept.has(WEIGHTS)
    monkeypatch.undo()
    run_stage(stage, workspace)
    assert kept.finished and kept.has(WEIGHTS) and not kept.attempts


def test_only_runs_some_and_shows_the_rest_as_missing(experiment, workspace):
    folder = run_experiment(experiment, workspace, only="independent start/scratch").path
    assert "missing" in (folder / "report.md").read_text()
    stages = [path for path in (workspace.runs / "stages").iterdir() if (path / "result.json").exists()]
    assert len(stages) == len(experiment.by_task())


def test_tuning_is_equal_for_all_and_does_not_read_test(experiment, workspace):
    cells = [c for c in experiment.cells if c.row == "independent start" and c.label == "Image"]
    some = replace(experiment, cells=tuple(cells), notes=())
    tuned = tuning.tune(some, tuning.SearchSpace(lr=(1e-3, 1e-5), batch=(4,)), workspace)
    assert [(c.row, c.column) for c in tuned.cells] == [(c.row, c.column) for c in cells]
    assert len(tuned.notes) == len(cells) and all("of 2 settings tried" in line for line in tuned.notes)
    for cell in tuned.cells:
        assert cell.recipe.last.batch == 4 and cell.recipe.last.optim.lr in (1e-3, 1e-5)
    for path in (workspace.runs / "stages").glob("*/result.json"):
        assert "test" not in json.loads(path.read_text())["scores"]


def test_tuning_is_a_part_of_the_cost(experiment, workspace):
    cells = [cell for cell in experiment.cells if cell.column == "scratch"]
    space = tuning.SearchSpace(lr=(1e-3, 1e-5), batch=())
    tuned = tuning.tune(replace(experiment, cells=tuple(cells)), space, workspace)
    found = analyse(run_experiment(tuned, workspace).results)
    assert len(found.results.tried) == 2 * len(cells) == len(tuned.trials)
    costs = [stage.cost.flops for stage in found.results.tried]
    assert tables.spent(found).key == pytest.approx(1.5 * sum(costs)), "two trials and one run of every cell"
    assert f"with the {len(costs)} stages of tuning" in tables.costs(found).caption
    shutil.rmtree(found.results.tried[0].folder)  # as `runs gc --delete` does
    left = analyse(read(found.results.folder))
    assert tables.spent(left).text.endswith(", without 1 stage of tuning, deleted")


def test_a_trial_that_is_deleted_meanwhile_is_missed(experiment, workspace, monkeypatch):
    cells = [cell for cell in experiment.cells if cell.column == "scratch"]
    train = tuning.run_recipes

    def losing_the_first(recipes, *args, **how):
        train(recipes, *args, **how)
        shutil.rmtree(workspace.stage(recipes[0]).path)  # as `runs gc --delete` does

    monkeypatch.setattr(tuning, "run_recipes", losing_the_first)
    with pytest.raises(
        StoreError, match="1 trials were deleted while others ran; run the same command again"
    ):
        tuning.tune(
            replace(experiment, cells=tuple(cells)), tuning.SearchSpace(lr=(1e-3,), batch=()), workspace
        )


def test_a_trial_that_does_not_fit_is_the_worst_and_ends_nothing(experiment, workspace, monkeypatch):
    cells = [cell for cell in experiment.cells if cell.column == "scratch"]
    train = tuning.run_recipes

    def without_the_first(recipes, *args, **how):
        train([recipe for recipe in recipes if recipe.last.optim.lr != 1e-3], *args, **how)
        raise DoesNotFit("a step needs 99 GB")

    monkeypatch.setattr(tuning, "run_recipes", without_the_first)
    some = replace(experiment, cells=tuple(cells))
    tuned = tuning.tune(some, tuning.SearchSpace(lr=(1e-3, 1e-5), batch=()), workspace)
    assert {cell.recipe.last.optim.lr for cell in tuned.cells} == {1e-5}
    assert all(note.endswith("; 1 did not fit into memory") for note in tuned.notes[-len(cells) :])
    assert len(tuned.trials) == len(cells)


def test_a_fraction_of_the_labels_is_tuned_with_batches_that_it_fills():
    study = LabelFraction.at_scale("smoke", 1)
    found = study.experiment("smoke")
    tried = [recipe for of in tuning.trials_of(found, study.space).values() for recipe in of]
    assert tried and {recipe.last.batch for recipe in tried} <= {
        cell.recipe.last.batch for cell in found.cells
    }


def test_the_folder_of_many_tasks_has_a_name_that_disks_take(experiment, monkeypatch):
    names = iter(f"a-long-name-of-a-task-{i:03d}" for i in range(10_000))
    monkeypatch.setattr("selfpretrain.runner.experiment.file_name_of", lambda task: next(names))
    some = replace(experiment, lasting=False, digest="0a")
    assert some.folder.startswith(f"{some.name}-a-long-name-of-a-task-000-and-{len(some.cells) - 1}-more-0a")
    assert len(some.folder) < 200


def test_the_seed_of_tuning_is_not_reported():
    study = QueriesAndKeys("smoke", 2)
    with pytest.raises(SpecError, match="seed 1,000, which must not be reported: give --first-seed"):
        tuning.trials_of(study.experiment("smoke", first_seed=tuning.TUNING_SEED - 1), study.space)


def test_tasks_of_one_label_are_tuned_apart():
    """The study of locality calls its permuted images as it calls the original ones."""
    found = Locality("smoke", 1).experiment("smoke")
    tuned = tuning.trials_of(found, tuning.SearchSpace(lr=(1e-3,), batch=()))
    assert {len(recipes) for recipes in tuned.values()} == {1}
    assert len(tuned) == len(found.cells)


def test_a_page_names_the_command_that_gave_its_results(experiment, workspace):
    """Not an earlier one, of fewer seeds or of a part, that began the folder of the study."""
    some = replace(experiment, cells=tuple(c for c in experiment.cells if c.column == "scratch"))
    run_experiment(some, replace(workspace, command="selfpretrain study toys --only '*/scratch'"))
    again = run_experiment(
        replace(some, notes=("other",)), replace(workspace, command="selfpretrain study toys")
    )
    assert again.results.command == "selfpretrain study toys"


def test_what_a_study_measures_is_measured_on_tuned_networks(workspace):
    space = tuning.SearchSpace(lr=(1e-3,), batch=(4,), dropout=(0.2,))
    tuned = tuning.tune(Kernels("smoke", 1).experiment("smoke", first_seed=3), space, workspace)
    run_experiment(tuned, workspace)
    (pretraining,) = {each.parent for each in Plan.of(tuned).stages.values() if each.parent}
    assert workspace.folder(pretraining).read("recipe.json")["model"]["dropout"] == 0.2
    assert ExperimentFolder(Plan.of(tuned), workspace).measures()


def test_another_batch_sees_as_many_examples(experiment):
    recipe = experiment.cells[0].recipe
    steps = recipe.last.budget.steps
    recipe = recipe.with_last(replace(recipe.last, optim=Optim(warmup_steps=steps // 4, cosine_steps=steps)))
    changed = tuning.with_setting(recipe, {"batch": recipe.last.batch // 2, "dropout": 0.1})
    assert changed.last.optim.cosine_steps == changed.last.budget.steps, "no rate that rises again"
    assert changed.last.optim.warmup_steps == 2 * (steps // 4), "as many examples of warm-up"
    assert changed.last.batch * changed.last.budget.steps == recipe.last.batch * steps
    assert changed.model.dropout == 0.1


def test_seeds_can_be_counted_from_another_one():
    first, later = (QueriesAndKeys("smoke", 1).experiment("smoke", first_seed=seed) for seed in (0, 100))
    assert {cell.recipe.seed for cell in later.cells} == {100}
    assert [replace(c.recipe, seed=0) for c in later.cells] == recipes(first)


def test_what_was_measured_on_weights_is_kept_without_them(workspace, tmp_path):
    """And it follows a result that changed, as the page does: trained again under its name."""
    experiment, kept = Kernels("smoke", 1).experiment("smoke"), tmp_path / "results"
    here = ExperimentFolder(Plan.of(experiment), workspace, kept)
    run_experiment(experiment, workspace)
    measured = here.measures()
    assert measured and {m.series[1].label for m in measured} == {"SPT"}
    shifted = Plan.of(Kernels("smoke", 1).experiment("smoke", first_seed=10))
    assert not replace(here, plan=shifted).measures()  # of seeds that were not run
    here.keep()
    there = replace(here, workspace=quiet(tmp_path / "elsewhere"))
    there.restore()
    assert there.measures() == measured
    other = replace(there, plan=Plan.of(Kernels("smoke", 2).experiment("smoke")))
    other.restore()
    assert not other.measures()  # of other cells
    assert here.is_current
    pretraining = workspace.stage(experiment.cells[-1].recipe.upto(0))
    result = pretraining.read("result.json")
    weights, _ = pretraining.load(WEIGHTS, result["weights"])
    other = pretraining.save(WEIGHTS, {name: 2 * value for name, value in weights.items()})
    pretraining.write("result.json", result | {"weights": other})
    assert not here.is_current
    assert here.measures() != measured


@pytest.mark.parametrize("causal", [False, True])
def test_distance_of_attention_to_all_alike_is_the_mean_distance(causal):
    task = Digits(train=20)
    model = Model(Attention(), width=8, depth=1, causal=causal)
    recipe = Recipe(task, model, (Stage(Classify(), Budget(steps=1)),))
    network = build_network(recipe)
    with torch.no_grad():
        network.blocks[0].mixer.q.weight.zero_()
        network.blocks[0].mixer.q.bias.zero_()
    at = np.arange(64)
    apart = np.abs(at[:, None] - at)
    expected = np.mean([apart[t, : t + 1].mean() for t in at]) if causal else apart.mean()
    assert attention_distance(network, task) == pytest.approx([expected], abs=2e-3)


def test_a_page_is_current_until_what_it_says_changes(experiment, done, workspace, tmp_path):
    here = ExperimentFolder(Plan.of(experiment), workspace, tmp_path / "results")
    assert not here.is_current
    shutil.copytree(done.runs, workspace.runs, dirs_exist_ok=True)
    assert here.is_current
    here.bundled.mkdir()
    (here.bundled / "coser-table-4.smoke.md").write_text("Less than hoped.")
    assert not here.is_current
    here.write_plan()
    here.finish()
    assert here.is_current
    assert "Less than hoped." in (here.path / "report.md").read_text()
    workspace.stage(experiment.cells[0].recipe).drop("result.json")
    assert not here.is_current


def test_what_was_written_of_bundled_results_is_not_said_of_others(experiment, done, tmp_path):
    bundled = tmp_path / "results"
    bundled.mkdir()
    (bundled / "coser-table-4.smoke.md").write_text("Less than hoped.")
    first, *more = experiment.cells

    def folder(*cells):
        return ExperimentFolder(Plan.of(replace(experiment, cells=cells)), done, bundled)

    folder(first).keep()
    assert folder(first)._interpretation() == "Less than hoped."
    assert folder(first, *more)._interpretation() == f"{experiment_dir.OF_BUNDLED}\n\nLess than hoped."
    kept = folder(first).plan.stages.keys()
    other = next(cell for cell in more if kept.isdisjoint(folder(cell).plan.stages))
    assert folder(other)._interpretation() == ""


def test_a_stage_that_is_held_elsewhere_waits_while_others_go_on(experiment, tmp_path):
    """And whoever waits for it ends when asked to."""
    workspace = quiet(tmp_path / "runs")
    todo = plan_recipes(recipes(experiment))
    first, others = todo[0], [job for job in todo[1:] if job.parent != todo[0].id]
    assert others
    done = lambda: all(workspace.folder(job.id).finished for job in others)  # noqa: E731
    with workspace.folder(first.id).exclusive():
        assert workspace.folder(first.id).is_running
        with pytest.raises(Interrupted, match="resumes from here"):
            run_recipes([job.recipe for job in todo], replace(workspace, stop=done))
    assert done() and not workspace.folder(first.id).finished
    assert not workspace.folder(first.id).is_running


class Scripted(Executor):
    """An executor that says how stages end instead of running them."""

    slots, attempts = 2, 3

    def __init__(self, ends):
        self.ends, self.started, self.running, self.closed = ends, [], [], False

    def start(self, job):
        assert len(self.running) < self.slots
        self.started.append(job.id)
        self.running.append(job)

    def poll(self, timeout):
        done, self.running = self.running[:1], self.running[1:]
        return [self.ended(job, self.ends.get(job.id, ["done"]).pop(0)) for job in done]

    def ended(self, job, how):
        reason = {"failed": "broken", "lost": "killed", "unfit": f"{job.id} needs 90 GB"}.get(how)
        return super().ended(job, (how, reason)) if reason else Ended(job, how)

    def stop(self):
        self.ends = {job.id: ["stopped"] for job in self.running}

    def close(self):
        self.closed = True


def chain(*names):
    """Jobs; ``b<a`` starts from ``a``."""
    model = Model(Attention(heads=2), width=8, depth=1)
    recipe = Recipe(toys.Majority(), model, (Stage(Classify(), Budget(steps=1)),))
    parts = [name.partition("<") for name in names]
    return [PlannedStage(name, recipe, after or None, tested=True) for name, _, after in parts]


def test_processes_leave_the_results_that_they_were_asked_for(tmp_path, monkeypatch):
    if sys.platform == "linux":  # slow tests start the processes anew, as users' programs do
        forking = multiprocessing.get_context("fork")
        monkeypatch.setattr(processes.multiprocessing, "get_context", lambda how: forking)
    stages = (Stage(Classify(), Budget(steps=2), batch=4, evals=1),)
    model = Model(Attention(heads=2), width=8, depth=1)
    wanted = [Recipe(toys.Majority(), model, stages, seed) for seed in (0, 1)]
    workspace = replace(Workspace.of(tmp_path, "cpu", "2"), quiet=True)
    heard = []
    with listen(heard.append):
        run_recipes(wanted, workspace)
    scores = [workspace.stage(recipe).read("result.json")["scores"]["test"]["score"] for recipe in wanted]
    assert scores == pytest.approx([0.4895833333333333, 0.5104166666666666], abs=0.5)
    ends = [event.name for event in heard if event.kind == "end"]
    assert sorted(ends) == sorted(workspace.stage(recipe).name for recipe in wanted)


class BrokenPool:
    """A pool whose worker is killed at its first stage."""

    def __init__(self, *_):
        self.lost = Future()

    def submit(self, *_):
        if self.lost.done():
            raise BrokenProcessPool
        self.lost.set_exception(BrokenProcessPool())
        return self.lost

    def shutdown(self, **_):
        """Nothing is left to end."""


def test_a_killed_worker_is_reported_in_one_line(workspace, experiment, monkeypatch):
    monkeypatch.setattr(processes, "ProcessPoolExecutor", BrokenPool)
    several = replace(workspace, executor="processes", workers=2)
    with pytest.raises(SelfPretrainError, match=r"a worker process was killed .* run the same command again"):
        run_recipes(recipes(experiment), several)


def test_a_signal_to_all_processes_of_a_command_stops_it(workspace, experiment, monkeypatch):
    """As schedulers and ``timeout`` send it: workers end at once, and the parent was asked to stop."""
    asks = []

    class SignalledPool(BrokenPool):
        def submit(self, *given):
            asks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
            return super().submit(*given)

    monkeypatch.setattr(processes, "ProcessPoolExecutor", SignalledPool)
    several = replace(workspace, executor="processes", workers=2, stop=lambda: bool(asks))
    with pytest.raises(Interrupted, match="the same command resumes"):
        run_recipes(recipes(experiment), several)
    assert all({signal.SIGINT, signal.SIGHUP} <= blocked for blocked in asks)


@pytest.mark.parametrize("harm", ["{", "{}\n"], ids=["torn", "without its kind"])
def test_a_damaged_log_of_another_process_is_named(done, tmp_path, harm):
    stage = next(done.runs.glob("stages/*"))
    shutil.copytree(stage, tmp_path / stage.name)
    with (tmp_path / stage.name / "log.jsonl").open("a") as log:
        log.write(harm)
    with pytest.raises(StoreError, match=r"log\.jsonl"):
        replay(RunDir(tmp_path / stage.name))


def test_a_stage_waits_for_the_one_it_starts_from():
    executor = Scripted({})
    StageQueue(chain("a", "b<a", "c", "d<elsewhere"), executor, never).run()
    assert executor.started == ["a", "c", "b", "d"] and executor.closed


def test_processes_are_started_where_they_gain_time(tmp_path):
    def where(costs, workers="auto", executor="auto"):
        here = replace(Workspace.of(tmp_path, "cpu", workers), executor=executor)
        here = here if workers == "1" else replace(here, workers=2)
        return _executor_name(chain("a", "b", "c"), dict.fromkeys("abc", costs), here)

    assert [where(1e8), where(1e12), where(1e12, "1")] == ["serial", "processes", "serial"]
    assert where(1e8, executor="ray") == "ray"
    assert Workspace.of(tmp_path, "cpu", "2").executor == "processes"
    assert Workspace.of(tmp_path, "cpu", 2) == Workspace.of(tmp_path, "cpu", "2")


def test_what_would_hold_up_the_end_comes_first():
    jobs = chain("a", "b", "c", "first", "then<first", "d")
    costs = {"a": 1.0, "b": 1.0, "c": 1.0, "first": 1.0, "then": 3.0, "d": 1.0}
    executor = Scripted({})  # two at once: a chain of half of all that is left takes as long as the rest
    StageQueue(jobs, executor, never, costs=costs).run()
    assert executor.started == ["first", "a", "b", "then", "c", "d"]
    executor = Scripted({})
    StageQueue(jobs, executor, never, costs=costs | {"then": 1.0}).run()
    assert executor.started == ["a", "b", "c", "first", "d", "then"]


def test_what_is_lost_is_tried_again_and_what_failed_is_not():
    executor, heard = Scripted({"a": ["lost", "lost", "done"]}), []
    with listen(heard.append):
        StageQueue(chain("a", "b<a"), executor, never).run()
    assert executor.started == ["a", "a", "a", "b"]
    assert [e.numbers["attempts"] for e in heard if e.kind == "lost"] == [1, 2]
    executor = Scripted({"a": ["lost", "lost", "lost"]})
    with pytest.raises(SelfPretrainError, match="killed"):
        StageQueue(chain("a", "b<a"), executor, never).run()
    executor = Scripted({"a": ["failed"]})
    with pytest.raises(SelfPretrainError, match="broken"):
        StageQueue(chain("a", "c", "b<a", "d"), executor, never).run()
    assert executor.started == ["a", "c"] and executor.closed


def test_a_stage_that_does_not_fit_leaves_out_what_starts_from_it_alone():
    executor = Scripted({"a": ["unfit"], "e": ["unfit"]})
    jobs = chain("a", "c", "b<a", "b2<b", "d<c", "e", "f<e", "g<d")
    with pytest.warns(UserWarning, match="needs 90 GB; the other stages go on") as said:  # noqa: SIM117
        with pytest.raises(DoesNotFit, match=r"^a needs 90 GB; e needs 90 GB$") as found:
            StageQueue(jobs, executor, never).run()
    assert executor.started == ["a", "c", "e", "d", "g"] and executor.closed
    assert len(said) == 2 and found.value.exit_code == 1


def test_when_asked_to_stop_what_runs_may_save_and_nothing_new_begins():
    executor, asked = Scripted({}), iter([False, True, True, True, True])
    with pytest.raises(Interrupted, match="resumes from here"):
        StageQueue(chain("a", "b", "c", "d"), executor, lambda: next(asked)).run()
    assert executor.started == ["a", "b", "c"] and executor.closed


def test_a_request_to_stop_reaches_what_runs_after_a_stage_has_stopped_by_itself():
    class Slow(Scripted):
        """Its second stage ends when it is asked to."""

        asked = 0

        def poll(self, timeout):
            if self.running and self.running[0].id == "b" and not self.asked:
                return []
            return super().poll(timeout)

        def stop(self):
            self.asked += 1
            super().stop()

    turns = iter([False, *[True] * 9])
    executor = Slow({"a": ["stopped"]})
    with pytest.raises(Interrupted):
        StageQueue(chain("a", "b"), executor, lambda: next(turns)).run()
    assert executor.asked == 1 and executor.started == ["a", "b"]


def test_a_trial_without_a_finite_score_and_loss_is_never_the_best(workspace):
    """Weights that are not finite answer, too: with the first class, which may be the most frequent."""
    scores = {}
    for number, (score, loss) in enumerate([(math.nan, 1), (0.5, 1), (-math.inf, 1), (0.9, math.nan)]):
        stage = RunDir.make(workspace.runs / "stages" / f"trial-{number}")
        stage.write("result.json", {"scores": {"val": {"score": score, "loss": loss}}})
        scores[number] = tuning._validation_score(stage)
    assert scores == {0: -math.inf, 1: 0.5, 2: -math.inf, 3: -math.inf}


def test_results_that_could_not_be_read_again_are_not_kept(monkeypatch):
    monkeypatch.setattr(archive, "MAX_BYTES", 1_000)
    assert archive._compress({}, [{"stage": "a"}])
    with pytest.raises(StoreError, match="are not kept; use another --results"):
        archive._compress({}, [{"stage": "a" * 1_000}])


def test_trackers_hear_everything(experiment, tmp_path):
    workspace = replace(quiet(tmp_path), trackers=("jsonl",))
    cell = next(c for c in experiment.cells if c.column == "scratch")
    run_recipes([cell.recipe], workspace)
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert {"start", "train", "val", "end"} <= {line["kind"] for line in lines}
    log = (workspace.stage(cell.recipe).path / "log.jsonl").read_text().splitlines()
    assert len([line for line in lines if line["kind"] in ("train", "val")]) == len(log)


SCRIPT = """
from pathlib import Path

import selfpretrain

several = selfpretrain.Workspace.of(Path("runs"), workers="2")
for workspace in (several, None):
    try:
        task, arms = "toys:Majority", ("scratch", "spt")
        results = selfpretrain.compare(task, ("linear",), None, 1, "smoke", workspace=workspace, arms=arms)
    except ValueError as error:
        print(error)
print(results.state)
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard_runs_stage_by_stage(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, script]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), text=True, capture_output=True, check=True
    )
    refused, state = done.stdout.splitlines()
    assert refused.startswith(f"{script}, line 10: ") and '`if __name__ == "__main__":`' in refused
    assert state == "measured"


def test_baselines_and_overlap_are_computed_again_after_an_edit_of_the_task(workspace, monkeypatch):
    """They are of the data of a task; of one from outside, its source decides which these are."""
    assert experiment_dir.manifest(toys.Majority(), workspace)
    monkeypatch.setattr(experiment_dir, "example_hashes", lambda task: {split: ["new"] for split in SPLITS})
    assert experiment_dir.manifest(toys.Majority(), workspace)["train"] != ["new"]
    monkeypatch.setattr(code_hash, "digest", lambda module: "edited")
    assert experiment_dir.manifest(toys.Majority(), workspace)["train"] == ["new"]
