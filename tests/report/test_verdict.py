"""The sentences claim what the intervals allow, and no more."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file

from selfpretrain.report import diagnostics
from selfpretrain.report.analysis import Standing, analyse_task, judge, verdicts
from selfpretrain.report.caveats import caveats
from selfpretrain.report.figures.charts import panels
from selfpretrain.report.format import MINUS
from selfpretrain.report.results import Metric
from selfpretrain.report.stage_results import StageCost
from selfpretrain.report.statistics import Estimate, estimate
from selfpretrain.report.summary import advice, claim, headline, on_average, ranking, standings, verdict
from selfpretrain.report.tables import costs
from selfpretrain.report.tables import gains as gain_table
from selfpretrain.report.tables import scores as score_table
from task_results import MATCHED, SPT, cell, study_of, task_results


def analysis(scores, *, tie=0.01, stopped="patience", simple=None):
    """A study with these scores, one per seed; None where a cell is missing."""
    cells = [
        cell(row, column, seed, score, stopped=stopped)
        for (row, column), values in scores.items()
        for seed, score in enumerate(values)
    ]
    baselines = {"ridge": simple, "majority": 0.0} if simple is not None else {}
    return analyse_task(task_results(cells, tie=tie, baselines=baselines))


def row(name, control, gains):
    treated = [None if base is None else base + gain for base, gain in zip(control, gains, strict=True)]
    return {(name, MATCHED): control, (name, SPT): treated}


def one(gains):
    return analysis(row("s4d", [0.5] * len(gains), gains))


CASES = [
    (
        [0.05, 0.06, 0.07],
        Standing.BETTER,
        "better for s4d (+6.0 points, 95 % interval +3.5 to +8.5, 3 seeds)",
    ),
    ([0.010, 0.015, 0.020], Standing.AHEAD, "ahead for s4d"),
    ([0.001, 0.002, 0.003], Standing.EQUAL, "equal within the tie of 1.0 points for s4d"),
    ([-0.05, 0.06, 0.10], Standing.UNCLEAR, "neither shown better nor worse for s4d"),
    ([-0.010, -0.015, -0.020], Standing.BEHIND, "behind for s4d"),
    (
        [-0.05, -0.06, -0.07],
        Standing.WORSE,
        f"worse for s4d ({MINUS}6.0 points, 95 % interval {MINUS}8.5 to {MINUS}3.5, 3 seeds)",
    ),
    ([0.2], Standing.ONE_SEED, "measured only once for s4d (+20.0 points), and one seed cannot tell chance"),
]


@pytest.mark.parametrize(("gains", "standing", "phrase"), CASES)
def test_every_standing_has_its_words(gains, standing, phrase):
    found = one(gains)
    said = verdict(found)
    assert found.headline[0].standing is standing
    assert phrase in said
    assert "(scratch (matched))" in said and "as pretraining and finetuning together" in said
    assert bool(re.search(r"(?<!nor )better for", said)) == (standing is Standing.BETTER)
    assert bool(re.search(r"(?<!nor )worse for", said)) == (standing is Standing.WORSE)
    by_less = "perhaps by less than the tie of 1.0 points" in said
    assert by_less == (standing in (Standing.AHEAD, Standing.BEHIND))


def test_bounds_on_the_edge_of_the_band_do_not_count():
    assert judge(Estimate(0.25, 3, 0.25), tie=0.5) is Standing.EQUAL
    assert judge(Estimate(0.25, 3, 0.25), tie=0.0) is Standing.UNCLEAR


def test_several_rows_are_grouped_by_what_can_be_said():
    scores = row("a", [0.5] * 3, [0.1, 0.11, 0.12]) | row("b", [0.5] * 3, [-0.1, 0.1, 0.2])
    said = verdict(analysis(scores | row("c", [0.5] * 3, [0.2, 0.21, 0.22])))
    assert said.count(".") - len(re.findall(r"\d\.\d", said)) == 1, "one sentence"
    assert re.search(r"better for a \(.*\) and c \(.*\); neither shown better nor worse for b", said)


def test_missing_cells_are_counted_and_pairs_use_common_seeds():
    found = analysis({("a", MATCHED): [0.5, None, 0.5, 0.5], ("a", SPT): [0.6, 0.9, None, 0.62]})
    assert found.headline[0].seeds == (0, 3)
    assert found.headline[0].values == pytest.approx((0.1, 0.12))
    assert "2 of 8 cells are missing" in verdict(found)
    scores = row("a", [0.5] * 3, [0.1, 0.11, 0.12]) | {("b", MATCHED): [0.5] * 3, ("b", SPT): [None] * 3}
    assert "not measured yet for b" in verdict(analysis(scores))
    said = verdict(analysis({("a", MATCHED): [None], ("a", SPT): [None]}))
    assert said.startswith("Nothing can be said yet about SPT against training from scratch")
    assert "2 of 2 cells are missing" in said


@pytest.mark.parametrize("score", [math.nan, -math.inf, math.inf])
@pytest.mark.parametrize("column", [MATCHED, SPT])
def test_an_arm_with_a_seed_without_a_finite_score_has_no_mean_and_no_verdict(score, column):
    fine = row("a", [0.5] * 4, [0.1, 0.11, 0.12, 0.1]) | row("b", [0.5] * 4, [0.1, 0.11, 0.12, 0.1])
    scores = fine | {("a", column): [0.6, score, 0.61, 0.6]}
    found = analysis(scores)
    gain, other = found.headline
    assert (gain.standing, gain.estimate, gain.seeds) == (Standing.UNDEFINED, None, ())
    assert other.standing is Standing.BETTER
    assert ("a", column) not in found.means and ranking(found).startswith("Whether the ranking")
    said = "not to be judged for a, as a seed has no finite test score"
    assert said in verdict(found) and "better for b" in verdict(found)
    alone = analysis({place: scores[place] for place in scores if place[0] == "a"})
    assert said in verdict(alone) and not any("0 seeds" in line for line in advice(together(alone)))
    assert any(
        f"Without a finite test score: a, {column}, seed 1. These" in line for line in caveats([found])
    )
    table = [[str(entry.text) for entry in line] for line in score_table(together(found)).rows]
    assert sum("no finite score" in line for line in table) == 1
    (panel,) = panels(found, grouped=False)
    assert [line.label for line in panel.lines if line.label.endswith("no finite score)")]
    listed = [line for line in together(found).results.to_rows() if line["state"] == "no finite score"]
    assert [(line["row"], line["column"], line["seed"]) for line in listed] == [("a", column, 1)]


def rows(first, second, noise=0.002):
    wobble = (-noise, 0.0, noise)
    return analysis(
        {
            (name, column): [mean + sign * step for step in wobble]
            for name, means, sign in (("a", first, 1), ("b", second, -1))
            for column, mean in zip((MATCHED, SPT), means, strict=True)
        }
    )


NOT_RESOLVED = "is not resolved: a and b are not clearly further apart"


@pytest.mark.parametrize(
    ("found", "order", "said"),
    [
        (
            rows((0.7, 0.6), (0.5, 0.8)),
            "changes",
            "The ranking changes from scratch (matched) to SPT: a falls from above b to below it.",
        ),
        (
            rows((0.5, 0.6), (0.7, 0.8)),
            "stays",
            "The ranking does not change: b and a, best first, in scratch (matched) and in SPT.",
        ),
        # a tie in the treatment; opposite order, but larger noise; equal in the control
        (rows((0.7, 0.70), (0.5, 0.705)), "not resolved", NOT_RESOLVED),
        (rows((0.7, 0.60), (0.5, 0.80), 0.1), "not resolved", NOT_RESOLVED),
        (rows((0.7, 0.70), (0.7, 0.80)), "not resolved", NOT_RESOLVED),
    ],
)
def test_what_becomes_of_a_ranking(found, order, said):
    assert found.pairs and found.order == order
    assert said in ranking(found)


def test_ranking_needs_several_rows_and_seeds_and_every_pair():
    scores = row("a", [0.50, 0.50], [0.1, 0.1]) | row("b", [0.505, 0.505], [0.1, 0.1])
    found = analysis(scores | row("c", [0.8, 0.8], [0.1, 0.1]))
    assert "of 3 pairs of models, 2 are clearly further apart" in ranking(found)
    once = analysis(row("a", [0.9], [0.0]) | row("b", [0.1], [0.8]))
    assert "one seed cannot tell chance from effect" in ranking(once)
    assert ranking(one([0.1, 0.1])) == ""


def test_a_model_that_lacks_an_arm_is_neither_counted_nor_ranked_there():
    """As one that answers once per sequence, of which there is no SPT."""
    scores = {}
    for name, base in (("a", 0.2), ("b", 0.4), ("c", 0.6)):
        scores |= row(name, [base, base + 0.01, base + 0.02], [0.1, 0.11, 0.12])
    whole = {("d", MATCHED): [0.9, 0.91, 0.92]}
    found, lacking = analysis(scores), analysis(scores | whole)
    assert ranking(lacking) == ranking(found)
    assert ranking(found).startswith("The ranking does not change: c, b and a, best first")
    assert standings([lacking]) == standings([found]) == "SPT against scratch (matched): 3 better (a, b, c)"
    assert standings([analysis(whole)]) == "SPT against scratch (matched): no model has both"
    ranks = diagnostics.rankings(together(lacking))
    assert [len(ranks[f"toy: {column}, over seeds"].rows) for column in (SPT, MATCHED)] == [3, 4]
    note = "Not every model has every arm"
    assert [note in costs(together(each)).caption for each in (found, lacking)] == [False, True]


def test_what_checks_find_before_training_is_the_first_caveat():
    found = analysis(row("a", [0.5] * 3, [0.1, 0.11, 0.12]))
    task = replace(found.task, faults=("mine: gradients: none", "mine: noise"))
    first, *others = caveats([analyse_task(task)])
    assert first == "Found before training: mine: gradients: none; mine: noise."
    assert caveats([found]) == others


def test_caveats_name_what_weakens_a_study():
    found = analysis(row("a", [0.5] * 3, [0.1, 0.11, 0.12]), stopped="budget")
    lines = " ".join(caveats([found]))
    assert "scratch (matched) (3 of 3" in lines
    assert "3 seeds: too few for a test" in lines
    assert "the choice of test examples is not counted" in lines


@pytest.mark.parametrize(
    ("flops", "ratio"), [(1.009e9, ""), (1.02e9, "1.02"), (0.98e9, "0.98"), (0.991e9, "")]
)
def test_compute_that_is_off_by_more_than_one_percent_is_a_caveat(flops, ratio):
    found = arm(one([0.1, 0.11, 0.12]), MATCHED, cost=StageCost(1000, flops, 1.0))
    lines = [line for line in caveats([found]) if "not matched" in line]
    caveat = "Compute is not matched; FLOPs of scratch (matched) relative to SPT: s4d"
    assert lines == ([f"{caveat} {ratio}."] if ratio else [])


def test_every_arm_that_is_compared_with_matched_scratch_must_have_its_compute():
    """Not only that of the headline: an arm of one's own may train for longer."""
    found = one([0.1, 0.11, 0.12])
    dearer = tuple(replace(cell, column="mine") for cell in found.task.cells if cell.column == SPT)
    task = replace(
        found.task, cells=(*found.task.cells, *dearer), contrasts=((SPT, MATCHED), ("mine", MATCHED))
    )
    longer = arm(analyse_task(task), "mine", cost=StageCost(1000, 3e9, 1.0))
    assert [line for line in caveats([longer]) if "not matched" in line] == [
        "Compute is not matched; FLOPs of scratch (matched) relative to mine: s4d 0.33."
    ]


