"""A sample of what ``make torture`` goes through for the guarantees of docs/guarantees.md.

What can be tried at any operation, at any time or with any damage is here. The other guarantees have tests
beside their code; that page names them, and ``make torture`` runs them too. With ``SELFPRETRAIN_TORTURE=1``
every operation and hundreds of damaged files are tried, with ``SELFPRETRAIN_TORTURE=0.1`` a tenth; what was
tried, how often, and how often it failed is printed at the end.
"""

import copy
import importlib
import json
import os
import random
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toys
from hostile import KINDS, PIECES, good, harmed
from imports import bring
from selfpretrain.api import Request, comparison, run_request
from selfpretrain.cli.app import run
from selfpretrain.data.importing import importer
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.paths import imported_datasets
from selfpretrain.errors import DataError, Interrupted, SelfPretrainError, StoreError
from selfpretrain.estimators import leaderboard
from selfpretrain.estimators.models import SequenceClassifier
from selfpretrain.report import page
from selfpretrain.runner.workspace import Workspace
from selfpretrain.system.files import LEFTOVER, read_json, write_json
from selfpretrain.tasks.inspect import baselines
from selfpretrain.training import train
from torture import (
    REFUSALS,
    Outcome,
    at_operation,
    did,
    ended,
    flip,
    forked,
    kill,
    operations,
    refusal,
    signalled,
)

SHARE = float(os.environ.get("SELFPRETRAIN_TORTURE", "0"))
STRIKES = REFUSALS if SHARE else REFUSALS[:1]
"""Refusals of the operating system, at length all of them: any is an ``OSError``, only its line differs."""
TABLE: list[tuple[str, int, int]] = []
"""What a test tried, how often, and how often it failed."""
NEEDED = [
    "torch._dynamo",
    "matplotlib.figure",
    "scipy.stats",
    "jinja2",
    "rich.console",
    "pyarrow.csv",
    "filelock",
]
GIGABYTE = 1 << 20
"""In the unit of ru_maxrss on Linux."""


def some(sample: int, full: int) -> int:
    return max(sample, round(full * SHARE))


@pytest.fixture(scope="module", autouse=True)
def swift() -> Iterator[None]:
    """Simple methods are stubs, which nothing here is about; checkpoints are frequent."""
    toys.settle()
    for name in NEEDED:  # once, rather than in every child
        importlib.import_module(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines, "baseline_scores", lambda task: {"chance": 0.5})
        patch.setattr(train, "CHECKPOINT_SECONDS", 0.0)
        patch.setattr(os, "fsync", lambda handle: None)  # no power is lost here
        yield


