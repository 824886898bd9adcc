"""Gene finding without a network: hexamers in frame, and AUGUSTUS, on the loci of the task ``genes``.

python experiments/genes_simple.py              writes experiments/genes_simple.tsv; minutes of one core

Hexamers: on the labelled loci, the logarithm of how much more frequent each run of six bases is in each of
the three positions of a codon than outside of exons. Of every base, for both strands, the three sums over the
frames in a narrow and a wide window around it, in falling order, are features of logistic regression and of
gradient boosting. Source of the measure: Fickett and Tung (1992), Assessment of protein coding measures.

AUGUSTUS: ``apt-get install augustus``, species ``fly``, whose parameters were trained by its makers on genes
of the fruit fly, perhaps on these: it stands for what an expert's model reaches, not for what labels of 400
loci give. It is left out if it is not installed.

Two protocols: "task", the division of the task (every base of all test loci), and "random", 150 random loci
as the test set and loci below 20,000 bases alone, in training and test.
"""

import argparse
import csv
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, matthews_corrcoef
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from selfpretrain.tasks.common.genbank import BASES, Locus, reverse_complement
from selfpretrain.tasks.common.stored import require_files
from selfpretrain.tasks.genes import STRETCH, Genes, arrange, locate, read_files

RESULTS = Path(__file__).with_suffix(".tsv")
FIELDS = ("protocol", "loci", "method", "accuracy", "MCC", "test loci", "test bases", "seconds", "command")
HALVES = (45, 120)
"""Half widths of the windows in which hexamers are summed."""
RUN = 6
BUDGETS = (20, 100, 1_000)
"""Labelled loci; of the last number, as many as there are."""
EVERY = 7
"""Of the training bases, which neighbours resemble, every seventh is used."""
AUGUSTUS = (
    *("augustus", "--species=fly", "--strand=both", "--UTR=off"),
    "--softmasking=0",  # or small letters would be taken for repeats, in which there are no genes
    "--stopCodonExcludedFromCDS=true",  # as in the loci
)
LONGEST = 20_000
HELD = 150
Parts = tuple[list[Locus], list[Locus]]
"""Training and test loci."""


