"""What engines are told and what they wait for, by stand-ins: Slurm, Ray, slow disks, and two of torchrun."""

import functools
import json
import os
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

import torture
import toys
from engines import COMPARE, free_port, recipes, study
from selfpretrain.cli.app import run
from selfpretrain.cli.options import RunFlags
from selfpretrain.errors import SpecError, StoreError
from selfpretrain.objectives.masked import Masked
from selfpretrain.runner import run as runner
from selfpretrain.runner.executors import base, ray, slurm
from selfpretrain.runner.executors.serial import Serial
from selfpretrain.runner.plan import Plan, plan_recipes
from selfpretrain.runner.run import StageQueue
from selfpretrain.runner.run_dir import RunDir
from selfpretrain.runner.workspace import Workspace, run_context
from selfpretrain.system.events import Event, emit
from selfpretrain.training.cost import Cost
from selfpretrain.training.recipe import Budget, Stage


@pytest.fixture
def stages():
    """Three stages after one another, and another two that share the first of them."""
    (two,) = recipes(4, toys.Majority())
    first, last = two.stages
    three = replace(two, stages=(first, Stage(Masked(), Budget(steps=4), batch=4), last))
    return plan_recipes([three, two, replace(three, seed=1)])


def finish(workspace, stage):
    """Leave what a finished stage leaves."""
    result = {"steps": 1, "scores": {"val": {"score": 0.5}}}
    RunDir.make(workspace.folder(stage.id).path).write("result.json", result)


# ---- Slurm


class Cluster:
    """Takes arrays of jobs and numbers them, as submitit and sbatch do."""

    def __init__(self, folder):
        self.folder, self.arrays, self.queue = folder, [], ""
        self.asked, self.most, self.result = [], 100, ("success", None)
        self.core = SimpleNamespace(utils=SimpleNamespace(pickle_load=lambda path: self.result))

    def SlurmExecutor(self, folder, errors):
        told = {}
        return SimpleNamespace(
            update_parameters=lambda **given: told.update(given["additional_parameters"]),
            map_array=lambda work, jobs: self.take(told, jobs),
        )

    def ask(self, *command):
        self.asked.append(command)
        return self.queue

    def take(self, told, jobs):
        if len(self.arrays) == self.most:
            raise RuntimeError("sbatch: error: QOSMaxSubmitJobPerUserLimit")
        number = 100 + len(self.arrays)
        self.arrays.append((told.get("dependency"), {f"{number}_{i}": job for i, job in enumerate(jobs)}))
        places = [self.folder / f"{number}_{i}" for i in range(len(jobs))]
        paths = [SimpleNamespace(result_pickle=place, stderr="job.err") for place in places]
        return [SimpleNamespace(job_id=path.result_pickle.name, paths=path) for path in paths]


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    made = Cluster(tmp_path)
    monkeypatch.setitem(sys.modules, "submitit", made)
    monkeypatch.setattr(slurm, "_run_command", made.ask)
    monkeypatch.setattr(slurm.shutil, "which", lambda name: name)
    monkeypatch.setattr(slurm, "POLL_SECONDS", 0.0)
    return made


def test_jobs_are_submitted_after_those_that_they_start_from(stages, cluster, tmp_path):
    workspace = Workspace(tmp_path, executor="slurm", quiet=True)
    todo = [stage for stage in stages if stage.parent or stage.recipe.seed]  # one start is on disk
    assert slurm.Slurm.detach(todo, workspace).startswith(f"{len(todo)} jobs of Slurm")
    numbers = {}
    for dependency, jobs in cluster.arrays:
        for stage in (job.stage for job in jobs.values()):
            waits = f"afterok:{numbers[stage.parent]}" if stage.parent in {s.id for s in todo} else None
            assert dependency == waits
        numbers |= {job.stage.id: number for number, job in jobs.items()}
    assert sorted(numbers) == sorted(stage.id for stage in todo)
    assert len(cluster.arrays) == 4 and cluster.arrays[0][0] is None


def test_jobs_that_are_refused_leave_none_behind_and_no_stage_waiting(cluster, tmp_path, capsys):
    cluster.most = 1
    flags = [*COMPARE, "--runs", str(tmp_path), "--device", "cpu", "--executor", "slurm", "--detach"]
    assert run(flags) == 2
    assert "takes no jobs from here: sbatch: error: QOSMaxSubmitJobPerUserLimit" in capsys.readouterr().err
    assert cluster.asked[-1] == ("scancel", *sorted(cluster.arrays[0][1]))
    assert run(["runs", "status", str(tmp_path)]) == 0
    assert " 0 waiting" in capsys.readouterr().out
    cluster.most = 100
    assert run(flags) == 0 and run(["runs", "status", str(tmp_path)]) == 0
    assert " 4 waiting" in capsys.readouterr().out


