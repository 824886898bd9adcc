"""Are these two reviews about the same movie: pairs of IMDb reviews, a substitute for paper retrieval.

Positive pairs are two different reviews of one movie. Negative pairs reuse the same second reviews, permuted
among pairs of the same two sentiments, so neither one review alone nor the two sentiments predict the label.
No movie is in two splits. This is not Long Range Arena's Retrieval, and scores are not comparable with it.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ..config import Seed, spec
from ..data import paths
from ..data.spec import SPLITS, Classes, SequenceSpec, Split, Tokens
from ..data.store import DatasetWriter
from ..errors import DataError
from .base import Card
from .common import text_imdb, tokenizer
from .common.augmentations import DroppedSymbols
from .common.stored import Prepared, read_columns

VAL_SHARE = 0.10  # share of the training reviews whose movies are held out for validation
MIN_COUNT = 15  # occurrences in the training reviews that a character needs to enter the vocabulary
MAX_SYNTHETIC = 80  # maximum number of pairs of synthetic reviews per split


@spec
class ImdbPairs(Prepared):
    """Are these two IMDb reviews about the same movie?"""

    card = Card(
        source="pairs of the reviews of Maas et al. (2011), drawn here; the task is not a published one",
        licence="as IMDb's: research use, the texts belong to their authors; cite Maas et al.",
        counts="60,000 / 6,000 / 12,000 pairs, half of them of one movie",
        baselines="commonest class 50 %; TF-IDF cosine with a tuned threshold 81 %",
        leaks="none known: movies of the three splits are disjoint; reviews occur in several pairs",
        get="needs the IMDb reviews with their movies (`selfpretrain data get text`); source=files also "
        "needs imdb_pairs/{train,val,test}.parquet with columns a, b (rows of the reviews) and label",
    )
    downloads = (text_imdb.RELEASE,)
    places = text_imdb.PLACES[:2]  # those that name the movies
    augmentation = DroppedSymbols(0)  # unknown characters in place of some

    source: Literal["drawn", "files"] = "drawn"  # files: read your own lists of pairs
    length: Annotated[int, Field(ge=1, le=2**20)] = 4000  # characters of a review; longer ones are truncated
    train: Annotated[int, Field(ge=2)] = 60_000  # training pairs, at most
    val: Annotated[int, Field(ge=2)] = 6_000  # validation pairs
    test: Annotated[int, Field(ge=2)] = 12_000  # test pairs
    seed: Seed = 0  # seed of the pairs and of the choice of validation movies

    def write(self, out: DatasetWriter) -> SequenceSpec:
        """Write every review once, and the pairs of all splits."""
        parts = {part: text_imdb.read_reviews(self, part) for part in ("train", "test")}
        if not all(reviews.by_movie for reviews in parts.values()):
            raise DataError("these files of IMDb reviews do not name the movies; use aclImdb of the release")
        pairs = {split: self._pairs(split, parts) for split in SPLITS}
        seen_texts = [parts["train"].texts[row] for row in np.unique(pairs["train"][0])]
        alphabet = tokenizer.build_tokenizer(seen_texts, "characters", self.length, MIN_COUNT)
        places = {part: alphabet.append(out, reviews.texts) for part, reviews in parts.items()}
        for number, split in enumerate(SPLITS):
            starts, lengths = places["test" if split == "test" else "train"]
            rows, labels = pairs[split]
            out.add_examples(starts[rows], lengths[rows], labels, np.full(len(labels), number))
        longest = max(int(lengths.max()) for _, lengths in places.values())
        return SequenceSpec(Tokens(alphabet.vocab), longest, Classes(("different", "same")), views=2)

    def _pairs(self, split: Split, parts: Mapping[str, text_imdb.Reviews]) -> tuple[np.ndarray, np.ndarray]:
        """Return the (2, n) rows of reviews and the (n,) labels of a split."""
        train = parts["train"]
        test = parts["test"]
        reviews = test if split == "test" else train
        if self.source == "files" and not self.made_up:
            return _read_pairs(split, len(reviews.texts))
        if split == "test":
            is_own = ~np.isin(test.groups, train.groups)  # one movie is in both official parts
        else:
            is_held_out = tokenizer.hold_out_groups(train.labels, train.groups, VAL_SHARE, self.seed)
            is_own = is_held_out if split == "val" else ~is_held_out
        n_pairs = min(getattr(self, split), MAX_SYNTHETIC) if self.made_up else getattr(self, split)
        random = np.random.RandomState([self.seed, SPLITS.index(split)])
        return _draw_pairs(reviews, np.flatnonzero(is_own), n_pairs, random)


def _read_pairs(split: Split, reviews: int) -> tuple[np.ndarray, np.ndarray]:
    file = paths.find(f"imdb_pairs/{split}.parquet")
    if file is None:
        raise DataError(
            f"imdb_pairs/{split}.parquet is not there; place it in {paths.folders()[0]}, or leave source out"
        )
    table = read_columns(file, "a", "b", "label")
    rows = np.stack([table["a"].to_numpy(), table["b"].to_numpy()])
    labels = table["label"].to_numpy()
    if not labels.size or not np.isin(labels, (0, 1)).all():
        raise DataError(f"{file}: the column label must hold 0 (different) or 1 (same) in every row")
    if not ((rows >= 0) & (rows < reviews)).all():
        raise DataError(f"{file} names reviews beyond 0..{reviews - 1}")
    return rows.astype(np.int64), labels.astype(np.int64)


def _draw_pairs(
    reviews: text_imdb.Reviews, rows: np.ndarray, n_pairs: int, random: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Return (2, n) pairs in random order and (n,) labels, half of them 1; positive pairs are distinct."""
    same = rows[_draw_positive_pairs(reviews.groups[rows], n_pairs // 2, random)]
    if not same.size:
        raise DataError("no movie has two reviews, so there is nothing to pair")
    other = _draw_negative_pairs(same, reviews, random)
    pairs = np.concatenate([same, other], axis=1)
    labels = np.repeat([1, 0], [same.shape[1], other.shape[1]])
    order = random.permutation(len(labels))
    return pairs[:, order], labels[order]


def _draw_positive_pairs(movies: np.ndarray, n_pairs: int, random: np.random.RandomState) -> np.ndarray:
    """Return (2, n) distinct pairs of indices into ``movies`` with the same movie."""
    order = np.argsort(movies, kind="stable")
    first, group, count = np.unique(movies[order], True, True, True)[1:]
    one = random.permutation(np.repeat(np.flatnonzero(count[group] > 1), 10))[: 2 * n_pairs]
    # The partner is a random other review of the movie: 1..size-1 places further on, cyclically.
    size = count[group[one]]
    begin = first[group[one]]
    other = begin + (one - begin + 1 + random.randint(2**31, size=len(one)) % (size - 1)) % size
    pairs = np.minimum(one, other) * len(movies) + np.maximum(one, other)
    new = np.unique(pairs, return_index=True)[1]
    kept = np.sort(new)[:n_pairs]
    return order[np.stack([one[kept], other[kept]])]


def _draw_negative_pairs(
    same: np.ndarray, reviews: text_imdb.Reviews, random: np.random.RandomState
) -> np.ndarray:
    """Return (2, n) negative pairs: the first and second reviews of ``same``, re-paired across movies.

    Among pairs of the same two sentiments, sorted by movie, the second reviews are rotated by the size of the
    largest movie. So no movie is paired with itself, as long as none has more than half of the pairs.
    """
    out = same.copy()
    tones = 2 * reviews.labels[same[0]] + reviews.labels[same[1]]
    _, movie = np.unique(reviews.groups[same[0]], return_inverse=True)
    movie = random.permutation(movie.max() + 1)[movie]
    for tone_pair in np.unique(tones):
        rows_of_kind = np.flatnonzero(tones == tone_pair)
        rows_of_kind = rows_of_kind[np.argsort(movie[rows_of_kind], kind="stable")]
        out[1, rows_of_kind] = np.roll(same[1, rows_of_kind], np.bincount(movie[rows_of_kind]).max())
    return out[:, reviews.groups[out[0]] != reviews.groups[out[1]]]


task = ImdbPairs
