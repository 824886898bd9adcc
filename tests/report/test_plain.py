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


def test_classes_add_up(read):
    found = read(seeds=2)
    matrix = diagnostics.confusions(found)[0]
    rows = [[float(entry.text) for entry in row[1:]] for row in matrix.rows]
    assert all(abs(sum(row) - 100) <= len(row) for row in rows) and len(rows) == len(rows[0]) > 1
    cells = list(found.tasks[0].task.at("attention", "SPT").values())
    kept = [cell.scored.predictions for cell in cells]
    table = diagnostics.by_class(found).rows[: len(rows)]
    for at, row in enumerate(table):
        target = np.concatenate([k.target for k in kept])
        prediction = np.concatenate([k.prediction for k in kept])
        assert int(row[3].text) == (target == at).sum()
        assert row[4].key == pytest.approx((prediction[target == at] == at).mean())
        assert row[5].key == pytest.approx((target[prediction == at] == at).mean())
        assert row[6].key == pytest.approx(2 * row[4].key * row[5].key / (row[4].key + row[5].key))


def test_arms_that_are_surer_than_right_are_told(read):
    found = read(seeds=2)
    assert diagnostics.reliability(found).rows == ()  # nothing was kept of it
    (task,) = found.tasks
    for cell in task.task.cells:
        kept = cell.scored.predictions
        sure = np.where(kept.prediction == kept.target, 255, 204).astype(np.uint8)
        vars(cell.scored)["predictions"] = replace(kept, confidence=sure)
    rows = diagnostics.reliability(found).rows
    assert [(row[0].text, row[1].text) for row in rows] == list(task.means)
    for row in rows:
        assert row[3].key == pytest.approx(row[2].key + 0.8 * (1 - row[2].key))
        assert row[4].key == pytest.approx(0.8 * (1 - row[2].key))
    assert any(table.name == "reliability" for table in page._classes(found).tables)


@pytest.mark.parametrize("odd", [{"kind": "reals"}, {"predictions": False}])
def test_real_targets_and_lost_predictions_have_no_classes(read, odd):
    found = read(**odd)
    assert diagnostics.by_class(found).rows == () and diagnostics.confusions(found) == []


def test_the_page_has_them_and_the_files_for_print_do_not(make, scene):
    made = page.write(make(scene(rows=HELPS)))
    text = made["html"].read_text()
    assert (
        text.index('class="plain"') < text.index("Against training from scratch") < text.index('class="arms"')
    )
    assert "What to do next" in text and "takes for what" in text
    assert "takes for what" not in made["latex"].read_text()