def test_a_queue_that_does_not_answer_is_not_an_empty_one(stages, cluster, tmp_path, capsys):
    cluster.queue = None
    with pytest.raises(SpecError, match=r"squeue does not answer, and jobs of .* may be queued"):
        slurm.Slurm.detach(stages, Workspace(tmp_path, quiet=True))
    assert run(["runs", "status", str(tmp_path)]) == 0 and not cluster.arrays
    assert "jobs of Slurm: squeue does not answer" in capsys.readouterr().out


def test_nothing_is_left_to_submit(stages, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "missing_stages", lambda stages, workspace: [])
    plan = Plan.of(study().experiment("smoke"))
    said = runner.detach(plan, Workspace(tmp_path, executor="slurm", quiet=True))
    assert said.startswith("all stages are done") and not cluster.arrays


def test_a_new_job_that_the_queue_does_not_show_yet_is_not_submitted_again(stages, cluster, monkeypatch):
    executor = slurm.Slurm(Workspace(cluster.folder, quiet=True))
    executor.announce(stages[:1])
    executor.start(stages[0])
    assert len(cluster.arrays) == 1
    monkeypatch.setattr(slurm, "LOST_AFTER", 0.0)
    executor.start(stages[0])
    assert len(cluster.arrays) == 2


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        ("selfpretrain.errors.StageFailed: a stage: out of paper", "a stage: out of paper"),
        ("AssertionError", "{stage}: AssertionError; job.err may say more"),
        ("ImportError: No module named 'mylab'", "{stage}: ImportError: No module named 'mylab'; job.err"),
    ],
)
def test_what_a_job_dies_of_names_its_stage(trace, said, stages, cluster):
    executor = watched(stages, cluster)
    (cluster.folder / "100_0").touch()
    cluster.result = ("error", f"Traceback\n{trace}\n")
    (ended,) = executor.poll(0.0)
    assert ended.how == "failed" and str(ended.error).startswith(said.format(stage=stages[0].id))


@pytest.mark.parametrize(
    ("settings", "device"),
    [
        ({"gpus": "1"}, "cuda"),
        ({"gres": "gpu:a100:1"}, "cuda"),
        ({"gpus_per_node": "a100:1"}, "cuda"),
        ({"gpus-per-task": "1"}, "cuda"),
        ({"partition": "gpu", "cpus-per-gpu": "4", "gres": "lscratch:10"}, "cpu"),
    ],
)
def test_every_flag_that_asks_for_a_gpu_has_stages_use_it(settings, device, tmp_path):
    assert Workspace(tmp_path, executor_settings=settings).stage_device == device


