"""Conversion of X (arrays, lists, strings, columns of tables) to sequences, and the alphabet of tokens.

Strings and bytes are tokens: their UTF-8 bytes. Numbers of any type are real values, unless the signal is set
to "tokens". NaN at the end of a row is padding; NaN elsewhere is filled in from its neighbours.

An alphabet knows symbols besides those of the data: an unknown symbol, and signs for begin and end. A sign at
the end gives a causal network a position that has seen the whole sequence, and a sign at both ends shows
n-grams where a sequence begins and ends. The unknown symbol stands for every symbol that training did not
contain.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from ..data.dataset import SequenceDataset
from ..data.importing.arrays import many_channels
from ..data.importing.source import SURROGATE, interpolate, known_lengths, positions
from ..data.offsets import BLUR, blurred, centred, offsets_of
from ..data.spec import Signal, Tokens, Values
from ..errors import DataError
from ..training.model import Network

Kind = Literal["auto", "text", "tokens", "values"]
BYTES = 256
MAX_TOKENS = 1 << 24
NAMED = 3
"""Most rows named in an error message."""
NOTHING = "there is no sequence"
NO_NUMBER = "it holds something that is no number"
HALF = "it holds half of a letter of UTF-16 (a lone surrogate); write U+FFFD instead, or the whole letter"
STX = 2
"""Byte that begins a text; "start of text" in ASCII, which written language does not contain."""
ETX = 3
"""Byte that ends a text."""
SIGNS = 2
"""Positions that signs add to a sequence."""


@dataclass(frozen=True)
class Sequences:
    """Usable sequences, concatenated, and for every other row why it cannot be used."""

    kind: Literal["text", "tokens", "values"]
    flat: np.ndarray  # (T,) symbols or (T, C) values
    lengths: np.ndarray  # (n,) of the usable sequences
    rows: np.ndarray  # (n,) their row numbers in X
    wrong: dict[int, str]  # row number -> why it cannot be used
    cut: int = 0  # number of sequences that were cut to the maximum length
    offsets: tuple[float, ...] = ()  # what was subtracted from the values of every channel
    blurred: int = 0  # number of sequences that rounding to float32 blurs all the same

    @property
    def given(self) -> int:
        """Number of rows of X, usable or not."""
        return len(self.rows) + len(self.wrong)

    def take(self, keep: np.ndarray, why: str = "") -> "Sequences":
        """Keep the sequences where ``keep`` (n,) is true, and record ``why`` for the others."""
        wrong = dict.fromkeys(self.rows[~keep].tolist(), why)
        flat = self.flat[np.repeat(keep, self.lengths)]
        return replace(
            self, flat=flat, lengths=self.lengths[keep], rows=self.rows[keep], wrong=self.wrong | wrong
        )

    def checked(self, offsets: tuple[float, ...] | None = None) -> "Sequences":
        """Drop unusable rows, cut padding, fill in missing values, and convert to int32 or float32.

        Args:
            offsets: what to subtract from values before they become float32; None: what they need.
        """
        if self.kind == "text":
            return self.take(self.lengths > 0, NOTHING)
        if self.kind == "tokens":
            flat = self.flat
            with np.errstate(invalid="ignore"):
                bad = ~((flat >= 0) & (flat < MAX_TOKENS) & (flat % 1 == 0))
            why = f"tokens are whole numbers from 0 to {MAX_TOKENS - 1:,}"
            found = self.take(~_owners(bad, self.lengths), why)
            found = replace(found, flat=found.flat.astype(np.int32))
            return found.take(found.lengths > 0, NOTHING)
        offsets = offsets_of(self.flat) if offsets is None else offsets
        flat = centred(self.flat, offsets)
        with np.errstate(over="ignore"):
            single = flat.astype(np.float32)
        found = replace(self, flat=single, offsets=offsets, blurred=blurred(flat, self.lengths))
        infinite = _owners(np.isinf(found.flat).any(1), found.lengths)
        found = found.take(~infinite, "a value is infinite, or beyond float32")._without_padding()
        found = found.take(found.lengths > 0, NOTHING)
        return replace(found, flat=interpolate(found.flat, found.lengths))

    def _without_padding(self) -> "Sequences":
        """Return the sequences without positions of NaN at their ends."""
        known = ~np.isnan(self.flat).all(1)
        if known.all():
            return self
        lengths = known_lengths(known, self.lengths)
        owner, place = positions(self.lengths)
        return replace(self, flat=self.flat[place < lengths[owner]], lengths=lengths)

    def sound(self) -> "Sequences":
        """Return self if every row can be used.

        Raises:
            DataError: naming the first rows that cannot.
        """
        if self.wrong:
            raise DataError(complaint(self.wrong, self.given))
        return self

    def doubts(self) -> list[str]:
        """Return notes on values of training that may not be what was meant."""
        if self.kind != "values" or not len(self.rows):
            return []
        channels, longest = self.flat.shape[1], int(self.lengths.max())
        notes = [many_channels(channels, longest)] if channels > longest else []
        return notes + [f"{self.blurred:,} of {self.given:,} sequences {BLUR}"] * bool(self.blurred)

    def fitting(self, signal: Signal, length: int, longer: Literal["cut", "refuse"]) -> "Sequences":
        """Keep the sequences that fit a network's signal; cut or reject those beyond its maximum length."""
        kept = self._of(signal)
        too_long = kept.lengths > length
        if longer == "refuse":
            return kept.take(
                ~too_long, f"it is longer than the {length:,} positions of training; longer='cut' cuts it"
            )
        inside = positions(kept.lengths)[1] < length
        lengths = kept.lengths.clip(max=length)
        return replace(kept, flat=kept.flat[inside], lengths=lengths, cut=int(too_long.sum()))

    def _of(self, signal: Signal) -> "Sequences":
        if isinstance(signal, Tokens):
            if self.kind == "values":
                raise DataError("the model takes symbols, these are values; give text, or signal='tokens'")
            unknown = _owners(self.flat >= signal.vocab, self.lengths)
            return self.take(~unknown, f"it holds a symbol beyond the {signal.vocab:,} that are known")
        if self.kind != "values":
            raise DataError(f"the model takes values of {signal.channels} channels, these are {self.kind}")
        if len(self.rows) and self.flat.shape[1] != signal.channels:
            why = f"it has {self.flat.shape[1]} channels, the model takes {signal.channels}"
            return self.take(np.zeros(len(self.rows), dtype=bool), why)
        return self

    def examples(self, signal: Signal, targets: np.ndarray) -> SequenceDataset:
        """Return the sequences as a dataset; channels that are NaN throughout a row get the training mean."""
        if not isinstance(signal, Values):
            return self.dataset(targets)
        centre = np.array(signal.centre, dtype=np.float32)
        flat = np.where(np.isnan(self.flat), centre, self.flat).astype(np.float32)
        return replace(self, flat=flat).dataset(targets)

    def dataset(self, targets: np.ndarray) -> SequenceDataset:
        """Return the sequences as a dataset, as they are."""
        lengths = torch.from_numpy(self.lengths.astype(np.int64))
        starts = lengths.cumsum(0) - lengths
        flat = torch.from_numpy(self.flat)
        return SequenceDataset(flat, starts[None], lengths[None], torch.from_numpy(targets))


