"""Draw a task's data into a file: some sequences, and how often each class or target occurs in every split.

python examples/draw_data.py [digits] [--split train] [--number 6] [--out data.png]

``selfpretrain data show`` prints the same in the terminal.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from selfpretrain.registry import resolve
from selfpretrain.tasks.inspect.preview import Preview, bins, preview

KINDS = {"image": 1.4, "wave": 0.9, "text": 0.5}
"""Height of a sequence in inches, by kind."""


def draw_sequence(axes: Axes, view: Preview, sequence: np.ndarray) -> None:
    """Draw an image, tokens as text, up to 6 channels as waves above each other, or more as a heat map."""
    axes.set_yticks([])
    if view.kind == "image":
        axes.imshow(view.image(sequence), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_axis_off()
    elif view.kind == "text":
        axes.text(0, 0.5, view.text(sequence[:400])[:110], family="monospace", fontsize=7, va="center")
        axes.set_axis_off()
    elif sequence.shape[1] > 6:
        axes.imshow(sequence.T, aspect="auto", origin="lower", interpolation="nearest")
    else:
        span = np.ptp(sequence, axis=0)
        scaled = (sequence - sequence.min(axis=0)) / np.where(span > 0, span, 1)
        axes.plot(scaled - 1.1 * np.arange(sequence.shape[1]), linewidth=0.7)


def draw_shares(axes: Axes, view: Preview) -> None:
    """Draw the share of every class, or a histogram of real targets, of each split."""
    if view.names:
        names, shares = view.class_shares(20)
        for place, (split, share) in enumerate(shares.items()):
            axes.bar(np.arange(len(names)) + 0.27 * (place - 1), share, 0.25, label=split)
        axes.set_xticks(range(len(names)), names, rotation=60 if sum(map(len, names)) > 40 else 0)
    else:
        edges = bins(np.concatenate(list(view.targets.values())))
        for split, targets in view.targets.items():
            axes.stairs(100 * np.histogram(targets, edges)[0] / max(len(targets), 1), edges, label=split)
    axes.set_ylabel("% of a split")
    axes.legend()


def main() -> None:
    """Read the flags, and draw."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("task", nargs="?", default="digits")
    flags.add_argument("--split", default="train")
    flags.add_argument("--number", type=int, default=6)
    flags.add_argument("--out", type=Path, default=Path("data.png"))
    chosen = flags.parse_args()
    view = preview(resolve("tasks", chosen.task), chosen.split, chosen.number)
    side = 6 if view.kind == "image" else 1
    rows = -(-len(view.shown) // side)
    figure = Figure(figsize=(7.2, rows * KINDS[view.kind] + 3), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=(rows * KINDS[view.kind], 2.6))
    panels = upper.subplots(rows, side, squeeze=False).ravel()
    for axes in panels[len(view.shown) :]:
        axes.set_axis_off()
    for axes, shown in zip(panels, view.shown, strict=False):
        draw_sequence(axes, view, shown.sequence)
        axes.set_title(shown.caption, fontsize=8, parse_math=False)
    upper.suptitle(view.title, fontsize=10)
    draw_shares(lower.subplots(), view)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(chosen.out, dpi=150)
    print(f"{chosen.out}: {len(view.shown)} sequences, shares of labels in %")


if __name__ == "__main__":
    main()
