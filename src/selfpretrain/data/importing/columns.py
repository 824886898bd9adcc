"""Wide tables, one row per sequence: finds the columns of sequences and labels, and reads them."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError, join_names
from ...system.events import report_progress
from ..moments import BYTES
from ..sequences import SequenceKind, Sequences
from ..splits import SPLIT_NAMES, UNLABELLED
from . import cells
from .cells import NUMPY, Ragged, Where, is_bytes, is_number, is_text, is_whole, read_cells, read_numbers
from .divisions import visible_files
from .numerals import (
    MEASURED,
    NUMBER,
    SPACED,
    WHOLE,
    Sign,
    decimal_sign,
    has_amounts,
    has_commas,
    has_doubtful_points,
    odd_number,
    share_of,
)
from .options import ImportOptions
from .plan import ImportPlan
from .recordings import SOUNDS
from .source import TEXTS, check_column, check_memory, halved, is_list, joined, notes_on, word_lists, words
from .tables import Table

LABELS = ("label", "labels", "class", "target", "y", "category")
"""Column names that are taken for the label by default."""
NUMBERING = ("", "id", "index", "idx", "unnamed: 0", "row")  # names of columns that only number the rows
DATED = ("timestamp", "datetime", "date")  # names of columns that date the rows
MOMENTS = ("time", "timestamp", "datetime", "date", "day", "hour", "step", "frame", "position")
"""Column names that suggest a long table, in which they repeat."""
GROUPS = ("group", "patient", "subject", "person", "speaker", "user", "machine", "site", "recording", "movie")
"""Column names that suggest groups."""
LISTED = rf"({NUMPY}{NUMBER}\)|{NUMBER}|(?i:nan|null|none|na|true|false|[-+]?inf))"
SEVERAL = rf"[\[(]?\s*{LISTED}([,;\s]+{LISTED})+\s*[\])]?"  # regular expression of two or more numbers
TIME = r"\d?\d:\d\d(:\d\d([.,]\d+)?)? ?(Z|[-+]\d\d:?\d\d|[aApP][mM])?"
DAY = r"(\d{4}-\d\d-\d\d|\d{4}[/.]\d\d?[/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{4})"
DATE = rf"{DAY}([T ]{TIME})?"  # regular expression of a date, perhaps with a time
MEDIA = rf"(?i:.+({'|'.join(map(re.escape, (*SOUNDS, *TEXTS)))}))"
"""Regular expression of the name of a recording or text."""
FORMS = {
    "text": "as bytes of UTF-8",
    "lists": "lists",
    "written": "numbers in a cell",
    "wide": "one per position",
}
"""How a table stores sequences, and how that is shown to the user."""
Describe = Callable[[pa.RecordBatch, Where], dict[str, pa.Array]]
"""Returns labels, groups and splits of a batch of rows, by role."""


@dataclass(frozen=True)
class TableLayout:
    """How the sequences of a table with one row per sequence are stored."""

    form: str  # one of ``FORMS``
    sequence: list[str]  # columns
    signal: SequenceKind  # tokens or values
    decimal: Sign = "."

    @property
    def kind(self) -> SequenceKind:
        """Return the kind of the sequences."""
        return "text" if self.form == "text" else self.signal

    def sequences(self, batch: pa.RecordBatch, where: Where) -> Ragged:
        """Return the sequences of some rows."""
        if self.form == "text":
            return cells.read_text(batch[self.sequence[0]], self.sequence[0])
        if self.form == "wide":
            numbers = [read_numbers(batch[column], where, column, self.decimal) for column in self.sequence]
            flat = np.stack(numbers, axis=1).reshape(-1)
            lengths = np.full(batch.num_rows, len(numbers))
        else:
            channels = [read_cells(batch[column], where, column) for column in self.sequence]
            flat, lengths = cells.stack_channels(channels, where, self.sequence)
        return (flat[:, None] if self.signal == "values" and flat.ndim == 1 else flat), lengths

    def spot(self, position: int, channel: int) -> str:
        """Return how messages name a position: the column of a wide table, else column and position."""
        if self.form == "wide":
            return f"column {self.sequence[position]!r}"
        return f"column {self.sequence[min(channel, len(self.sequence) - 1)]!r}, position {position}"


def read_rows(
    table: Table,
    layout: TableLayout,
    others: Sequence[str] = (),
    describe: Describe | None = None,
    wrong: dict[int, str] | None = None,
) -> Sequences:
    """Return the sequences of a table, and what describes them.

    Args:
        others: columns that ``describe`` needs.
        wrong: records the rows that cannot be read, and why; None: the first one is an error.
    """

    def read(begin: int, end: int) -> Sequences:
        def where(row: int) -> str:
            return table.name(begin + row)

        rows = batch.slice(begin - first, end - begin)
        flat, lengths = layout.sequences(rows, where)
        columns = describe(rows, where) if describe else {}
        return Sequences(layout.kind, flat, lengths, np.arange(begin, end), columns=columns)

    parts: list[Sequences] = []
    first = size = 0
    for batch in table.batches([*layout.sequence, *others]):
        for part in halved(read, first, first + batch.num_rows, wrong):
            size += part.flat.nbytes
            check_memory(size, table.path.name)
            parts.append(part)
        first += batch.num_rows
        report_progress(f"read {table.path.name}", first, table.n_rows)
    named = {row: why.removeprefix(table.name(row)).lstrip(",: ") for row, why in (wrong or {}).items()}
    return replace(joined(parts, layout.kind, table.name), wrong=named)


def read_table(table: Table, options: ImportOptions) -> ImportPlan:
    """Infer how the sequences of a table are stored, and read them.

    Raises:
        DataError: if that is ambiguous; the message says which flag resolves it.
    """
    options = with_label(table, options)
    labels = label_columns(table, options)
    roles = {role: column for role, column in options.roles.items() if role != "label"}
    described = [*labels, *roles.values()]
    others = [column for column in table.columns if column not in described]
    layout, sample = _infer(table, options, labels, others)
    changed: dict[str, str] = {}
    class_names = table.class_names(options.label)

    def describe(batch: pa.RecordBatch, where: Where) -> dict[str, pa.Array]:
        column = batch[labels[0]]
        if len(labels) > 1:
            numbers = [read_numbers(batch[name], where, name) for name in labels]
            found = cells.labels_of_table(np.stack(numbers, axis=1).astype(np.float64), labels, where)
        elif is_list(column.type):
            found = word_lists(column, changed)
            found = cells.named_lists(found, class_names, where) if class_names else found
        else:
            found = cells.label_words(column, options, layout.decimal, where, changed, class_names)
        named = {role: words(batch[column], changed, column) for role, column in roles.items()}
        return {"label": found} | named

    found = read_rows(table, layout, described, describe)
    unused = [column for column in others if column not in layout.sequence]
    ends = f"{layout.sequence[0]} ... {layout.sequence[-1]}"
    shown = ", ".join(layout.sequence) if len(layout.sequence) < 5 else ends
    facts = facts_of(table, f"{shown} ({FORMS[layout.form]})", options)
    facts |= {"not used": join_names(unused) or "nothing"}
    hints = _doubts_on_header(table) + _hints(unused, sample, options, layout)
    notes = [*hints, *notes_on(changed), *table.notes()]
    stored = {"kind": layout.signal} | {key: vars(layout)[key] for key in ("form", "sequence", "decimal")}
    vocab = BYTES if found.kind == "text" else 0
    classes = tuple(labels) if len(labels) > 1 else ()
    return ImportPlan(
        found, options, table.name, layout.spot, vocab, facts, notes, stored,
        classes=classes, unused=tuple(unused),
    )  # fmt: skip


def _infer(
    table: Table, options: ImportOptions, labels: list[str], others: list[str]
) -> tuple[TableLayout, dict[str, pa.Array]]:
    """Return how the sequences of a table are stored, and the first rows by which that is judged."""
    index = table.index()
    guessed = [column for column in others if column not in index]
    candidates = guessed
    if options.sequence:
        described = [column for column in table.columns if column not in others]
        candidates = matching(options.sequence, table.columns, described)
    batch = next(table.batches([*candidates, *labels]), None) if candidates else None
    if batch is None or not batch.num_rows:
        besides = join_names(column for column in table.columns if column not in others)
        raise DataError(f"{table.path.name} has no rows, or no column besides {besides}")
    sample = {column: batch[column] for column in candidates}
    decimal = decimal_sign(batch.columns, table.separator)
    if decimal != ".":  # a cell with a comma is one number then, not two in a list
        sample = {
            name: pc.replace_substring(column, ",", "") if has_commas(column) else column
            for name, column in sample.items()
        }
    form, sequence = _form(sample, options, candidates)
    odd = [c for c in candidates if not any(test(sample[c]) for test in _TESTS.values())]
    if odd and (options.sequence or not sequence) and not pa.types.is_null(sample[odd[0]].type):
        raise DataError(f"column {odd[0]!r} holds {sample[odd[0]].type}; {cells.READ}")
    if not sequence:
        said = "give --sequence or, if rows are positions, --id, --time and --value"
        raise DataError(f"no column looks like sequences; {said}; columns: {join_names(others)}")
    if form == "written" and decimal != "." and has_commas(batch[sequence[0]]):
        raise DataError(
            f"column {sequence[0]!r} holds numbers with a decimal comma, one per cell; name several columns, "
            f"or write lists with spaces"
        )
    refuse_labels(sequence, labels)
    return TableLayout(form, sequence, _signal(sample, form, sequence, options, table.name), decimal), sample


def _hints(
    unused: list[str], sample: dict[str, pa.Array], options: ImportOptions, layout: TableLayout
) -> list[str]:
    """Return hints on columns whose names suggest a use that the options leave out."""
    hints = []
    form = layout.form
    known = [*NUMBERING]
    near = [column for column in unused if column.lower().removesuffix("_id") in GROUPS]
    if near and not options.group:
        hints.append(f"column {near[0]!r} is not used; --group {near[0]} keeps what belongs together")
        known.append(near[0].lower())
    if "split" in unused:
        hints.append("column 'split' is not used; --split split keeps that division")
        known.append("split")
    others = [column for column in unused if column in sample and column.lower() not in known]
    left = [column for column in others if _is_numeric(sample[column])]
    if form == "wide" and left:
        said = "seem to number or to describe the rows, and are not used"
        hints.append(f"numbers that {said}: {join_names(left)}; --sequence takes all that it names")
    if form == "wide" and has_doubtful_points([sample[column] for column in layout.sequence]):
        hints.append("numbers such as 1.120 have a decimal point; if it separates thousands, remove it")
    odd = [c for c in others if c not in left and _odd(sample[c])]
    if odd and not options.sequence:
        hints.append(f"column {odd[0]!r} is not used: it holds {_odd(sample[odd[0]])}")
    if form == "text" and not options.sequence and len(left) > 2:
        hints.append(f"the sequences are text; columns of numbers are not used: {join_names(left, 5)}")
    least = _size(sample[layout.sequence[0]]) if form == "text" else len(layout.sequence)
    texts = [c for c in others if c.strip().lower() in (*LABELS, *GROUPS) and is_text(sample[c].type)]
    if longer := [c for c in texts if not options.sequence and _size(sample[c]) > least]:
        hints.append(f"column {longer[0]!r} is text and is not used; --sequence {longer[0]} takes it")
    repeats = [c for c in sample if c.lower() in NUMBERING and _repeats(sample[c])]
    if form == "wide":
        repeats += [c for c in sample if c.lower() in MOMENTS and _counts_within(c, sample)]
    if repeats:
        advice = "if rows are positions of sequences, give --id, --time and --value"
        hints.append(f"column {repeats[0]!r} repeats; {advice}")
    return hints


def _repeats(array: pa.Array) -> bool:
    known = words(array).drop_null()
    return len(known.unique()) < len(known)


def _counts_within(moment: str, sample: dict[str, pa.Array]) -> bool:
    """Return whether a column repeats, and counts positions within the runs of equal values of another."""
    times = sample[moment].to_pylist()
    if not _repeats(sample[moment]):
        return False
    for column in (c for c in sample if c != moment):
        ids = sample[column].to_pylist()
        in_runs = len(list(itertools.groupby(ids))) == len(set(ids)) < len(ids)
        if in_runs and len({*zip(ids, times, strict=True)}) == len(ids):
            return True
    return False


def _doubts_on_header(table: Table) -> list[str]:
    """Return a hint if the names of a text table may be a row of data: numbers that do not count columns."""
    number = re.compile(NUMBER)
    if not table.separator or not all(number.fullmatch(name.strip()) for name in table.columns):
        return []
    if all(name.strip().isdigit() for name in table.columns):  # as pandas names the columns of an array
        return []
    odd = next(name for name in table.columns if not name.strip().isdigit())
    return [f"all names of columns are numbers, such as {odd!r}; --no-header takes the first row for data"]


def facts_of(table: Table, sequence: str, options: ImportOptions) -> dict[str, str]:
    """Return what was found in a table, as names and descriptions."""
    facts = {"file": f"{table.path.name} ({table.how})", "sequence": sequence, "label": options.label}
    return facts | {"group": options.group or "none", "split": options.split or "made"}


def with_label(table: Table, options: ImportOptions) -> ImportOptions:
    """Return the options with the label column filled in, after checking that all columns exist."""
    if table.has_split and not options.split:
        options = replace(options, split="split")
    for role, column in options.roles.items():
        if role != "label":
            check_column(column, table.columns)
    if options.label:
        label_columns(table, options)
        return options
    found = [c for c in table.columns if c.lower() in LABELS]
    if not options.header and "c1" in table.columns:
        found = ["c1"]  # the format of the UCR archive
    if len(found) != 1:
        said = f"which column holds the labels? Give --label; columns: {join_names(table.columns)}"
        inside = (file.relative_to(table.path).parent.parts for file in visible_files(table.path))
        if {name.lower() for names in inside for name in names}.difference(SPLIT_NAMES, UNLABELLED):
            said += "; folders name the classes of recordings and texts alone: write these tables into one, "
            said += "with columns for the file (--id) and the folder (--label)"
        raise DataError(said)
    return replace(options, label=found[0])


def label_columns(table: Table, options: ImportOptions) -> list[str]:
    """Return the label column; for sets possibly several, each a 0/1 indicator of one label."""
    if options.target == "sets":
        return matching(options.label, table.columns)
    return [check_column(options.label, table.columns)]


def refuse_labels(sequence: Sequence[str], labels: Sequence[str]) -> None:
    """Check that no column of the sequences is a label.

    Raises:
        DataError: naming the first that is.
    """
    if told := [column for column in sequence if column in labels]:
        raise DataError(f"column {told[0]!r} is the label; sequences that hold it would tell the answer")


def matching(pattern: str, columns: Sequence[str], besides: Sequence[str] = ()) -> list[str]:
    """Return the columns named in a comma-separated list with optional ``*``, in the order of the table.

    Args:
        besides: columns that have another use, for which ``*`` does not stand.

    Raises:
        DataError: if one does not exist.
    """
    if pattern in columns:
        return [pattern]
    found = set()
    for item in (part.strip() for part in pattern.split(",")):
        hits = {c for c in columns if fnmatchcase(c, item)}.difference(besides)
        hits = hits if "*" in item else {check_column(item, columns)}
        if not hits:
            raise DataError(f"no column matches {item!r}; columns: {join_names(columns)}")
        found |= hits
    return [c for c in columns if c in found]


def _form(
    sample: dict[str, pa.Array], options: ImportOptions, candidates: list[str]
) -> tuple[str, list[str]]:
    """Return how sequences are stored (text, lists, written or wide), and the columns that hold them."""
    named = bool(options.sequence)
    columns = {name: [c for c in candidates if test(sample[c])] for name, test in _TESTS.items()}
    if named and options.kind == "text":
        return "text", _one_text(candidates)
    one_text = len(candidates) == 1 and is_text(sample[candidates[0]].type)
    if named and one_text and options.kind in ("tokens", "values"):
        return "written", candidates
    for form in ("lists", "written"):
        held = columns[form]
        if (
            form == "written"
            and not named
            and any(_is_content(c, sample[c]) for c in set(columns["text"]).difference(held))
        ):
            held = [c for c in held if share_of(sample[c], SEVERAL) == 1]  # beside a text, no cell is doubted
        if not held or (form == "written" and options.kind == "text"):
            continue
        if odd := [c for c in held if has_amounts(sample[c])]:
            raise DataError(f"column {odd[0]!r} separates thousands; write 1120.50 for 1.120,50 or 1,120.50")
        if not named and len(columns["numbers"]) > 1 and share_of(sample[held[0]], f"{SPACED}|{WHOLE}") == 1:
            said = "may hold numbers with spaces between thousands; write 1120 for 1 120"
            raise DataError(f"column {held[0]!r} {said}, or name it in --sequence if these are lists")
        if named and (odd := [c for c in candidates if c not in held]):
            raise DataError(
                f"column {held[0]!r} holds lists, but {odd[0]!r} does not; give --sequence one kind"
            )
        if len(held) > 1 and not named:
            raise DataError(f"several columns hold lists; give --sequence: {', '.join(held)}")
        return form, held
    numeric = columns["numbers"] if named else _positions(columns["numbers"], sample)
    texts = columns["text"] if named else _contents(columns["text"], sample, numeric)
    longest = max(texts, key=lambda c: _size(sample[c]), default="")
    if longest and (named or len(numeric) < max(_size(sample[longest]), 2)):
        # Text wins over fewer numeric columns than it has letters.
        chosen = _one_text(candidates) if named else [longest]
        if options.kind != "text" and (numbers := _odd(sample[chosen[0]])):
            raise DataError(f"column {chosen[0]!r} holds {numbers}; --kind text takes them for text")
        return "text", chosen
    return "wide", numeric if len(numeric) > 1 else []


def _positions(numeric: list[str], sample: dict[str, pa.Array]) -> list[str]:
    """Return the columns of numbers without those that number, date, label, group or divide the rows.

    By these a row, its person or its class is known again, whatever the sequences say.
    """
    # x, y and z may be positions.
    kept = [c for c in numeric if c.strip().lower() == "y" or not _describes_rows(c)]
    kept = [c for c in kept if c.strip().lower() not in DATED]
    stems = Counter(c.rstrip("0123456789") for c in kept)  # t0, t1, ... are positions
    counting = [c for c in kept if stems[c.rstrip("0123456789")] == 1 and _counts_rows(sample[c])]
    counts = len(counting) == 1 and len(kept) > 2  # several: a ramp
    return [c for c in kept if c not in counting] if counts else kept


def _contents(texts: list[str], sample: dict[str, pa.Array], numeric: list[str]) -> list[str]:
    """Return the columns of text without dates and what describes the rows; this only if it is all."""
    kept = [column for column in texts if _is_content(column, sample[column])]
    dated = len(texts) > 1 and any(share_of(sample[column], DATE) == 1 for column in texts)
    return kept if kept or numeric or dated else texts


def _is_content(column: str, array: pa.Array) -> bool:
    """Return whether a text may be the sequences: no dates, and nothing that describes rows but media."""
    return not (_describes_rows(column) or share_of(array, DATE) == 1) or share_of(array, MEDIA) == 1


def _odd(array: pa.Array) -> str:
    """Return what is odd about numbers in a column of text, or "" if it holds other text, dates or files."""
    return "" if share_of(array, f"{DATE}|{MEDIA}") > 0.5 else odd_number(array)


def _describes_rows(column: str) -> bool:
    """Return whether the name of a column says that it numbers, labels, groups or divides the rows."""
    name = column.strip().lower()
    return name in (*NUMBERING, *LABELS, *GROUPS, "split") or name.endswith("_id")


def _counts_rows(array: pa.Array) -> bool:
    """Return whether numbers rise by one from row to row, in ten rows or more."""
    if pa.types.is_boolean(array.type):
        return False
    try:
        numbers = (words(array) if is_text(array.type) else array).cast(pa.float64())
    except pa.ArrowInvalid:  # words among the numbers, or numbers that are too large
        return False
    steps = np.diff(numbers.to_numpy(zero_copy_only=False))
    return len(steps) > 8 and bool((steps == 1).all())


def _one_text(named: list[str]) -> list[str]:
    if len(named) > 1:
        raise DataError(f"text is one column, not {join_names(named)}; name one, or join them in the file")
    return named


def _is_numeric(array: pa.Array) -> bool:
    """Return whether most cells are numbers; a word among them is then reported as an error."""
    if not is_text(array.type):
        return is_number(array.type)
    known = words(array).drop_null()
    return len(known) == 0 or share_of(cells.flags(known), MEASURED) > 0.5


_TESTS = {
    "lists": lambda array: is_list(array.type),
    "written": lambda array: share_of(array, SEVERAL) > 0.5,  # others are single numbers, or an error
    "numbers": _is_numeric,
    "text": lambda array: (is_text(array.type) or is_bytes(array.type)) and not _is_numeric(array),
}


def _signal(
    sample: dict[str, pa.Array], form: str, sequence: list[str], options: ImportOptions, where: Where
) -> SequenceKind:
    """Return "tokens" for whole numbers from 0 in one column and for text, else "values"."""
    if form == "text":
        try:
            sample[sequence[0]].cast(pa.large_string())
        except pa.ArrowInvalid as error:
            said = f"column {sequence[0]!r} holds bytes that are no text in UTF-8; write lists of numbers"
            if options.kind != "text":
                raise DataError(f"{said}, or --kind text takes every byte for a token") from error
        return "tokens"
    if options.kind == "text":
        raise DataError(f"column {sequence[0]!r} holds numbers, not text; use --kind tokens or --kind values")
    if options.kind != "auto":
        return options.kind
    if form == "wide" or len(sequence) > 1:
        return "values"
    try:
        flat = read_cells(sample[sequence[0]], where, sequence[0])[0]
    except DataError as error:
        advice = "; --kind text takes all cells for text" if form == "written" else ""
        raise DataError(f"{error}{advice}") from error
    if form == "lists" and (flat.ndim > 1 or not is_whole(sample[sequence[0]].type.value_type)):
        return "values"
    if options.missing == "drop" and flat.dtype.kind == "f":  # rows that are left out do not decide
        known = flat[~np.isnan(flat)]
        flat = known if len(known) else flat
    return "tokens" if bool(((flat >= 0) & (flat % 1 == 0)).all()) else "values"


def _size(array: pa.Array) -> float:
    return pc.mean(pc.binary_length(array)).as_py() or 0.0