def complaint(wrong: dict[int, str], of: int, name: Callable[[int], str] = "row {}".format) -> str:
    """Return a one-line error message about unusable rows, which messages call ``name(row)``."""
    named = "; ".join(f"{name(row)}: {why}" for row, why in sorted(wrong.items())[:NAMED])
    more = f"; and {len(wrong) - NAMED:,} more" if len(wrong) > NAMED else ""
    return f"{len(wrong):,} of {of:,} sequences cannot be used: {named}{more}"


def joined(first: Sequences, second: Sequences) -> Sequences:
    """Concatenate two sets of sequences; row numbers of the second follow those of the first."""
    if first.kind != second.kind or first.flat.shape[1:] != second.flat.shape[1:]:
        raise DataError("X_unlabelled holds other sequences than X: another kind, or other channels")
    rows = np.concatenate([first.rows, second.rows + first.given])
    wrong = first.wrong | {row + first.given: why for row, why in second.wrong.items()}
    flat = np.concatenate([first.flat, second.flat])
    lengths = np.concatenate([first.lengths, second.lengths])
    return replace(first, flat=flat, lengths=lengths, rows=rows, wrong=wrong)


def read(X: Any, kind: Kind = "auto", offsets: tuple[float, ...] | None = None) -> Sequences:
    """Read sequences from a list (strings, bytes, arrays of unequal lengths) or a 2-D or 3-D array.

    Args:
        offsets: see ``Sequences.checked``.

    Raises:
        DataError: if there is none.
    """
    rows = X if isinstance(X, np.ndarray) else list(X)
    if not len(rows):
        raise DataError("X holds no sequence")
    if isinstance(rows, np.ndarray):
        return _dense(rows, kind).checked(offsets)
    if kind == "text" or (kind == "auto" and any(isinstance(row, str | bytes) for row in rows)):
        return _text(rows)
    return _ragged(rows, "tokens" if kind == "tokens" else "values").checked(offsets)


def _text(rows: list[Any]) -> Sequences:
    coded = [row.encode(errors="surrogatepass") if isinstance(row, str) else row for row in rows]
    wrong = {i: "it is no text" for i, row in enumerate(coded) if not isinstance(row, bytes | None)}
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
        return Sequences("tokens", x.reshape(-1), lengths, rows, {})
    flat = x.reshape(n * length, -1).astype(np.float64)
    return Sequences("values", flat, lengths, rows, {})


def _owners(marked: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return whether any position of each sequence (n,) is marked (T,)."""
    found = np.zeros(len(lengths), dtype=bool)
    found[np.repeat(np.arange(len(lengths)), lengths)[marked]] = True
    return found


def _ranges(numbers: np.ndarray) -> tuple[tuple[int, int], ...]:
    """Return the ranges (first, last + 1) of sorted distinct numbers."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers.astype(np.int64)) > 1) + 1)
    return tuple((int(run[0]), int(run[-1]) + 1) for run in runs if len(run))


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
        """Number of positions that signs add to a sequence: 0 or 2."""
        return 0 if self.begin is None else SIGNS

    def fit(self, found: Sequences) -> "Alphabet":
        """Return the alphabet of some shifted sequences, whose greatest symbol ends it."""
        fitted = replace(self, seen=_ranges(np.unique(found.flat)))
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
        if not (rows := _owners(unseen, found.lengths)).any():
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
        """Return shifted sequences with symbols that training did not contain replaced by the unknown one."""
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
def embed_unseen(network: Network, train: SequenceDataset) -> None:
    """Set the embeddings of symbols that the training sequences do not contain to the mean of the others."""
    if network.embed.symbol is None:
        return
    weight = network.embed.symbol.weight
    seen = np.unique(np.concatenate([np.unique(train.sequence(row)) for row in range(len(train))]))
    unseen = torch.ones(len(weight), dtype=torch.bool, device=weight.device)
    unseen[torch.from_numpy(seen.astype(np.int64)).to(weight.device)] = False
    weight[unseen] = weight[~unseen].mean(0)
