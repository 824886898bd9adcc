"""Modern architectures side by side: equal in parameters, with the states that their papers give them."""

import csv
import re
from pathlib import Path

import pytest

import paper_data
from selfpretrain.registry import name_of
from selfpretrain.studies import modern_zoo
from selfpretrain.studies.modern_zoo import ZOO, ModernZoo

pytest.importorskip("transformers")
LAYERS = Path(__file__).parents[2] / "docs" / "zoo-layers.tsv"


def test_architectures_have_the_parameters_of_the_transformer():
    form = re.compile(r"(.+): width (\d+), ([\d,]+) parameters, a state")
    notes = [form.match(note) for note in ModernZoo().notes(paper_data.ROUGH)]
    found = {note[1]: (int(note[2]), int(note[3].replace(",", ""))) for note in notes if note}
    assert set(found) == set(ZOO)
    _, goal = found["Transformer"]
    for row, (width, parameters) in found.items():
        assert width == ZOO[row].width
        # Heads divide widths: these two have no width that comes nearer.
        most = 1.12 if row in ("RetNet", "Lightning") else 1.05
        assert 0.95 < parameters / goal < most


def test_states_are_those_of_the_documentation():
    """The page on mixers counts them at width 64."""
    with LAYERS.open(newline="") as file:
        printed = {
            row["mixer"]: row["state"].replace(",", "") for row in csv.DictReader(file, delimiter="\t")
        }
    compared = {row: name_of(each.mixer) for row, each in ZOO.items() if name_of(each.mixer) in printed}
    assert len(compared) == 9
    for row, name in compared.items():
        assert str(ZOO[row].state(64)) == printed[name]


def test_every_scale_has_every_architecture():
    small, paper = ([row.name for row in ModernZoo(scale=scale).rows("Text")] for scale in ("small", "paper"))
    smoke = [row.name for label in ModernZoo.small_tasks for row in ModernZoo(scale="smoke").rows(label)]
    assert small == paper == [*ZOO] and sorted(smoke) == sorted(ZOO)


def test_rows_of_a_library_that_is_absent_are_left_out_in_words(monkeypatch):
    monkeypatch.setattr(modern_zoo, "find_spec", lambda name: None)
    rows = {row.name for row in ModernZoo().rows("Text")}
    assert "Mamba" not in rows and {"Transformer", "Mamba-2", "RWKV-7"} <= rows
    (note,) = (note for note in ModernZoo().notes(paper_data.ROUGH) if "left out" in note)
    assert note.startswith("Mamba, Lightning, Gated DeltaNet") and "selfpretrain[hf]" in note
