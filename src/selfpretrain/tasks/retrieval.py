"""Is one paper related to the other (does one cite the other): Long Range Arena's Retrieval.

The two texts of a pair are its two views, read character by character. A text that occurs in many pairs is
stored once.
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from ..config import spec
from ..data.spec import SPLITS, Classes, SequenceSpec, Split, Tokens
from ..data.store import DatasetWriter
from ..errors import DataError
from .base import Card
from .common import tokenizer
from .common.augmentations import DroppedSymbols
from .common.stored import LRA_RELEASE, Prepared, lra_paths, read_lines, require_files

FILES = {split: f"tsv_data/new_aan_pairs.{split.replace('val', 'eval')}.tsv" for split in SPLITS}
FIELDS = 5  # label, two names, two texts
TOPICS = (
    ("parsing", "grammar", "tree"),
    ("translation", "alignment", "corpus"),
    ("speech", "acoustic", "phone"),
    ("dialogue", "speaker", "turn"),
)


@spec
class Retrieval(Prepared):
    """Is one paper related to the other? Characters of pairs from the ACL Anthology Network."""

    card = Card(
        source="Radev et al. (2013), ACL Anthology Network; pairs by Tay et al. (2021), Long Range Arena",
        licence="none stated with the release: research use, the texts belong to their authors",
        counts="147,086 / 18,090 / 17,437 pairs in the release",
        baselines="commonest class about 50 %",
        leaks="the release divides pairs, not papers: papers of test pairs may occur in training pairs",
    )
    downloads = (LRA_RELEASE,)
    places = lra_paths(FILES["train"])
    augmentation = DroppedSymbols(0)  # unknown characters in place of some

    length: Annotated[int, Field(ge=1, le=2**20)] = 4000  # characters of a text; longer ones are truncated

    def write(self, out: DatasetWriter) -> SequenceSpec:
        """Write the pairs in the order of the files; the vocabulary is built from the training texts."""
        texts: dict[str, int] = {}
        pairs = {split: self._pairs(split, texts) for split in SPLITS}
        # Texts are numbered in order of appearance, train first.
        train_texts = list(texts)[: int(pairs["train"][1].max()) + 1]
        alphabet = tokenizer.build_tokenizer(train_texts, "characters", self.length)
        starts, lengths = alphabet.append(out, list(texts))
        for number, split in enumerate(SPLITS):
            labels, text_ids = pairs[split]
            out.add_examples(starts[text_ids], lengths[text_ids], labels, np.full(len(labels), number))
        classes = Classes(("unrelated", "related"))
        return SequenceSpec(Tokens(alphabet.vocab), int(lengths.max()), classes, views=2)

    def _pairs(self, split: Split, texts: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
        """Return (n,) labels and (2, n) indices of texts; new texts are added to ``texts``."""
        file = None if self.made_up else require_files(self, *lra_paths(FILES[split]))
        labels = []
        text_ids = []
        lines = read_lines(file) if file else make_synthetic_lines(split)
        for number, line in enumerate(lines, start=1):
            fields = line.rstrip(b"\r\n").split(b"\t")  # without quoting
            if len(fields) != FIELDS or fields[0] not in (b"0", b"0.0", b"1", b"1.0"):
                raise DataError(
                    f"line {number} of {file} is not a label 0.0 or 1.0, two names and two texts, separated "
                    f"by tabs; unpack the release again"
                )
            labels.append(int(float(fields[0])))
            # UTF-8 needs at most four bytes per character: a split one is always beyond those that are kept.
            both = (text[: 4 * self.length].decode("utf-8", "replace")[: self.length] for text in fields[3:])
            text_ids.append([texts.setdefault(text, len(texts)) for text in both])
        if not labels:
            raise DataError(f"{file} is empty; unpack the release again")
        return np.array(labels), np.array(text_ids).T


def make_synthetic_lines(split: Split) -> list[bytes]:
    """Return 120 synthetic lines of train, else 40, in the format of the release: one topic is related."""
    random = np.random.RandomState(SPLITS.index(split))
    lines = []
    for i in range({"train": 120}.get(split, 40)):
        first_topic = random.randint(len(TOPICS))
        second_topic = first_topic if i % 2 else (first_topic + random.randint(1, len(TOPICS))) % len(TOPICS)
        topics = (first_topic, second_topic)
        texts = "\t".join(tokenizer.make_sentence(random, TOPICS[topic]) for topic in topics)
        lines.append(f"{float(i % 2)}\t{split}-{i}a\t{split}-{i}b\t{texts}\n".encode())
    return lines


task = Retrieval
