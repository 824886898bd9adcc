"""Compare every number with those of an older revision, to the bit: the judge of a change that moves none.

    python tools/exact.py                       print the table: a line for each trained stage and each answer
    python tools/exact.py --against REVISION    make the table of that revision as well, on this machine, with
                                                its own copy of this file; print what differs (exit code 1)
    python tools/exact.py mixers fit            some groups of cases only; --help names them

A trained stage gives steps, FLOPs, and hashes of its weights and predictions. Names of folders, settings and
classes are not in the table, since a rebuilding may change them. Bits differ between processors: therefore
both revisions run here.
"""

import argparse
import contextlib
import csv
import difflib
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["COLUMNS"] = "200"

import numpy as np
import torch
from safetensors.numpy import load_file

from selfpretrain import (
    MultilabelClassifier,
    PositionClassifier,
    SequenceClassifier,
    SequencePretrainer,
    SequenceRegressor,
    Workspace,
    compare,
)
from selfpretrain.errors import DataError, Interrupted
from selfpretrain.registry import find, names

REPOSITORY = Path(__file__).resolve().parents[1]
DATA = REPOSITORY.parent / "shared" / "data"
TASKS = ("digits", "listops", "paths", "pathfinder", "image-patches", "procedural", "recall", "retrieval")
TASKS += ("selective-copying", "state-tracking", "stdlib", "text", "spoken-digits", "bidmc")
Lines = Iterator[str]


def sha256(*arrays: np.ndarray) -> str:
    """Return the first half of the hash of some arrays."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(each).tobytes() for each in arrays)).hexdigest()[:16]


def digest(path: Path) -> str:
    """Return the hash of the tensors of a file, in the order of their names."""
    return sha256(*(array for _, array in sorted(load_file(path).items()))) if path.exists() else "none"


def stages(runs: Path) -> list[str]:
    """Return a line for every finished stage below a folder of runs, in an order that no name decides."""
    lines = []
    for result in map(Path, runs.rglob("result.json")):
        found = json.loads(result.read_text(encoding="utf-8"))
        hashes = (digest(result.parent / f"{name}.safetensors") for name in ("weights", "predictions"))
        cost = found["cost"]
        words = (found["objective"], found["steps"], cost["parameters"], f"{cost['flops']:.0f}", *hashes)
        lines.append(" ".join(map(str, words)))
    return sorted(lines)


@contextlib.contextmanager
def workspace(**settings: object) -> Iterator[Workspace]:
    """Yield an empty folder of runs, without a display."""
    with tempfile.TemporaryDirectory() as folder:
        yield Workspace(Path(folder), quiet=True, **settings)


def compared(*args: object, **settings: object) -> Lines:
    """Run a comparison at the smoke scale and yield its stages."""
    with workspace() as here:
        compare(*args, seeds=1, scale="smoke", workspace=here, **settings)
        yield from stages(here.runs)


def mixers() -> Lines:
    """Every architecture: causal and masked pretraining, then labels."""
    kinds = {name: find("mixers", name) for name in names("mixers")}
    fixed = {name: kind() for name, kind in kinds.items() if kind.denoises}
    causal = tuple(name for name, mixer in fixed.items() if mixer.causal)
    yield from compared("digits", causal, "causal", arms=("scratch", "spt"))
    masked = tuple(name for name, mixer in fixed.items() if not getattr(mixer, "only_causal", False))
    yield from compared("digits", masked, "masked", arms=("scratch", "spt"))


def objectives() -> Lines:
    """Every pretraining objective on symbols, and on values where it has any."""
    for task in ("recall", "digits"):
        for name in ("causal", "diffusion", "masked", "ngram-statistics", "replaced", "spans"):
            if task == "recall" or name in ("causal", "diffusion", "masked", "spans"):
                yield from (f"{task} {name}: {line}" for line in compared(task, ("attention",), name))


def arms() -> Lines:
    """Every arm on two tasks; those that a task or mixer has no use for are left out by themselves."""
    for task in ("digits", "paths"):
        yield from (f"{task}: {line}" for line in compared(task, ("s4d",), arms=tuple(names("arms"))))


def tasks() -> Lines:
    """Every task that is generated here or whose data are found: a training on it."""
    for name in TASKS:
        try:
            yield from (f"{name}: {line}" for line in compared(name, ("lru",), arms=("matched", "spt")))
        except DataError as error:  # no data on this machine; anything else is a fault of the judge
            yield f"{name}: {type(error).__name__}"


def interrupted() -> Lines:
    """A comparison that is stopped after every 7th step and repeated, and one of two processes."""
    calls = iter(range(1_000_000))
    with workspace(stop=lambda: next(calls) % 7 == 6) as here:
        while True:
            try:
                compare("digits", seeds=1, scale="smoke", workspace=here)
                break
            except Interrupted:
                continue
        yield from stages(here.runs)
    with workspace(workers=2, executor="processes") as here:
        compare("digits", seeds=1, scale="smoke", workspace=here)
        yield from stages(here.runs)


def fit() -> Lines:
    """What the estimators answer."""
    random = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = random.normal(size=(60, 24)) + np.sin(np.arange(24) * (0.3 + 0.3 * y[:, None]))
    texts = ["".join(random.choice(list("abcd" if label else "abbd"), 20)) for label in y]
    small = {"width": 8, "depth": 1, "epochs": 2, "pretrain_epochs": 2, "n_trials": 2, "random_state": 0}
    exhaustive = small | {"exhaustive": True}
    several = np.stack([y, 1 - y, y], axis=1)
    for kind, inputs, target, answer in (
        (SequenceClassifier, x, y, "predict_proba"),
        (SequenceClassifier, texts, y, "predict_proba"),
        (SequenceRegressor, x, x.mean(1), "predict"),
        (MultilabelClassifier, x, several, "predict_proba"),
        (PositionClassifier, x, (x > 0).astype(int), "predict_proba"),
    ):
        model = kind(**exhaustive).fit(inputs, target)
        answers = getattr(model, answer)(inputs)
        whole = np.concatenate(list(answers)) if isinstance(answers, list) else np.asarray(answers)
        scores = " ".join(f"{trial['score']:.9g}" for trial in model.trials_)
        yield f"{kind.__name__} {type(inputs).__name__}: {sha256(whole)} {scores}"
    embedded = SequencePretrainer(width=8, depth=1, pretrain_epochs=2, random_state=0).fit(x).transform(x)
    yield f"SequencePretrainer: {sha256(np.asarray(embedded))}"


def kept() -> Lines:
    """The bundled results of every study, rendered again: every number of ``results.csv`` but seconds."""
    for name in names("studies"):
        kind = find("studies", name)
        if not kind.lasting:
            continue
        with workspace() as here:
            found = study_rows(name, kind.bundled_seeds, here)
        yield from (f"{name}: {line}" for line in found)


def study_rows(name: str, seeds: int, here: Workspace) -> list[str]:
    """Return the rows of a study's CSV file, without seconds and names of folders."""
    command = ["study", name, "--scale", "small", "--seeds", str(seeds), "--runs", str(here.runs), "--quiet"]
    done = subprocess.run([sys.executable, "-m", "selfpretrain", *command], check=False, capture_output=True)
    if done.returncode:
        return [f"exit code {done.returncode}"]
    (table,) = here.runs.glob("*/results.csv")
    dropped = ("seconds", "fingerprint", "stage", "folder", "path")
    rows = csv.DictReader(io.StringIO(table.read_text(encoding="utf-8")))
    return [
        json.dumps({key: value for key, value in row.items() if not any(word in key for word in dropped)})
        for row in rows
    ]


