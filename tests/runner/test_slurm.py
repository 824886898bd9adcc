"""Stages as jobs of a real Slurm on this machine: arrays, dependencies, preemption, and what dies."""

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from engines import COMPARE, at_work, check_study, free_port, numbers, recipes
from processes import environment
from selfpretrain.cli.app import run
from selfpretrain.errors import Interrupted, SpecError
from selfpretrain.runner.executors import slurm
from selfpretrain.runner.run import run_recipes
from selfpretrain.runner.workspace import Workspace

STEPS = 800
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "srun")
CONF = """
ClusterName=lane
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={other_port}
AuthType=auth/munge
AuthInfo=socket={at}/munge,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd.pid
SlurmctldLogFile={at}/slurmctld.log
SlurmdLogFile={at}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,bf_interval=2,sched_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=5
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=5 State=UP
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF State=UP
"""


def flags(tmp_path, **settings):
    return slurm._sbatch_flags(replace(Workspace.of(tmp_path, "cpu", "1"), executor_settings=settings))


def test_what_sbatch_is_told(tmp_path):
    assert flags(tmp_path) == {"time": 60, "cpus_per_task": 1}
    asked = flags(tmp_path, time="8h", partition="gpu", gpus="2", cpus="4", mem="8G")
    assert asked == {
        "time": 480, "partition": "gpu", "gpus_per_node": 2, "cpus_per_task": 4, "mem": "8G",
    }  # fmt: skip
    assert flags(tmp_path, time="1-00:00:00")["time"] == "1-00:00:00"
    assert flags(tmp_path, time="1.2.3h")["time"] == "1.2.3h"  # sbatch says what it thinks of that
    with pytest.raises(SpecError, match="whole processors and GPUs"):
        flags(tmp_path, gpus="0.25")


def waited(look, seconds=90.0, what="it did not come to that"):
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return found


@pytest.fixture(scope="module")
def lane(tmp_path_factory):
    """A controller, a node of two processors, and what they trust each other by."""
    pytest.importorskip("submitit")
    if missing := [name for name in PROGRAMS if not shutil.which(name)]:
        pytest.skip(f"no real Slurm here: {missing[0]} is not installed (Debian: slurmctld slurmd munge)")
    if os.geteuid():
        pytest.skip("no real Slurm here: its daemons start as root")
    if not any(Path("/sys/fs/cgroup").glob("*")):
        pytest.skip("no real Slurm here: slurmd needs cgroups")
    at = Path(
        f"/tmp/selfpretrain-slurm-{os.getpid()}"
    )  # names of sockets are short, and a key's folders are private
    for folder in (at, at / "state", at / "spool"):
        folder.mkdir(mode=0o755)
    (at / "key").write_bytes(os.urandom(128))
    (at / "key").chmod(0o600)
    names = {"host": socket.gethostname().partition(".")[0], "at": at}
    (at / "slurm.conf").write_text(CONF.format(port=free_port(), other_port=free_port(), **names))
    munge = [f"--{name}={at / file}" for name, file in (
        ("key-file", "key"), ("socket", "munge"), ("pid-file", "munged.pid"), ("log-file", "munged.log"),
        ("seed-file", "seed"))]  # fmt: skip
    before = dict(os.environ)
    os.environ |= {"SLURM_CONF": str(at / "slurm.conf"), "PYTHONPATH": environment()["PYTHONPATH"]}
    daemons = []
    try:
        for command in (
            ["munged", "--force", "--foreground", *munge],
            ["slurmctld", "-D", "-i"],
            ["slurmd", "-D"],
        ):
            with (at / f"{command[0]}.said").open("w") as said:
                daemons.append(subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True))
            time.sleep(0.5)
        end = time.monotonic() + 30
        while "idle" not in (slurm._run_command("sinfo", "--noheader", "--format=%T") or ""):
            if time.monotonic() > end or any(daemon.poll() is not None for daemon in daemons):
                told = " ".join(path.read_text()[-150:] for path in at.glob("*.said"))
                pytest.skip(f"Slurm does not start here: {told}")
            time.sleep(0.2)
        yield at
    finally:
        slurm._run_command("scancel", "--user=root")
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(timeout=60)
        os.environ.clear()
        os.environ |= before
        shutil.rmtree(at)


