"""Is this film review positive: IMDb read character by character, Long Range Arena's Text.

The first ``length`` characters of a review as written (case, ``<br />``), without an end-of-sequence token. A
tenth of the official training part is held out for validation, by movie; the official test part is the test
split. With ``selection="test"`` nothing is held out and the test part is also the validation split, as in the
published code: scores are then those of the best epoch on test. Use them only to measure that inflation.
"""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ..config import Seed, spec
from ..data.spec import Classes, SequenceSpec, Tokens
from ..data.store import DatasetWriter
from .base import Card
from .common import text_imdb, tokenizer
from .common.augmentations import DroppedSymbols
from .common.stored import Prepared

VAL_SHARE = 0.10  # share of the training reviews held out for validation
MIN_COUNT = 15  # occurrences in the training split that a character needs to enter the vocabulary


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
    augmentation = DroppedSymbols(0)  # unknown characters in place of some

    unit: tokenizer.Unit = "characters"  # kind of token: Unicode characters, or the 256 bytes of UTF-8
    length: Annotated[int, Field(ge=1, le=2**20)] = 4096  # characters; longer reviews are truncated
    split_seed: Seed = 0  # seed of the choice of validation movies
    selection: Literal["held-out", "test"] = "held-out"  # test: select on test, as published; inflated

    def write(self, out: DatasetWriter) -> SequenceSpec:
        """Write the reviews in their official order; groups are movies."""
        train = text_imdb.read_reviews(self, "train")
        test = text_imdb.read_reviews(self, "test")
        select_on_test = self.selection == "test"
        is_val = tokenizer.hold_out_groups(train.labels, train.groups, VAL_SHARE, self.split_seed)
        is_val &= not select_on_test
        seen_texts = [text for text, unseen in zip(train.texts, is_val, strict=True) if not unseen]
        alphabet = tokenizer.build_tokenizer(seen_texts, self.unit, self.length, MIN_COUNT)
        longest = 1
        # With selection="test", the test reviews are written once and listed as val and as test.
        for part, splits in ((train, (is_val.astype(int),)), (test, (1, 2) if select_on_test else (2,))):
            starts, lengths = alphabet.append(out, part.texts)
            for split in splits:
                out.add_examples(
                    starts, lengths, part.labels, np.broadcast_to(split, len(starts)), part.groups
                )
            longest = max(longest, int(lengths.max()))
        return SequenceSpec(Tokens(alphabet.vocab), longest, Classes(text_imdb.CLASSES))


task = Text
