"""Averages over tasks: every task counts once, and with few tasks nothing is said."""

import io
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from selfpretrain.report import diagnostics, over_tasks, page
from selfpretrain.report.analysis import MANY_TASKS, analyse
from selfpretrain.report.format import MINUS, NONE
from selfpretrain.report.results import read
from task_results import ARMS, cell, study_of, task_results

SPT, SCRATCH = ARMS
COLUMNS = ("scratch", "scratch (matched)", "SPT")
FOUND = {"a": (0.5, 0.6), "b": (0.6, 0.8), "c": (0.7, 0.7)}
"""Scores of three models from scratch and self-pretrained on the first task."""


def study(tasks):
    """Tasks of which each later one has one point more of gain in every model."""
    return study_of(
        *(
            task_results(
                cell(row, column, seed, score + at / 100 * (column == SPT) + seed / 1000)
                for row, scores in FOUND.items()
                for column, score in zip((SCRATCH, SPT), scores, strict=True)
                for seed in range(2)
            )
            for at in range(tasks)
        )
    )


def texts(table):
    return {tuple(entry.text for entry in row[:2]): [entry.text for entry in row[2:]] for row in table.rows}


def test_equal_means_are_a_tie_whatever_the_order_of_their_seeds():
    """Sums in another order differ by rounding: neither arm is the best, and neither is ahead."""
    scores = {SPT: (0.1, 0.2, 0.3), SCRATCH: (0.2, 0.3, 0.1)}
    assert np.mean(scores[SPT]) > np.mean(scores[SCRATCH])
    cells = [cell("a", column, seed, x) for column, of in scores.items() for seed, x in enumerate(of)]
    found = study_of(*[task_results(cells)] * 7)
    assert found.tasks[0].best == frozenset()
    _, _, ahead, _ = texts(over_tasks.gains_table(found))["a", f"{SPT} over {SCRATCH}"]
    assert ahead == "0 of 7" and "ahead on 0 of 7" in over_tasks.in_words(found)


def test_what_diverged_is_not_ahead_on_average():
    cells = [
        cell("a", column, seed, score + seed / 1000, stopped="diverged" if column == SPT else "budget")
        for column, score in ((SPT, 0.2), (SCRATCH, 0.6))
        for seed in range(3)
    ]
    found = study_of(*(task_results(cells) for _ in range(8)))
    assert over_tasks.headline(found) == (
        "These runs cannot decide which arm is ahead on average over tasks."
    )
    assert "(a, ahead on 0 of 8, training diverged on 8)" in over_tasks.in_words(found)
    sound = [replace(each, stages=(replace(each.scored, stopped="budget"),)) for each in cells]
    most = study_of(task_results(cells), *(task_results(sound) for _ in range(7)))
    assert over_tasks.headline(most) == f"On average over tasks {SPT} is behind {SCRATCH} with a."
    assert "training diverged on 1)" in over_tasks.in_words(most)


def test_gains_are_averaged_over_tasks_with_intervals_over_tasks():
    found = texts(over_tasks.gains_table(study(7)))
    assert list(found) == [(row, f"{SPT} over {SCRATCH}") for row in FOUND]
    mean, interval, ahead, _ = found["a", f"{SPT} over {SCRATCH}"]
    assert mean == "+13.0"
    half = 2.447 * np.std(np.arange(7), ddof=1) / np.sqrt(7)
    assert interval == f"[+{13 - half:.1f}, +{13 + half:.1f}]"
    assert ahead == "7 of 7"
    assert found["c", f"{SPT} over {SCRATCH}"][2] == "6 of 7"


def test_differences_of_a_task_are_paired_by_seed():
    """A seed that one arm lacks, as while a study runs, says nothing about the gain."""
    found = study_of(
        *(
            task_results(
                cell("a", column, seed, None if (column, seed) == (SCRATCH, 1) else 0.5 + seed / 10)
                for column in ARMS
                for seed in range(2)
            )
            for _ in range(MANY_TASKS)
        )
    )
    (gain,) = over_tasks.gains(found)
    assert gain.values == (0.0,) * MANY_TASKS == tuple(task.headline[0].estimate.mean for task in found.tasks)


def test_a_model_that_lacks_an_arm_has_a_dash_there():
    """As one that answers once per sequence, of which there is no SPT."""
    scores = {("a", SPT): 0.7, ("a", SCRATCH): 0.6, ("b", SCRATCH): 0.5}
    found = study_of(*[task_results(cell(*at, 0, score) for at, score in scores.items())] * MANY_TASKS)
    assert found.many
    (_, *both), (_, *other) = ([entry.text for entry in row] for row in over_tasks.scores(found).rows)
    assert (both, other) == (["70.0", "60.0"], [NONE, "50.0"])