def hexamers(bases: np.ndarray) -> np.ndarray:
    """Return (n - 5,) the number of the six bases from every base on; unknown bases count as a."""
    known = np.where(bases < 4, bases, 0).astype(np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(known, RUN)
    return windows @ 4 ** np.arange(RUN)[::-1]


def log_ratios(loci: Sequence[Locus]) -> np.ndarray:
    """Return (3, 4096) log P(hexamer | at this position of a codon) / P(hexamer | not in an exon)."""
    counts = np.ones((4, 4**RUN))
    for locus in loci:
        forward = locus.turned() if locus.reverse else locus
        labels = forward.labels("frames")[: -(RUN - 1)]
        # Of exons the three positions of a codon, 2 to 4; of all else, the last row.
        np.add.at(counts, (np.where(labels >= 2, labels - 2, 3), hexamers(forward.bases)), 1)
    shares = np.log(counts / counts.sum(1, keepdims=True))
    return shares[:3] - shares[3]


def features(bases: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return (n, strands x windows x frames) sums of log ratios around every base."""
    n = len(bases)
    found = []
    for strand in (bases, reverse_complement(bases)):
        codes = hexamers(strand)
        place = np.arange(len(codes))
        sums = np.zeros((3, n + 1))
        for frame in range(3):
            sums[frame, 1 : len(codes) + 1] = table[(place + frame) % 3, codes].cumsum()
            sums[frame, len(codes) + 1 :] = sums[frame, len(codes)]
        base = np.arange(n)
        for half in HALVES:
            inside = sums[:, (base + half).clip(max=n)] - sums[:, (base - half).clip(min=0)]
            each = -np.sort(-inside, axis=0) / (2 * half)
            found.append(each if strand is bases else each[:, ::-1])
    return np.concatenate(found).T


MODELS = {
    "hexamers, logistic regression": lambda: make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=300)
    ),
    "hexamers, boosting": lambda: HistGradientBoostingClassifier(max_iter=80, random_state=0),
}


def hexamer_scores(train: Sequence[Locus], test: Sequence[Locus]) -> Iterator[tuple[str, np.ndarray, float]]:
    """Yield method, predictions of all bases of the test loci, and seconds."""
    begin = time.monotonic()
    table = log_ratios(train)
    x = np.concatenate([features(locus.bases, table)[::EVERY] for locus in train])
    y = np.concatenate([locus.labels("coding")[::EVERY] for locus in train])
    held = np.concatenate([features(locus.bases, table) for locus in test])
    for name, build in MODELS.items():
        yield name, build().fit(x, y).predict(held), time.monotonic() - begin


def augustus(test: Sequence[Locus]) -> np.ndarray:
    """Return the predictions of AUGUSTUS for all bases of the test loci, each a sequence of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "loci.fa"
        records = (f">{i}\n{''.join(BASES[b] for b in x.bases)}\n" for i, x in enumerate(test))
        file.write_text("".join(records))
        done = subprocess.run([*AUGUSTUS, str(file)], check=True, capture_output=True, text=True)
    found = [np.zeros(len(locus.bases), dtype=np.int8) for locus in test]
    for line in done.stdout.splitlines():
        columns = line.split("\t")
        if len(columns) > 4 and columns[2] == "CDS":
            found[int(columns[0])][int(columns[3]) - 1 : int(columns[4])] = 1
    return np.concatenate(found)


def task_protocol(loci: list[Locus], places: np.ndarray) -> Parts:
    """Return training and test loci of the task, with its strands and its order."""
    arranged = arrange(loci, places, STRETCH, Genes().split_seed)
    return [x for x, split in arranged if split == 0], [x for x, split in arranged if split == 2]


def random_protocol(loci: list[Locus]) -> Parts:
    """Return shorter loci in random order on random strands; the test ones are among ``HELD`` of all."""
    random = np.random.RandomState(0)
    turned = [x.turned() if random.rand() < 0.5 else x for x in loci]
    order = random.permutation(len(loci))
    parts = order[HELD:], order[:HELD]
    train, test = ([turned[i] for i in part if len(turned[i].bases) < LONGEST] for part in parts)
    return train, test


def measured(
    protocols: dict[str, Parts], only: str | None
) -> Iterator[tuple[str, int, str, np.ndarray, float, str]]:
    """Yield protocol, labelled loci, method, predictions, seconds and command of every line of the table."""
    for protocol, (train, test) in protocols.items() if only != "augustus" else ():
        for budget in BUDGETS:
            for line in hexamer_scores(train[:budget], test):
                yield protocol, min(budget, len(train)), *line, "python experiments/genes_simple.py"
    if only != "hexamers" and shutil.which("augustus"):
        begin = time.monotonic()
        predicted = augustus(protocols["task"][1])
        seconds = time.monotonic() - begin
        yield "task", 0, "AUGUSTUS, species fly", predicted, seconds, " ".join(AUGUSTUS)


def main() -> None:
    """Measure every line and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--only", choices=("hexamers", "augustus"), help="measure these, keep other lines")
    options = parser.parse_args()
    output = options.output
    loci, chromosome = read_files(require_files(Genes(), *Genes.places))
    places, _ = locate(loci, chromosome)
    protocols = {"task": task_protocol(loci, places), "random": random_protocol(loci)}
    rows: list[Sequence[object]] = [FIELDS]
    if options.only:
        with output.open(newline="") as file:
            kept = [row for row in csv.reader(file, delimiter="\t") if options.only not in row[2].lower()]
        rows = list[Sequence[object]](kept)
    for protocol, budget, name, predicted, seconds, command in measured(protocols, options.only):
        test = protocols[protocol][1]
        y = np.concatenate([locus.labels("coding") for locus in test])
        scores = f"{accuracy_score(y, predicted):.4f}", f"{matthews_corrcoef(y, predicted):.4f}"
        rows.append((protocol, budget, name, *scores, len(test), len(y), round(seconds), command))
        print(*rows[-1], sep="\t", flush=True)
        with output.open("w", newline="") as file:
            csv.writer(file, delimiter="\t", lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
