"""Read gene loci in GenBank's flat format and sequences in FASTA, and label every base of a locus.

Only what gene finding needs is read: of each record the name, the bases and the location of its one coding
sequence (CDS). Files may be damaged or made up: all numbers in them are checked before they are used.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int, Int8, UInt8

from ...errors import DataError

BASES = "acgtn"  # symbols in the order of their tokens; n is an unknown base
COMPLEMENT = (3, 2, 1, 0, 4)  # token of the base on the other strand, by token
AMBIGUOUS = "nryswkmbdhvu"  # letters of nucleic acids other than a, c, g and t; they are read as n
TARGETS = {
    "coding": ("not coding", "coding"),
    "frames": ("between", "intron", "first of codon", "second of codon", "third of codon"),
}
"""Names of the classes of a base."""
Target = Literal["coding", "frames"]
SPAN = re.compile(r"<?(\d{1,12})(?:\.\.>?(\d{1,12}))?", re.ASCII)
"""Bases from one to another, both counted from 1; < and > mark genes that go on beyond the record."""
INDENT = 21  # column at which the location of a feature begins


@dataclass(frozen=True)
class Locus:
    """A stretch of a chromosome with one gene."""

    name: str
    bases: UInt8[np.ndarray, "L"]  # tokens, see ``BASES``
    exons: Int[np.ndarray, "exons 2"]  # coding parts: first base, base after the last one; from left to right
    reverse: bool  # whether the gene is read from right to left, on the other strand

    def labels(self, target: Target) -> Int8[np.ndarray, "L"]:
        """Return the class of every base: coding or not, or its part of the gene (see ``TARGETS``).

        The position in the codon is counted along the strand of the gene.
        """
        coding = np.zeros(len(self.bases), dtype=bool)
        for first, end in self.exons:
            coding[first:end] = True
        if target == "coding":
            return coding.astype(np.int8)
        labels = np.zeros(len(self.bases), dtype=np.int8)
        labels[self.exons[0, 0] : self.exons[-1, 1]] = 1
        position = np.arange(int(coding.sum())) % 3
        labels[coding] = 2 + (position[::-1] if self.reverse else position)
        return labels

    def turned(self) -> "Locus":
        """Return the locus as read on the other strand."""
        exons = (len(self.bases) - self.exons)[::-1, ::-1]
        bases = np.array(COMPLEMENT, dtype=np.uint8)[self.bases[::-1]]
        return Locus(self.name, bases, exons, not self.reverse)


def read_genbank(text: str, place: str) -> Iterator[Locus]:
    """Yield the records of a file in GenBank's flat format; each must have one coding sequence.

    Raises:
        DataError: naming the first record that cannot be read.
    """
    *records, rest = re.split(r"^//[^\n]*\n?", text, flags=re.MULTILINE)
    if rest.strip() or not records:
        raise DataError(f"{place} does not end with a record of GenBank (//); get it again")
    for number, record in enumerate(records, start=1):
        try:
            head, origin, sequence = record.partition("\nORIGIN")
            words = head.strip().partition("\n")[0].split()
            if len(words) < 3 or words[0] != "LOCUS" or not words[2].isdecimal():
                raise ValueError("it does not begin with LOCUS, a name and a length")
            bases = _encode(re.sub(r"[\s\d]+", "", sequence.partition("\n")[2]))
            if not origin or len(bases) != int(words[2]):
                raise ValueError(f"{words[1]} has {len(bases):,} bases, not the {words[2]} that it says")
            if re.search(r"/codon_start=[23]\b", head):
                raise ValueError(f"{words[1]} begins inside of a codon, which is not supported")
            locations = _coding_locations(head)
            if len(locations) != 1:
                raise ValueError(f"{words[1]} has {len(locations)} coding sequences (CDS), not one")
            yield Locus(words[1], bases, *read_location(locations[0], len(bases)))
        except ValueError as error:
            raise DataError(f"record {number} of {place}: {error}; get the file again") from error


def _coding_locations(head: str) -> list[str]:
    """Return the locations of the coding sequences of a record, each joined to one line."""
    locations: list[str] = []
    inside = False  # whether the line before belongs to such a location
    for line in head.split("\n"):
        key = line[:INDENT].strip()
        value = line[INDENT:].strip()
        if key:
            inside = key == "CDS"
            if inside:
                locations.append(value)
        elif inside and not value.startswith("/"):
            locations[-1] += value
        else:
            inside = False
    return [re.sub(r"\s+", "", location) for location in locations]


def read_location(location: str, length: int) -> tuple[Int[np.ndarray, "exons 2"], bool]:
    """Return exons as half-open ranges of bases from 0 on, and whether they are on the other strand.

    Locations are spans such as ``12..78``, ``join(12..78,90..200)`` or ``complement(...)`` of either.

    Raises:
        ValueError: if it is none of these, or its spans overlap or lie outside of the ``length`` bases.
    """
    inner = location
    reverse = inner.startswith("complement(") and inner.endswith(")")
    if reverse:
        inner = inner[len("complement(") : -1]
    if inner.startswith("join(") and inner.endswith(")"):
        inner = inner[len("join(") : -1]
    spans = [SPAN.fullmatch(span) for span in inner.split(",")]
    if not all(spans):
        raise ValueError(f"the location {location[:60]!r} is no join or complement of spans")
    edges = [(int(span[1]) - 1, int(span[2] or span[1])) for span in spans if span]
    exons = np.array(edges, dtype=np.int64)
    flat = exons.ravel()
    if flat[0] < 0 or flat[-1] > length or (exons[:, 0] >= exons[:, 1]).any() or (np.diff(flat) < 0).any():
        raise ValueError(f"the spans of {location[:60]!r} overlap or leave the {length:,} bases")
    return exons, reverse


def read_fasta(text: str, place: str) -> UInt8[np.ndarray, "T"]:
    """Return the bases of a FASTA file with one sequence.

    Raises:
        DataError: if it holds no sequence or several, or something else.
    """
    head, _, sequence = text.partition("\n")
    if not head.startswith(">") or ">" in sequence or not sequence.strip():
        raise DataError(f"{place} is not one sequence in FASTA; get it again")
    try:
        return _encode("".join(sequence.split()))
    except ValueError as error:
        raise DataError(f"{place}: {error}; get it again") from error


def _encode(letters: str) -> UInt8[np.ndarray, "L"]:
    """Return tokens of letters in either case."""
    unknown = 255
    table = np.full(256, unknown, dtype=np.uint8)
    for letter in AMBIGUOUS + BASES:
        token = BASES.index(letter) if letter in BASES else BASES.index("n")
        table[ord(letter)] = table[ord(letter.upper())] = token
    tokens = table[np.frombuffer(letters.encode("latin-1", "replace"), dtype=np.uint8)]
    if (tokens == unknown).any():
        raise ValueError(f"{letters[int((tokens == unknown).argmax())]!r} is no base")
    return tokens
