"""Pages that stand between the papers and our results: made from typed tables, the code and what ships."""

import re
from pathlib import Path

import pytest

from scripts import script
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.s4 import S4
from selfpretrain.report.analysis import Standing
from selfpretrain.studies.common.table_study import PAPER_TASKS
from selfpretrain.studies.recipes.reported import paper_arms
from selfpretrain.tasks.bidmc import Bidmc
from selfpretrain.tasks.text import Text
from selfpretrain.training import optim

KNOWN = {
    "Attention": Attention,
    "Bidmc": Bidmc,
    "PAPER_TASKS": PAPER_TASKS,
    "S4": S4,
    "Text": Text,
    "optim": optim,
    "paper_arms": paper_arms,
}
ROOT = Path(__file__).parents[2]
DEVIATIONS, CLAIMS = script("deviations_page"), script("claims_page")


def test_the_page_of_the_papers_lists_every_deviation_when_it_is_built():
    assert "<!-- deviations -->" in (ROOT / "docs" / "papers.md").read_text()
    listed = DEVIATIONS.page()
    assert all(f"| {line['topic']} | " in listed for line in DEVIATIONS.lines())
    assert "- **rivals**: " in listed and "- pretraining's learning rate is printed as 1e03: " in listed


@pytest.mark.parametrize(
    "line", [x for x in DEVIATIONS.lines() if x["true"]], ids=lambda line: line["topic"].replace(" ", "-")
)
def test_a_deviation_is_as_the_page_says(line):
    assert eval(line["true"], KNOWN)  # our own table


def test_every_claim_stands_on_the_page_once_with_its_studies():
    page = CLAIMS.PAGE.read_text()
    words = {CLAIMS.SUPPORTED, CLAIMS.CONTRADICTED, CLAIMS.OPEN, CLAIMS.MIXED, CLAIMS.SILENT}
    words |= {f"{CLAIMS.PARTLY} {word}" for word in (CLAIMS.SUPPORTED, CLAIMS.CONTRADICTED)}
    for lines in CLAIMS.grouped():
        begin = f"| {lines[0]['claim']} | {lines[0]['where']}"
        (row,) = (r for r in page.splitlines() if r.startswith(begin))
        assert CLAIMS.in_numbers(lines[0]) in row.split(" | ")[1]
        assert not re.search(r"\d\.\d\d", re.sub(r"\{.+?\}", "", lines[0]["reported"])), "typed, not read"
        assert row.split("**")[1] in words
        for line in lines:
            assert not line["study"] or f"[{line['study']}](studies/{line['study']}-small/report.md)" in row
        measured = any(line["study"] for line in lines)
        assert measured or (row.split("**")[1] == CLAIMS.SILENT and lines[0]["note"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([CLAIMS.SUPPORTED, CLAIMS.SUPPORTED], CLAIMS.SUPPORTED),
        ([CLAIMS.SUPPORTED, CLAIMS.OPEN], "partly supported"),
        ([CLAIMS.OPEN, CLAIMS.CONTRADICTED, CLAIMS.OPEN], "partly contradicted"),
        ([CLAIMS.SUPPORTED, CLAIMS.CONTRADICTED, CLAIMS.OPEN], CLAIMS.MIXED),
        ([CLAIMS.OPEN], CLAIMS.OPEN),
        ([], CLAIMS.SILENT),
    ],
)
def test_findings_together(words, said):
    assert CLAIMS.together(words) == said


def test_no_claim_is_supported_or_contradicted_by_intervals_that_hold_both():
    minus = "\N{MINUS SIGN}"
    interval = re.compile(r"\[([^\],]+), ([^\]]+)\]")
    for row in CLAIMS.PAGE.read_text().replace(minus, "-").splitlines():
        if f"**{CLAIMS.SUPPORTED}**" in row or f"**{CLAIMS.CONTRADICTED}**" in row:
            found = [pair for pair in interval.findall(row) if pair[0][0] in "+-0"]
            assert not any(float(low) < -1 and float(high) > 1 for low, high in found), row


@pytest.mark.parametrize(
    ("standing", "larger", "equal"),
    [
        (Standing.BETTER, CLAIMS.SUPPORTED, CLAIMS.CONTRADICTED),
        (Standing.AHEAD, CLAIMS.SUPPORTED, CLAIMS.OPEN),
        (Standing.EQUAL, CLAIMS.CONTRADICTED, CLAIMS.SUPPORTED),
        (Standing.UNCLEAR, CLAIMS.OPEN, CLAIMS.OPEN),
        (Standing.BEHIND, CLAIMS.CONTRADICTED, CLAIMS.OPEN),
        (Standing.WORSE, CLAIMS.CONTRADICTED, CLAIMS.CONTRADICTED),
        (Standing.ONE_SEED, CLAIMS.OPEN, CLAIMS.OPEN),
    ],
)
def test_what_a_difference_says_of_a_claim(standing, larger, equal):
    assert (CLAIMS._larger(standing), CLAIMS._equal(standing)) == (larger, equal)


def test_claims_on_which_a_study_does_not_bear_keep_their_rows():
    """A study bears on one claim at least; the page is as before if the rows of those are as before."""
    study = "objectives"
    asked = [lines for lines in CLAIMS.grouped() if any(line["study"] == study for line in lines)]
    known = CLAIMS.known_rows([study])
    measured = [lines for lines in CLAIMS.grouped() if any(line["study"] for line in lines)]
    assert asked and len(known) == len(measured) - len(asked)
    assert CLAIMS.page(lambda name: None, CLAIMS.known_rows(["no study"])) == CLAIMS.PAGE.read_text()
    silent = CLAIMS.page(lambda name: None, known).splitlines()
    changed = set(CLAIMS.PAGE.read_text().splitlines()) - set(silent)
    assert sum(f"studies/{study}-small" in row for row in changed) == len(asked)


@pytest.mark.slow
@pytest.mark.needs_data("fsdd", "cifar10_jpeg", "raw/ucr-wheels")
def test_claims_are_what_the_results_give(tmp_path, monkeypatch, needs_data):
    monkeypatch.setenv("SELFPRETRAIN_DATA", f"{tmp_path / 'data'}:{needs_data}")
    made = CLAIMS.page(CLAIMS.reading(tmp_path), {})
    assert CLAIMS.PAGE.read_text() == made, "run python tools/claims_page.py"