GROUPS: dict[str, Callable[[], Lines]] = {
    each.__name__: each for each in (mixers, objectives, arms, tasks, interrupted, fit, kept)
}


def table(groups: list[str]) -> list[str]:
    """Return the lines of some groups, each with the name of its group."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as prepared:
        os.environ["SELFPRETRAIN_DATA"] = os.pathsep.join(
            [prepared, os.environ.get("SELFPRETRAIN_TEST_DATA", str(DATA))]
        )
        return [f"{group}: {line}" for group in groups for line in GROUPS[group]()]


def table_of(revision: str, groups: list[str]) -> list[str]:
    """Return the table of another revision of this repository, made by its own copy of this file."""
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", "-C", str(REPOSITORY), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", f"{folder}/old", revision], check=True)
        try:
            environment = os.environ | {
                "PYTHONPATH": f"{folder}/old/src",
                "SELFPRETRAIN_TEST_DATA": str(DATA),
            }
            command = [sys.executable, f"{folder}/old/tools/exact.py", *groups]
            done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        finally:
            subprocess.run([*git, "remove", "--force", f"{folder}/old"], check=True)
    return done.stdout.splitlines()


def main() -> None:
    """Print the table, or how it differs from that of another revision."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"all, or some of {', '.join(GROUPS)}")
    parser.add_argument("--against", metavar="REVISION")
    flags = parser.parse_args()
    groups = flags.groups or list(GROUPS)
    here = table(groups)
    if flags.against is None:
        print("\n".join(here))
        return
    there = table_of(flags.against, groups)
    changes = [line for line in difflib.unified_diff(there, here, flags.against, "here", lineterm="", n=0)]
    print("\n".join(changes) or f"{len(here)} lines are equal")
    sys.exit(bool(changes))


if __name__ == "__main__":
    main()
