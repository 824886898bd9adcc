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

from ...data.download import Download
from ...data.importing.source import readable
from ...errors import DataError
from ...system.events import report_progress
from . import tokenizer
from .stored import Prepared, read_columns, require_files

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
    path = require_files(task, *task.places)
    part_path = path.with_name(path.name.replace("train", part))
    if path.is_dir():
        return _read_release(part_path)
    table = read_columns(part_path, "text", "label")
    texts = table["text"].to_pylist()
    labels = table["label"].to_numpy().astype(np.int64)
    if "movie" in table.column_names:
        return Reviews(texts, labels, table["movie"].to_numpy().astype(np.int64), by_movie=True)
    # Hashes that are equal for texts of the same letters, ignoring case and punctuation.
    letters = (re.sub(r"[\W_]+", "", text.lower()).encode() for text in texts)
    digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in letters)
    # 63 bits, so that they fit into int64.
    groups = (np.frombuffer(digests, dtype="<u8") >> np.uint64(1)).astype(np.int64)
    return Reviews(texts, labels, groups, by_movie=False)


def _read_release(folder: Path) -> Reviews:
    texts = []
    labels = []
    movies = []
    for label, name in enumerate(CLASSES):
        found = (folder / name).glob("[0-9]*_*.txt")
        files = sorted(found, key=lambda file: int(file.stem.partition("_")[0]))
        url_file = folder / f"urls_{name}.txt"
        urls = url_file.read_text(encoding="utf-8").splitlines() if url_file.is_file() else []
        if not files or len(urls) != len(files):
            raise DataError(
                f"{folder / name} holds {len(files)} reviews and {url_file.name} {len(urls)} addresses, "
                f"which should be as many; unpack aclImdb_v1.tar.gz again"
            )
        with readable(str(folder / name), " cannot be read: {}; unpack aclImdb_v1.tar.gz again".format):
            for n_read, file in enumerate(files):
                texts.append(file.read_bytes().decode("utf-8"))
                if n_read % 1000 == 0:
                    report_progress(f"reviews read from {folder.name}/{name}", n_read, len(files))
            movies += [int(re.findall(r"tt(\d+)", url)[0]) for url in urls]
        labels += [label] * len(files)
    return Reviews(texts, np.array(labels), np.array(movies), by_movie=True)


def _make_synthetic(part: Part) -> Reviews:
    """Return synthetic reviews: 48 movies (train) or 12 (test) with six reviews each, half positive."""
    first, last = (0, 48) if part == "train" else (48, 60)
    random = np.random.RandomState(first)
    movies = np.repeat(np.arange(first, last), 6)
    labels = np.tile([0, 1], len(movies) // 2)
    reviews = zip(labels, movies, strict=True)
    texts = [tokenizer.make_sentence(random, (*TONE[label], f"film{movie}")) for label, movie in reviews]
    return Reviews(texts, labels, movies, by_movie=True)