def test_the_best_is_one_arm_and_none_where_two_share_the_mean():
    clear = analysis(row("a", [0.5, 0.51, 0.52], [0.1, 0.11, 0.12]))
    assert clear.best == {("a", SPT)}
    assert analysis(row("a", [0.5, 0.51, 0.52], [0.1, -0.11, 0.12])).best == {("a", SPT)}
    assert analysis(row("a", [0.5] * 3, [0.0] * 3)).best == frozenset()
    assert analysis(row("a", [0.5], [0.1])).best == frozenset()


def test_a_gain_below_the_simple_baseline_says_so_in_the_same_sentence():
    scores = row("a", [0.5] * 3, [0.1, 0.11, 0.12]) | row("b", [0.8] * 3, [0.1, 0.11, 0.12])
    for simple, phrase in {
        0.4: "",
        0.602: "; no arm of a is clearly above the simple baseline “ridge” (60.2; best arm 61.0)",
        0.95: "; no arm is clearly above the simple baseline “ridge” (95.0; best arm 91.0)",
    }.items():
        said = verdict(analysis(scores, simple=simple))
        assert said.startswith("Against training") and "better for a" in said
        assert said.endswith(f"3 seeds){phrase}.")
    assert "clearly above" not in verdict(analysis(scores))


def together(*tasks):
    """A study of these tasks, whose analyses are as they are."""
    return replace(study_of(*(task.task for task in tasks)), tasks=tasks)


