"""The benchmarks measure known costs, report failures as results, and answer mistakes in one line."""

import json
import signal
import time
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bench_toys
from selfpretrain.cli import app
from selfpretrain.cli.check import _mixers, _sizes
from selfpretrain.errors import Interrupted, SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.s4 import S4
from selfpretrain.mixers.s4d import S4D
from selfpretrain.report.figures.scaling import Measurement, figure, rows
from selfpretrain.training import benchmark
from selfpretrain.training.benchmark import Trial

FILES = {"bench.json", "bench.svg", "bench.png"}


def test_known_costs_are_measured(beyond=50):
    trial = Trial(bench_toys.TaskConstants(megabytes=2, milliseconds=1), 8, 100 + beyond)
    begin = time.perf_counter()
    found = trial.measure(60.0)
    passed = time.perf_counter() - begin
    assert found.bytes == pytest.approx(beyond * 2e6, rel=0.05)
    assert found.parameters == 8 * 8 + 8
    assert beyond / 1000 <= found.seconds <= passed  # it fills memory as well


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("refuse", "length 64 is refused"),
        ("starve", "out of memory"),
        ("SIGKILL", "out of memory"),
        ("SIGSEGV", f"fails: its process ended with {-signal.SIGSEGV}"),
        ("raise", "fails: RuntimeError: two lines"),
    ],
)
def test_a_failure_is_a_measurement(how, reason):
    found = Trial(bench_toys.Failing(how), 8, 64).measure(60.0)
    assert (found.reason, found.seconds, found.bytes) == (reason, None, None)
    assert found.line().endswith(reason)


def test_what_takes_longer_than_the_limit_is_too_slow():
    trial = Trial(bench_toys.TaskConstants(milliseconds=500), 8, 200)
    assert trial.measure(0.5).reason == "too slow: more than 0.5 s"


def test_mixers_that_are_too_slow_are_not_tried_at_larger_sizes(tmp_path, monkeypatch):
    def measured(trial, limit):
        slow = trial.length > 64 and trial.mixer != Attention()
        return trial.result(
            {"reason": f"too slow: more than {limit:g} s"}
            if slow
            else {"parameters": 100, "seconds": 1e-3, "bytes": 1000}
        )

    monkeypatch.setattr(Trial, "measure", measured)
    trials = benchmark.by_length([Attention(), S4D()], [200, 64, 400], Trial(S4D(), 8, 0))
    lines = []
    found = benchmark.run(trials, 8.0, tmp_path, lines.append)
    reasons = {(it.mixer, it.length): it.reason for it in found if it.reason}
    assert reasons == {
        ("s4d", 200): "too slow: more than 8 s",
        ("s4d", 400): "not tried: a smaller size was too much",
    }
    assert lines == [it.line() for it in found] and [it.length for it in found[::2]] == [64, 200, 400]
    assert {path.name for path in tmp_path.iterdir()} == FILES
    content = json.loads((tmp_path / "bench.json").read_text())
    assert content["readings"][0]["seconds"] == found[0].seconds > 0 and content["environment"]["torch"]


def test_an_interruption_keeps_what_was_measured(tmp_path):
    def stop(line):
        raise KeyboardInterrupt

    trials = [Trial(Attention(), 8, length) for length in (32, 64)]
    with pytest.raises(Interrupted, match=str(tmp_path)):
        benchmark.run(trials, 60.0, tmp_path, stop)
    assert {path.name for path in tmp_path.iterdir()} == FILES
    assert len(json.loads((tmp_path / "bench.json").read_text())["readings"]) == 1


def test_trials_are_those_of_the_paper():
    like = Trial(S4D(), 32, 128, batch=2, depth=4, causal=True)
    trials = benchmark.by_length([Attention(), S4D()], [1024, 512], like)
    assert trials == [
        replace(like, mixer=mixer, length=length) for length in (512, 1024) for mixer in (Attention(), S4D())
    ]
    assert len(trials[0].build()) == 4
    pairs = [
        (type(it.mixer).__name__, it.mixer.states, it.width) for it in benchmark.by_width([32, 16], like)
    ]
    assert pairs == [("LSSL", 16, 16), ("S4", 8, 16), ("LSSL", 32, 32), ("S4", 16, 32)]
    sizes = [sum(p.numel() for p in it.build().parameters()) for it in benchmark.by_width([64], like)]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.1)


def test_s4_has_256_states_as_in_the_paper_unless_set():
    assert _mixers("attention, s4", {}) == [Attention(), S4(states=256)]
    assert _mixers("s4", {"s4.states": "16"}) == [S4(states=16)]


