"""Rules of the house that a reader can count on, checked on the syntax tree of every file."""

import ast
import functools
import graphlib
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from selfpretrain.registry import SHELVES

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "selfpretrain"
FILES = sorted(PACKAGE.rglob("*.py"))
MAX_FILE = 600
MAX_FUNCTION = 80
MAX_FLOORS = 10
MAX_TERMS = 45
SPEAKS = ("cli", "report")  # where printing is the purpose
READ_FILES = ("data", "tasks", "system", "training", "runner")  # which may have been made by somebody else
READS_TEST = ("evaluate.py", "baselines.py")
VAGUE = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc"}

READS_PICKLES = ("unpickle.py",)  # CIFAR-10 is published so; this one builds arrays of bytes and nothing else
PICKLING = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve"}

Rule = Callable[[ast.Module, Path], Iterator[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def no_long_function(tree: ast.Module, path: Path) -> Iterator[str]:
    for node in functions(tree):
        if lines(node) > MAX_FUNCTION:
            yield f"{node.name} has {lines(node)} lines"


def no_hasattr(tree: ast.Module, path: Path) -> Iterator[str]:
    yield from (
        f"hasattr in line {call.lineno}" for call in calls(tree) if ast.unparse(call.func) == "hasattr"
    )


def no_open_signature(tree: ast.Module, path: Path) -> Iterator[str]:
    """Wrappers have the signature of what they wrap."""
    for node in functions(tree):
        wraps = any(ast.unparse(each).startswith("functools.wraps(") for each in node.decorator_list)
        if node.args.kwarg and not wraps:
            yield f"{node.name} takes **{node.args.kwarg.arg}"


def nothing_loads_silently(tree: ast.Module, path: Path) -> Iterator[str]:
    for call in calls(tree):
        for word in call.keywords if ast.unparse(call.func) != "zip" else []:
            if word.arg == "strict" and isinstance(word.value, ast.Constant) and word.value.value is False:
                yield f"strict=False in line {call.lineno}"


def nothing_is_unpickled(tree: ast.Module, path: Path) -> Iterator[str]:
    for node in nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found = [name for name in names if name.split(".")[0] in PICKLING]
            if path.name not in READS_PICKLES or found != ["pickle"]:
                yield from (f"import of {name} in line {node.lineno}" for name in found)
    for call in calls(tree):
        if ast.unparse(call.func) in ("torch.load", "torch.save"):
            yield f"{ast.unparse(call.func)} in line {call.lineno}"
        if any(k.arg == "allow_pickle" and ast.unparse(k.value) != "False" for k in call.keywords):
            yield f"allow_pickle in line {call.lineno}"


def no_print(tree: ast.Module, path: Path) -> Iterator[str]:
    if path.parent.name not in SPEAKS:
        yield from (
            f"print in line {call.lineno}" for call in calls(tree) if ast.unparse(call.func) == "print"
        )


def only_evaluation_reads_the_test_split(tree: ast.Module, path: Path) -> Iterator[str]:
    if path.name in READS_TEST:
        return
    for call in calls(tree):
        named = [*call.args, *(k.value for k in call.keywords)]
        loads = isinstance(call.func, ast.Attribute) and call.func.attr == "load"
        if loads and any(isinstance(a, ast.Constant) and a.value == "test" for a in named):
            yield f"reads the test split in line {call.lineno}"


def every_docstring_starts_with_a_sentence(tree: ast.Module, path: Path) -> Iterator[str]:
    first = (ast.get_docstring(tree) or "").partition("\n")[0]
    if not first.endswith((".", "?")) and path.stat().st_size:
        yield f"its docstring starts with {first!r}, which is not a sentence"


def shelf_file_offers_one_thing(tree: ast.Module, path: Path) -> Iterator[str]:
    shelf = path.parent.name
    if shelf not in SHELVES or path.name.startswith("_") or path.name == "base.py":
        return
    named = [
        t.id for s in tree.body if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)
    ]
    offered = [name for name in named if name in SHELVES.values()]
    if offered != [SHELVES[shelf]]:
        yield f"offers {offered}, not one {SHELVES[shelf]}"
    elif ast.unparse(tree.body[-1]).partition(" = ")[0] != SHELVES[shelf]:
        yield f"`{SHELVES[shelf]} = ...` is not its last line"


def shelf_files_do_not_know_each_other(tree: ast.Module, path: Path) -> Iterator[str]:
    """Base, underscore files and folders are shared; import-linter closes the ways around."""
    shelf = path.parent.name
    if shelf not in SHELVES:
        return
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            near = [node.module] if node.module else [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and f"{shelf}." in (node.module or ""):
            near = [(node.module or "").rpartition(f"{shelf}.")[2]]
        else:
            continue
        folders = {folder.name for folder in path.parent.iterdir() if folder.is_dir()}
        shared = {name for name in near if name == "base" or name[0] == "_" or name.split(".")[0] in folders}
        wrong = [name for name in near if name not in shared]
        yield from (f"imports its neighbour {name}" for name in wrong)


def one_function_says_how_to_install_an_extra(tree: ast.Module, path: Path) -> Iterator[str]:
    for node in nodes(tree):
        text = node.value if isinstance(node, ast.Constant) else ""
        if isinstance(text, str) and "selfpretrain[" in text and path.name != "errors.py":
            yield f"names an extra in line {node.lineno}: errors.install does"


RULES: list[Rule] = [
    no_long_function,
    no_hasattr,
    no_open_signature,
    nothing_loads_silently,
    nothing_is_unpickled,
    no_print,
    only_evaluation_reads_the_test_split,
    every_docstring_starts_with_a_sentence,
    shelf_file_offers_one_thing,
    shelf_files_do_not_know_each_other,
    one_function_says_how_to_install_an_extra,
]

SINS = {
    no_long_function: "def f():\n" + "    x = 1\n" * 80,
    no_hasattr: "hasattr(x, 'y')",
    no_open_signature: "def f(**kwargs): ...",
    nothing_loads_silently: "network.load_state_dict(weights, strict=False)",
    nothing_is_unpickled: "torch.load(path)",
    no_print: "print(1)",
    only_evaluation_reads_the_test_split: "task.load('test')",
    every_docstring_starts_with_a_sentence: '"""A title"""',
    shelf_file_offers_one_thing: "mixer = A\ntask = B",
    shelf_files_do_not_know_each_other: "from .base import Mixer\nfrom . import _scan\nfrom .s4d import S4D",
    one_function_says_how_to_install_an_extra: "raise SpecError(\"pip install 'selfpretrain[hf]'\")",
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_kept(rule: Rule) -> None:
    found = {str(path.relative_to(PACKAGE)): list(rule(parsed(path), path)) for path in FILES}
    assert {path: said for path, said in found.items() if said} == {}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule_bites(rule: Rule, tmp_path: Path) -> None:
    path = tmp_path / "mixers" / "sinner.py"
    path.parent.mkdir()
    path.write_text(SINS[rule])
    assert len(list(rule(ast.parse(SINS[rule]), path))) == 1


def test_sizes() -> None:
    sizes = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in FILES}
    assert {path: n for path, n in sizes.items() if n > MAX_FILE} == {}


def test_rooms_stand_on_few_floors_and_in_no_circle() -> None:
    """Counted with the imports inside of functions; what is for the type checker alone does not count."""
    imported, floors = imports_of_rooms(), dict[str, int]()
    for room in graphlib.TopologicalSorter(imported).static_order():  # complains of a circle
        floors[room] = 1 + max((floors[other] for other in imported[room]), default=0)
    assert max(floors.values()) <= MAX_FLOORS, floors


def test_modules_import_each_other_in_no_circle() -> None:
    """Counted with the imports inside of functions, behind which a circle hides."""
    assert import_circle(PACKAGE) == []


@pytest.mark.parametrize(
    ("closing", "circle"),
    [
        ("from .low import a", {"shelf.low", "high", "shelf.middle"}),
        ("def f():\n    from . import low", {"shelf.low", "high", "shelf.middle"}),
        ("if TYPE_CHECKING:\n    from .low import a", set()),
    ],
)
def test_an_import_circle_is_found(closing: str, circle: set[str], tmp_path: Path) -> None:
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "__init__.py").write_text("")
    (tmp_path / "shelf" / "low.py").write_text("from ..high import b\na = 1\n")
    (tmp_path / "high.py").write_text("from .shelf.middle import c\nb = 1\n")
    (tmp_path / "shelf" / "middle.py").write_text(f"{closing}\nc = 1\n")
    assert set(import_circle(tmp_path)) == circle


def test_the_glossary_is_short() -> None:
    glossary = (PACKAGE.parents[1] / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^- \*\*", glossary, re.MULTILINE)) <= MAX_TERMS


def test_names_say_something() -> None:
    assert [path for path in FILES if VAGUE & set(path.stem.strip("_").split("_"))] == []


def test_no_public_class_name_has_two_owners() -> None:
    owners = defaultdict(list)
    for path in FILES:
        for name in public_classes(path):
            owners[name].append(str(path.relative_to(PACKAGE)))
    doubles = [f"  {name}: {', '.join(files)}" for name, files in sorted(owners.items()) if len(files) > 1]
    assert not doubles, f"{len(doubles)} class names have more than one owner:\n" + "\n".join(doubles)


def public_classes(path: Path) -> list[str]:
    body = parsed(path).body
    return [node.name for node in body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def imports_of_rooms() -> dict[str, set[str]]:
    """Which other rooms every room imports from; a file beside the rooms counts as one."""
    found = {path.relative_to(PACKAGE).with_suffix("").parts[0]: set[str]() for path in FILES}
    found = {room: others for room, others in found.items() if not room.startswith("__")}
    for module, imported in imports_of_modules(PACKAGE).items():
        room = module.split(".")[0]
        found.get(room, set()).update({other.split(".")[0] for other in imported} & set(found) - {room})
    return found


def imports_of_modules(package: Path) -> dict[str, set[str]]:
    """Which other modules of a package every module imports, inside functions too; "" is the package itself.

    Imports for the type checker alone do not count.
    """
    modules = {module_name(path, package): path for path in sorted(package.rglob("*.py"))}
    found: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        folder = path.relative_to(package).parts[:-1]
        tree = parsed(path)
        idle = [n for n in nodes(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
        skipped = {id(node) for block in idle for node in ast.walk(block)}
        for node in nodes(tree):
            if not isinstance(node, ast.ImportFrom) or not node.level or id(node) in skipped:
                continue
            above = folder[: len(folder) - node.level + 1]
            source = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                member = f"{source}.{alias.name}".strip(".")
                found[name].add(member if member in modules else source)
        found[name] &= set(modules) - {name}
    return found


def module_name(path: Path, package: Path) -> str:
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_circle(package: Path) -> list[str]:
    """The modules of one import circle, the first of them again at the end; empty if there is none."""
    try:
        graphlib.TopologicalSorter(imports_of_modules(package)).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))


def functions(tree: ast.Module) -> Iterator[Function]:
    yield from (node for node in nodes(tree) if isinstance(node, Function))


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    yield from (node for node in nodes(tree) if isinstance(node, ast.Call))


def lines(node: Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_nobody_is_told_to_delete_what_the_tool_has_not_made() -> None:
    """Two functions may, and they name one file that a stage has written and can write again."""
    found = set()
    for path in (path for path in FILES if path.parts[len(PACKAGE.parts)] in READ_FILES):
        docs = {ast.get_docstring(node, clean=False) for node in functions(parsed(path))}
        for function in functions(parsed(path)):
            said = [node.value for node in ast.walk(function) if isinstance(node, ast.Constant)]
            texts = {text for text in said if isinstance(text, str)} - docs
            if any(re.search(r"\b(delete|erase|rm)\b", text) for text in texts):
                found.add((path.relative_to(PACKAGE).as_posix(), function.name))
    assert found == {("runner/run_dir.py", "_advice"), ("runner/plan.py", "read_result")}


def test_the_picture_of_the_rooms_is_true() -> None:
    page = PACKAGE.parents[1] / "docs" / "architecture.md"
    drawn = page.read_text().partition("<!-- rooms -->\n")[2].partition("<!-- end of rooms -->")[0]
    assert drawn == rooms(), "put the text that `python tests/test_house.py` prints into docs/architecture.md"


FLOORS = [
    "cli",
    "estimators",
    "studies",
    "runner",
    "training",
    "objectives",
    "tasks",
    "mixers",
    "data",
    "report",
    "system",
]


def rooms() -> str:
    """The rooms from top to bottom: what each is for, and its files; shelves are not listed file by file."""
    lines = []
    for room in FLOORS:
        lines.append(f"{room:11} {purpose(PACKAGE / room / '__init__.py')}")
        files = sorted(path for path in (PACKAGE / room).glob("*.py") if path.stem != "__init__")
        own = [path.stem for path in files if room not in SHELVES or path.stem == "base"]
        lines += wrapped([*own, "one file each"] if room in SHELVES else own)
        for folder in sorted(path.parent for path in (PACKAGE / room).glob("*/__init__.py")):
            lines.append(f"  {folder.name + '/':12} {purpose(folder / '__init__.py')}")
    return "```text\n" + "\n".join(lines) + "\n```\n"


def wrapped(words: list[str]) -> list[str]:
    return textwrap.wrap(" ".join(words), 96, initial_indent=" " * 12, subsequent_indent=" " * 12)


def purpose(path: Path) -> str:
    return (ast.get_docstring(parsed(path)) or "").splitlines()[0]


if __name__ == "__main__":
    print(rooms(), end="")
