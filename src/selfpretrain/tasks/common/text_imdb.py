"""Read the 50,000 labelled IMDb reviews of Maas et al. (2011), negative ones first.

They are read from a table (``imdb/train.parquet`` and ``imdb/test.parquet``, or the Parquet files of
``stanfordnlp/imdb``) or from the folder ``aclImdb`` of the release. Only the release and a table with a
column ``movie`` identify the movie of a review.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from ...data.download import Download
from ...errors import DataError
from ...system.events import report_progress
from . import tokenizer
from .stored import Prepared, require_files

Part = Literal["train", "test"]

RELEASE = Download(
    "http://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
    into="aclImdb",
    size=84_125_825,
    sha256="c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
)
PLACES = (
    "imdb/train.parquet",
    "aclImdb/train",
    "imdb/plain_text/train-00000-of-00001.parquet",
    "stanfordnlp/imdb/plain_text/train-00000-of-00001.parquet",
)
CLASSES = ("neg", "pos")
TONE = (("dull", "awful", "boring", "waste"), ("great", "superb", "moving", "funny"))


@dataclass(frozen=True)
class Reviews:
    """The reviews of one official part."""

    texts: list[str]
    labels: np.ndarray  # (n,) 0 negative, 1 positive
    groups: np.ndarray  # (n,) id of the movie, or else an id shared by equal texts
    by_movie: bool


def read_reviews(task: Prepared, part: Part) -> Reviews:
    """Return all reviews of one part; a few synthetic ones if ``task.made_up``."""
    if task.made_up:
        return _make_synthetic(part)
    path = require_files(task, *PLACES)
    part_path = path.with_name(path.name.replace("train", part))
    if path.is_dir():
        return _read_release(part_path)
    table = read_columns(part_path, "text", "label")
    texts = table["text"].to_pylist()
    labels = table["label"].to_numpy().astype(np.int64)
    by_movie = "movie" in table.column_names
    groups = table["movie"].to_numpy().astype(np.int64) if by_movie else _hash_texts(texts)
    return Reviews(texts, labels, groups, by_movie)


def read_columns(file: Path, *names: str) -> pa.Table:
    """Return a Parquet table that must have these columns.

    Raises:
        DataError: if a column is missing, or the file cannot be read.
    """
    try:
        table = parquet.read_table(file)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{file} cannot be read ({error}); place it again") from error
    if missing := [name for name in names if name not in table.column_names]:
        raise DataError(f"{file} has no column {' and no column '.join(missing)}")
    return table


def _read_release(folder: Path) -> Reviews:
    texts = []
    labels = []
    movies = []
    for label, name in enumerate(CLASSES):
        files = sorted((folder / name).glob("*_*.txt"), key=lambda file: int(file.stem.partition("_")[0]))
        url_file = folder / f"urls_{name}.txt"
        urls = url_file.read_text(encoding="utf-8").splitlines() if url_file.is_file() else []
        if not files or len(urls) != len(files):
            raise DataError(
                f"{folder / name} holds {len(files)} reviews and {url_file.name} {len(urls)} addresses, "
                f"which should be as many; unpack aclImdb_v1.tar.gz again"
            )
        for n_read, file in enumerate(files):
            texts.append(file.read_bytes().decode("utf-8"))
            if n_read % 1000 == 0:
                report_progress(f"reviews read from {folder.name}/{name}", n_read, len(files))
        labels += [label] * len(files)
        movies += [int(re.findall(r"tt(\d+)", url)[0]) for url in urls]
    return Reviews(texts, np.array(labels), np.array(movies), by_movie=True)


def _hash_texts(texts: list[str]) -> np.ndarray:
    """Return (n,) hashes that are equal for texts of the same letters, ignoring case and punctuation."""
    letters = (re.sub(r"[\W_]+", "", text.lower()).encode() for text in texts)
    digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in letters)
    # 63 bits, so that the hashes fit into int64.
    return (np.frombuffer(digests, dtype="<u8") >> np.uint64(1)).astype(np.int64)


def _make_synthetic(part: Part) -> Reviews:
    """Return synthetic reviews: 48 movies (train) or 12 (test) with six reviews each, half positive."""
    first, last = (0, 48) if part == "train" else (48, 60)
    random = np.random.RandomState(first)
    movies = np.repeat(np.arange(first, last), 6)
    labels = np.tile([0, 1], len(movies) // 2)
    reviews = zip(labels, movies, strict=True)
    texts = [tokenizer.make_sentence(random, (*TONE[label], f"film{movie}")) for label, movie in reviews]
    return Reviews(texts, labels, movies, by_movie=True)
