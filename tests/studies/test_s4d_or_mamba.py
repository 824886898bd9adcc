"""Sets by a rule, the same steps for every architecture and arm, matched compute, equal trials."""

import csv
from pathlib import Path

import paper_data
from scripts import script
from selfpretrain.studies import s4d_or_mamba
from selfpretrain.studies.recipes.arms import MATCHED, SCRATCH, SPT
from selfpretrain.studies.s4d_or_mamba import S4dOrMamba, chosen_sets, steps
from selfpretrain.tasks.ucr import SETS

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
        "ECG5000": 800,
        "OSULeaf": 351,
        "Phoneme": 200,
        "FordA": 600,
    }


def recipes(monkeypatch, chosen):
    """The cells of the Transformer on one set, planned without its data."""
    monkeypatch.setattr(s4d_or_mamba, "CHOSEN", chosen)
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
    assert [stage.budget.steps for stage in found[SPT].stages] == [800, 800]
    assert found[SCRATCH].last.budget.steps == 800
    assert found[MATCHED].last.budget.flops == paper_data.ROUGH.total(found[SPT])


def test_trials_are_equal_for_every_architecture_and_arm(tmp_path, monkeypatch):
    tool = script("s4d_or_mamba")
    lines = list(tool.trials())
    counts = {}
    for row, column, option, _ in lines:
        counts.setdefault((row, column), []).append(option)
    assert {len(options) for options in counts.values()} == {3 * 6}
    assert len({tuple(options) for options in counts.values()}) == 1
    log = tmp_path / "log.tsv"
    scores = (0.9 if "causal" in line and "lr=3e-3" in line else 0.5 for *_, line in lines)
    rows = [f"{line}\t{score}" for (*_, line), score in zip(lines, scores, strict=True)]
    log.write_text("\n".join(["trial\tval", *rows]) + "\n")
    monkeypatch.setattr(tool, "FOLDER", tmp_path)
    tool.choose(log)
    kept = (tmp_path / "s4d_or_mamba.tsv").read_text().splitlines()
    assert len(kept) == 1 + 4 * 3
    assert all(line.split("\t")[2:5] == ["causal", "3e-3", "0.9000"] for line in kept[1:])