def test_models_are_compared_in_every_arm():
    found = texts(over_tasks.models(study(6)))
    assert [mean for mean, *_ in (found["a over b", arm] for arm in (SCRATCH, SPT))] == [
        f"{MINUS}10.0",
        f"{MINUS}20.0",
    ]


def test_the_order_of_models_is_compared_within_each_task():
    ((arms, r, *_),) = ([entry.text for entry in row] for row in over_tasks.order(study(6)).rows)
    assert (arms, r) == (f"{SCRATCH} and {SPT}", "0.50")


def test_an_interval_of_correlations_ends_at_one():
    """Of five tasks with the same order in both arms, and one with two models exchanged."""
    scores = [{"a": at / 10, "b": 0.8, "c": 0.9} for at in (1, 1, 1, 1, 1, 8.5)]
    found = study_of(
        *(
            task_results(
                cell(row, column, 0, value)
                for row, spt in of.items()
                for column, value in ((SPT, spt), (SCRATCH, {"a": 0.1, "b": 0.2, "c": 0.3}[row]))
            )
            for of in scores
        )
    )
    ((_, r, bounds, _),) = ([entry.text for entry in row] for row in over_tasks.order(found).rows)
    assert (r, bounds) == ("0.92", "[0.70, 1.00]")


@pytest.mark.parametrize("table", [over_tasks.gains_table, over_tasks.models, over_tasks.order])
def test_five_tasks_are_too_few(table):
    assert not table(study(5)).rows


@pytest.fixture(name="many")
def many_tasks(make, scene):
    """Eight finished tasks of which each has another level of scores."""
    rows = {"attention": (0.50, 0.55, 0.62), "s4d": (0.60, 0.66, 0.63)}
    levels = ({row: tuple(x + at / 50 for x in of) for row, of in rows.items()} for at in range(MANY_TASKS))
    return make(*(scene(rows=of, seeds=2, task=f"set-{at}", test=200) for at, of in enumerate(levels)))


def test_a_page_of_many_tasks_begins_with_their_averages(many):
    found = analyse(read(many))
    composed = page.compose(found)
    assert composed.headline == (
        "On average over tasks SPT is ahead of scratch (matched) with attention, behind scratch (matched) "
        "with s4d."
    )
    counted, averaged = composed.outcomes
    assert counted.startswith("SPT against scratch (matched): ") and "ahead on 8 of 8" in averaged
    scores, tasks, *_ = composed.sections
    assert [picture.file for picture in scores.pictures] == ["gain.svg"]
    name, *means = scores.tables[0].rows[0]
    assert name.text == "attention"
    assert [entry.key for entry in means] == pytest.approx([mean(found, "attention", arm) for arm in COLUMNS])
    assert tasks.title == "Task by task" and tasks.shown == "folded"
    assert [len(made.rows) for made in tasks.tables] == [2 * MANY_TASKS, MANY_TASKS]


def mean(found, row, column):
    return np.mean([task.means[row, column].mean for task in found.tasks])


def test_of_many_tasks_a_terminal_shows_averages_in_80_columns(many):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(page.show(many))
    shown = console.export_text()
    assert "averaged over 8 tasks" in shown and "set-3" not in shown.partition("Before you trust")[0]
    assert not re.search("^mean: ", shown, re.MULTILINE), "a table, not a list"


@pytest.mark.usefixtures("drawn_pictures")
def test_pictures_of_many_tasks_are_two(many):
    made = page.write(many)
    assert {path.name for path in made.values() if path.suffix == ".svg"} == {"gain.svg", "gain-by-task.svg"}
    words = [element.text for element in ElementTree.parse(made["gain-by-task.svg"]).iter() if element.text]
    assert {f"set-{at}" for at in range(MANY_TASKS)} <= set(words) and "one seed" in words
    assert "one task" in "".join(ElementTree.parse(made["gain.svg"]).getroot().itertext())
    assert "Averaged over tasks" in made["claim"].read_text()


def test_one_task_fewer_is_shown_task_by_task(make, scene):
    few = analyse(read(make(*(scene(task=f"set-{at}", test=200) for at in range(MANY_TASKS - 1)))))
    assert not few.many and len(page.compose(few).outcomes) >= MANY_TASKS - 1


def test_models_are_ranked_in_every_arm_of_many_tasks(make, scene):
    rows = {"attention": (0.5, 0.6, 0.7), "s4d": (0.6, 0.7, 0.5), "lstm": (0.7, 0.5, 0.6)}
    scenes = [scene(rows=rows, seeds=1, task=f"set-{at}", test=400) for at in range(MANY_TASKS)]
    found = diagnostics.rankings(analyse(read(make(*scenes))))
    best = {title: ranks.sorted[0][0] for title, ranks in found.items()}
    assert best == dict(
        zip((f"{arm}, over tasks" for arm in COLUMNS), ("lstm", "s4d", "attention"), strict=True)
    )