def arm(found, column, **changes):
    """The same study, but for what the stages of one arm left."""
    cells = tuple(
        replace(cell, stages=(replace(cell.scored, **changes),)) if cell.column == column else cell
        for cell in found.task.cells
    )
    return analyse_task(replace(found.task, cells=cells))


@pytest.mark.parametrize("gains", [[0.05, 0.06, 0.07], [0.001, 0.002, 0.003]])
def test_what_the_page_calls_no_evidence_is_not_decided_in_json(gains):
    found = arm(one(gains), MATCHED, stopped="diverged")
    (told,) = verdicts(together(found).results)
    assert "Nothing is decided for s4d: training diverged in 3 of 3" in verdict(found)
    assert not told["decided"] and told["no_evidence"].startswith("training diverged in 3 of 3")
    (told,) = verdicts(together(one(gains)).results)
    assert told["decided"] and told["no_evidence"] is None


def test_an_unfinished_study_says_that_simple_methods_are_missing():
    scores = row("s4d", [0.5, 0.5], [0.1, 0.1]) | {("s4d", SPT): [0.6, None]}
    said = "1 of 4 cells missing{}; the same command, without --only, goes on with them."
    assert said.format(", and the simple methods, which are fitted last") in caveats([analysis(scores)])
    assert said.format("") in caveats([analysis(scores, simple=0.4)])


