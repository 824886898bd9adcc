"""The page for somebody who reads one sentence; what to do next; scores of every class."""

from dataclasses import replace

import numpy as np
import pytest

from selfpretrain.report import diagnostics, page, results, summary, tables
from selfpretrain.report.analysis import analyse
from selfpretrain.report.results import Metric
from task_results import cell, study_of, task_results

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


def compared(scores, treatment, control, name="toy", metric=None):
    """A task with one contrast: its scores by arm, one per seed; None where a cell is missing."""
    cells = [
        cell("s4d", arm, seed, score)
        for arm, values in zip((treatment, control), scores, strict=True)
        for seed, score in enumerate(values)
    ]
    task = task_results(cells)
    changes = {"name": name, "card": replace(task.card, name=name), "contrasts": ((treatment, control),)}
    return replace(task, **changes, metric=metric or task.metric)


GAINS = [0.70, 0.711, 0.723], [0.60, 0.61, 0.62]


@pytest.mark.parametrize(
    ("treatment", "control", "said"),
    [
        ("SPT", "scratch (matched)", "Self-pretraining helped s4d (71.1 % with it, 61.0 % without, for"),
        ("SPT, Muon", "scratch (matched), Muon", "Self-pretraining helped s4d (71.1 % with it, 61.0 %"),
        ("SPT, Muon", "SPT", "SPT, Muon helped s4d (71.1 % with it, 61.0 % with SPT)."),
        ("SPT, head alone", "scratch (matched)", "SPT, head alone helped s4d (71.1 % with it, 61.0 %"),
    ],
)
def test_only_an_arm_that_differs_in_pretraining_alone_is_called_so(treatment, control, said):
    assert summary.headline(study_of(compared(GAINS, treatment, control))).startswith(said)


def test_the_sentences_count_the_seeds_of_the_pairs_alone():
    ours = [0.60, 0.61, 0.62, 0.95, 0.96, 0.97]
    found = study_of(compared((ours, [0.70, 0.711, 0.723, None, None, None]), "SPT", "scratch (matched)"))
    said = "Self-pretraining hurt s4d (61.0 % with it, 71.1 % without, for equal effort)."
    assert summary.headline(found) == said
    assert "(3 seeds; " in summary.claim(found)
    assert tables.compact(found).title.endswith(" interval over 3 to 6 seeds")


def test_a_claim_names_metric_and_arms_of_every_task():
    r2 = Metric("r2", "", 1.0, 3, 0.01)
    found = study_of(
        compared(GAINS, "SPT", "scratch", "digits"), compared(GAINS, "SPT", "scratch", "bidmc", r2)
    )
    first, second = summary.claim(found).split("; that ")
    assert (
        first.startswith("The difference in test accuracy between SPT and training from")
        and "bidmc" not in first
    )
    assert second.startswith("in test R² between SPT") and "for s4d on bidmc (3 seeds" in second
    found = study_of(
        compared(GAINS, "SPT, Muon", "SPT", "digits"), compared(GAINS, "SPT", "scratch", "bidmc")
    )
    first, second = summary.claim(found).split("; that ")
    assert "SPT, Muon" in first and "Muon" not in second


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
        for each in task.task.cells:
            scored = replace(each.scored, scores=each.scored.scores | {"train": {"score": score}})
            cells.append(replace(each, stages=(*each.stages[:-1], scored)))
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