@pytest.fixture(autouse=True)
def told(request: pytest.FixtureRequest) -> Iterator[None]:
    """What is asked for at length ends with a table."""
    TABLE.clear()
    yield
    request.node.user_properties += [("told", " | ".join(map(str, line))) for line in TABLE if SHARE]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one imported set."""
    folder = tmp_path_factory.mktemp("torture")
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, (90, 8))
    np.savez(folder / "t.npz", x=x, y=(x.sum(1) > 16).astype(np.int64))
    os.environ["SELFPRETRAIN_DATA"] = str(folder / "data")
    importer.import_data(folder / "t.npz", "tiny", ImportOptions())
    yield folder
    del os.environ["SELFPRETRAIN_DATA"]


def request() -> Request:
    return Request(comparison("tiny", ("attention",), "causal", 1, "smoke", {}), "smoke")


def compare(runs: Path) -> Callable[[], Any]:
    """Run what is missing; the numbers that come out, without the seconds."""

    def work() -> Any:
        try:
            found = run_request(request(), Workspace(runs, quiet=True)).to_rows()
        except SelfPretrainError as error:
            print(f"error: {error}")
            return error.exit_code
        except KeyboardInterrupt:  # while the report is written; the command line ends like this
            return Interrupted.exit_code
        return [{name: value for name, value in row.items() if name != "seconds"} for row in found]

    return work


@pytest.fixture(scope="module")
def rows(data: Path) -> Any:
    """The right numbers; children inherit what is counted and hashed for them."""
    return json.loads(json.dumps(compare(data / "runs")()))


@pytest.fixture(scope="module")
def done(data: Path, rows: Any) -> Path:
    """A folder of runs in which all has finished; to be copied."""
    return data / "runs"


@pytest.fixture(scope="module")
def steps(data: Path, rows: Any) -> int:
    """How many operations on files a comparison takes."""
    return operations(compare(data / "counted"), data / "counted", data)


@pytest.fixture(scope="module")
def models() -> list[SequenceClassifier]:
    """Two models with two files of weights and a reliability curve."""
    x, y = np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32), np.arange(30) % 2
    kind = SequenceClassifier(mixer="attention", width=8, depth=1, epochs=1, pretrain_epochs=1, n_trials=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaderboard, "chosen", lambda order, groups=None: order[-1])
        found = [copy.deepcopy(kind.set_params(random_state=seed)).fit(x, y) for seed in (0, 1)]
    for model in found:
        model.scores_["reliability"] = {"bins": [[0.5, 0.5, 1.0]]}
    return found


def settled(name: str, failures: list[Any], tried: int) -> None:
    TABLE.append((name, tried, len(failures)))
    assert not failures, failures[:3]


def spread(count: int, sample: int) -> list[int]:
    """All numbers up to ``count``, or so many of them, spread over all."""
    chosen = some(sample, count)
    places = np.linspace(0, count - 1, chosen + 2)[1:-1] if chosen < count else range(count)
    return sorted({1 + int(i) for i in places})


def goes_on(runs: Path, data: Path, rows: Any) -> str:
    """After whatever happened the same command gives the same numbers, and leaves nothing behind."""
    again = did(compare(runs), data)
    if again.answer != rows:
        return f"other numbers: {again}"
    left = [str(path) for path in runs.glob("stages/*/.*") if LEFTOVER.fullmatch(path.name)]
    left += [str(path) for path in runs.glob("stages/*.part-*")]
    return f"left behind: {left}" if left else ""


@pytest.mark.parametrize("what", ["kill", *STRIKES])
def test_compare_is_struck_at_any_operation(data, rows, steps, tmp_path, what):
    out = tmp_path
    failures, tries = [], spread(steps, 1)
    for k in tries:
        runs = tmp_path / f"runs-{k}"
        strike = kill if what == "kill" else refusal(what)
        found = did(compare(runs), out, at_operation(k, runs, strike))
        right = found.code == -signal.SIGKILL if what == "kill" else found.code in (0, 1, 2)
        if not right or found.traceback or "delete" in found.said or (wrong := goes_on(runs, out, rows)):
            failures.append((k, found, wrong if right else ""))
        shutil.rmtree(runs)
    settled(
        f"compare, {what if what == 'kill' else os.strerror(what)} before an operation", failures, len(tries)
    )


def test_report_is_killed_at_any_operation(data, done, rows, tmp_path):
    (folder,) = done.glob("compare-*")
    runs = tmp_path / "runs"
    shutil.copytree(done, runs)
    place = runs / folder.name
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    count, failures = operations(lambda: page.write(place) and 0, place, tmp_path), []
    for k in (tries := spread(count, 1)):
        found = did(lambda: page.write(place) and 0, tmp_path, at_operation(k, place, kill))
        half = [n for n, content in before.items() if (place / n).read_bytes() != content]
        if found.code != -signal.SIGKILL or half:
            failures.append((k, found, half))
    settled("report, kill before an operation", failures, len(tries))


def test_import_over_an_old_set_is_struck_at_any_operation(data, tmp_path, monkeypatch):
    home = tmp_path / "data"
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(home))
    source, failures, tried = good("npz", tmp_path), [], 0
    importer.import_data(data / "t.npz", "mine", ImportOptions())

    def bring() -> int:
        return run(["data", "import", str(source), "--name", "mine", "--yes", "--quiet"])

    def state() -> int:
        from selfpretrain.data import store

        return len(store.verify(imported_datasets()["mine"]).split)

    shutil.copytree(home, tmp_path / "old")
    count = operations(bring, home, tmp_path)
    for strike in (kill, *map(refusal, STRIKES)):
        for k in spread(count, 1):
            shutil.rmtree(home)
            shutil.copytree(tmp_path / "old", home)
            found, tried = did(bring, tmp_path, at_operation(k, home, strike)), tried + 1
            kept = did(state, tmp_path)
            if kept.code not in (90, 40) or found.traceback:
                failures.append((k, found, kept))
            elif did(bring, tmp_path).code:
                failures.append((k, "cannot be brought again"))
    settled("import over an old set, struck before an operation", failures, tried)


@pytest.mark.parametrize("what", ["kill", *STRIKES])
def test_save_over_an_older_model_is_struck_at_any_operation(models, tmp_path, what):
    """The folder holds the older model or the new one, whole; the next save leaves nothing else."""
    data, failures = models[0].task_.load("train"), []
    probabilities = [model.answering.probabilities(data).tolist() for model in models]
    assert probabilities[0] != probabilities[1]
    old = models[0].save(tmp_path / "old")

    def save(folder: Path) -> int:
        try:
            models[1].save(folder)
        except StoreError as error:
            print(error)
            return 1
        return 0

    def loaded(folder: Path) -> Any:
        return SequenceClassifier.load(folder, device="cpu").answering.probabilities(data).tolist()

    def tidy(folder: Path) -> list[str]:
        return sorted(path.name for path in folder.iterdir() if not LEFTOVER.fullmatch(path.name))

    copied(old, tmp_path / "count")
    count = operations(lambda: save(tmp_path / "count"), tmp_path / "count", tmp_path)
    save(tmp_path / "fresh")
    strike = kill if what == "kill" else refusal(what)
    for k in (tries := spread(count, 2)):
        folder = tmp_path / f"model-{k}"
        copied(old, folder)
        found = did(lambda folder=folder: save(folder), tmp_path, at_operation(k, folder, strike))
        right = found.code == -signal.SIGKILL if what == "kill" else found.code in (0, 1)
        if (
            not right
            or found.traceback
            or did(lambda f=folder: loaded(f), tmp_path).answer not in probabilities
        ):
            failures.append((k, found))
        elif save(folder) or loaded(folder) != probabilities[1] or tidy(folder) != tidy(tmp_path / "fresh"):
            failures.append((k, "what the next save leaves", tidy(folder)))
    settled(f"save over an older model, {what} before an operation", failures, len(tries))


def test_signals_at_any_time(data, rows, tmp_path):
    asks = [(signal.SIGKILL,), (signal.SIGTERM,), (signal.SIGHUP,), (signal.SIGINT,), (signal.SIGINT,) * 2]
    asks, at, failures = [*asks, (signal.SIGTERM, signal.SIGTERM)], random.Random(0), []
    tries = some(2, 150)
    for i in range(tries):
        runs, numbers = tmp_path / f"runs-{i}", asks[i % len(asks)]
        found = signalled(compare(runs), tmp_path, at.random() * 0.8, *numbers)
        fair = (0, 130, -signal.SIGKILL) if signal.SIGKILL in numbers else (0, 130, -numbers[0])
        if found.code not in fair or (wrong := goes_on(runs, tmp_path, rows)):
            failures.append((numbers, found, wrong if found.code in fair else ""))
        shutil.rmtree(runs, ignore_errors=True)
    settled("KILL, TERM, HUP, INT, INT twice, TERM twice at a random time", failures, tries)


def test_several_processes_on_one_folder(data, rows, tmp_path):
    failures, tries = [], some(1, 12)
    for i in range(tries):
        runs = tmp_path / f"runs-{i}"
        runs.mkdir()
        found = [forked(compare(runs), tmp_path) for _ in range(2 + i % 2)]
        answers = [ended(pid, tmp_path) for pid in found]
        if any(answer.answer != rows for answer in answers) or (wrong := goes_on(runs, tmp_path, rows)):
            failures.append((answers, wrong if answers else ""))
    settled("two or three compares on one folder at once", failures, tries)


def copied(source: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source, place)


def watched_memory() -> Callable[[], int]:
    """What this process takes at most from now on beyond what it has, in KiB; tests before do not count."""
    status, mark = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not mark.exists():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    mark.write_text("5")  # the high-water mark begins anew
    before = int(status.read_text().partition("VmRSS:")[2].split()[0])
    return lambda: int(status.read_text().partition("VmHWM:")[2].split()[0]) - before


def test_fuzzed_files_are_imported_or_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path / "data"))
    at, failures, tries = random.Random(2), [], some(72, 2000)
    peak = watched_memory()
    for i in range(tries):
        folder = tmp_path / f"{i}"
        folder.mkdir()
        path = good(KINDS[i % len(KINDS)], folder)
        file = harmed(path)
        if i < len(KINDS):
            assert len(bring(path).split) == 40
        for _ in range(at.randint(1, 4)):
            spoil(file, at)
        try:
            bring(path)
        except DataError as error:
            if not str(error).isprintable() or len(str(error)) > 1500:
                failures.append((path, str(error)))
        except Exception as error:
            failures.append((path, repr(error)))
        shutil.rmtree(folder)
    assert peak() < GIGABYTE
    settled(f"fuzzed files imported, {len(KINDS)} kinds", failures, tries)


def spoil(file: Path, at: random.Random) -> None:
    """Some harm at a random place: a bit, a piece put in or over, a cut, a repetition."""
    data = file.read_bytes()
    i, j = at.randrange(len(data) + 1), at.randrange(len(data) + 1)
    piece = at.choice(PIECES)
    how = at.randrange(5)
    if how == 0 and data:
        return flip(file, at)
    done = [
        data[:i] + piece + data[i:],
        data[:i] + piece + data[i + len(piece) :],
        data[:i],
        data[:i] + data[j:],
    ]
    file.write_bytes(done[how - 1])
    return None


ODD = (None, 0, -1, 10**9, 10**30, float("nan"), float("inf"), True)
ODD += ("", "x" * 99, [], {}, [[]], {"is": "os:system"})
"""What may stand in a JSON file where something else should."""


def swapped(plain: Any, at: random.Random) -> None:
    """Put something odd into a random place of what a JSON file holds, or leave something out."""
    places = list(plain) if isinstance(plain, dict) else list(range(len(plain)))
    place = at.choice(places)
    inner = plain[place]
    if isinstance(inner, dict | list) and inner and at.random() < 0.8:
        swapped(inner, at)
    elif at.random() < 0.2:
        del plain[place]
    else:
        plain[place] = at.choice(ODD)


def test_hostile_models_studies_and_recipes_are_refused(data, done, rows, tmp_path):
    """Inside of a digest that fits, or in the bytes: refused in one line, or no harm."""
    from selfpretrain.estimators.models import SequenceClassifier

    x = np.random.default_rng(0).normal(size=(24, 8))
    kind = SequenceClassifier(mixer="attention", objective=None, scale="smoke", device="cpu")
    kind.fit(x, np.arange(24) % 2).save(tmp_path / "model")
    np.save(tmp_path / "new.npy", x)
    shutil.copytree(done, tmp_path / "runs")
    (study,) = (tmp_path / "runs").glob("compare-*")
    recipe = tmp_path / "recipe.json"
    shutil.copy(next(done.glob("stages/*classify*")) / "recipe.json", recipe)
    runs, model = str(tmp_path / "runs"), str(tmp_path / "model")
    asked = {
        tmp_path / "model" / "model.json": ["predict", model, str(tmp_path / "new.npy"), "-o", runs + ".csv"],
        study / "study.json": ["report", str(study)],
        next((tmp_path / "runs").glob("stages/*classify*/result.json")): ["show", runs, "--check"],
        recipe: ["run", str(recipe), "--runs", str(tmp_path / "own"), "--quiet"],
    }
    at, failures, tries = random.Random(5), [], some(6, 200)
    for i in range(tries):
        path, words = list(asked.items())[i % len(asked)]
        whole = path.read_bytes()
        if i % 8 < 4:
            content = read_json(path, (1, 2, 3))
            swapped(content, at)
            write_json(path, content)
        else:
            spoil(path, at)
        found = did(partial(run, words), tmp_path, bounded)
        if found.traceback or found.code not in (0, 1, 2):
            failures.append((words, path.read_text(errors="replace")[:9999], found))
        path.write_bytes(whole)
    settled("hostile models, studies and recipes", failures, tries)


def bounded() -> None:
    """Let no more than a few GB be taken."""
    resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))


def test_outcomes_tell_signals_from_codes(tmp_path):
    assert did(lambda: 7, tmp_path) == Outcome(7, 7, "")
    assert did(kill, tmp_path).code == -signal.SIGKILL
    assert did(lambda: 1 // 0, tmp_path).traceback
