"""Freeze windows of the running Python's standard library into ``src/selfpretrain/tasks/_stdlib.npz``.

Run once, by hand, with a Python built from unmodified CPython sources; the task ``stdlib`` reads only the
frozen file. Whole files are dealt to train, val and test, so that no file feeds two splits; a window that
occurs twice anywhere is taken once. Every run of white space counts as one space.
"""

import platform
import re
import sysconfig
from hashlib import sha256
from pathlib import Path

import numpy as np

PACKAGES = ("asyncio", "email", "http", "idlelib", "multiprocessing", "tkinter", "unittest", "xml")
WIDTH = 64
COUNTS = {"train": 6000, "val": 1000, "test": 2000}
TARGET = Path(__file__).parent.parent / "src/selfpretrain/tasks/_stdlib.npz"

NOTICE = """Text windows in _stdlib.npz: what they are, and their licence

The file holds {windows:,} windows of {width} bytes cut from {files} source files of the standard library of
Python {version}, white space squeezed, otherwise unchanged. Packages:
{packages}.
Copyright (c) Python Software Foundation; All Rights Reserved. The windows are distributed under the
Python Software Foundation License Version 2, whose text follows after the notices that single files carry.
"""


def main() -> None:
    """Write the snapshot and the licence file beside it."""
    library = Path(sysconfig.get_paths()["stdlib"])
    files = {package: sources(library / package) for package in PACKAGES}
    names = sorted(path.relative_to(library).as_posix() for paths in files.values() for path in paths)
    seen: set[bytes] = set()
    rows: list[tuple[int, int, int, bytes]] = []
    for label, package in enumerate(PACKAGES):
        windows = {path: cut(path, seen) for path in files[package]}
        for split, paths in enumerate(deal(windows)):
            number = list(COUNTS.values())[split] // len(PACKAGES)
            chosen = spread({path: windows[path] for path in paths}, number)
            ids = [names.index(path.relative_to(library).as_posix()) for path, _ in chosen]
            rows += [(split, label, at, text) for at, (_, text) in zip(ids, chosen, strict=True)]
    write(interleave(rows), names)
    TARGET.with_name("_stdlib.LICENSE.txt").write_text(licence(library, names, len(rows)), encoding="utf-8")


def sources(package: Path) -> list[Path]:
    """The Python files of a package without its tests, in an order that depends on their names only."""
    found = [p for p in package.rglob("*.py") if not {"test", "tests", "idle_test"} & set(p.parts)]
    return sorted(found, key=lambda p: sha256(p.relative_to(package.parent).as_posix().encode()).digest())


def cut(path: Path, seen: set[bytes]) -> list[bytes]:
    """Consecutive windows of a file that were not seen before, without a shorter rest."""
    text = re.sub(rb"\s+", b" ", path.read_bytes()).strip()
    windows = []
    for start in range(0, len(text) - WIDTH + 1, WIDTH):
        window = text[start : start + WIDTH]
        if window not in seen and window.isascii():
            seen.add(window)
            windows.append(window)
    return windows


def deal(windows: dict[Path, list[bytes]]) -> tuple[list[Path], list[Path], list[Path]]:
    """Whole files to train, val and test: the largest first, each to the split that lacks most."""
    total, available = sum(COUNTS.values()), sum(map(len, windows.values()))
    lack = [available * count / total for count in COUNTS.values()]
    parts: tuple[list[Path], list[Path], list[Path]] = ([], [], [])
    for path in sorted(windows, key=lambda p: -len(windows[p])):
        split = int(np.argmax(lack))
        parts[split].append(path)
        lack[split] -= len(windows[path])
    return parts


def spread(windows: dict[Path, list[bytes]], number: int) -> list[tuple[Path, bytes]]:
    """As many windows, evenly from all files and all parts of a file, in a scrambled order."""
    queues = {p: sorted(texts, key=lambda t: sha256(t).digest()) for p, texts in windows.items()}
    chosen: list[tuple[Path, bytes]] = []
    while len(chosen) < number:
        if not any(queues.values()):
            raise SystemExit(f"{next(iter(windows)).parent} has too little text for {number} windows")
        chosen += [(path, queue.pop()) for path, queue in queues.items() if queue][: number - len(chosen)]
    return sorted(chosen, key=lambda pair: sha256(pair[1] + b"order").digest())


def interleave(rows: list[tuple[int, int, int, bytes]]) -> list[tuple[int, int, int, bytes]]:
    """Classes in turn within a split, so that every beginning of it is balanced."""
    rank: dict[tuple[int, int], int] = {}
    keyed = []
    for row in rows:
        split, label = row[:2]
        rank[split, label] = rank.get((split, label), -1) + 1
        keyed.append(((split, rank[split, label], label), row))
    return [row for _, row in sorted(keyed)]


def write(rows: list[tuple[int, int, int, bytes]], names: list[str]) -> None:
    """The arrays; no pickles."""
    split, label, file, text = zip(*rows, strict=True)
    np.savez_compressed(
        TARGET,
        text=np.frombuffer(b"".join(text), dtype=np.uint8).reshape(-1, WIDTH),
        label=np.array(label, dtype=np.uint8),
        split=np.array(split, dtype=np.uint8),
        source=np.array(file, dtype=np.uint16),
        sources=np.array(names),
        packages=np.array(PACKAGES),
        python=np.array(platform.python_version()),
    )


def licence(library: Path, names: list[str], windows: int) -> str:
    """What the windows are, the copyright lines found in their files, and the licence of Python."""
    text = NOTICE.format(
        windows=windows,
        width=WIDTH,
        files=len(names),
        version=platform.python_version(),
        packages=", ".join(PACKAGES),
    )
    for name in names:
        head = (library / name).read_text(encoding="utf-8")[:6000]
        notice = re.search(r"(?:^#.*\n)*^#.*copyright.*\n(?:^#.*\n)*", head, re.MULTILINE | re.IGNORECASE)
        text += f"{name}:\n{notice.group()}\n" if notice else ""
    return text + (library / "LICENSE.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