def test_jobs_of_a_folder_are_found_by_all_its_paths(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    assert slurm.job_name(tmp_path / "link" / "runs") == slurm.job_name(tmp_path / "runs")


def watched(stages, cluster):
    """An executor whose only job has left the queue."""
    executor = slurm.Slurm(Workspace(cluster.folder, quiet=True))
    executor.announce(stages[:1])
    cluster.queue = "100_0"
    executor.start(stages[0])
    assert executor.poll(0.0) == []
    cluster.queue = ""
    return executor


def test_a_job_whose_result_shows_late_is_not_lost(stages, cluster, tmp_path):
    executor = watched(stages, cluster)
    assert [executor.poll(0.0) for _ in range(3)] == [[], [], []]
    (tmp_path / "100_0").touch()
    finish(executor.workspace, stages[0])
    assert [each.how for each in executor.poll(0.0)] == ["done"]
    assert len(cluster.arrays) == 1


def test_a_job_without_a_result_is_lost_in_the_end(stages, cluster, tmp_path, monkeypatch):
    executor = watched(stages, cluster)
    monkeypatch.setattr(slurm, "LOST_AFTER", -1.0)
    (ended,) = executor.poll(0.0)
    assert ended.how == "lost" and "run the same command again" in str(ended.error)


# ---- a disk that another machine has written to


def test_a_result_that_shows_late_is_waited_for(stages, tmp_path, monkeypatch):
    executor, waits = Serial(Workspace(tmp_path, quiet=True)), []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            finish(executor.workspace, stages[0])

    monkeypatch.setattr(base.time, "sleep", sleep)
    assert executor.ended(stages[0], ("done", "")).how == "done" and len(waits) == 3
    monkeypatch.setattr(base, "VISIBLE_AFTER", 0.0)
    with pytest.raises(StoreError, match="is not there"):
        executor.ended(stages[1], ("done", ""))


# ---- Ray


class Nodes:
    """A cluster of Ray with four processors and one GPU, which notes what it is asked for."""

    def __init__(self):
        self.begun, self.asked, self.jobs = [], [], []
        self.init = lambda **settings: self.begun.append(settings)
        self.is_initialized = lambda: False
        self.cluster_resources = lambda: {"CPU": 4.0, "GPU": 1.0}
        self.shutdown = self.begun.clear

    def remote(self, **need):
        self.asked.append(need)
        return lambda work: SimpleNamespace(remote=lambda job: self.jobs.append(job) or len(self.jobs))


@pytest.fixture
def nodes(monkeypatch):
    made = Nodes()
    monkeypatch.setitem(sys.modules, "ray", made)
    return made


def test_ray_refuses_stages_of_a_gpu_that_it_would_hide(nodes, tmp_path):
    with pytest.raises(SpecError, match=r"hides GPUs .* add --with gpus=1, or --device cpu"):
        ray.Ray(Workspace(tmp_path, "cuda"))
    assert not nodes.begun


@pytest.mark.parametrize(
    ("here", "settings", "need", "slots", "there"),
    [
        ("cpu", {}, (1.0, 0.0), 4, "cpu"),
        ("cuda", {"gpus": "0.25"}, (1.0, 0.25), 4, "cuda"),
        ("cpu", {"gpus": "1", "cpus": "2"}, (2.0, 1.0), 1, "cuda"),  # this machine needs none
    ],
)
def test_ray_gives_stages_the_gpus_that_were_asked_for(
    here, settings, need, slots, there, nodes, stages, tmp_path
):
    executor = ray.Ray(Workspace(tmp_path, here, executor_settings=settings))
    assert executor.slots == slots
    executor.start(stages[0])
    assert [(asked["num_cpus"], asked["num_gpus"]) for asked in nodes.asked] == [need]
    assert [job.workspace.device for job in nodes.jobs] == [there]


def test_an_address_where_nothing_listens_is_refused_before_ray_looks_for_it(nodes, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", address := f"127.0.0.1:{free_port()}")
    for given in ("", address, f"ray://{address}", "127.0.0.1:99999"):
        with pytest.raises(SpecError, match="no Ray cluster at "):
            ray.Ray(Workspace(tmp_path, executor_settings={"address": given} if given else {}))
    assert not nodes.begun


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cpus": "0"}, "a share of a core or of a GPU"),
        ({"cpus": "-1"}, "cpus=-1: give a number from 0"),
        ({"gpus": "nan"}, "gpus=nan: give a number from 0"),
        ({"cpus": "inf"}, "cpus=inf: give a number from 0"),
    ],
)
def test_no_stage_takes_nothing_or_less(settings, said, nodes, tmp_path):
    with pytest.raises(SpecError, match=said):
        ray.Ray(Workspace(tmp_path, executor_settings=settings))


def test_stages_that_no_node_has_room_for_are_told(nodes, tmp_path):
    with pytest.warns(match="a stage needs 2 GPU, and the Ray cluster has 1: stages wait until nodes join"):
        ray.Ray(Workspace(tmp_path, executor_settings={"gpus": "2"}))


# ---- torchrun


def test_torchrun_takes_no_other_executor(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SpecError, match="leave out --executor slurm"):
        RunFlags(runs=tmp_path, executor="slurm").workspace()
    assert RunFlags(runs=tmp_path, executor="serial").workspace().executor == "serial"


def test_serial_stages_are_forecast_one_after_another_with_all_cores(tmp_path, monkeypatch):
    monkeypatch.setattr("selfpretrain.runner.workspace.usable_cores", lambda: 8)
    here = RunFlags(runs=tmp_path, executor="serial", device="cpu").workspace()
    assert (here.workers, here.threads) == (1, 8)
    with pytest.raises(SpecError, match="one stage at a time; leave out --jobs 4"):
        RunFlags(runs=tmp_path, executor="serial", jobs="4").workspace()


def asked_as(rank, port, workspace, stages):
    """Look for what is to do as torchrun would have a process do it, of which the second finds nothing."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": "2"}
    with run_context(workspace) as here:
        queue = StageQueue.of(stages, here, [] if rank else stages[1:])
        with queue.display():
            emit(Event("start", f"of {rank}"))
        return [stage.id for stage in queue.waiting]


def test_processes_of_torchrun_have_one_list_of_stages_and_one_tracks_them(stages, tmp_path):
    workspace, port = Workspace(tmp_path, trackers=("jsonl",), quiet=True), free_port()
    known = [replace(stage, cost=Cost(4, 1.0, 1, 0.0, 1)) for stage in stages]
    pids = [
        torture.forked(functools.partial(asked_as, rank, port, workspace, known), tmp_path) for rank in (0, 1)
    ]
    ended = [torture.ended(pid, tmp_path) for pid in pids]
    assert [each.code for each in ended] == [0, 0], ended
    assert [each.answer for each in ended] == [[stage.id for stage in stages[1:]]] * 2
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["of 0"]
