"""What to try on somebody's data, from a few facts: the rules of docs/data-sets.md."""

from dataclasses import dataclass

ENOUGH = 0.95
"""Score of a simple method from which on no network was better by more than its interval."""
FEW = 100
"""Labelled sequences below which a network's score may vary much with its seed."""


@dataclass(frozen=True)
class Known:
    """What is known of a task before any network is trained."""

    labelled: int  # training sequences with a label
    unlabelled: int  # training sequences without one
    method: str  # the best of the simple methods
    score: float  # its accuracy, or R2, on test


def advice(known: Known) -> str:
    """Whether to try self-pretraining, in one sentence with its reason."""
    method, score = known.method, f"{known.score:.3f}"
    if known.score >= ENOUGH:
        return f"use {method}: it scores {score}, and a network has little left to gain"
    if known.unlabelled > known.labelled:
        unused = f"{known.unlabelled:,} sequences have no label, and only pretraining learns from those"
        return f"compare SPT with {method} ({score}): {unused}"
    if known.labelled < FEW:
        few = f"{known.labelled:,} labelled sequences are so few that a network's score may hang on its seed"
        return f"begin with {method} ({score}), and compare networks with 5 seeds or more: {few}"
    room = "it leaves room, but with every sequence labelled SPT gained nothing for certain on real data sets"
    return f"begin with {method} ({score}), then compare SPT with tied scratch: {room}"
