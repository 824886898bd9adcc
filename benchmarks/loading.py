"""Padded batches of IMDb texts per second, from a prepared set and row by row from a Hugging Face Dataset.

    SPT_DATA=... python benchmarks/loading.py [--batches 50]

The task `text` is prepared first if it is not yet. The twins hold the same texts in a ``datasets.Dataset``,
as rows of token ids, or as strings that are numbered when they are read, and pad what they are given. Batches
are the same 32 random rows for all; times are processor time, and the results are compared.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from selfpretrain.data.examples import Examples
from selfpretrain.tasks.text import Text

SIZE = 32


def padded(rows: list[list[int]]) -> torch.Tensor:
    out = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
    for line, row in zip(out, rows, strict=True):
        line[: len(row)] = torch.tensor(row)
    return out


def rate(work: Callable[[torch.Tensor], torch.Tensor], batches: list[torch.Tensor]) -> tuple[float, int]:
    """Batches per second of processor time, and the sum of all numbers in them."""
    work(batches[0])
    start, total = time.process_time(), 0
    for rows in batches:
        total += int(work(rows).sum())
    return len(batches) / (time.process_time() - start), total


def twins(task: Text, examples: Examples) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    import datasets

    datasets.disable_progress_bars()
    symbols = task.symbols()
    number = {symbol: token for token, symbol in enumerate(symbols)}
    tokens = [examples.sequence(row) for row in range(len(examples))]
    ids = datasets.Dataset.from_dict({"ids": tokens})
    texts = datasets.Dataset.from_dict({"text": ["".join(symbols[t] for t in s.tolist()) for s in tokens]})

    def of_ids(rows: torch.Tensor) -> torch.Tensor:
        return padded([ids[row]["ids"] for row in rows.tolist()])

    def of_texts(rows: torch.Tensor) -> torch.Tensor:
        cut = [texts[row]["text"][: task.length] for row in rows.tolist()]
        return padded([[number.get(letter, 0) for letter in text] for text in cut])

    return {"Dataset of token ids": of_ids, "Dataset of strings": of_texts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=50)
    number = parser.parse_args().batches
    task = Text()
    start = time.process_time()
    examples = task.load("train")
    opened = time.process_time() - start
    random = np.random.default_rng(0)
    batches = [torch.from_numpy(random.choice(len(examples), SIZE, replace=False)) for _ in range(number)]
    ours, total = rate(lambda rows: examples.batch(rows).inputs, batches)
    print(f"opened in {opened:.3f} s; prepared set: {ours:,.0f} batches/s")
    for name, twin in twins(task, examples).items():
        theirs, check = rate(twin, batches)
        print(f"{name}: {theirs:,.1f} batches/s, ratio {ours / theirs:.0f}, same numbers: {check == total}")


if __name__ == "__main__":
    main()
