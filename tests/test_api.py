"""What is wrong in a call from Python is said in one line, before anything trains."""

import os
import subprocess
import sys
from pathlib import Path

CALLS = """
import selfpretrain
from own_networks import Conv

CALLS = [
    {"scale": "smal"}, {"mixers": "attention"}, {"mixers": (Conv,)}, {"mixers": (Conv(8),)},
    {"mixers": ()}, {"workspace": "runs"}, {"settings": {"pretrain.optim.lr": "big"}},
    {"settings": {"task.examples": -1}},
]
for options in CALLS:
    try:
        selfpretrain.compare("toys:Majority", **({"scale": "smoke"} | options))
    except selfpretrain.errors.SpecError as error:
        print(error)
for task in ((), 3, ["toys:Majority", 3]):
    try:
        selfpretrain.compare(task, scale="smoke")
    except selfpretrain.errors.SpecError as error:
        print(error)
try:
    selfpretrain.read_results("nowhere")
except selfpretrain.errors.StoreError as error:
    print(error)
try:
    selfpretrain.study("amos-table-8", scale="tiny")
except selfpretrain.errors.SpecError as error:
    print(error)
"""
SAID = """\
scale smal: there is no such scale; did you mean 'small'?
mixers='attention': give a tuple of names, e.g. mixers=('attention',)
Conv is not a mixer; give a callable of yours by name, e.g. 'mylab:Conv'
Conv is not a mixer; give a callable of yours by name, e.g. 'mylab:Conv'
there is nothing to compare: name a task and a mixer at least
workspace='runs' is no Workspace; give Workspace.of('runs', workers='1')
lr='big': Input should be a valid number, unable to parse string as a number
examples=-1: Input should be greater than or equal to 1
there is nothing to compare: name a task and a mixer at least
int is no task; give names or tasks, e.g. ('digits', load_task('digits'))
int is no task; give names or tasks, e.g. ('digits', load_task('digits'))
nowhere holds no study.json; give the folder that an experiment left below --runs
scale tiny: there is no such scale"""


def test_wrong_options_are_each_said_in_a_line(tmp_path):
    """In a process of its own: here, types are checked first."""
    support = str(Path(__file__).parent / "support")
    paths = os.pathsep.join([support, os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", CALLS]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    *said, last = done.stdout.splitlines()
    *expected, begins = SAID.splitlines()
    assert said == expected, done.stderr
    assert last.startswith(begins)
    assert not list(tmp_path.iterdir())
