"""Conversion of X (arrays, lists, strings, columns of tables) to sequences, and the alphabet of tokens.

Strings and bytes are tokens: their UTF-8 bytes. Numbers of any type are real values, unless the signal is set
to "tokens". NaN at the end of a row is padding; NaN elsewhere is filled in from its neighbours.

An alphabet knows symbols besides those of the data: an unknown symbol, and signs for begin and end. A sign at
the end gives a causal network a position that has seen the whole sequence, and a sign at both ends shows
n-grams where a sequence begins and ends. The unknown symbol stands for every symbol beyond the greatest of
training; others that training lacks have the same embedding, the mean of those that it contains.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from ..data.dataset import SequenceDataset
from ..data.importing import Kind
from ..data.moments import BYTES
from ..data.sequences import NOTHING, SURROGATE, Sequences, interpolate
from ..data.spec import Signal, Tokens, Values
from ..errors import DataError
from ..training.model import Network

NO_NUMBER = "it holds something that is not a number"
HALF = "it holds half of a letter of UTF-16 (a lone surrogate); write U+FFFD instead, or the whole letter"
FAR = 10.0  # standard deviations from the mean of training, on average, at which units are doubted ...
SEVERAL = 0.1  # ... if more than this share of the values are as far
STX = 2  # byte that begins a text; "start of text" in ASCII, which written language does not contain
ETX = 3  # byte that ends a text
SIGNS = 2  # positions that signs add to a sequence


def joined(first: Sequences, second: Sequences) -> Sequences:
    """Concatenate two sets of sequences; row numbers of the second follow those of the first."""
    if first.kind != second.kind or first.flat.shape[1:] != second.flat.shape[1:]:
        raise DataError("X_unlabelled holds other sequences than X: another kind, or other channels")
    rows = np.concatenate([first.rows, second.rows + first.given])
    wrong = first.wrong | {row + first.given: why for row, why in second.wrong.items()}
    flat = np.concatenate([first.flat, second.flat])
    lengths = np.concatenate([first.lengths, second.lengths])
    return replace(first, flat=flat, lengths=lengths, rows=rows, wrong=wrong)


def read(
    X: Any, kind: Kind = "auto", offsets: tuple[float, ...] | None = None, filled: bool = False
) -> Sequences:
    """Read sequences from a list (strings, bytes, arrays of unequal lengths) or a 2-D or 3-D array.

    Args:
        offsets: see ``Sequences.checked``.
        filled: interpolate missing values at the ends as well, as ``--missing fill`` does.

    Raises:
        DataError: if there is none.
    """
    rows = X if isinstance(X, np.ndarray) else list(X)
    if not len(rows):
        raise DataError("X holds no sequence")
    if isinstance(rows, np.ndarray):
        found = _dense(rows, kind)
    elif kind == "text" or (kind == "auto" and any(isinstance(row, str | bytes) for row in rows)):
        return _text(rows)
    else:
        found = _ragged(rows, "tokens" if kind == "tokens" else "values")
    if filled and found.kind == "values":
        found = replace(found, flat=interpolate(found.flat, found.lengths))
    return found.checked(offsets)


def _text(rows: list[Any]) -> Sequences:
    coded = [row.encode(errors="surrogatepass") if isinstance(row, str) else row for row in rows]
    wrong = {i: "it is not a text" for i, row in enumerate(coded) if not isinstance(row, bytes | None)}
    wrong |= {i: HALF for i, row in enumerate(rows) if isinstance(row, str) and SURROGATE.search(row)}
    wrong |= {i: NOTHING for i, row in enumerate(coded) if i not in wrong and not row}
    good = [i for i in range(len(coded)) if i not in wrong]
    flat = np.frombuffer(b"".join(coded[i] for i in good), np.uint8).copy()
    lengths = np.array([len(coded[i]) for i in good], dtype=np.int64)
    return Sequences("text", flat, lengths, np.array(good, dtype=np.int64), wrong)


def _ragged(rows: list[Any], kind: Literal["tokens", "values"]) -> Sequences:
    found = {}
    wrong = {}
    channels = 0
    for i, row in enumerate(rows):
        array, why = _array(row, kind)
        if array is not None and kind == "values":
            array = array[:, None] if array.ndim == 1 else array
            channels = channels or array.shape[1]
            why = "" if array.shape[1] == channels else f"it has {array.shape[1]} channels, not {channels}"
        if why or array is None:
            wrong[i] = why
        else:
            found[i] = array
    empty = np.empty((0, max(channels, 1)) if kind == "values" else 0, dtype=np.float32)
    flat = np.concatenate(list(found.values())) if found else empty
    lengths = np.array([len(row) for row in found.values()], dtype=np.int64)
    return Sequences(kind, flat, lengths, np.array(list(found), dtype=np.int64), wrong)


def _array(row: Any, kind: str) -> tuple[np.ndarray | None, str]:
    """Return one sequence (L,) or (L, C) and "", or None and what is wrong with it."""
    if row is None:
        return None, NOTHING
    try:
        array = np.asarray(row, dtype=None if kind == "tokens" else np.float64)
    except (TypeError, ValueError):
        return None, NO_NUMBER
    if array.dtype.kind not in "biuf":
        return None, NO_NUMBER
    if array.size == 0:
        return None, NOTHING
    if array.ndim not in (1, 2) or (kind == "tokens" and array.ndim != 1):
        return None, f"it has {array.ndim} dimensions"
    return array, ""


def _dense(x: np.ndarray, kind: Kind) -> Sequences:
    """Read an array (n, L) or (n, L, C): rows of equal length, padded with NaN at their ends."""
    if x.ndim not in (2, 3):
        raise DataError(f"X has {x.ndim} dimensions; it must be (n, L), (n, L, C) or a list of sequences")
    n, length = x.shape[:2]
    rows = np.arange(n)
    lengths = np.full(n, length)
    if kind in ("tokens", "text"):
        if x.ndim == 3 and x.shape[2] > 1:
            raise DataError(f"X has {x.shape[2]} channels, and symbols have none; give an array (n, L)")
        return Sequences("tokens", x.reshape(-1), lengths, rows)
    flat = x.reshape(n * length, -1).astype(np.float64)
    return Sequences("values", flat, lengths, rows)


def on_scale(found: Sequences, signal: Signal) -> str:
    """Return a note on the first channel with values on another scale than in training, or ""."""
    if not isinstance(signal, Values):
        return ""
    for channel, values in enumerate(found.flat.T):
        centre, spread = (each[channel % len(each)] for each in (signal.centre, signal.spread))
        away = (values[np.isfinite(values)].astype(np.float64) - centre) / spread
        few = (np.abs(away) > FAR).mean() <= SEVERAL if len(away) else True  # these may be rare events
        if not few and (far := float(np.square(away).mean() ** 0.5)) > FAR:
            said = f"values lie {far:,.0f} standard deviations of training from its mean"
            return f"channel {channel + 1}: {said}; are units and decimal signs those of training?"
    return ""


@dataclass(frozen=True)
class Alphabet:
    """Symbols of a network: those of no sequence first, then the symbols of training, all ``shift`` higher.

    The symbols of no sequence come first so that the vocabulary ends with the greatest symbol of the training
    rows, whichever rows these are.
    """

    vocab: int
    shift: int = 0
    unknown: int | None = None
    begin: int | None = None
    end: int | None = None
    seen: tuple[tuple[int, int], ...] = ()  # ranges (first, last + 1) of the symbols of training; empty: any

    @classmethod
    def of(cls, kind: str, signs: bool) -> "Alphabet | None":
        """Return the alphabet of sequences of a kind, before any is seen; None for values."""
        if kind == "values":
            return None
        if kind == "text":
            return cls(BYTES, begin=STX, end=ETX) if signs else cls(BYTES)
        return cls(3, shift=3, unknown=0, begin=1, end=2) if signs else cls(1, shift=1, unknown=0)

    @classmethod
    def load(cls, plain: dict[str, Any] | None, signal: Signal) -> "Alphabet | None":
        """Return a saved alphabet.

        Raises:
            ValueError: if it is not that of a network that takes the signal.
        """
        if plain is None:
            return None
        extra = (plain[name] for name in ("unknown", "begin", "end"))
        unknown, begin, end = (None if number is None else int(number) for number in extra)
        seen = tuple((int(first), int(end)) for first, end in plain.get("seen", ()))
        found = cls(int(plain["vocab"]), int(plain["shift"]), unknown, begin, end, seen)
        fits = isinstance(signal, Tokens) and found.vocab == signal.vocab
        numbers = [number for number in (found.shift, unknown, begin, end) if number]
        if not fits or not all(0 <= number < found.vocab for number in numbers):
            raise ValueError(f"an alphabet of {found.vocab} symbols for {signal}")
        return found

    @property
    def signs(self) -> int:
        """Return the number of positions that signs add to a sequence: 0 or 2."""
        return 0 if self.begin is None else SIGNS

    def notes(self) -> list[str]:
        """Return how symbols of a network differ from those of the data, if they do."""
        notes = [f"inputs are the symbols of the data plus {self.shift}"] if self.shift else []
        if self.begin is not None:
            notes.append(f"every sequence begins with {self.begin} and ends with {self.end}")
        return [" and ".join(notes)] if notes else []

    def fit(self, found: Sequences) -> "Alphabet":
        """Return the alphabet of some shifted sequences, whose greatest symbol ends it."""
        symbols = np.unique(found.flat)
        runs = np.split(symbols, np.flatnonzero(np.diff(symbols.astype(np.int64)) > 1) + 1)
        fitted = replace(self, seen=tuple((int(run[0]), int(run[-1]) + 1) for run in runs if len(run)))
        if self.unknown is None:
            return fitted
        return replace(fitted, vocab=max(self.vocab, int(found.flat.max(initial=0)) + 1))

    def lacks(self, found: Sequences, first: int = 0) -> str:
        """Return a note on shifted sequences with symbols that training lacks, or "" if there are none.

        Args:
            first: number of the first row in the note.
        """
        if not self.seen or found.kind == "values":
            return ""
        unseen = ~self._saw(found.flat)
        if not (rows := found.owners(unseen)).any():
            return ""
        row = int(rows.argmax())
        end = int(found.lengths[: row + 1].sum())
        span = slice(end - int(found.lengths[row]), end)
        symbols = found.flat[span]
        what, symbol, hint = "symbols", str(int(symbols[unseen[span]][0]) - self.shift), ""
        if found.kind == "text":
            what, (symbol, hint) = "letters", self._letter(symbols, unseen[span])
        place = f"{int(unseen[span].sum()):,} of {len(symbols):,} positions, {symbol}"
        return (
            f"{int(rows.sum()):,} of {found.given:,} sequences have {what} that training lacks "
            f"(row {int(found.rows[row]) + first}: {place}){hint}"
        )

    def _saw(self, symbols: np.ndarray) -> np.ndarray:
        """Return whether training contained each symbol."""
        edges = np.array(self.seen, dtype=np.int64).reshape(-1)
        return np.asarray(np.searchsorted(edges, symbols, side="right") % 2 == 1)

    def _letter(self, text: np.ndarray, unseen: np.ndarray) -> tuple[str, str]:
        """Return the first letter of a text that training lacks, and a hint if it had the other case."""
        letters = text.astype(np.uint8).tobytes().decode(errors="surrogateescape")
        sizes = [len(letter.encode(errors="surrogateescape")) for letter in letters]
        letter = letters[int(np.searchsorted(np.cumsum(sizes), int(unseen.argmax()), side="right"))]
        for case, other in (("upper", letter.upper()), ("lower", letter.lower())):
            code = np.frombuffer(other.encode(errors="surrogateescape"), np.uint8)
            if other != letter and self._saw(code).all():
                return repr(letter), f"; {case} case was seen in training"
        return repr(letter), ""

    def shifted(self, found: Sequences) -> Sequences:
        """Return sequences whose symbols are those of the alphabet, or beyond it."""
        if not self.shift or found.kind == "values":
            return found
        return replace(found, flat=(found.flat.astype(np.int64) + self.shift).astype(np.int32))

    def with_unknown(self, found: Sequences) -> Sequences:
        """Return shifted sequences with symbols beyond the greatest of training replaced by the unknown one.

        Others that training lacks stay, and have the mean embedding, see ``embed_unseen``.
        """
        if self.unknown is None or found.kind == "values":
            return found
        return replace(found, flat=np.where(found.flat < self.vocab, found.flat, self.unknown))

    def with_signs(self, found: Sequences) -> Sequences:
        """Return shifted sequences with a sign at their begin and end, if the alphabet has them."""
        if self.begin is None or self.end is None or found.kind == "values":
            return found
        lengths = found.lengths + SIGNS
        ends = lengths.cumsum()
        flat = np.empty(int(lengths.sum()), dtype=found.flat.dtype)
        inner = np.ones(len(flat), dtype=bool)
        inner[ends - lengths] = inner[ends - 1] = False
        flat[inner] = found.flat
        flat[ends - lengths] = self.begin
        flat[ends - 1] = self.end
        return replace(found, flat=flat, lengths=lengths)


@torch.no_grad()
def embed_unseen(networks: Sequence[Network], train: SequenceDataset) -> None:
    """Set the embeddings of symbols that the training sequences do not contain to the mean of the others."""
    tables = [network.embed.symbol.weight for network in networks if network.embed.symbol is not None]
    if not tables:
        return
    seen = np.unique(np.concatenate([np.unique(train.sequence(row)) for row in range(len(train))]))
    for weight in tables:
        unseen = torch.ones(len(weight), dtype=torch.bool, device=weight.device)
        unseen[torch.from_numpy(seen.astype(np.int64)).to(weight.device)] = False
        weight[unseen] = weight[~unseen].mean(0)
