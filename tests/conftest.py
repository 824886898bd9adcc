"""Settled before torch is imported: one thread. And where real data may be found."""

import os

for _variable, _value in {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "MKL_NUM_THREADS": "1",
}.items():
    os.environ.setdefault(_variable, _value)

import gc
import importlib.util
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

from annotations import check_annotations

REPOSITORY = Path(__file__).resolve().parents[1]
# In the default suite, for time; `pytest --hypothesis-profile=thorough` tries 250.
hypothesis.settings.register_profile("quick", max_examples=15, deadline=None)
hypothesis.settings.register_profile("thorough", max_examples=250, deadline=None)
hypothesis.settings.load_profile("quick")


gc.disable()  # until all is imported, which makes next to no garbage
check_annotations()


def data_folder() -> Path:
    """The folder of real data sets: SELFPRETRAIN_TEST_DATA, or shared/data beside the repository."""
    return Path(os.environ.get("SELFPRETRAIN_TEST_DATA", REPOSITORY.parent / "shared" / "data"))


def pytest_collection_finish() -> None:
    """Spare the garbage collector what was imported, which would be looked through for the whole run."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs data or a GPU that are not here."""
    if item.get_closest_marker("cuda"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a GPU")
    for marker in item.iter_markers("needs_data"):
        missing = [name for name in marker.args or ("",) if not (data_folder() / name).exists()]
        if missing:
            pytest.skip(
                f"needs {', '.join(missing) or 'data'} in {data_folder()}; set SELFPRETRAIN_TEST_DATA"
            )


@pytest.fixture(scope="module")
def rough_flops() -> Iterator[None]:
    """Guess the FLOPs of steps, where no test looks at them: counting takes longer than training."""
    from selfpretrain.training import cost

    def guessed(recipe: Any, network: Any, data: Any, order: Any) -> float:
        parameters = sum(parameter.numel() for parameter in network.parameters())
        return 6.0 * order.size * float(data.lengths.double().mean()) * parameters

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "_flops_per_step", guessed)
        patch.setattr(cost.COUNTED, "_steps", {})  # no guess is remembered
        yield


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Skip what builds layers of a library that is not here."""
    from selfpretrain.errors import SpecError

    try:
        return (yield)
    except SpecError as error:
        if "selfpretrain[hf]" in str(error) and importlib.util.find_spec("transformers") is None:
            pytest.skip(str(error))
        raise


def pytest_terminal_summary(terminalreporter: Any) -> None:  # pytest names its type from 8.4 on
    """Print what tests tell of themselves, as their property ``told``."""
    reports = [report for kind in terminalreporter.stats.values() for report in kind]
    told = (each for report in reports for each in getattr(report, "user_properties", ()))
    for line in dict.fromkeys(text for name, text in told if name == "told"):
        terminalreporter.write_line(str(line))


@pytest.fixture(scope="session")
def needs_data(request: pytest.FixtureRequest) -> Path:
    """The folder of real data; the test is skipped where there is none."""
    if not data_folder().is_dir():
        pytest.skip(f"needs data in {data_folder()}; set SELFPRETRAIN_TEST_DATA")
    return data_folder()


@pytest.fixture(autouse=True, scope="session")
def simple_methods_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Score a task without a network once for all tests, as the experiments of one folder do."""
    from selfpretrain.runner import experiment_dir
    from selfpretrain.system.files import read_json, write_json
    from selfpretrain.tasks.base import Task
    from selfpretrain.tasks.inspect import baselines

    folder, scores = tmp_path_factory.getbasetemp(), baselines.baseline_scores
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def known(task: Task) -> dict[str, float]:
        path = folder / f"baselines-{experiment_dir._cache_name(task)}"
        if not path.exists():
            write_json(path, scores(task))
        return dict(read_json(path))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines, "baseline_scores", known)
        yield


@pytest.fixture(autouse=True, scope="session")
def epochs_once() -> Iterator[None]:
    """Draw the thousand epochs that stand for all, when FLOPs are counted, once for toys that are alike."""
    from selfpretrain.data.dataloader import BatchSampler

    drawn, known = vars(BatchSampler)["padded_lengths"], {}

    def padded_lengths(order: BatchSampler, epochs: int = 1) -> Any:
        key = (order.lengths.numpy().tobytes(), order.size, order.seed, order.pool, epochs)
        if key not in known:
            known[key] = drawn(order, epochs)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchSampler, "padded_lengths", padded_lengths)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_power_is_lost() -> Iterator[None]:
    """Do not wait for disks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def few_trees() -> Iterator[None]:
    """Fit 20 trees instead of 200, which are most of the time of a small fit."""
    from selfpretrain.tasks.simple import models

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "MAX_TREES", 20)
        patch.setattr(models, "MIN_TREES", 20)
        patch.setattr(models, "RANDOM_TREES", 20)
        yield


@pytest.fixture(autouse=True, scope="session")
def drawing() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Leave pictures of pages empty, since drawing takes longer than all else; yield a way to have them."""
    from selfpretrain.report.layout import Picture

    drawn = vars(Picture)["svg"]

    @contextmanager
    def draw() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Picture, "svg", drawn)
            yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Picture, "svg", "<svg></svg>")
        yield draw


@pytest.fixture(autouse=True)
def known_state() -> None:
    """Begin with one thread and a known random state."""
    import toys

    toys.settle()


@pytest.fixture
def drawn_pictures(drawing: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Draw the pictures of pages for a test that looks at them."""
    with drawing():
        yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder for this test alone."""
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def real_data(needs_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of real data, from which tasks read; what they prepare is written to one of this test."""
    monkeypatch.setenv("SELFPRETRAIN_DATA", f"{tmp_path}{os.pathsep}{needs_data}")
    return needs_data


@pytest.fixture
def random() -> np.random.RandomState:
    """A known random state."""
    return np.random.RandomState(0)
