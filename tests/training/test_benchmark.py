"""The bench: known costs are found, failures are readings, and mistakes are one line."""

import csv
import json
import signal
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bench_toys
from selfpretrain.cli import app
from selfpretrain.errors import Interrupted, SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.s4 import S4
from selfpretrain.mixers.s4d import S4D
from selfpretrain.report.figures.scaling import Report, table
from selfpretrain.training import benchmark
from selfpretrain.training.benchmark import Setting

SETTING = Setting(batch=1)
FILES = {"bench.json", "bench.csv", "bench.md", "bench.svg", "bench.png"}


def test_known_costs_are_found(beyond=50):
    cell = SETTING.cell(bench_toys.TaskConstants(megabytes=2, milliseconds=1), 8, 100 + beyond)
    begin = time.perf_counter()
    reading = benchmark.measure_once(cell)
    passed = time.perf_counter() - begin
    assert reading.bytes == pytest.approx(beyond * 2e6, rel=0.05)
    assert reading.parameters == 8 * 8 + 8
    assert beyond / 1000 <= reading.seconds <= passed  # it fills memory as well


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("refuse", "length 64 is refused"),
        ("starve", "out of memory"),
        ("SIGKILL", "out of memory"),
        ("SIGSEGV", f"fails: its process ended with {-signal.SIGSEGV}"),
        ("raise", "fails: RuntimeError: two lines"),
    ],
)
def test_a_failure_is_a_reading(how, said):
    reading = benchmark.measure_once(SETTING.cell(bench_toys.Failing(how), 8, 64))
    assert (reading.reason, reading.seconds, reading.bytes) == (said, None, None)
    assert reading.line().endswith(said)


def test_everything_is_measured_in_turn_and_written(tmp_path):
    cells = [SETTING.cell(mixer, 8, n) for n in (32, 64) for mixer in (bench_toys.Failing(), Attention())]
    told = []
    report = benchmark.measure(cells, 2, tmp_path, told.append)
    assert [line.split()[1] for line in told] == ["failing", "attention"] * 2 + ["attention"] * 2
    assert [reading.rounds for reading in report.readings] == [1, 2, 1, 2]
    assert {path.name for path in tmp_path.iterdir()} == FILES
    rows = list(csv.DictReader((tmp_path / "bench.csv").open()))
    assert [row["length"] for row in rows] == ["32", "32", "64", "64"]
    assert [row["reason"] == "" for row in rows] == [False, True] * 2
    content = json.loads((tmp_path / "bench.json").read_text())
    assert float(rows[1]["seconds"]) == content["readings"][1]["seconds"] > 0
    assert content["environment"]["torch"]


def test_an_interruption_leaves_what_was_measured(tmp_path):
    def stop(line):
        raise KeyboardInterrupt

    cells = [SETTING.cell(Attention(), 8, n) for n in (32, 64)]
    with pytest.raises(Interrupted, match=str(tmp_path)):
        benchmark.measure(cells, 2, tmp_path, stop)
    assert {path.name for path in tmp_path.iterdir()} == FILES
    assert [row["length"] for row in csv.DictReader((tmp_path / "bench.csv").open())] == ["32"]


def test_layers_are_as_many_as_asked():
    one, four = (replace(SETTING, depth=depth).cell(Attention(), 8, 32) for depth in (1, 4))
    reading = benchmark.measure_once(four)
    assert 4 * benchmark.n_parameters(one) == benchmark.n_parameters(four) == reading.parameters
    assert "4 layers of width 8" in str(table(Report((reading,))).title)


def test_parameters_are_matched():
    goal = benchmark.n_parameters(SETTING.cell(Attention(), 64, 32))
    for mixer in (Attention(), S4D(), bench_toys.TaskConstants()):
        cell = benchmark.match_parameters(SETTING.cell(mixer, 64, 32), goal)
        off = abs(benchmark.n_parameters(cell) - goal)
        around = (cell.place.width - benchmark.STEP, cell.place.width + benchmark.STEP)
        assert all(
            abs(benchmark.n_parameters(SETTING.cell(mixer, width, 32)) - goal) >= off for width in around
        )
    assert benchmark.match_parameters(SETTING.cell(Attention(), 8, 32), goal) == SETTING.cell(
        Attention(), 64, 32
    )
    assert benchmark.match_parameters(SETTING.cell(S4D(), 8, 32), 1).place.width == benchmark.STEP


def test_plans():
    both = [Attention(), S4D()]
    cells = benchmark.plan("attention", both, ("512,1k", "32"), Setting(2, causal=True))
    assert [(type(c.mixer), c.place.length) for c in cells] == [
        (Attention, 512), (S4D, 512), (Attention, 1024), (S4D, 1024),
    ]  # fmt: skip
    assert all((c.place.width, c.place.causal, c.setting.batch) == (32, True, 2) for c in cells)
    assert [c.place.rotary for c in cells] == [True, False] * 2
    cells = benchmark.plan("lssl", [], (None, "16,32"), SETTING)
    assert [(c.mixer.states, c.place.width, c.place.length) for c in cells] == [
        (16, 16, 1024), (16, 16, 1024), (32, 32, 1024), (32, 32, 1024),
    ]  # fmt: skip
    cells = benchmark.plan("lssl", [], (None, "128"), SETTING, "params")
    assert [c.mixer.states for c in cells] == [128, 64]
    assert benchmark.apply_settings([Attention(), S4()], {"s4.states": "16"}) == [Attention(), S4(states=16)]
    matched = benchmark.plan("attention", both, ("64", "64"), SETTING, "params")
    assert matched[0].place.width == 64 != matched[1].place.width


@given(st.lists(st.tuples(st.integers(1, 10**6), st.sampled_from(["", "k", "K", " k"])), min_size=1))
def test_sizes_are_read(sizes):
    text = " , ".join(f"{number}{unit}" for number, unit in sizes)
    assert benchmark.parse_sizes(text) == [number * (1024 if unit.strip() else 1) for number, unit in sizes]


@pytest.mark.parametrize("text", ["", "1m", "k", "0", "-1k", "1.5k", "1k,,2k", "²"])
def test_other_sizes_are_not(text):
    with pytest.raises(SpecError, match="for example"):
        benchmark.parse_sizes(text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["attenton"], "did you mean 'attention'"),
        (["attention", "--match", "parameters"], "did you mean 'params'"),
        (["attention", "--width", "8,16"], "give one --width"),
        (["lssl", "--lengths", "1k,2k"], "give one --lengths"),
        (["attention", "--mixers", "atention"], "did you mean 'attention'"),
        (["attention", "--mixers", "builtins:dict"], "builtins:dict returns dict, not a torch.nn.Module"),
        (["attention", "--set", "s5.states=4"], "begin with one of the mixers (attention, s4)"),
        (["attention", "--set", "s4.state=4"], "did you mean"),
        (["attention", "--device", "tpu"], "use auto"),
    ],
)
def test_mistakes_get_one_line(arguments, said, tmp_path, capsys):
    assert app.run(["bench", *arguments, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("error: ") and error.count("\n") == 1


def test_the_command_shows_a_table(tmp_path, capsys):
    small = ["--mixers", "attention", "--lengths", "32,64", "--width", "8", "--batch", "1", "--repeats", "1"]
    assert app.run(["bench", "attention", *small, "--out", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert "slope" in out and str(tmp_path / "bench.svg") in out.replace("\n", "")
    assert err.count("1/1") == 2
