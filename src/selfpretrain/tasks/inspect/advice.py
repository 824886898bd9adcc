"""What to try on somebody's data, from a few facts: the rules of docs/data-sets.md."""

ENOUGH = 0.95
"""Score of a simple method from which on no network was better by more than its interval."""
FEW = 100
"""Labelled sequences below which a network's score may vary much with its seed."""


def advice(labelled: int, unlabelled: int, method: str, score: float) -> str:
    """Whether to try self-pretraining, in one sentence with its reason.

    Args:
        labelled: training sequences with a label; the others are ``unlabelled``.
        method: the best of the simple methods; its ``score`` on test is an accuracy, or R2.
    """
    if score >= ENOUGH:
        return f"use {method}: it scores {score:.3f}, and a network has little left to gain"
    if unlabelled > labelled:
        unused = f"{unlabelled:,} sequences have no label, and only pretraining learns from those"
        return f"compare SPT with {method} ({score:.3f}): {unused}"
    if labelled < FEW:
        few = f"{labelled:,} labelled sequences are so few that a network's score may hang on its seed"
        return f"begin with {method} ({score:.3f}), and compare networks with 5 seeds or more: {few}"
    room = "it leaves room, but with every sequence labelled SPT gained nothing for certain on real data sets"
    return f"begin with {method} ({score:.3f}), then compare SPT with tied scratch: {room}"
