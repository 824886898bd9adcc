"""The page of few labels: its tables are those of what was measured, and its data are read as it says."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from scripts import script
from selfpretrain.report.format import NONE

ROOT = Path(__file__).resolve().parents[1]
MARKS = "".join(f"<!-- {name} -->\n<!-- end of {name} -->\n" for name in ("facts", "scores", "gains", "fits"))
TUNE = "X:1\nM: 3/4\nL: 1/8\nK: G\nd2 | c4e2 | z2c2c,2 | d2e4\n"
KANJI = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:kvg="https://kanjivg.tagaini.net/">
<g kvg:element="a">
<g kvg:element="b"><path kvg:type="x"/><path kvg:type="y"/></g><g kvg:element="c"><path kvg:type="x"/></g>
<path kvg:type="z"/></g></svg>"""


@pytest.fixture(scope="module")
def bench():
    return script("few_labels")


@pytest.fixture(scope="module")
def data():
    return script("few_labels_data")


def entry(spt, simple, **more):
    scores = {"SPT": spt, "simple": simple, "simple, all sequences": 0.5, "scratch": 0.4, "fit": spt}
    methods = {name: {"score": value, "seconds": 3.0} for name, value in scores.items()}
    gap = [spt - simple, spt - simple - 0.02, spt - simple + 0.02]
    about = {
        "kept": "kept: mean, sd, accuracy 0.8",
        "wall": 65.0,
        "time_limit": None,
        "load": [0.5, 1.5],
        "finalists": 2,
        "trials": [{"pooling": "last"}],
    }
    return {"methods": methods, "differences": {"simple": gap}} | about | more


