"""Provenance of a reported number: recipe, earlier stages, code, data, and whether training saw val or test.

Everything is read from disk as training wrote it. Only the hashes of the training examples are computed
again, if the data are available, and compared with those of the val and test splits. Recipes are described in
words from their JSON; the classes that it names need not be importable.
"""

import difflib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..config import from_dict
from ..data.spec import SPLITS
from ..errors import SelfPretrainError, SpecError, StoreError, UnknownName
from ..registry import name_of
from ..report.integrity import MEND
from ..report.manifest import CellRecord, ExperimentRecord
from ..report.paper_numbers import PaperNumber, look_up
from ..report.results import read_record
from ..system.files import Json, damaged_message, read_json
from ..tasks.common.stored import Prepared
from ..training.recipe import Recipe, fingerprint, training_data
from .experiment_dir import example_hashes
from .run_dir import RunDir
from .stage import examples_digest

T = TypeVar("T")
HELD_OUT = ("val", "test")
"""Splits that training must not see."""
MAX_NAMES = 10
"""Maximum number of names in an error message."""
Fields = dict[str, Any]
"""Required fields of a file by name: a type, several types, or the fields of a nested object."""
RECIPE: Fields = {"task": dict, "model": dict, "stages": list, "seed": int}
RESULT: Fields = {
    "fingerprint": str, "recipe": RECIPE, "objective": str, "steps": int, "epochs": (int, float),
    "best_step": int, "stopped": str, "cost": dict, "scores": dict, "data": dict,
}  # fmt: skip
Plain = dict[str, Any]
OWN_LINES = ("objective", "budget", "optim", "transfer")
"""Fields of a stage that are described separately."""


@dataclass(frozen=True)
class RunIndex:
    """The results and experiments of a runs folder, as far as they are readable."""

    results: dict[str, Json]  # results of finished stages, by name
    experiments: dict[str, ExperimentRecord]  # by the name of their folder
    unreadable: tuple[str, ...]

    @classmethod
    def of(cls, runs: Path) -> "RunIndex":
        """Read all results and experiments; damaged ones are listed in ``unreadable``."""
        bad: list[str] = []
        stages = _read_all(_result_files(runs), lambda path: _read_checked(path, RESULT), bad)
        records = _read_all(runs.glob("*/study.json"), lambda path: read_record(path.parent), bad)
        return cls(stages, records, tuple(bad))

    def cells(self) -> Iterator[tuple[str, str, CellRecord]]:
        """Yield every cell with its experiment's folder and the paper that it is compared with."""
        for folder, record in self.experiments.items():
            for task in record.tasks:
                yield from ((folder, record.paper, cell) for cell in task.cells)


@dataclass(frozen=True)
class ChainLink:
    """One stage of the chain that led to a number."""

    stage: str  # its name; several if equal recipes were run on different data; "" if not found
    objective: str
    used_by: tuple[str, ...]  # stages that start from it


@dataclass(frozen=True)
class DataSeen:
    """The training data of a stage, and how many val and test examples were among them."""

    stage: str
    rows: int
    sha256: str  # of the sorted hashes of these examples
    shared: dict[str, tuple[int, int]]  # by split: (examples seen, all examples); empty if unknown
    how: str  # how this was checked, or why it could not be


