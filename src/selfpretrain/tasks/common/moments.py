"""Mean and standard deviation of the training split, for data written before the split is known."""

from dataclasses import dataclass, field

import numpy as np

from ...data.spec import Values


@dataclass
class Moments:
    """Sums and extremes of each sequence, from which the moments of any subset follow."""

    _rows: list[np.ndarray] = field(default_factory=list)  # (n, 5, C): count, sum, squares, least, greatest

    def add(self, block: np.ndarray) -> None:
        """Add equally long sequences (n, L, C)."""
        count = np.full((len(block), block.shape[2]), block.shape[1])
        squares = np.einsum("nlc,nlc->nc", block, block, dtype=np.float64)
        parts = [count, block.sum(1, dtype=np.float64), squares, block.min(1), block.max(1)]
        self._rows.append(np.stack(parts, axis=1).astype(np.float64))

    def values(
        self, train: np.ndarray, levels: int | None = None, span: tuple[float, float] | None = None
    ) -> Values:
        """Return the signal: mean and standard deviation of every channel over the training sequences.

        Args:
            train: (n,) mask of the training sequences, in the order in which they were added.
            span: smallest and largest value if known beforehand; None: measure them on train, too.
        """
        rows = np.concatenate(self._rows)[train]
        count, total, squares = rows[:, :3].sum(0)
        mean = total / count
        spread = np.sqrt(np.maximum(squares / count - mean**2, 0))
        low, high = span or (float(rows[:, 3].min()), float(rows[:, 4].max()))
        return Values(len(mean), levels, low, high, tuple(mean.tolist()), tuple(spread.tolist()))
