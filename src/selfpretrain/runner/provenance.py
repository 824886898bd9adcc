"""Provenance of a reported number: recipe, earlier stages, code, data, and whether training saw val or test.

Everything is read from disk as training wrote it. Only the hashes of the training examples are computed
again, if the data are available, and compared with those of the val and test splits. Recipes are described in
words from their JSON; the classes that it names need not be importable.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ..config import from_dict
from ..data.spec import SPLITS
from ..errors import SelfPretrainError, SpecError, StoreError, UnknownName, join_names, nearest
from ..registry import SHELVES, find, module_of, name_of, names
from ..report.paper_numbers import PaperNumber
from ..report.results import STUDY, ExperimentResults, read_plan
from ..report.stage_results import StageResult, parsed, read_log
from ..system.files import Json, read_json
from ..tasks.common.stored import Prepared
from ..training.recipe import Recipe, fingerprint, training_data
from .experiment_dir import example_hashes
from .run_dir import RESULT, RunDir
from .stage import examples_digest

T = TypeVar("T")
HELD_OUT = ("val", "test")  # splits that training must not see
MAX_NAMES = 10  # in an error message


@dataclass(frozen=True)
class RecipeFields:
    """Fields of a stored recipe."""

    task: Json
    model: Json
    stages: list[Json]
    seed: int


@dataclass(frozen=True)
class ChainLink:
    """One stage of the chain that led to a number, and what it was trained on."""

    stage: str  # its name; several if equal recipes were run on different data; "" if not found
    objective: str
    used_by: tuple[str, ...]  # stages that start from it
    rows: int = 0  # training examples
    sha256: str = ""  # of the sorted hashes of these examples
    # By split: (examples seen, all examples).
    shared: dict[str, tuple[int, int]] = field(default_factory=dict)
    how: str = "there is no result of it"  # how this was checked, or why it could not be


@dataclass(frozen=True)
class Citation:
    """A cell of a study that depends on the stage."""

    study: str
    row: str
    column: str
    seed: int
    stages: tuple[str, ...]  # of the cell, in order
    scored: bool  # whether the cell shows this stage's score, not that of a later stage
    paper: PaperNumber | None  # the paper's number for this cell


@dataclass(frozen=True)
class Provenance:
    """Everything known about one stage."""

    stage: str
    folder: str
    recipe: Json
    chain: tuple[ChainLink, ...]  # all stages in order; the last is this one
    environment: Json
    result: Json  # without its recipe; empty if it has not finished
    now: str  # fingerprint of this recipe with today's code and data; "" if unknown
    version: str  # version of the available data; "" if unknown
    curve: tuple[Json, ...]  # the lines of its log
    printed: tuple[Citation, ...]
    unreadable: tuple[str, ...]  # other folders that are damaged, or of another format


def locate(run: str, runs: Path) -> Path:
    """Return the folder of a stage or study by path, fingerprint, or any part of its name.

    Raises:
        UnknownName: if nothing matches; the message suggests the nearest name.
        SpecError: if several match.
    """
    path = Path(run)
    path = path.parent if path.is_file() else path
    if _is_run(path):
        return path
    known = {p.name: p for p in [*runs.glob("stages/*"), *runs.glob("*")] if _is_run(p)}
    matches = [name for name in known if run in (name, name.rpartition("-")[2])]
    matches = matches or sorted(name for name in known if run in name)
    if len(matches) == 1:
        return known[matches[0]]
    if matches:
        shown = join_names(matches, MAX_NAMES)
        raise SpecError(f"{run!r} fits {len(matches)} stages and studies, say more of one: {shown}")
    if not known:
        raise UnknownName(f"no stage and no study in {runs}; give the folder of runs with --runs")
    if path.is_dir():
        raise UnknownName(f"{run} is a folder, but no stage or study; name one, or --check a folder of them")
    hint = nearest(run, known, [name.rpartition("-")[2] for name in known])
    raise UnknownName(f"none of the {len(known)} stages and studies in {runs} is called {run!r}{hint}")


def _is_run(path: Path) -> bool:
    return any((path / file).is_file() for file in ("recipe.json", RESULT, STUDY))


def trace(folder: Path, rehash: bool = True, trusted: tuple[str, ...] = ()) -> Provenance:
    """Collect the provenance of a stage.

    Args:
        folder: of the stage.
        rehash: whether to hash the training examples again, if the data are available.
        trusted: other packages whose specs may be loaded for that.

    Raises:
        StoreError: if its files are damaged.
        ForeignRun: if they were written in another format.
    """
    folder = folder.resolve()
    runs = folder.parent.parent
    result = _read_result(folder / RESULT) if (folder / RESULT).exists() else {}
    recipe = result.pop("recipe", None) or read_json(folder / "recipe.json")
    recipe.pop("format", None)
    parsed(RecipeFields, recipe, folder / "recipe.json")
    unreadable: list[str] = []
    # Attempts in progress have no result that counts.
    finished = (path for path in runs.glob(f"stages/*/{RESULT}") if not RunDir(path.parent).is_attempt)
    results = _read_all(finished, _read_result, unreadable)
    studies = _read_all(runs.glob(f"*/{STUDY}"), lambda path: read_plan(path.parent), unreadable)
    printed = tuple(_citations(folder.name, studies))
    data = _revive(recipe, trusted) if rehash else "the data were not read"
    environment = folder / "environment.json"
    return Provenance(
        stage=folder.name,
        folder=str(folder),
        recipe=recipe,
        chain=tuple(_chain(folder, recipe, results, printed, data)),
        environment=read_json(environment) if environment.exists() else {},
        result=result,
        now=fingerprint(data) if isinstance(data, Recipe) else "",
        version=data.task_of(data.last).version() if isinstance(data, Recipe) else "",
        curve=tuple(
            line for line in read_log(folder / "log.jsonl", {}) if line.get("kind") in ("train", "val")
        ),
        printed=printed,
        unreadable=tuple(unreadable),
    )


def _read_result(path: Path) -> Json:
    content = read_json(path)
    parsed(StageResult, content | {"folder": path.parent}, path)
    parsed(RecipeFields, content.get("recipe") or {}, path)
    return content


def _read_all(paths: Iterable[Path], read: Callable[[Path], T], unreadable: list[str]) -> dict[str, T]:
    """Return the content of files by the names of their folders; add folders of damaged ones to a list."""
    found = {}
    for path in sorted(paths):
        try:
            found[path.parent.name] = read(path)
        except StoreError:
            unreadable.append(path.parent.name)
    return found


def _revive(recipe: Json, trusted: tuple[str, ...]) -> Recipe | str:
    """Return a recipe whose data are available, or the reason why they are not."""
    try:
        revived = from_dict(recipe, trusted)
        if not isinstance(revived, Recipe):
            return "its recipe is not one of this package"
        for task in [revived.task, *map(revived.task_of, revived.stages)]:
            if isinstance(task, Prepared) and not task.made_up and not task.folder.exists():
                return f"the data are not available; `selfpretrain data make {name_of(task)}` prepares them"
            task.version()  # raises DataError if imported data are missing
    except SelfPretrainError as error:
        return str(error)
    return revived


def _citations(stage: str, studies: dict[str, ExperimentResults]) -> Iterator[Citation]:
    for folder, study in studies.items():
        for cell in study.cells:
            names = tuple(Path(path).name for path in cell.folders)
            if stage in names:
                scored = names[-1] == stage
                yield Citation(folder, cell.row, cell.column, cell.seed, names, scored, cell.reported)


def _chain(
    folder: Path, recipe: Json, results: dict[str, Json], printed: Sequence[Citation], data: Recipe | str
) -> Iterator[ChainLink]:
    """Yield the stages of a recipe; ``data`` is the recipe with its data, or why they are not available."""
    runs = folder.parent.parent
    recipes = {name: result["recipe"] for name, result in results.items()}
    for i, stage in enumerate(recipe["stages"], 1):
        start = _start(recipe, i)
        same_start = [name for name, other in recipes.items() if _start(other, i) == start]
        equal = [n for n in same_start if len(recipes[n]["stages"]) == i]
        # Equal recipes may have been run on different data; a study says which one it refers to.
        earlier = sorted({cell.stages[i - 1] for cell in printed}) or equal
        name = folder.name if i == len(recipe["stages"]) else " or ".join(earlier)
        link = ChainLink(name, short_name(stage["objective"]), tuple(n for n in same_start if n not in equal))
        if len(earlier) > 1 and name != folder.name:
            link = replace(link, how="several stages fit")
        if name in results:
            seen = results[name].get("data", {})
            digest = str(seen.get("sha256", ""))
            shared, how = _held_out(digest, runs, data if isinstance(data, str) else data.upto(i - 1))
            link = replace(link, rows=int(seen.get("rows", 0)), sha256=digest, shared=shared, how=how)
        yield link


def _start(recipe: Json, i: int) -> Json:
    """Return a recipe up to its i-th stage; without the pooling if no head pools, see ``Recipe.upto``."""
    start = recipe | {"stages": recipe["stages"][:i]}
    ours = names("objectives")
    heads = [short_name(stage["objective"]) for stage in start["stages"]]
    if any(head not in ours or find("objectives", head).pools for head in heads):
        return start
    return start | {"model": recipe["model"] | {"pooling": ""}}


def _held_out(digest: str, runs: Path, data: Recipe | str) -> tuple[dict[str, tuple[int, int]], str]:
    """Count the held-out examples among the training examples with this digest, and say how that was checked.

    Their hashes are computed from the data, or else read from a manifest that an experiment has left.
    """
    train = [] if isinstance(data, str) else training_data(data).digests()
    how = data if isinstance(data, str) else "hashed again from the data"
    if isinstance(data, Recipe) and train and examples_digest(train) == digest:
        hashes = {str(split): found for split, found in example_hashes(data.task).items()}
        return {s: _known_among(hashes[s], train) for s in HELD_OUT}, how
    how = "the data found here are not those it was trained on" if train else how
    for path in sorted(runs.glob("manifests/*.json")):
        content = RunDir(path.parent).read_cache(path.name)  # a damaged one proves nothing
        complete = all(isinstance(content.get(split), list) for split in SPLITS)
        if complete and examples_digest(content["train"]) == digest:
            shared = {s: _known_among(content[s], content["train"]) for s in HELD_OUT}
            return shared, f"by the manifest of {path.stem}; {how}"
    return {}, how


def _known_among(held_out: list[str], train: list[str]) -> tuple[int, int]:
    """Return how many held-out examples are among those to train on, and of how many."""
    known = set(train)
    return sum(one in known for one in held_out), len(held_out)


def recipe_in_words(plain: Json) -> Iterator[tuple[str, str]]:
    """Yield (part, description) for the task, the model, every stage and the seed."""
    yield "task", describe(plain["task"])
    yield "model", _settings(plain["model"])
    for number, stage in enumerate(plain["stages"], 1):
        # The first stage starts from random weights.
        yield f"stage {number}", _settings({k: v for k, v in stage.items() if k != "transfer" or number > 1})
    yield "seed", str(plain["seed"])


def short_name(plain: Json) -> str:
    """Return the short name of a spec: its module name if it is on a shelf of ours, else its class name.

    A network of the user is named after the callable that makes it, a model of transformers after its config.
    """
    if "factory" in plain:
        return str(plain["factory"]).rpartition(":")[2].lower()
    if "config" in plain:
        return str(plain.get("name", ""))
    module, _, kind = str(plain.get("is", "")).partition(":")
    package, _, file = module.rpartition(".")
    return file.replace("_", "-") if package in map(module_of, SHELVES) else kind.lower()


def describe(plain: Json) -> str:
    """Return a spec with its settings, e.g. ``attention (heads 4)``."""
    apart = ("config", "name") if "config" in plain else ()
    settings = _settings({name: value for name, value in plain.items() if name not in apart})
    return f"{short_name(plain)} ({settings})" if settings else short_name(plain)


def _settings(plain: Json) -> str:
    """Return settings in words; None, empty and False values are left out."""
    words = []
    for name, value in plain.items():
        if name == "is" or value is None or value is False or value in ([], {}, ""):
            continue
        word = {"lr": "learning rate"}.get(name, name.replace("_", " "))
        text = "" if value is True else _in_words(value)
        # A budget is described as "budget (steps 6)", not as "budget budget (steps 6)".
        words.append(text if text.startswith(f"{word} (") else f"{word} {text}".rstrip())
    return ", ".join(words)


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return describe(value)
    if isinstance(value, list):
        return " ".join(map(_in_words, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
