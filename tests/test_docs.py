"""The documentation does what it shows: its Python runs, its commands exist.

The ``python`` blocks of a page are one module, imported in an empty folder. A block whose first line is a
comment with a file name, such as ``# mylab/mixers.py``, is that file; one under ``src/selfpretrain/`` joins
the package as if it had been dropped there. Of ``console`` blocks, lines that start with ``$`` are checked:
verbs and flags of ``selfpretrain``, targets of ``make``, files and functions of ``pytest``. Scripts and
notebooks of ``examples/`` run, and the names that the package offers are those that docs/python.md lists.
"""

import functools
import importlib
import json
import pydoc
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.core
import typer.main

import selfpretrain
from scripts import script
from selfpretrain import registry
from selfpretrain.cli import app
from selfpretrain.report import page as report_page

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<kind>[a-z]+)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)
FILE = re.compile(r"# (?P<path>[\w./-]+\.\w+)$")
LINK = re.compile(r"\]\([^)]*\)")
OUR_FOLDER = "src/selfpretrain/"


def blocks(page: Path, kind: str) -> list[tuple[int, str]]:
    """First line number and text of every fenced block of a kind."""
    text = page.read_text(encoding="utf-8")
    found = (match for match in FENCE.finditer(text) if match["kind"] == kind)
    return [(text.count("\n", 0, match.start("text")) + 1, match["text"]) for match in found]


def commands(page: Path) -> Iterator[list[str]]:
    """Words of every command in the console blocks of a page."""
    for _, text in blocks(page, "console"):
        for line in text.replace("\\\n", " ").splitlines():
            if line.lstrip().startswith("$ "):
                yield shlex.split(line.lstrip()[2:], comments=True)


def having(kind: str) -> list[Path]:
    return [page for page in PAGES if page.exists() and blocks(page, kind)]


TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("[!i]*.md"))
"""Pages whose commands are run after their Python."""


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stages that pages and examples have trained: many compare attention on digits, trained once."""
    return tmp_path_factory.mktemp("stages")


@pytest.fixture
def sandbox(tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder that is on the import path, and whose src/selfpretrain extends the package.

    It is empty but for ``runs/stages``, in which is what others have trained in theirs.
    """
    before = set(sys.modules)
    shutil.copytree(trained, tmp_path / "runs" / "stages")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path / "data"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(report_page, "SECTIONS", [*report_page.SECTIONS])  # to which an example appends
    shelves = (importlib.import_module(registry.module_of(shelf)) for shelf in registry.SHELVES)
    for package in [selfpretrain, *shelves]:
        dropped = tmp_path / OUR_FOLDER / package.__name__.partition(".")[2].replace(".", "/")
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(dropped)])
    yield tmp_path
    for result in (tmp_path / "runs" / "stages").glob("*/result.json"):
        shutil.copytree(result.parent, trained / result.parent.name, dirs_exist_ok=True)
    for module in set(sys.modules) - before:
        if str(tmp_path) in str(vars(sys.modules[module]).get("__file__")):
            del sys.modules[module]


@pytest.mark.parametrize("page", [page for page in having("python") if page not in TUTORIALS], ids=name)
def test_python_runs(page: Path, sandbox: Path) -> None:
    program: list[str] = []
    for line, text in blocks(page, "python"):
        if named := FILE.match(text.partition("\n")[0]):
            place = sandbox / named["path"]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        else:
            program += [""] * (line - 1 - len(program)) + text.splitlines()
    module = f"page_{page.stem}"
    (sandbox / f"{module}.py").write_text("\n".join(program) + "\n", encoding="utf-8")
    importlib.invalidate_caches()
    importlib.import_module(module)


EXAMPLES = {
    "compare_two_layers": (["--jobs", "1"], "report.html"),
    "own_layer": ([], "report.html"),
    "own_module": ([], "report.html"),
    "own_backbone": ([], "weights.safetensors"),
    "hf_model": ([], "weights.safetensors"),
    "own_csv": ([], "result.json"),
    "explain_with_captum": ([], "importance.csv"),
    "draw_data": (["digits", "--out", "runs/digits.png"], "digits.png"),
    "breakdown": ([], "results.csv"),
}
"""Scripts, their flags, and a file that is somewhere in the folder of runs afterwards."""


