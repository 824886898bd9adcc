"""Averages over tasks: every task counts once, and with few tasks nothing is said."""

import numpy as np
import pytest

from selfpretrain.report import diagnostics
from selfpretrain.report.format import MINUS
from task_results import ARMS, cell, study_of, task_results

SPT, SCRATCH = ARMS
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


def test_gains_are_averaged_over_tasks_with_intervals_over_tasks():
    found = texts(diagnostics.gains_over_tasks(study(7)))
    assert list(found) == [(row, f"{SPT} over {SCRATCH}") for row in FOUND]
    mean, interval, ahead, _ = found["a", f"{SPT} over {SCRATCH}"]
    assert mean == "+13.0"
    half = 2.447 * np.std(np.arange(7), ddof=1) / np.sqrt(7)
    assert interval == f"[+{13 - half:.1f}, +{13 + half:.1f}]"
    assert ahead == "7 of 7"
    assert found["c", f"{SPT} over {SCRATCH}"][2] == "6 of 7"


def test_models_are_compared_in_every_arm():
    found = texts(diagnostics.models_over_tasks(study(6)))
    assert [mean for mean, *_ in (found["a over b", arm] for arm in (SCRATCH, SPT))] == [
        f"{MINUS}10.0",
        f"{MINUS}20.0",
    ]


def test_the_order_of_models_is_compared_within_each_task():
    ((arms, r, *_),) = ([entry.text for entry in row] for row in diagnostics.order_over_tasks(study(6)).rows)
    assert (arms, r) == (f"{SCRATCH} and {SPT}", "0.50")


@pytest.mark.parametrize(
    "table", [diagnostics.gains_over_tasks, diagnostics.models_over_tasks, diagnostics.order_over_tasks]
)
def test_five_tasks_are_too_few(table):
    assert not table(study(5)).rows