def test_a_diverged_arm_is_the_gravest_remark_and_begins_the_headline():
    found = arm(one([0.1, 0.11, 0.12]), SPT, stopped="diverged")
    assert verdict(found).startswith(
        "Nothing is decided for s4d: training diverged in 3 of 3 of SPT. Against training from scratch"
    )
    first, *_ = caveats([found])
    assert first.startswith(
        "Training diverged (its loss was not finite): s4d, SPT, seed 0; s4d, SPT, seed 1; s4d"
    )
    assert standings([found]).endswith("; 1 of 1 decide nothing (diverged, equal answers or ceiling)")
    assert (
        headline(together(found)) == "These runs cannot decide whether self-pretraining helps on these data."
    )
    marked = [str(entry.text) for row in score_table(together(found)).rows for entry in row]
    assert sum(text.endswith(" †") for text in marked) == 1
    fine = one([0.1, 0.11, 0.12])
    assert "decided" not in verdict(fine) and "diverged" not in " ".join(caveats([fine]))


def test_divergence_decides_neither_a_ranking_nor_a_claim():
    found = rows((0.7, 0.1), (0.5, 0.8))
    assert found.order == "changes"
    lost = [
        replace(each, stages=(replace(each.scored, stopped="diverged"),))
        if (each.row, each.column) == ("a", SPT)
        else each
        for each in found.task.cells
    ]
    found = analyse_task(replace(found.task, cells=tuple(lost)))
    assert found.order == "not resolved"
    assert ranking(found).endswith("is not resolved: training diverged in some of scratch (matched) or SPT.")
    assert "for a (training diverged in 3 of 3 of SPT)" in claim(together(found))


def test_divergence_of_a_seed_that_no_pair_has_leaves_the_ranking():
    found = rows((0.7, 0.6), (0.5, 0.8))
    further = cell("a", SPT, 9, 0.1, stopped="diverged")
    assert analyse_task(replace(found.task, cells=(*found.task.cells, further))).order == "changes"


def test_divergence_of_a_seed_that_is_not_compared_does_not_undo_a_verdict():
    found = analysis({("a", MATCHED): [0.5, 0.51, None], ("a", SPT): [0.6, 0.62, 0.1]})
    *others, last = found.task.cells
    lost = replace(last, stages=(replace(last.scored, stopped="diverged"),))
    found = analyse_task(replace(found.task, cells=(*others, lost)))
    assert not found.no_evidence(found.headline[0])
    assert caveats([found])[0].startswith("Training diverged (its loss was not finite): a, SPT, seed 2")


def test_collapsed_targets_of_pretraining_are_a_remark():
    found = one([0.1, 0.11, 0.12])
    assert "collapsed" not in " ".join(caveats([found]))
    scores = found.task.cells[0].scored.scores | {"val": {"score": 0.0, "spread": 1e-4, "collapsed": 1.0}}
    first, *_ = caveats([arm(found, SPT, scores=scores)])
    assert first.startswith("The targets of pretraining collapsed: SPT (3 runs). ")