def over_slurm(runs, **settings):
    handed = {"partition": "low"} | settings
    return Workspace(runs, executor="slurm", executor_settings=handed, quiet=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    here = Workspace(tmp_path_factory.mktemp("here"), quiet=True)
    run_recipes(recipes(STEPS), here)
    return numbers(here, STEPS)


def pretraining(workspace):
    (stage,) = {workspace.stage(r.upto(0)) for r in recipes(STEPS) if len(r.stages) == 2}
    return stage


def preempted(stage):
    """A job that matters more takes both processors for a moment."""
    at_work(stage)
    rival = ["sbatch", "--partition=high", "--cpus-per-task=2", "--output=/dev/null", "--wrap=sleep 1"]
    subprocess.run(rival, check=True, capture_output=True)


def time_is_up(stage):
    at_work(stage)
    subprocess.run(["scancel", "--signal=USR2", "--state=RUNNING", "--user=root"], check=True)


def killed(stage):
    os.kill(at_work(stage), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("harm", [time_is_up, preempted, killed])
def test_harm_in_mid_stage_costs_time_and_no_digit(harm, lane, undisturbed, tmp_path, monkeypatch):
    monkeypatch.setattr(slurm, "LOST_AFTER", 3.0)
    workspace = over_slurm(tmp_path)
    stage = pretraining(workspace)
    harmed = threading.Thread(target=harm, args=(stage,), daemon=True)
    harmed.start()
    run_recipes(recipes(STEPS), workspace)
    harmed.join(timeout=1)
    assert numbers(workspace, STEPS) == undisturbed
    assert not harmed.is_alive() and stage.attempts == []
    steps = [json.loads(line)["step"] for line in (stage.path / "log.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)


@pytest.mark.slow
def test_a_study_is_that_of_one_process(lane, tmp_path):
    there = check_study(tmp_path, "--executor", "slurm", "--with", "partition=low", "--with", "time=30m")
    scripts = [path.read_text() for path in there.glob("slurm/*_submission.sh")]
    assert all("--time=30" in script and "--partition=low" in script for script in scripts)
    assert any("--array=0-" in script and "afterok" not in script for script in scripts)
    assert any("--dependency=afterok:" in script for script in scripts)


@pytest.mark.slow
def test_who_asks_may_leave(lane, tmp_path, capsys):
    runs = tmp_path / "runs"
    flags = [*COMPARE, "--runs", str(runs), "--device", "cpu"]
    left = [*flags, "--executor", "slurm", "--detach"]
    assert run(left) == 0
    assert "4 jobs of Slurm, called selfpretrain-" in capsys.readouterr().out
    assert run(left) == 2
    assert "are in the queue; scancel --name=selfpretrain-" in capsys.readouterr().err
    assert run(["runs", "status", str(runs)]) == 0
    assert "jobs of Slurm: " in capsys.readouterr().out
    waited(lambda: len(list(runs.glob("stages/*/result.json"))) == 4, 240)
    waited(lambda: not slurm._run_command("squeue", "--noheader"), 60)
    assert run([*flags]) == 0
    assert not list(runs.glob("stages/*.part-*"))


@pytest.mark.slow
def test_jobs_that_are_cancelled_leave_a_checkpoint(lane, tmp_path):
    runs = tmp_path / "runs"
    flags = [*COMPARE, "--runs", str(runs), "--device", "cpu", "-s", "pretrain.budget.steps=4000"]
    assert run([*flags, "--executor", "slurm", "--detach"]) == 0
    waited(lambda: list(runs.glob("stages/*masked*/log.jsonl")), 120)
    subprocess.run(["scancel", f"--name={slurm.job_name(runs)}"], check=True)
    waited(lambda: not slurm._run_command("squeue", "--noheader"), 120)
    assert list(runs.glob("stages/*masked*.part-*/checkpoint.safetensors"))
    assert run([*flags, "--jobs", "1"]) == 0
    assert not list(runs.glob("stages/*.part-*"))


@pytest.mark.slow
def test_a_driver_that_is_stopped_takes_its_jobs_back(lane, tmp_path):
    workspace = over_slurm(tmp_path)
    stage = pretraining(workspace)
    seen = lambda: bool(stage.attempts and stage.attempts[0].has("log.jsonl"))  # noqa: E731
    with pytest.raises(Interrupted):
        run_recipes(recipes(STEPS), replace(workspace, stop=seen))
    assert not slurm._run_command("squeue", "--noheader")
    assert stage.finished or stage.attempts[0].has("checkpoint.safetensors")


@pytest.mark.slow
def test_what_slurm_refuses_is_one_line(lane, tmp_path):
    with pytest.raises(SpecError, match=r"Slurm takes no jobs from here: .*invalid partition"):
        run_recipes(recipes(4), over_slurm(tmp_path, partition="none"))
