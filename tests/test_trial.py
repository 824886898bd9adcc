"""The page of a newcomer's day: it shows what was typed and what came out, with today's commands."""

import json
import shlex
from pathlib import Path

import pytest

from scripts import script
from selfpretrain.cli import app

ROOT = Path(__file__).resolve().parents[1]
KEPT = json.loads((ROOT / "benchmarks" / "trial.json").read_text())


@pytest.fixture(scope="module")
def trial():
    return script("trial")


def test_what_is_shown_is_what_the_script_types(trial):
    assert len(KEPT) >= 4 and set(KEPT) <= set(trial.TRIAL)
    for name, entry in KEPT.items():
        assert [each["command"] for each in entry["commands"]] == list(trial.TRIAL[name].commands)
        assert set(entry["arms"]) == set(trial.ARMS)


def test_verbs_are_known(trial):
    typed = [shlex.split(command) for visit in trial.TRIAL.values() for command in visit.commands]
    assert {words[0] for words in typed} == {"spt"} and {words[1] for words in typed} <= set(app.VERBS)


def test_scores_come_from_what_commands_print(trial):
    rows = [{"column": "SPT", "score": 0.5}, {"column": "SPT", "score": 0.7}]
    findings = [
        {"what": "nearest neighbour", "said": "accuracy 0.955; little is left to learn"},
        {"what": "groups", "said": "10, none of them in two splits"},
    ]
    ran = [
        {"command": "spt data check x --json", "out": json.dumps({"findings": findings})},
        {"command": "spt compare --task x --dry-run", "out": "no JSON"},
        {"command": "spt compare --task x --json", "out": json.dumps({"rows": rows})},
    ]
    assert trial.scores(ran) == {"arms": {"SPT": [0.5, 0.7]}, "simple": {"nearest neighbour": 0.955}}


def test_a_command_that_fails_ends_the_trial(trial):
    with pytest.raises(SystemExit, match="exit code 2"):
        trial.typed("spt report nowhere --bogus", {"PYTHONPATH": str(ROOT / "src")})
