"""Tables of pages are those of the data that were measured and kept."""

import json

import pytest

from scripts import script

WRITE = {
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
