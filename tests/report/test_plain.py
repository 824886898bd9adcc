"""The page for somebody who reads one sentence; what to do next; scores of every class."""

from dataclasses import replace

import numpy as np
import pytest

from selfpretrain.report import diagnostics, page, results, summary
from selfpretrain.report.analysis import analyse

HELPS = {"attention": (0.60, 0.61, 0.82), "s4d": (0.70, 0.705, 0.71)}


@pytest.fixture
def read(make, scene):
    def made(changes=None, **scenes):
        return analyse(results.read(make(scene(**({"rows": HELPS} | scenes)), **(changes or {}))))

    return made


def test_one_sentence_without_statistics(read):
    said = summary.headline(read())
    assert (
        said.startswith("Self-pretraining helped attention (8")
        and said.count(".") == 3 + said.count(" s4d (") * 2
    )
    assert "interval" not in said and "seed" not in said and "for equal effort" in said
    assert summary.headline(read({"scale": "smoke"})) == ""
    unclear = summary.headline(read(rows={"s4d": (0.7, 0.70, 0.71)}, noise=0.05))
    assert unclear == "These runs cannot decide whether self-pretraining helps on these data."
    harm = {"s4d": (0.9, 0.9, 0.6)}
    assert summary.headline(read(rows=harm)).startswith("Self-pretraining hurt s4d (")


def test_several_tasks_are_counted(make, scene):
    found = analyse(results.read(make(*(scene(rows=HELPS, task=f"task {at}", test=900) for at in range(2)))))
    assert summary.headline(found).startswith(
        "Self-pretraining helped in 2 of 4 comparisons and hurt in 0; in 2"
    )
    assert summary.advice(found) == ()


def test_arms_are_explained_and_what_to_do_next(read):
    assert [arm for arm, _ in summary.arms(read())] == ["scratch", "scratch (matched)", "SPT"]
    advice = summary.advice(read())
    assert advice[0].startswith("Take this model: attention, SPT, which scores 8")
    assert "“byte n-grams + logistic regression”, the best simple baseline, 53.6" in advice[0]
    assert any(line.startswith("Repeat with --seeds 6: 3 seeds") for line in advice)
    simple = summary.advice(read(baselines={"nearest neighbour": 0.97}))
    assert simple[0].startswith(
        "Use the simple baseline: “nearest neighbour” scores 97.0, the best network 8"
    )
    assert summary.advice(read({"scale": "smoke"}))[0].startswith("Run it again without --scale smoke")
    assert not any("--seeds" in line for line in summary.advice(read(seeds=6)))
    first, *_ = summary.advice(read(kind="reals", baselines={}))
    assert first.startswith("Take this model: ") and "baseline" not in first and "inf" not in first


def test_labels_are_asked_for_where_training_data_are_known_by_heart(read):
    found = read()
    (task,) = found.tasks

    def knowing(score):
        cells = []
        for cell in task.task.cells:
            scored = replace(cell.scored, scores=cell.scored.scores | {"train": {"score": score}})
            cells.append(replace(cell, stages=(*cell.stages[:-1], scored)))
        return replace(found, tasks=(replace(task, task=replace(task.task, cells=tuple(cells))),))

    assert any(line.startswith("Label more: attention, SPT, knows") for line in summary.advice(knowing(1.0)))
    assert not any(line.startswith("Label more") for line in summary.advice(knowing(0.8)))


def test_errors_by_class_are_those_of_the_predictions(read):
    found = read(seeds=2)
    table = diagnostics.classes(found).rows
    rows = [row for row in table if row[0].text == "attention"]
    kept = [cell.scored.predictions for cell in found.tasks[0].task.at("attention", "SPT").values()]
    target = np.concatenate([k.target for k in kept])
    prediction = np.concatenate([k.prediction for k in kept])
    assert len(rows) == len(set(target)) > 1 and {row[1].text for row in rows} == {"SPT"}
    for at, row in enumerate(rows):
        assert int(row[3].text) == (target == at).sum()
        assert row[4].key == pytest.approx((prediction[target == at] == at).mean())
        assert row[5].key == pytest.approx((target[prediction == at] == at).mean())
        assert row[6].text.startswith(f"{(at + 1) % 8} ("), "the only error that was made up"


@pytest.mark.parametrize("odd", [{"kind": "reals"}, {"predictions": False}])
def test_real_targets_and_lost_predictions_have_no_classes(read, odd):
    assert diagnostics.classes(read(**odd)).rows == ()


def test_the_page_begins_with_one_sentence_and_ends_with_advice(make, scene):
    text = page.write(make(scene(rows=HELPS)))["html"].read_text()
    places = ('class="plain"', "Against training from scratch", 'class="arms"', "most often taken for")
    found = [text.index(words) for words in (*places, "Take this model: attention")]
    assert found == sorted(found)


def test_a_claim_says_what_its_intervals_count(read):
    assert "95 % intervals over seeds and test examples" in summary.claim(read())
    assert "95 % intervals over seeds;" in summary.claim(read(groups=1))
    one = summary.claim(read(seeds=1))
    assert "(1 seed; no interval; " in one and "[" not in one