@given(st.lists(st.tuples(st.integers(1, 10**6), st.sampled_from(["", "k", "K", " k"])), min_size=1))
def test_sizes_are_parsed(sizes):
    text = " , ".join(f"{number}{unit}" for number, unit in sizes)
    assert _sizes(text) == [number * (1024 if unit.strip() else 1) for number, unit in sizes]


@pytest.mark.parametrize("text", ["", "1m", "k", "0", "-1k", "1.5k", "1k,,2k", "²"])
def test_invalid_sizes_are_rejected(text):
    with pytest.raises(SpecError, match="for example"):
        _sizes(text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["attenton"], "did you mean 'attention'"),
        (["attention", "--mixers", "atention"], "did you mean 'attention'"),
        (["attention", "--mixers", "builtins:dict"], "builtins:dict returns dict, not a torch.nn.Module"),
        (
            ["attention", "--set", "s5.states=4"],
            "begin with one of the mixers (attention, performer, linear, s4)",
        ),
        (["attention", "--set", "s4.state=4"], "did you mean"),
        (["attention", "--device", "tpu"], "use auto"),
        (["attention", "--mixers", "linear,s4,s4"], "two of the mixers linear, s4, s4 have one name"),
        (["attention", "--length", "64"], "--length is not for the benchmark attention"),
        (["lssl", "--mixers", "s4"], "--mixers is not for the benchmark lssl"),
        (["lssl", "--set", "s4.states=4"], "--set is not for the benchmark lssl"),
        (["lssl", "--sizes", "8,10"], "width 10 is not a multiple of 4"),
    ],
)
def test_mistakes_get_one_line(arguments, said, tmp_path, capsys):
    assert app.run(["bench", *arguments, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("error: ") and error.count("\n") == 1


SMALL = {
    "attention": [
        "--mixers",
        "attention,bench_toys:Failing",
        "--sizes",
        "256,512",  # less may fit into memory that was freed before
        "--width",
        "8",
        "--depth",
        "2",
    ],
    "lssl": ["--sizes", "8", "--length", "16"],
}


@pytest.mark.parametrize("question", ["attention", pytest.param("lssl", marks=pytest.mark.slow)])
def test_the_command_prints_a_table_relative_to_the_first_mixer(question, tmp_path, capsys):
    arguments = ["bench", question, *SMALL[question], "--out", str(tmp_path)]
    assert app.run(arguments) == 0
    out, err = capsys.readouterr()
    assert f"relative to {question}" in out and str(tmp_path / "bench.svg") in out.replace("\n", "")
    readings = json.loads((tmp_path / "bench.json").read_text())["readings"]
    assert err.count("\n") == len(readings) == {"attention": 4, "lssl": 2}[question]
    assert readings[0]["speed"] == readings[0]["memory"] == 1


def power(mixer, exponent, along="length"):
    return [
        Measurement(mixer, **({"length": 64, "width": 64} | {along: n}), batch=4, depth=1, parameters=100,
                    seconds=1e-6 * n**exponent, bytes=round(1000 * n**exponent))
        for n in (256, 512, 1024)
    ]  # fmt: skip


FAILED = Measurement("attention", 2048, 64, 4, 1, reason="out of memory [says libc]")


def test_rows_are_relative_to_the_first_mixer():
    found = rows([*power("attention", 2), FAILED, *power("s4", 1)])
    assert [row["speed"] for row in found] == pytest.approx([1, 1, 1, None, 256, 512, 1024])
    assert [row["memory"] for row in found[-3:]] == pytest.approx([1 / 256, 1 / 512, 1 / 1024])


@pytest.mark.parametrize("along", ["length", "width"])
def test_the_figure_names_mixers_and_sizes(along):
    drawn = figure([*power("attention", 2, along), *power("s4", 1, along)])
    assert drawn["png"].startswith(b"\x89PNG")
    text = "".join(ElementTree.fromstring(drawn["svg"]).itertext())
    assert all(word in text for word in ("attention", "s4", "256", "512", "1,024", along))
    assert "mathdefault" not in text


@pytest.mark.parametrize("found", [[], [FAILED], power("s4", 1)[:1]])
def test_few_measurements_are_drawn_too(found):
    assert set(figure(found)) == {"svg", "png"} and len(rows(found)) == len(found)


@pytest.mark.parametrize(
    ("seconds", "size", "words"),
    [
        (0.01214, 47_010_000, "12.1 ms  47 MB"),
        (2.4, 0, "2,400 ms  0 MB"),
        (5e-7, 999, "0.0005 ms  0.000999 MB"),
    ],
)
def test_a_measurement_in_words(seconds, size, words):
    line = Measurement("s4", 1024, 128, 4, 1, 1, seconds, size).line()
    assert line == f"s4  length 1024  width 128  {words}"