def test_every_example_is_run() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)


SLOW = {"hf_model", "docs/tutorials/paper.md"}
"""The dearest; own_backbone and the page of a study in tests/studies are like them and always tried."""


def cases(names: list[str]) -> list[object]:
    return [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in names]


@pytest.mark.parametrize("example", cases(list(EXAMPLES)))
def test_example_runs(
    example: str, sandbox: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if example == "explain_with_captum":
        pytest.importorskip("captum", reason="captum is not installed")
    flags, left = EXAMPLES[example]
    (sandbox / f"{example}.py").write_text((ROOT / "examples" / f"{example}.py").read_text())
    monkeypatch.setattr(sys, "argv", [example, *flags])
    importlib.invalidate_caches()
    importlib.import_module(example).main()
    assert list((sandbox / "runs").rglob(left))
    assert "%" in capsys.readouterr().out


@pytest.mark.slow
def test_the_gate_of_pull_requests_runs(sandbox: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its commands are those of a workflow, at the smallest scale."""
    shutil.copy(ROOT / "examples" / "own_module.py", sandbox)
    lines = re.findall(r"- run: (selfpretrain .*)", (ROOT / "examples" / "gate.yml").read_text())
    check, gate = map(shlex.split, lines)
    assert app.run(check[1:]) == 0
    capsys.readouterr()
    assert app.run([*gate[1 : gate.index(">")], "--scale", "smoke", "--seeds", "2"]) in (0, 3)
    judged = json.loads(capsys.readouterr().out)["verdicts"]
    assert [verdict["row"] for verdict in judged] == ["attention", "conv"]


NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_notebook_runs_and_was_run(path: Path, sandbox: Path) -> None:
    tool = script("notebooks")
    kept = json.loads(path.read_text(encoding="utf-8"))
    done = tool.executed(kept)
    assert [len(cell.get("outputs", [])) for cell in done["cells"]] == [
        len(cell.get("outputs", [])) for cell in kept["cells"]
    ]
    assert any(cell.get("outputs") for cell in kept["cells"])


def documented() -> list[str]:
    """The names in the first column of the table on docs/python.md."""
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "python.md").read_text(), re.MULTILINE)
    return sorted(name for row in rows for name in re.findall(r"`(\w+)`", row))


def test_offered_names_are_the_documented_ones() -> None:
    assert sorted(selfpretrain.__all__) == documented()
    assert set(selfpretrain.__all__) <= set(dir(selfpretrain))
    for offered in selfpretrain.__all__:
        assert getattr(selfpretrain, offered).__doc__, offered
    with pytest.raises(AttributeError, match="no attribute 'comprae'"):
        selfpretrain.comprae  # noqa: B018


def test_help_says_where_to_begin() -> None:
    text = pydoc.plain(pydoc.render_doc(selfpretrain))
    begin, _, rest = text.partition("Begin with ``compare``")
    assert rest and len(begin.splitlines()) < 8
    said = selfpretrain.__doc__ or ""
    assert [name for name in selfpretrain.__all__ if f"``{name}``" not in said] == []


@pytest.mark.parametrize("page", having("console"), ids=name)
def test_commands_exist(page: Path) -> None:
    wrong = [shlex.join(words) for words in commands(page) if not exists(words)]
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    [
        "selfpretrain compete",
        "selfpretrain compare --sedes 3",
        "make demonstration",
        "pytest tests/test_nil.py",
    ],
)
def test_a_wrong_command_is_noticed(text: str) -> None:
    assert not exists(shlex.split(text))


def exists(words: list[str]) -> bool:
    """Whether a command of this repository has the verb, flags or target that are shown."""
    while words and "=" in words[0]:
        words = words[1:]
    if words[0] == "torchrun":
        words = ["selfpretrain", *words[words.index("selfpretrain") + 1 :]]
    match words:
        case ["selfpretrain", verb, *rest] if not verb.startswith("-"):
            return _is_verb(verb, rest)
        case ["make", *targets]:
            return all(_is_target(word) for word in targets if "=" not in word)
        case ["pytest", *rest] | ["python", "-m", "pytest", *rest]:
            return all((ROOT / word).exists() for word in rest if word.startswith("tests/"))
    return True


@functools.cache
def whole_command() -> typer.core.TyperGroup:
    """All verbs of the command; they take a while to be put together."""
    from selfpretrain.cli.app import command_line

    group = typer.main.get_command(command_line())
    assert isinstance(group, typer.core.TyperGroup)
    return group


def _is_verb(verb: str, rest: list[str]) -> bool:
    command = whole_command().commands.get(verb)
    while isinstance(command, typer.core.TyperGroup) and rest:
        command, rest = command.commands.get(rest[0]), rest[1:]
    if command is None:
        return False
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    return all(
        word.partition("=")[0] in known for word in rest if word.startswith("-") and not _is_number(word)
    )


def _is_target(word: str) -> bool:
    return re.search(rf"^{re.escape(word)}:", (ROOT / "Makefile").read_text(), re.MULTILINE) is not None


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-[\d.e-]+", word) is not None


def test_ten_guarantees_name_tests_that_exist() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    there = {name for text in sources for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)}
    promises = [line for line in page.splitlines() if line.startswith("| ") and "`test_" in line]
    assert len(promises) == 10
    assert set(re.findall(r"`(test_\w+)`", page)) <= there


def test_the_picture_of_the_readme_is_described() -> None:
    effect = script("effect_picture")
    command, said = effect.drawn()
    assert effect.PICTURE.read_text(encoding="utf-8") == effect.picture(command), (
        "python tools/effect_picture.py"
    )
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    alt = " ".join(page.partition("](docs/effect.svg)")[0].rpartition("![")[2].split())
    assert re.findall(r"\d+\.\d", said) == re.findall(r"\d+\.\d", alt)
    assert len(re.findall(r"\d+\.\d", said)) == 6


def test_the_readme_has_the_numbers_of_results_that_ship() -> None:
    readme = script("readme")
    assert readme.PAGE.read_text(encoding="utf-8") == readme.page(), "python tools/readme.py"
    assert readme.ZOO.read_text(encoding="utf-8") == readme.zoo(), "python tools/readme.py"
    prose = re.sub(r"```.*?```", "", readme.page(), flags=re.DOTALL)
    assert len(prose.split()) <= 1000 and len(readme.page().splitlines()) <= 130
    assert len(re.findall(r"(?<![\w/.-])\d+(?:[.,]\d+)*(?![\w-])", LINK.sub("]", prose))) <= 50


@pytest.mark.parametrize("printed", ["output.txt", "fit.txt"])
def test_the_readme_shows_what_its_commands_have_printed(printed: str) -> None:
    shown = (ROOT / "docs" / "demo" / printed).read_text(encoding="utf-8")
    assert f"```text\n{shown}```" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_picture_of_the_readme_can_be_that_of_any_comparison(tmp_path: Path) -> None:
    effect = script("effect_picture")
    lines = [
        f"paths,{row},{arm},{seed},0.{5 + seed}" for row in "ab" for arm in ("x", "y") for seed in (0, 1, 2)
    ]
    (tmp_path / "results.csv").write_text("\n".join(["task,row,column,seed,score", *lines, "paths,b,y,3,"]))
    found = effect.read([str(tmp_path), "--arms", "y"])
    assert found.scores == {row: {"y": (50.0, 60.0, 70.0)} for row in "ab"}
    drawn = effect.picture([str(tmp_path), "--rows", "a=one"])
    assert "one: x 60.0, y 60.0</desc>" in drawn
    dots, intervals = drawn.count("<use"), re.findall(r"M [\d.]+ ([\d.]+) \nL [\d.]+ \1 \n", drawn)
    assert dots >= 2 * (1 + 3) and len(intervals) >= 2, "a mean, an interval and three seeds of either arm"


@pytest.mark.parametrize("tutorial", cases([name(page) for page in TUTORIALS]))
def test_a_tutorial_does_what_it_says(
    tutorial: str, sandbox: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its files are written, its Python is run, then its commands, in order."""
    page = ROOT / tutorial
    test_python_runs(page, sandbox)
    ours = [words[1:] for words in commands(page) if words[0] == "selfpretrain"]
    assert ours
    for words in ours:
        assert app.run(words) == 0, (words, capsys.readouterr())
