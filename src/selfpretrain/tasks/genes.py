"""Which bases of a gene's locus are coding: 586 loci of the fruit fly, and the chromosome around them.

A locus is a stretch of chromosome arm 2R with one gene, whose exons are known from proteins. It is read on a
random strand and cut into windows. The rest of the arm, 17.7 million bases without a label, is for
pretraining.

Loci are divided by position: whole stretches of 250,000 bases are in one split, so that neighbours, which are
often related, stay together. In validation and test the windows of a locus overlap by half, and a base is
scored once, in the window whose centre is nearest.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Bool, Int
from pydantic import Field

from ..config import Count, Seed, spec
from ..data.archives import read_package
from ..data.dataset import SequenceDataset
from ..data.download import Download
from ..data.paths import explain_errors
from ..data.spec import PositionClasses, SequenceSpec, Split, Tokens
from ..data.splits import limit_labels, min_groups, split_rows
from ..data.store import DatasetWriter
from ..errors import DataError, SpecError
from .base import Card, DatasetStub, with_stub
from .common.augmentations import ReverseComplement
from .common.genbank import BASES, COMPLEMENT, TARGETS, Locus, Target, read_fasta, read_genbank
from .common.stored import Prepared, require_files

PACKAGE = "augustus-doc_3.5.0+dfsg-2_all.deb"
TUTORIAL = "usr/share/doc/augustus/tutorial"  # folder in the package
FILES = ("results/genes.gb", "data/chr2R.fa")  # loci and chromosome arm in that folder
STRETCH = 250_000  # bases of the stretches of the chromosome that stay in one split
SYNTHETIC_STRETCH = 600  # the same of the synthetic chromosome
SYNTHETIC_LOCI = 24  # training loci of it
RUN = 16  # bases by which loci are looked for on the chromosome
UNKNOWN = -1  # label of bases that are not scored


@spec
class Genes(Prepared):
    """Which bases of a locus are coding?"""

    card = Card(
        source="loci and chromosome arm 2R of Drosophila melanogaster from the tutorial of AUGUSTUS 3.5.0 "
        "(Debian's augustus-doc); cite Stanke et al. (2008), Using native and syntenically mapped cDNA "
        "alignments to improve de novo gene finding",
        licence="Artistic Licence, as AUGUSTUS",
        counts="windows of 2,048 bases at most: 9,860 / 581 / 508, of 415 / 82 / 89 loci, all of which are "
        "on the arm; 8,636 windows of training are outside of them, and have no labels",
        baselines="MCC of hexamers in frame with the labels of 20, 100 and 415 loci: logistic regression "
        "0.66, 0.70, 0.69, boosting 0.64, 0.71, 0.71",
        leaks="loci are divided by position, and no locus is among the unlabelled bases; related genes far "
        "apart on the arm may be in two splits. Untranslated exons count as not coding, and so does a second "
        "gene that the tutorial does not list",
        get=f"also Debian's package augustus-doc: {PACKAGE} as it is, unpacked (dpkg -x) as augustus-doc, "
        "or installed; old versions are on snapshot.debian.org",
    )
    downloads = (
        Download(
            f"https://deb.debian.org/debian/pool/main/a/augustus/{PACKAGE}",
            into="augustus-doc",
            size=23_670_984,
            sha256="8427ef32b4f345dc336066215390572f242c79818bcb6a709df87b4be43fc71b",
            unpack=False,  # two of its files are read from it
        ),
    )
    places = (f"augustus-doc/{PACKAGE}", PACKAGE, f"augustus-doc/{TUTORIAL}", f"/{TUTORIAL}")
    denoising = "masked"
    small = (  # not tuned: an epoch and a half of the chromosome
        "pretrain.budget.steps=1000",
        "finetune.budget.steps=400",
        "scratch.budget.steps=400",
    )
    augmentation = ReverseComplement(COMPLEMENT)  # windows read on the other strand

    target: Target = "coding"  # frames: also codon positions, introns, and what is between genes
    window: Annotated[int, Field(ge=16, le=32_768)] = 2_048  # bases of a sequence at most
    loci: Count | None = None  # training loci that keep their labels, nested; None: all
    split_seed: Seed = 0  # seed of the division, of the strands and of the order of training loci

    def load(self, split: Split) -> SequenceDataset:
        """Return the windows of a split; their groups are the loci.

        Raises:
            SpecError: if there are fewer training loci than ``loci``, or fewer labelled windows of these than
                ``labels``.
        """
        if split != "train" or self.loci is None or self.stub:
            return super().load(split)
        examples = self.data().examples(split)
        assert examples.groups is not None, "written with every window"
        known = examples.groups[examples.labelled].amax() + 1
        if self.loci > known:
            raise SpecError(f"loci={self.loci}, but {known} training loci have labels; lower it")
        kept = (examples.groups < self.loci)[:, None]
        examples = replace(examples, targets=torch.where(kept, examples.targets, UNKNOWN))
        return limit_labels(examples, self.labels)

    def with_all_labels(self) -> "Genes":
        """Return the task with the labels of all loci."""
        return replace(self, labels=None, loci=None)

    def stubbed(self) -> "Genes":
        """Return the task with a stub of windows, unless its data are prepared or made up."""
        if self.made_up or self.folder.exists():
            return self
        scale = 2_048 / self.window
        train, val, test = (round(count * scale) for count in (9_860, 581, 508))
        return with_stub(self, DatasetStub(self._form(), train, val, test))

    def tiny(self) -> "Genes":
        """Return the task with synthetic loci, in windows of 96 bases at most."""
        loci = min(self.loci, SYNTHETIC_LOCI) if self.loci else None
        return replace(self, labels=None, loci=loci, made_up=True, window=min(self.window, 96))

    def write(self, out: DatasetWriter) -> SequenceSpec:
        """Write the windows of all loci, and those of the chromosome between them."""
        loci, chromosome = make_synthetic() if self.made_up else read_files(require_files(self, *self.places))
        places, outside = locate(loci, chromosome)
        size = SYNTHETIC_STRETCH if self.made_up else STRETCH
        out.symbols = tuple(BASES)
        for group, (locus, split) in enumerate(arrange(loci, places, size, self.split_seed)):
            self._write_locus(out, locus, split, group)
        # The chromosome, in windows without overlap of its stretches outside of all loci, each its own group.
        edges = np.flatnonzero(np.diff(outside, prepend=False, append=False)).reshape(-1, 2)
        starts = np.concatenate([np.arange(a, b - self.window + 1, self.window) for a, b in edges])
        targets = np.full((len(starts), self.window), UNKNOWN, dtype=np.int16)
        groups = len(loci) + np.arange(len(starts))
        none = 0 * groups
        out.add_examples(out.append(chromosome) + starts, none + self.window, targets, none, groups)
        return self._form()

    def _form(self) -> SequenceSpec:
        return SequenceSpec(Tokens(len(BASES)), self.window, PositionClasses(TARGETS[self.target]))

    def _write_locus(self, out: DatasetWriter, locus: Locus, split: int, group: int) -> None:
        labels = locus.labels(self.target)
        held = split > 0
        starts = window_starts(len(labels), self.window, self.window // 2 if held else self.window)
        lengths = np.full(len(starts), min(self.window, len(labels)))
        ends = starts + lengths
        # Held-out bases belong to the window whose centre is nearest: windows share the overlap evenly.
        middles = (starts[1:] + ends[:-1]) // 2
        first = np.concatenate([[0], middles]) if held else starts
        last = np.concatenate([middles, [len(labels)]]) if held else ends
        targets = np.full((len(starts), self.window), UNKNOWN, dtype=np.int16)
        for row, start, begin, end in zip(targets, starts, first, last, strict=True):
            row[begin - start : end - start] = labels[begin:end]
        place = out.append(locus.bases)
        same = np.ones(len(starts), dtype=np.int64)
        out.add_examples(place + starts, lengths, targets, split * same, group * same)


def window_starts(length: int, window: int, step: int) -> Int[np.ndarray, "windows"]:
    """Return the first bases of evenly spaced windows over a locus, ``step`` apart at most."""
    room = max(length - window, 0)
    return np.linspace(0, room, 1 + -(-room // step)).astype(np.int64)


def arrange(loci: list[Locus], places: Int[np.ndarray, "n"], size: int, seed: int) -> list[tuple[Locus, int]]:
    """Return loci on random strands with their splits: those of training first, in random order.

    Args:
        places: where they begin on the chromosome.
        size: bases of the stretches that stay in one split.
    """
    random = np.random.RandomState(seed)
    split = divide(places, np.array([len(locus.bases) for locus in loci]), size, seed)
    order = np.lexsort((random.permutation(len(loci)), split))
    turned = random.rand(len(loci)) < 0.5
    return [(loci[i].turned() if turned[i] else loci[i], int(split[i])) for i in order.tolist()]


def divide(
    places: Int[np.ndarray, "n"], lengths: Int[np.ndarray, "n"], size: int, seed: int
) -> Int[np.ndarray, "n"]:
    """Return the split of every locus, 0 1 2: about 70/15/15, in whole stretches of ``size`` bases.

    Loci that overlap stay together.
    """
    order = np.argsort(places, kind="stable")
    ends = np.maximum.accumulate((places + lengths)[order])
    stretch = places // size
    for before, after, end in zip(order[:-1], order[1:], ends[:-1], strict=True):
        if places[after] < end:
            stretch[after] = stretch[before]
    return split_rows(np.zeros(len(places), dtype=np.int64), stretch, seed, min_groups(stretch))


def locate(loci: list[Locus], chromosome: np.ndarray) -> tuple[Int[np.ndarray, "n"], Bool[np.ndarray, "T"]]:
    """Return where every locus begins on the chromosome, and which known bases are in no locus.

    Every copy of a locus counts as one. Of copies the next one after the locus before is taken, since loci
    are listed in the order of the chromosome.

    Raises:
        DataError: if a locus is not on the chromosome.
    """
    outside = chromosome != BASES.index("n")
    places = np.zeros(len(loci), dtype=np.int64)
    last = -1
    for i, (locus, copies) in enumerate(zip(loci, find_copies(loci, chromosome), strict=True)):
        if not len(copies):
            raise DataError(f"{locus.name} is not on the chromosome; get both files from one package")
        last = places[i] = next((start for start in copies if start > last), copies[0])
        for start in copies:
            outside[start : start + len(locus.bases)] = False
    return places, outside


def find_copies(loci: list[Locus], chromosome: np.ndarray) -> list[list[int]]:
    """Return all places of every locus on the chromosome, found by their first 16 bases.

    Raises:
        DataError: if a locus is shorter.
    """
    if short := [locus.name for locus in loci if len(locus.bases) < RUN]:
        raise DataError(f"{short[0]} has fewer than {RUN} bases, too few to look for; get the file again")
    runs = _runs(chromosome)
    first = np.array([_runs(locus.bases[:RUN])[0] for locus in loci])
    known = np.unique(first)
    place = np.searchsorted(known, runs).clip(max=len(known) - 1)
    candidates = np.flatnonzero(known[place] == runs)
    return [
        [
            start
            for start in candidates[runs[candidates] == run].tolist()
            if np.array_equal(chromosome[start : start + len(locus.bases)], locus.bases)
        ]
        for locus, run in zip(loci, first, strict=True)
    ]


def _runs(bases: np.ndarray) -> np.ndarray:
    """Return (T - 15,) the 16 bases from every base on as one number, three bits each."""
    runs = bases.astype(np.uint64)
    for width in (1, 2, 4, 8):  # runs of twice as many bases
        runs = (runs[:-width] << np.uint64(3 * width)) | runs[width:]
    return runs


def read_files(path: Path) -> tuple[list[Locus], np.ndarray]:
    """Return the loci and the chromosome in a Debian package, or in the folder of the tutorial."""
    if path.is_dir():
        with explain_errors(path, "read"):
            contents = [(path / name).read_bytes() for name in FILES]
    else:
        contents = read_package(path, [f"{TUTORIAL}/{name}" for name in FILES])
    genbank, fasta = (content.decode("latin-1") for content in contents)
    return list(read_genbank(genbank, FILES[0])), read_fasta(fasta, FILES[1])


def make_synthetic(number: int = 40) -> tuple[list[Locus], np.ndarray]:
    """Return synthetic loci of two exons each, and their chromosome.

    Codons are ``ga`` and a random base; every second gene is on the other strand.
    """
    random = np.random.RandomState(0)
    chromosome = random.randint(0, 4, number * 300).astype(np.uint8)
    loci = []
    for i in range(number):
        start = 300 * i + random.randint(40)
        exons = np.array([[20, 65], [85, 130]]) + random.randint(20)
        length = int(random.randint(160, 221))
        place = chromosome[start : start + length]  # a view
        for first, end in exons:
            codons = np.stack([np.full(15, 2), np.zeros(15, int), random.randint(0, 4, 15)], axis=1)
            place[first:end] = codons.ravel()
        locus = Locus(f"locus-{i}", place.copy(), exons, False)
        if i % 2:
            locus = locus.turned()
            place[:] = locus.bases
        loci.append(locus)
    return loci, chromosome


task = Genes
