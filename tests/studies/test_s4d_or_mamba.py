"""Sets by a rule, the same steps for every architecture and arm, matched compute, equal trials."""

import csv
from pathlib import Path
from types import SimpleNamespace

import paper_data
from scripts import script
from selfpretrain.runner.tuning import TUNING_SEED
from selfpretrain.studies.common import time_series
from selfpretrain.studies.common.time_series import TimeSeriesStudy, chosen_sets, steps
from selfpretrain.studies.recipes.arms import MATCHED, SCRATCH, SPT
from selfpretrain.studies.s4d_or_mamba import S4dOrMamba
from selfpretrain.studies.s4d_or_mamba_longer import S4dOrMambaLonger
from selfpretrain.tasks.ucr import SETS
from selfpretrain.training.cost import Planner

OUTCOMES = Path(__file__).parents[2] / "docs" / "ucr-sets.tsv"


def outcome(name):
    """What the rule makes of a set."""
    row = SETS[name]
    if name in chosen_sets():
        return "chosen"
    if int(row["train"]) < 200:
        return "too few series"
    if int(row["length"]) < 128:
        return "too short"
    return "too long" if int(row["length"]) > 1_100 else "another of its family"


def test_the_rule_chooses_what_was_written_down_before_any_run():
    with OUTCOMES.open(newline="") as file:
        written = list(csv.DictReader(file, delimiter="\t"))
    assert written == [row | {"outcome": outcome(name)} for name, row in SETS.items()]
    assert len(chosen_sets()) == len({SETS[name]["family"] for name in chosen_sets()}) == 17


def test_steps_follow_length_and_size():
    assert {name: steps(name) for name in ("ECG5000", "OSULeaf", "Phoneme", "FordA")} == {
        "ECG5000": 400,
        "OSULeaf": 176,
        "Phoneme": 100,
        "FordA": 300,
    }


def test_longer_training_is_four_times_as_long_on_every_third_set(monkeypatch):
    monkeypatch.setattr(TimeSeriesStudy, "architectures", S4dOrMamba.architectures[:1])
    assert S4dOrMambaLonger.tasks == chosen_sets()[::3] and len(S4dOrMambaLonger.tasks) == 6
    task = S4dOrMamba.stand_ins["FordA"].stubbed()
    short, long = (
        {
            cell.column: cell.recipe
            for cell in kind.at_scale("small", 1).task_cells("FordA", task, paper_data.ROUGH)
        }
        for kind in (S4dOrMamba, S4dOrMambaLonger)
    )
    for column in (SCRATCH, SPT):
        steps_of = [[stage.budget.steps for stage in found[column].stages] for found in (short, long)]
        assert steps_of[1] == [4 * n for n in steps_of[0]]


def recipes(monkeypatch, chosen):
    """The cells of the Transformer on one set, planned without its data."""
    monkeypatch.setattr(time_series, "CHOSEN", chosen)
    monkeypatch.setattr(S4dOrMamba, "architectures", S4dOrMamba.architectures[:1])
    study = S4dOrMamba.at_scale("small", 1)
    task = S4dOrMamba.stand_ins["ECG5000"].stubbed()
    return {cell.column: cell.recipe for cell in study.task_cells("ECG5000", task, paper_data.ROUGH)}


def test_every_arm_has_its_own_settings_and_matched_scratch_the_compute_of_spt(monkeypatch, tmp_path):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    chosen = {("Transformer", SPT): ("causal", "1e-2"), ("Transformer", MATCHED): ("masked", "1e-3")}
    found = recipes(monkeypatch, chosen)
    assert {column: recipe.model.causal for column, recipe in found.items()} == {
        SCRATCH: False,
        MATCHED: False,
        SPT: True,
    }
    rates = {column: {stage.optim.lr for stage in recipe.stages} for column, recipe in found.items()}
    assert rates == {SCRATCH: {3e-3}, MATCHED: {1e-3}, SPT: {1e-2}}
    assert [stage.budget.steps for stage in found[SPT].stages] == [400, 400]
    assert found[SCRATCH].last.budget.steps == 400
    assert found[MATCHED].last.budget.flops == paper_data.ROUGH.total(found[SPT])


def test_trials_are_equal_for_every_architecture_and_arm(tmp_path, monkeypatch):
    """The causal direction is better here, and then the largest rate."""
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    tool = script("s4d_or_mamba")
    score = {"masked": 0.0, "causal": 0.5}

    def run(options):
        tried = list(tool.trials(options, Planner(0, stubs=True)))
        return [(each, score[each.option[0]] + float(each.option[1])) for each in tried]

    scored = tool.rounds(run)
    trials = [trial for trial, _ in scored]
    options = {}
    for trial in trials:
        options.setdefault((trial.row, trial.column), []).append((trial.name, trial.option))
    assert len(options) == 4 * 3 and len({tuple(each) for each in options.values()}) == 1
    assert len(next(iter(options.values()))) == 3 * 4
    assert {trial.recipe.seed for trial in trials} == {TUNING_SEED}
    for trial in trials:
        assert {stage.optim.lr for stage in trial.recipe.stages} == {float(trial.option[1])}
        assert trial.recipe.model.causal == (trial.option[0] == "causal")
    assert {tuple(line[2:4]) for line in tool.chosen(scored)} == {("causal", "1e-2")}


def test_the_best_mean_on_validation_is_chosen():
    tool = script("s4d_or_mamba")
    scores = {"Adiac": (0.2, 0.9), "Earthquakes": (0.8, 0.3)}  # means of 0.5 and 0.6
    options = ("masked", "1e-3"), ("causal", "3e-3")
    trials = [
        (tool.Trial(name, "S4D", SPT, option, None), score)
        for name, both in scores.items()
        for option, score in zip(options, both, strict=True)
    ]
    assert tool.chosen(trials) == [
        ["S4D", SPT, "causal", "3e-3", "0.6000", "best of 2 on validation, mean of 2 sets"]
    ]


def test_what_the_log_has_is_not_run_again(tmp_path, monkeypatch):
    tool = script("s4d_or_mamba")
    places = [(name, row, SPT, "masked", "1e-3") for name in ("A", "B") for row in ("S4D", "Mamba")]
    tried = [tool.Trial(*place[:3], place[3:], place) for place in places]
    ran = []
    monkeypatch.setattr(tool, "trials", lambda options: iter(tried))
    monkeypatch.setattr(tool, "run_recipes", lambda recipes, here, tested: ran.extend(recipes))
    result = {"scores": {"val": {"score": 0.25}}, "steps": 4, "best_step": 2}
    here = SimpleNamespace(stage=lambda recipe: SimpleNamespace(read=lambda name: result))
    log = tmp_path / "log.tsv"
    expected = "".join("\t".join((*place, "0.2500", "4", "2")) + "\n" for place in places)
    kept = "\t".join(tool.LOG) + "\n" + "".join(expected.splitlines(keepends=True)[:2])
    log.write_text(kept)
    assert tool.Log(log, here).run({}) == [(trial, 0.25) for trial in tried]
    assert ran == places[2:] and log.read_text() == "\t".join(tool.LOG) + "\n" + expected
    assert tool.Log(log, here).run({}) == [(trial, 0.25) for trial in tried] and ran == places[2:]