@dataclass(frozen=True)
class Citation:
    """A cell of a study that depends on the stage."""

    study: str
    row: str
    column: str
    seed: int
    reported: bool  # whether the cell shows this stage's score, not that of a later stage
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
    seen: tuple[DataSeen, ...]  # one per stage of the chain
    curve: tuple[Json, ...]  # the lines of its log
    printed: tuple[Citation, ...]
    unreadable: tuple[str, ...]  # other folders that are damaged, or of another format

    @property
    def moved(self) -> dict[str, list[str]]:
        """Names of the weights that were moved from the stage before, freshly initialized, or unused."""
        transfer = self.result.get("transfer") or {}
        return {kind: transfer[kind] for kind in ("moved", "fresh", "unused") if kind in transfer}


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
        shown = ", ".join(matches[:MAX_NAMES]) + (" ..." if len(matches) > MAX_NAMES else "")
        raise SpecError(f"{run!r} fits {len(matches)} stages and studies, say more of one: {shown}")
    if not known:
        raise UnknownName(f"no stage and no study in {runs}; give the folder of runs with --runs")
    close = difflib.get_close_matches(run, [*known, *(name.rpartition("-")[2] for name in known)], n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise UnknownName(f"none of the {len(known)} stages and studies in {runs} is called {run!r}{hint}")


def trace(folder: Path, check: bool = True, trusted: tuple[str, ...] = ()) -> Provenance:
    """Collect the provenance of a stage.

    Args:
        check: whether to hash the examples again, if the data are available.
        trusted: other packages whose specs may be loaded for that.

    Raises:
        StoreError: if its files are damaged.
        ForeignRun: if they were written in another format.
    """
    folder = folder.resolve()
    name = folder.name
    runs = folder.parent.parent
    result = _read_checked(folder / "result.json", RESULT) if (folder / "result.json").exists() else {}
    recipe = result.pop("recipe", None) or _read_checked(folder / "recipe.json", RECIPE)
    recipe.pop("format", None)
    index = RunIndex.of(runs)
    chain = tuple(_chain(name, recipe, index))
    data = _load_data(recipe, trusted) if check else _Data(None, "the data were not asked")
    environment = folder / "environment.json"
    return Provenance(
        stage=name,
        folder=str(folder),
        recipe=recipe,
        chain=chain,
        environment=read_json(environment) if environment.exists() else {},
        result=result,
        now=fingerprint(data.recipe) if data.recipe else "",
        version=data.recipe.task_of(data.recipe.last).version() if data.recipe else "",
        seen=tuple(_data_seen(link.stage, data.upto(i), index, runs) for i, link in enumerate(chain)),
        curve=tuple(_curve(folder / "log.jsonl")),
        printed=tuple(_citations(name, index)),
        unreadable=index.unreadable,
    )


def _is_run(path: Path) -> bool:
    return any((path / file).is_file() for file in ("recipe.json", "result.json", "study.json"))


def _result_files(runs: Path) -> list[Path]:
    return [path for path in runs.glob("stages/*/result.json") if not RunDir(path.parent).is_attempt]


def _read_all(paths: Iterable[Path], read: Callable[[Path], T], bad: list[str]) -> dict[str, T]:
    read_files = {}
    for path in sorted(paths):
        try:
            read_files[path.parent.name] = read(path)
        except StoreError:
            bad.append(path.parent.name)
    return read_files


def _read_checked(path: Path, fields: Fields) -> Json:
    content = read_json(path)
    if missing := _missing_field(content, fields):
        raise StoreError(damaged_message(path, f"no {missing} in it", MEND.format("result.json")))
    return content


def _missing_field(content: Json, fields: Fields) -> str:
    """Return the first field that is missing or of the wrong type; "" if none is."""
    for name, kind in fields.items():
        is_nested = isinstance(kind, dict)
        if not isinstance(content.get(name), dict if is_nested else kind):
            return name
        if is_nested and (missing := _missing_field(content[name], kind)):
            return f"{name}.{missing}"
    return ""


def _is_prefix(recipe: Json, prefix: Json) -> bool:
    """Return whether a recipe starts with all stages of another, and is equal to it otherwise."""
    shorter = recipe | {"stages": recipe["stages"][: len(prefix["stages"])]}
    return shorter == prefix


def _chain(name: str, recipe: Json, index: RunIndex) -> Iterator[ChainLink]:
    cells = [stages for _, _, cell in index.cells() if name in (stages := _stage_names(cell))]
    recipes = {other: result["recipe"] for other, result in index.results.items()}
    for i, stage in enumerate(recipe["stages"]):
        prefix = recipe | {"stages": recipe["stages"][: i + 1]}
        equal = [other for other in recipes if recipes[other] == prefix]
        # Equal recipes may have been run on different data; a study says which one it refers to.
        earlier = sorted({stages[i] for stages in cells}) or equal
        names = [name] if i + 1 == len(recipe["stages"]) else earlier
        used_by = (name for name, other in recipes.items() if name not in equal and _is_prefix(other, prefix))
        yield ChainLink(" or ".join(names), short_name(stage["objective"]), tuple(used_by))


def _stage_names(cell: CellRecord) -> list[str]:
    return [Path(path).name for path in cell.stages]


def _citations(name: str, index: RunIndex) -> Iterator[Citation]:
    for folder, paper, cell in index.cells():
        if name in (stages := _stage_names(cell)):
            number = look_up(paper, astuple(cell.printed)) if cell.printed else None
            yield Citation(folder, cell.row, cell.column, cell.seed, stages[-1] == name, number)


@dataclass(frozen=True)
class _Data:
    """A recipe whose data are available, or the reason why they are not."""

    recipe: Recipe | None
    why: str = ""

    def upto(self, i: int) -> "_Data":
        return _Data(self.recipe.upto(i) if self.recipe else None, self.why)


def _load_data(plain: Json, trusted: tuple[str, ...]) -> _Data:
    try:
        recipe = from_dict(plain, trusted)
        if not isinstance(recipe, Recipe):
            return _Data(None, "what it keeps as its recipe is none")
        tasks = [recipe.task, *(recipe.task_of(stage) for stage in recipe.stages)]
        for task in tasks:
            if isinstance(task, Prepared) and not task.made_up and not task.folder.exists():
                advice = f"`spt data make {name_of(task)}` prepares them"
                return _Data(None, f"the data are not available; {advice}")
            task.version()  # raises DataError if imported data are missing
    except SelfPretrainError as error:
        return _Data(None, str(error))
    return _Data(recipe)


def _data_seen(stage: str, data: _Data, index: RunIndex, runs: Path) -> DataSeen:
    if stage not in index.results:
        return DataSeen(stage, 0, "", {}, "there is no result of it")
    trained_on = index.results[stage]["data"]
    rows = int(trained_on.get("rows", 0))
    digest = str(trained_on.get("sha256", ""))
    task, manifest = _manifest(digest, runs)
    train, how = _training_hashes(data, digest)
    if not train and manifest and examples_digest(manifest["train"]) == digest:
        train = set(manifest["train"])
        how = f"by the manifest of {task}; {how}"
    if train and not manifest and data.recipe:
        manifest = {str(split): hashes for split, hashes in example_hashes(data.recipe.task).items()}
    shared = {}
    for split in HELD_OUT if train else ():
        shared[split] = (sum(each in train for each in manifest[split]), len(manifest[split]))
    return DataSeen(stage, rows, digest, shared, how)


def _training_hashes(data: _Data, digest: str) -> tuple[set[str], str]:
    """Return the hashes of the training examples if they have this digest, and how that was checked."""
    hashes = training_data(data.recipe).digests() if data.recipe else []
    if not hashes:
        return set(), data.why
    if examples_digest(hashes) != digest:
        return set(), "the data found here are not those it was trained on"
    return set(hashes), "hashed again from the data"


def _manifest(digest: str, runs: Path) -> tuple[str, Json]:
    """Return the task name and example hashes of all splits for the training data with this digest."""
    for path in sorted([*runs.glob("manifests/*.json"), *runs.glob("*/manifest.json")]):
        content = read_json(path)
        if (
            all(isinstance(content.get(split), list) for split in SPLITS)
            and examples_digest(content["train"]) == digest
        ):
            return path.stem, content
    return "", {}


def _curve(path: Path) -> Iterator[Json]:
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            entry = json.loads(line)
        except ValueError:  # cut off when the process was killed; the step is logged again on resume
            continue
        if isinstance(entry, dict) and entry.get("kind") in ("train", "val"):
            yield entry


def recipe_in_words(plain: Plain) -> Iterator[tuple[str, str]]:
    """Yield (part, description) for the task, the model, every stage and the seed."""
    yield "task", describe(plain["task"])
    model = plain["model"]
    yield "model", f"{describe(model.get('mixer', {}))}; {_joined(_settings_in_words(model, 'mixer'))}"
    for number, stage in enumerate(plain["stages"], 1):
        lines = [f"{describe(stage.get('objective', {}))} for {_budget_in_words(stage.get('budget', {}))}"]
        lines += [
            _joined(_settings_in_words(stage, *OWN_LINES)),
            _joined(_settings_in_words(stage.get("optim", {}))),
        ]
        if number > 1:
            lines.append(f"takes over {_joined(_settings_in_words(stage.get('transfer', {})))}")
        yield f"stage {number}", "; ".join(filter(None, lines))
    yield "seed", str(plain["seed"])


def short_name(plain: Plain) -> str:
    """Return the short name of a spec: its module name if it is one of ours, else its class name.

    A network of the user has the name of the callable that makes it, a model of transformers its own.
    """
    if "factory" in plain:
        return str(plain["factory"]).rpartition(":")[2].lower()
    if "config" in plain:
        return str(plain.get("name", ""))
    module, _, kind = str(plain.get("is", "")).partition(":")
    parts = module.split(".")
    ours = parts[0] == __package__.partition(".")[0] and len(parts) == 3
    return parts[2].replace("_", "-") if ours else kind.lower()


def describe(plain: Plain) -> str:
    """Return a spec with its settings, e.g. ``attention (heads 4)``."""
    settings = _joined(
        _settings_in_words(plain, "config", "name") if "config" in plain else _settings_in_words(plain)
    )
    return f"{short_name(plain)} ({settings})" if settings else short_name(plain)


def _settings_in_words(plain: Plain, *apart: str) -> Iterator[str]:
    """Yield settings in words; None, empty and False values are left out."""
    for name, value in plain.items():
        nothing = value is None or value is False or value in ([], {}, "")
        if name != "is" and name not in apart and not nothing:
            word = {"lr": "learning rate"}.get(name, name.replace("_", " "))
            yield word if value is True else f"{word} {_in_words(value)}"


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return describe(value)
    if isinstance(value, list):
        return " ".join(map(_in_words, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _budget_in_words(plain: Plain) -> str:
    return (
        " or ".join(f"{_in_words(n)} {unit}" for unit, n in plain.items() if unit != "is" and n)
        or "no budget"
    )


def _joined(words: Iterator[str]) -> str:
    return ", ".join(words)