def test_arms_with_equal_answers_decide_nothing(tmp_path):
    same, other = tmp_path / "same", tmp_path / "other"
    for folder, answers in ((same, [0, 1, 1, 0]), (other, [0, 1, 0, 1])):
        folder.mkdir()
        arrays = {"prediction": np.array(answers), "target": np.array([0, 1, 0, 0])}
        save_file(arrays, folder / "predictions.safetensors")
    found = arm(arm(one([0.0, 0.0, 0.0]), SPT, folder=same), MATCHED, folder=same)
    assert verdict(found).startswith(
        "Nothing is decided for s4d: both arms answer the same on every test example. Against"
    )
    assert "answer the same" not in verdict(arm(found, MATCHED, folder=other))
    for folder, asked in ((same, [2, 3, 3, 2]), (other, [2, 4, 4, 2])):  # as many labels right, of others
        arrays = {"prediction": np.array([0, 2, 2, 0]), "target": np.ones(4), "asked": np.array(asked)}
        save_file(arrays, folder / "predictions.safetensors")
    several = arm(arm(one([0.0, 0.0, 0.0]), SPT, folder=same), MATCHED, folder=other)
    assert "answer the same" not in verdict(several)


def test_arms_at_the_ceiling_or_at_chance_decide_nothing():
    high = analysis(row("a", [0.995] * 3, [0.001, 0.002, 0.003]) | row("b", [0.5] * 3, [0.1, 0.11, 0.12]))
    assert verdict(high).startswith(
        "Nothing is decided for a: both arms are at the ceiling (99.5 and more). Against"
    )
    low = one([0.001, 0.002, 0.003])
    card = replace(low.task.card, chance=0.5)
    said = verdict(analyse_task(replace(low.task, card=card)))
    assert "no arm is clearly above the simple baseline “chance” (50.0; best arm 50.2)" in said
    assert said.startswith("Nothing is decided for s4d: neither arm is above chance. Against")
    assert "neither shown better nor worse for s4d (+0.2 points" in said
    still = verdict(one([0.004, 0.004, 0.004]))
    assert still.startswith("Nothing is decided for s4d: every seed gives the same difference. Against")


def test_standings_count_and_name_a_few():
    scores = row("a", [0.5] * 3, [0.1, 0.11, 0.12])
    for name in "bcde":
        scores |= row(name, [0.5] * 3, [-0.1, 0.1, 0.2])
    found = analysis(scores, simple=0.9)
    end = "; 5 of 5 not clearly above a simple baseline"
    assert standings([found]) == f"SPT against scratch (matched): 1 better (a), 4 unclear{end}"
    assert standings([found, analysis(scores)]).startswith(
        "SPT against scratch (matched): 2 better, 8 unclear; 5 of"
    )


def test_an_average_over_tasks_is_paired_by_seed():
    """Seeds that spread on one task and the other way on the next do not spread on average."""
    both = together(one([0.0, 0.1, 0.2]), one([0.2, 0.1, 0.0]))
    (found,) = both.overall
    assert found.values == pytest.approx((0.1, 0.1, 0.1))
    assert found.standing is Standing.BETTER
    said = "On average over 2 tasks: SPT against scratch (matched), in points: +10.0 [+10.0, +10.0] (s4d)."
    assert on_average(both) == said
    assert [line[0].text for line in gain_table(both).rows] == ["toy", "toy", "average"]


def test_an_average_takes_the_seeds_that_all_tasks_have():
    few = analysis(row("s4d", [0.5, None, 0.5, 0.5], [0.1, 0.1, 0.3, 0.3]))
    (found,) = together(one([0.1, 0.9, 0.1]), few).overall
    assert found.seeds == (0, 2)
    assert found.values == pytest.approx((0.1, 0.2))


def test_examples_of_each_task_count_in_the_average():
    def error(*of_tasks):
        found, tasks = one([0.1, 0.1]), []
        (gain,) = found.gains
        for each in of_tasks:
            tasks.append(replace(found, gains=(replace(gain, estimate=estimate(gain.values, each)),)))
        (overall,) = together(*tasks).overall
        assert overall.estimate is not None
        return overall.estimate.over_examples

    assert error(0.03, 0.04) == pytest.approx(0.025)
    assert error(0.03, None) is None


def test_tasks_of_other_metrics_or_rows_have_no_average():
    other = one([0.1, 0.1])
    kind = replace(other.task, metric=Metric("R2", "", 1.0, 3, 0.01))
    assert not together(one([0.1, 0.1]), analyse_task(kind)).overall
    assert not together(one([0.1, 0.1]), analysis(row("gru", [0.5, 0.5], [0.1, 0.2]))).overall
    assert not together(one([0.1, 0.1])).overall
    assert not on_average(together(one([0.1, 0.1])))
