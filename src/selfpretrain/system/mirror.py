"""Runs in a bucket: a folder of this machine mirrors them, and what is to be kept goes there and back."""

import functools
import hashlib
import os
import re
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..errors import StoreError
from .bucket import Bucket
from .files import LEFTOVER, explained
from .store import Listed

NOTE = ".bucket"
"""File of a mirror that holds the URL of its bucket."""
URL = re.compile(r"([a-z][a-z0-9]+):/+(.+)")
VARIABLE = "SPT_SCRATCH"
LARGE = ("weights.safetensors", "checkpoint.safetensors", "predictions.safetensors", "log.jsonl", "error.txt")
"""Files of stages that are fetched when they are needed."""
AT_ONCE = 16


def opened(runs: Path) -> Path:
    """A folder of runs as it is; where a bucket is named, the folder that mirrors it, with its small files.

    Raises:
        StoreError: if the bucket cannot be read, or has no conditional writes.
    """
    if not (url := url_of(runs)):
        return runs
    root = mirror_of(url)
    bucket = Bucket.at(url)
    with explained(root):
        root.mkdir(parents=True, exist_ok=True)
        (root / NOTE).write_text(url, encoding="utf-8")
    bucket_of.cache_clear()
    bucket.demand_conditions()
    there = bucket.entries()
    finished = {entry.name for entry in there}
    for path in root.glob("stages/*/result.json"):
        if path.relative_to(root).as_posix() not in finished:  # the bucket decides what is finished
            path.unlink()
    pull(bucket, root, (e for e in there if not (e.name.startswith("stages/") and e.name.endswith(LARGE))))
    return root


def url_of(runs: Path) -> str:
    """The URL that somebody gave as a folder, ``s3:/bucket`` after it became a path; "" if it is a folder."""
    found = URL.fullmatch(runs.as_posix())
    return f"{found[1]}://{found[2]}" if found else ""


def mirror_of(url: str) -> Path:
    """The folder of this machine that mirrors a bucket, below SPT_SCRATCH."""
    scratch = os.environ.get(VARIABLE) or Path.home() / ".cache" / "selfpretrain" / "mirrors"
    return Path(scratch) / f"{re.sub('[^a-z0-9]+', '-', url)}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"


@functools.cache
def bucket_of(folder: Path) -> Bucket | None:
    """The place in a bucket that a folder of a mirror stands for; None for all other folders."""
    for root in (folder, *folder.parents[:2]):
        if (note := root / NOTE).is_file():
            bucket = Bucket.at(note.read_text(encoding="utf-8"))
            return bucket.within(folder.relative_to(root).as_posix())
    return None


def pull(bucket: Bucket, root: Path, entries: Iterable[Listed]) -> None:
    """Fetch what is not there yet, or is another; dated as in the bucket, by the clock of this machine."""
    ahead = bucket.clock() - time.time()

    def take(entry: Listed) -> None:
        path, changed = root / entry.name, entry.changed - ahead
        if path.exists() and path.stat().st_size == entry.size and abs(path.stat().st_mtime - changed) < 2:
            return
        if bucket.download(entry.name, path):
            os.utime(path, (changed, changed))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(take, entries))


def push(root: Path, bucket: Bucket) -> int:
    """Put every file of a folder into a bucket, results last; how many."""
    names = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*")) if path.is_file()]
    kept = [name for name in names if not _passing(name.rpartition("/")[2])]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for last in (False, True):
            some = [name for name in kept if name.endswith("result.json") is last]
            list(pool.map(lambda name: bucket.upload(name, root / name), some))
    return len(kept)


def copy(source: Path, target: Path) -> int:
    """Copy runs from a folder to a bucket or back; how many files.

    Raises:
        StoreError: if it is not one of each, or there is nothing to copy.
    """
    if bool(url_of(source)) is bool(url_of(target)):
        raise StoreError("give a folder and a bucket, e.g. spt runs copy runs s3://bucket/runs")
    if url := url_of(target):
        if not source.is_dir():
            raise StoreError(f"there is no folder {source}; give a folder of runs")
        return push(source, Bucket.at(url))
    bucket = Bucket.at(url_of(source))
    entries = bucket.entries()
    if not entries:
        raise StoreError(f"there is nothing in {bucket.url}")
    pull(bucket, target, entries)
    return len(entries)


def _passing(name: str) -> bool:
    return name in (NOTE, ".lock", ".lock.holder") or LEFTOVER.fullmatch(name) is not None
