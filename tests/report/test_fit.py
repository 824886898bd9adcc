"""Training beside test: what a contrast says of fit and of generalisation."""

from dataclasses import replace

import pytest
from report.test_verdict import analysis

from selfpretrain.report import diagnostics
from selfpretrain.report.format import MINUS, NONE
from task_results import MATCHED, SPT, study_of


def study(test, train):
    """One task: test and training scores per seed, by column; None where a training score was not kept."""
    task = analysis({("a", column): scores for column, scores in test.items()}).task
    cells = []
    for cell in task.cells:
        kept = train[cell.column][cell.seed]
        scores = cell.scored.scores | ({} if kept is None else {"train": {"score": kept}})
        cells.append(replace(cell, stages=(replace(cell.scored, scores=scores),)))
    return study_of(replace(task, cells=tuple(cells)))


def texts(table):
    return [[entry.text for entry in row] for row in table.rows]


@pytest.mark.parametrize(
    ("train", "test", "said"),
    [
        (0.1, 0.1, "fits better, is better on test"),
        (0.1, -0.1, "fits better, is worse on test"),
        (-0.1, 0.1, "fits worse, generalises better"),
        (-0.1, -0.1, "fits worse, is worse on test"),
    ],
)
def test_what_a_contrast_means(train, test, said):
    base = [0.50, 0.51, 0.52]
    found = study(
        {MATCHED: base, SPT: [x + test + i / 1000 for i, x in enumerate(base)]},
        {MATCHED: [0.7] * 3, SPT: [0.7 + train + i / 1000 for i in range(3)]},
    )
    ((model, contrast, ours, theirs, so),) = texts(diagnostics.fit_contrasts(found))
    assert (model, so) == ("a", said) and contrast == f"SPT {MINUS} scratch (matched)"
    assert ours.startswith("+" if train > 0 else MINUS) and theirs.startswith("+" if test > 0 else MINUS)


def test_the_gap_is_training_minus_test_and_an_interval_that_holds_zero_says_nothing():
    found = study({MATCHED: [0.5] * 3, SPT: [0.6, 0.61, 0.62]}, {MATCHED: [0.7] * 3, SPT: [0.6, 0.7, 0.8]})
    assert texts(diagnostics.fit_contrasts(found))[0][-1] == NONE
    found = study({MATCHED: [0.5, 0.5], SPT: [0.6, 0.6]}, {MATCHED: [0.9, 0.9], SPT: [0.7, 0.7]})
    gaps = {row[1]: row[-1] for row in texts(diagnostics.fits(found))}
    assert gaps[MATCHED].startswith("40.0 ±") and gaps[SPT].startswith("10.0 ±")


def test_runs_without_a_training_score_are_left_out():
    found = study({MATCHED: [0.5, 0.5], SPT: [0.6, 0.6]}, {MATCHED: [0.9, None], SPT: [0.7, None]})
    assert all("(1)" in row[2] for row in texts(diagnostics.fits(found)))
    nothing = study({MATCHED: [0.5], SPT: [0.6]}, {MATCHED: [None], SPT: [None]})
    assert not diagnostics.fits(nothing).rows and not diagnostics.fit_contrasts(nothing).rows