def test_the_page_shows_means_marks_the_best_and_says_what_was_not_measured(bench, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(MARKS)
    draws = {
        "nouns/300/0": entry(0.70, 0.6),
        "nouns/300/1": entry(0.72, 0.6),
        "kanji/20/0": entry(0.60, 0.8, time_limit=20.0, trials=[{}]),
        "stress/20/0": entry(0.70, 0.6, trials=[{}]),
    }
    del draws["kanji/20/0"]["finalists"]
    without = entry(0.9, 0.8)
    for name in ("SPT", "fit"):
        del without["methods"][name]
    del without["kept"]
    draws["tunes/100/0"] = without | {"differences": {}}
    fact = {"sequences": 9, "shortest": 2, "longest": 5, "test": "3", "commonest": 0.5}
    bench.write(page, {"facts": {"nouns": fact}, "draws": draws})
    lines = page.read_text().splitlines()
    assert (
        "| nouns | 300 | 40.0 ± 0.0 | **71.0 ± 1.4** | 60.0 ± 0.0 | 50.0 ± 0.0 | **71.0 ± 1.4** | 2 |"
        in lines
    )
    assert "| kanji | 20 | 40.0 | 60.0 | **80.0** | 50.0 | 60.0 † § | 1 |" in lines
    assert "| stress | 20 | 40.0 | **70.0** | 60.0 | 50.0 | **70.0** ¶ | 1 |" in lines
    assert f"| tunes | 100 | 40.0 | {NONE} | **80.0** | 50.0 | {NONE} | 1 |" in lines
    assert f"| kanji | 20 | {NONE} | -20.0 (-22.0 to -18.0) | {NONE} | 0 |" in lines
    assert "| kanji | 20 | 0 | mean, sd | 3 | 65 | 20 min | 1.5 | 6.0 |" in lines
    dashes = " | ".join([NONE] * 5)
    assert f"| nouns | 20, 100, 1,000 | {dashes} | not measured |" in lines
    assert f"| watch | 20, 100, 300 | {dashes} | not measured |" in lines
    assert sum(line.startswith("| nouns | German nouns") for line in lines) == 1


def test_what_is_kept_is_not_measured_again_and_comes_in_the_order_asked_for(bench, monkeypatch, tmp_path):
    made = []

    def measure(data, parts, number, seed, fits, minutes):
        made.append((data.name, number, seed))
        return entry(0.5, 0.5)

    words = [f"word{i}" for i in range(60)]
    examples = bench.Examples(words, ["x", "y"] * 30)
    monkeypatch.setattr(bench, "KEPT", tmp_path / "kept.json")
    monkeypatch.setattr(bench, "measure", measure)
    monkeypatch.setattr(bench, "fetch", lambda data, folder: folder)
    monkeypatch.setattr(bench, "PAGE", tmp_path / "page.md")
    bench.PAGE.write_text(MARKS)
    sets = [bench.Data(n, "", "", lambda folder: examples, None, None, 10, 100) for n in ("nouns", "kanji")]
    monkeypatch.setattr(bench, "SETS", sets)
    for _ in range(2):
        monkeypatch.setattr("sys.argv", ["few_labels.py", "--only", "nouns/20/1", "kanji/20"])
        bench.main()
    assert made == [("nouns", 20, 1), ("kanji", 20, 0), ("kanji", 20, 1), ("kanji", 20, 2)]
    assert set(json.loads(bench.KEPT.read_text())["draws"]) == {
        "nouns/20/1",
        *(f"kanji/20/{s}" for s in range(3)),
    }
    for name in ("verbs", "nouns/300"):
        with pytest.raises(SystemExit, match=f"no draw {name}"):
            bench.wanted([name])


def test_people_of_the_test_are_others_and_labels_come_from_few(bench):
    people = np.repeat(np.arange(6), 10)
    examples = bench.Examples(people.tolist(), people.tolist(), people)
    data = bench.Data("watch", "", "", None, None, None, 2)
    X, y, Z, _ = bench.divided(data, examples, 15, 0)
    assert len(set(Z)) == 2 and not set(Z) & set(X)
    assert (
        len({label for label in y if label is not None}) == 2 and sum(label is not None for label in y) == 15
    )


def test_differences_are_paired_over_the_test_sequences(bench):
    right = np.array([[1.0, 1.0], [0.0, 1.0]] * 50)
    found = bench.differences({"SPT": right, "simple": right, "scratch": right * [0, 1]})
    assert found["simple"] == [0.0, 0.0, 0.0]
    gap, low, high = found["scratch"]
    assert gap == 0.5 and 0.3 < low < gap < high < 0.7


def test_bars_of_a_tune_are_labelled_where_notes_begin(data):
    tokens, labels = data._tune(TUNE)
    notes = [(token, label) for token, label in zip(tokens, labels, strict=True) if token != data.HOLD]
    # Six eighths a bar after an upbeat of two; the median is c an octave above middle C.
    expected = ["note", "bar", "note", None, "note", "note", "bar", "note"]
    assert [label for _, label in notes] == expected
    assert tokens[2:6] == [notes[1][0], data.HOLD, data.HOLD, data.HOLD]
    assert notes[3][0] == data.REST and notes[1][0] - notes[5][0] == 7
    assert data._tune(TUNE.replace("c4e2", "c4e4")) is None


def test_strokes_of_kanji_begin_components(data, tmp_path):
    with zipfile.ZipFile(tmp_path / "kanjivg.whl", "w") as archive:
        archive.writestr("kanji/04e9c.svg", KANJI)
        archive.writestr("kanji/04e9c-Kaisho.svg", KANJI)
    found = data.kanji(tmp_path)
    assert found.y == [["begin", "inside", "begin", "begin"]]
    (strokes,) = found.X
    assert strokes[0] == strokes[2] and len(set(strokes)) == 3


def test_characters_of_code_are_labelled_by_their_token(data, tmp_path):
    text = 'def f(x):\n    """A sum."""\n    return x + 12  # done\n' + "".join(
        f"y{i} = f({i})\n" for i in range(30)
    )
    with zipfile.ZipFile(tmp_path / "networkx.whl", "w") as archive:
        archive.writestr("networkx/a.py", text)
        archive.writestr("networkx/b.py", text)  # a stretch that occurs twice is one sequence
    found = data.code(tmp_path)
    assert len(found.X) == 3 and all(
        len(x) == len(y) == data.STRETCH for x, y in zip(found.X, found.y, strict=True)
    )
    initial = {
        "keyword": "k",
        "name": "n",
        "operator": "o",
        "string": "s",
        "comment": "c",
        "number": "9",
        None: " ",
    }
    shown = "".join(initial[label] for label in found.y[0])
    assert shown.startswith("kkk nonoo     ssss sssssss     kkkkkk n o 99  c cccc nn")


def test_words_of_a_sentence_are_counted_by_their_ends(data):
    assert data.words("BESBME", "BESBES") == (4.0, 7.0)
    assert data.positions(["a", None, "b"], ["a", "b", "a"]) == (1.0, 2.0)
    assert data.positions(["a", "b", None], ["a"]) == (1.0, 2.0)


def test_simple_methods_learn_from_labels_and_from_all_sequences(bench, data):
    random = np.random.RandomState(0)
    words = ["".join(random.choice(list("abcd"), 6)) + end for end in ["x", "y"] * 60]
    known = [word[-1] if i < 40 else None for i, word in enumerate(words)]
    one = bench.Data("nouns", "", "", None, data.one, data.whole, 20)
    found = bench.chosen_simple(one, (words, known, words[40:], None), 40, 0)
    assert not found["simple"].unlabelled and found["simple, all sequences"].unlabelled
    for method in found.values():
        right = [a == b[-1] for a, b in zip(method.predictions, words[40:], strict=True)]
        assert np.mean(right) > 0.9, method.name
