"""Is this film review positive: IMDb read character by character, Long Range Arena's Text.

The beginning of a review, as it was written (case, ``<br />``), without a symbol for its end. Of the
official training part, a tenth is held out for validation, by movie; the official test part is the test
split. With ``selection="test"`` nothing is held out and the test part is the validation split too, as in
the published code: scores are then those of the best epoch on test, and say how much that inflates them, no
more.
"""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ..config import Seed, spec
from ..data.spec import Classes, SequenceSpec, Tokens
from ..data.store import DatasetWriter
from .base import Card
from .common import text_imdb, tokenizer
from .common.stored import Prepared

SHARE = 0.10
"""Part of the training reviews that is held out for validation."""
LEAST = 15
"""Times a character must occur in the training split to be known."""


@spec
class Text(Prepared):
    """Is this film review positive? Characters of 50,000 IMDb reviews."""

    card = Card(
        source="Maas et al. (2011), Learning Word Vectors for Sentiment Analysis; "
        "in this form Tay et al. (2021), Long Range Arena",
        licence="none stated: research use, the texts belong to their authors; cite Maas et al.",
        counts="22,500 / 2,500 / 25,000 reviews, half of them positive",
        baselines="commonest class 50 %, logistic regression on runs of 1-2 words 90 %",
        leaks="the usual protocol selects on the test split; here a tenth of the training part is held out, "
        "whole movies at a time (selection=test does as usual, for exact replications: its scores are too "
        "high). Files that do not name the movie (those of Hugging Face) only keep equal "
        "texts together. 123 test texts also occur in the training part, and one movie is in both",
    )
    downloads = (text_imdb.RELEASE,)
    places = text_imdb.PLACES

    unit: tokenizer.Unit = "characters"  # what a position holds; bytes: of UTF-8, all 256 known
    length: Annotated[int, Field(ge=1, le=2**20)] = (
        4096  # positions of a review that are read, from its start
    )
    split_seed: Seed = 0  # another choice of movies for validation
    selection: Literal["held-out", "test"] = "held-out"  # test: as published, by the test reviews; inflated

    def write(self, out: DatasetWriter) -> SequenceSpec:
        """The reviews in their official order; groups are movies."""
        train = text_imdb.reviews(self, "train")
        test = text_imdb.reviews(self, "test")
        published = self.selection == "test"
        held = tokenizer.held_out(train.labels, train.groups, SHARE, self.split_seed) & (not published)
        seen = [text for text, out_of_sight in zip(train.texts, held, strict=True) if not out_of_sight]
        alphabet = tokenizer.alphabet(seen, self.unit, self.length, LEAST)
        longest = 1
        for part, splits in ((train, (held.astype(int),)), (test, (1, 2) if published else (2,))):
            starts, lengths = alphabet.append(out, part.texts)
            for split in splits:
                out.examples(starts, lengths, part.labels, np.broadcast_to(split, len(starts)), part.groups)
            longest = max(longest, int(lengths.max()))
        return SequenceSpec(Tokens(alphabet.vocab), longest, Classes(text_imdb.CLASSES))


task = Text
