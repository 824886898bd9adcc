"""Tables of pages are those of the data that were measured and kept."""

import csv
import json
import lzma
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import pytest

from scripts import script

ROOT = Path(__file__).parents[1]

WRITE = {
    "archive": lambda bench, page: bench.write(page, bench.read(bench.MEASURED)),
    "data_sets": lambda bench, page: bench.write(page),
    "few_labels": lambda bench, page: bench.write(page, bench.finished()),
    "kept_score": lambda bench, page: bench.write(page, json.loads(bench.KEPT.read_text())),
    "sequential": lambda bench, page: bench.write(page, json.loads(bench.KEPT.read_text())),
    "trial": lambda bench, page: bench.write_page(page),
    "windows": lambda bench, page: bench.write(page),
}


@pytest.mark.parametrize("name", WRITE)
def test_tables_of_pages_match_the_kept_data(name, tmp_path):
    bench, page = script(name), tmp_path / "page.md"
    page.write_text(bench.PAGE.read_text())
    WRITE[name](bench, page)
    assert page.read_text() == bench.PAGE.read_text(), f"run the script {name}.py with --page"
    for beside in tmp_path.glob("*.tsv"):
        kept = bench.PAGE.with_name(beside.name.replace(page.stem, bench.PAGE.stem, 1))
        assert beside.read_text() == kept.read_text(), "run it with --page"


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py")))
def test_every_benchmark_still_finds_what_it_measures(name):
    assert script(name).__doc__


def test_gene_finding_is_as_its_kept_results_have_it():
    """The table has means over the seeds of which all arms are measured with as many loci."""
    lines = lzma.decompress((ROOT / "experiments/genefinding.small.jsonl.xz").read_bytes()).splitlines()
    scores = defaultdict(dict)  # arm and loci -> seed -> scores
    for result in (json.loads(line)["files"]["result.json"] for line in lines[1:]):
        if test := result["scores"].get("test"):
            stages = result["recipe"]["stages"]
            arm = "SPT" if len(stages) == 2 else "scratch" if result["steps"] == 1000 else "scratch (matched)"
            scores[arm, stages[-1]["source"]["loci"]][result["recipe"]["seed"]] = test
    arms = ("scratch", "scratch (matched)", "SPT")
    page = (ROOT / "docs/tutorials/genes.md").read_text().replace("*", "")
    for arm in arms:
        cells = []
        for loci in (20, 100, None):
            seeds = set.intersection(*(set(scores[each, loci]) for each in arms))
            found = [scores[arm, loci][seed] for seed in seeds]
            cells.append(" / ".join(f"{fmean(each[x] for each in found):.3f}" for x in ("accuracy", "MCC")))
        assert f"| S4D, {arm} | {' | '.join(cells)} |" in page


def test_fit_on_genes_is_as_its_kept_results_have_it():
    with (ROOT / "experiments/genes_fit.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    cells = []
    for loci in ("20", "100", "all"):
        found = [row for row in rows if row["loci"] == loci]
        assert {row["seed"] for row in found} == {"0", "1", "2"}
        cells.append(" / ".join(f"{fmean(float(row[x]) for row in found):.3f}" for x in ("accuracy", "MCC")))
    page = (ROOT / "docs/tutorials/genes.md").read_text()
    assert f"| `fit` with its defaults, an hour at most | {' | '.join(cells)} |" in page
