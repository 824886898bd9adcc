"""Long tables: one row per position, with columns for sequence id, time and measured values."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError
from ...system.events import report_progress
from ..sequences import SequenceKind, Sequences, T
from .cells import Where, is_text, label_words, read_numbers
from .columns import facts_of, matching, refuse_labels, with_label
from .label_columns import lookalikes
from .numerals import MEASURED, Sign, decimal_sign, has_commas, odd_number, share_of, with_points
from .options import ImportOptions
from .plan import ImportPlan
from .source import check_column, check_memory, first_true, halved, lists_of, notes_on, words
from .tables import PartPlaces, Table


def share_events(train: ImportPlan, test: ImportPlan) -> tuple[ImportPlan, ImportPlan]:
    """Return two tables whose events are numbered alike, by their names.

    Raises:
        DataError: if one of them has names, the other numbers.
    """
    known = [(plan.layout or {}).get("events", []) for plan in (train, test)]
    if bool(known[0]) != bool(known[1]):
        raise DataError("the events of one table are words, those of the other numbers; they must be alike")
    events = sorted({*known[0], *known[1]})

    def renumbered(plan: ImportPlan, own: list[str]) -> ImportPlan:
        places = np.searchsorted(events, own).astype(np.int32)
        found = replace(plan.sequences, flat=places[plan.sequences.flat])
        layout = {**(plan.layout or {}), "events": events}
        return replace(plan, sequences=found, vocab=len(events), layout=layout)

    return (renumbered(train, known[0]), renumbered(test, known[1])) if events else (train, test)


def read_long(
    table: Table,
    options: ImportOptions,
    labelled: bool = True,
    events: list[str] | None = None,
    values: list[str] | None = None,
) -> ImportPlan:
    """Read and sort a long table; the columns that are used must fit in memory.

    Args:
        labelled: whether labels are read; else the options need no label.
        events: names of events by number; all other events get the next number. []: the values are numbers;
            None: the events of the table are numbered.
        values: columns of the channels, in their order; None: those of the options, in that of the table.

    Raises:
        DataError: if a column is missing or cannot be used.
    """
    if not (options.id and options.time and (values or options.value)):
        raise DataError("a long table needs --id, --time and --value")
    if labelled:
        options = with_label(table, options)
    described = [options.id, options.time, *options.roles.values()]
    values = values or matching(options.value, table.columns, described)
    if labelled:
        refuse_labels(values, [options.label])
    for column in (options.id, options.time, *values, *([options.label] if labelled else [])):
        check_column(column, table.columns)
    changed: dict[str, str] = {}
    rows = _read(table, options, values, changed)
    shared = _in_several_files(rows["id"], table) if labelled else []
    order = pc.sort_indices(rows, [("id", "ascending"), ("time", "ascending")])
    rows = rows.take(order)
    cells = {column: rows[f"value {column}"].combine_chunks() for column in values}

    def where(i: int) -> str:
        return table.name(order[i].as_py())

    starts, wrong = _starts(rows, where)
    if labelled and wrong:
        raise DataError(min(wrong.items())[1])
    columns = {role: rows[role].combine_chunks() for role in options.roles}
    decimal = decimal_sign([*cells.values(), *columns.values()], table.separator)
    if "label" in columns:
        names = table.class_names(options.label)
        columns["label"] = label_words(columns["label"], options, decimal, where, changed, names)
    ids = rows["id"].take(pa.array(starts)).to_pylist()
    lengths = np.diff(starts, append=len(rows))
    unreadable: dict[int, str] = {}
    parts = _parts(
        cells,
        starts,
        lambda some, at: _flat(some, lambda i: where(at + i), options, events, decimal),
        None if labelled else unreadable,
    )
    kind, events = parts[0][1:]
    wrong |= unreadable
    kept = np.setdiff1d(np.arange(len(ids)), list(wrong))
    owner = np.repeat(np.arange(len(ids)), lengths)
    is_read, is_kept = (~np.isin(owner, list(each)) for each in (unreadable, wrong))
    flat = np.concatenate([part for part, *_ in parts])[is_kept[is_read]] if wrong else parts[0][0]
    for role, each in columns.items():
        of_positions = role == "label" and options.target == "positions"
        columns[role] = lists_of(each, lengths) if of_positions else _constant(role, each, starts, ids)
    unseen = _unseen(flat, np.flatnonzero(is_kept), owner, cells[values[0]], len(events)) if events else {}
    shared += lookalikes(ids, "ids") if labelled else []
    doubts = _doubts(cells) if labelled and kind == "values" else []
    layout = {"kind": kind, "form": "long", "sequence": values, "id": options.id, "time": options.time}
    return ImportPlan(
        Sequences(kind, flat, lengths[kept], kept, wrong, columns),
        options,
        lambda row: f"id {ids[row]!r}",
        lambda position, channel: f"column {values[min(channel, len(values) - 1)]!r}, position {position}",
        len(events),
        facts_of(table, f"{', '.join(values)} of each {options.id}, by {options.time}", options),
        [*doubts, *shared, *notes_on(changed), *table.notes()],
        layout | ({"events": events} if events else {}),
        {options.id: ids},
        unseen,
    )


def _unseen(
    flat: np.ndarray, rows: np.ndarray, owner: np.ndarray, names: pa.Array, known: int
) -> dict[int, str]:
    """Return the first event of every sequence that is none of the known ones, by the sequence's number.

    Args:
        flat: events, by number.
        rows: their rows.
        owner, names: of every row, the number of its sequence and the name of its event.
    """
    at = rows[flat == known]
    numbers, first = np.unique(owner[at], return_index=True)
    return dict(zip(numbers.tolist(), words(names.take(pa.array(at[first]))).to_pylist(), strict=True))


def _starts(rows: pa.Table, where: Where) -> tuple[np.ndarray, dict[int, str]]:
    """Return the first rows (n,) of sequences, of rows sorted by id and time; and which have a time twice."""
    ids = rows["id"].combine_chunks()
    times = rows["time"].combine_chunks()
    is_start = np.diff(ids.dictionary_encode().indices.to_numpy(), prepend=-1) != 0
    repeated = pc.equal(times[:-1], times[1:]).to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(is_start)
    twice = np.flatnonzero(~is_start[1:] & repeated) + 1
    owners, first = np.unique(np.searchsorted(starts, twice, side="right") - 1, return_index=True)
    wrong: dict[int, str] = {}
    for owner, i in zip(owners.tolist(), twice[first].tolist(), strict=True):
        said = f"id {ids[i].as_py()!r} has two rows at time {times[i].as_py()} ({where(i - 1)}; {where(i)})"
        advice = "leave one out or, if their order is known, number the rows in a column for --time"
        wrong[owner] = f"{said}; {advice}"
    return starts, wrong


def _parts(
    cells: dict[str, pa.Array],
    starts: np.ndarray,
    read: Callable[[dict[str, pa.Array], int], T],
    wrong: dict[int, str] | None,
) -> list[T]:
    """Return what is read of all sequences, in parts without those that cannot be read, one at least.

    Args:
        read: gets some cells, and the row of the first.
        wrong: records why sequences cannot be read, by number; None: the first one is an error.
    """
    bounds = [*starts.tolist(), None]

    def look(first: int, last: int) -> T:
        return read({name: cell[bounds[first] : bounds[last]] for name, cell in cells.items()}, bounds[first])

    return list(halved(look, 0, len(starts), wrong)) or [look(0, 0)]


def _in_several_files(ids: pa.ChunkedArray, table: Table) -> list[str]:
    """Return a hint if files of a folder share ids, which may be numbered anew in each; rows are unsorted."""
    if not isinstance(table.places, PartPlaces):
        return []
    codes = ids.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    parts = len(table.places.starts) + 1
    part = np.searchsorted(table.places.starts, np.arange(len(codes)), side="right")
    count = int((np.bincount(np.unique(codes * parts + part) // parts) > 1).sum())
    advice = "all rows of an id are one sequence; number them alike only if they are"
    return [f"{count:,} ids are in several files: {advice}"] * bool(count)


def _constant(role: str, cells: pa.Array, starts: np.ndarray, names: list[str]) -> pa.Array:
    """Return one value per sequence (n,) from one per position (T,), ignoring empty cells.

    Args:
        starts: (n,) first positions of the sequences.
        names: ids of the sequences.
    """
    encoded = cells.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    # All non-empty cells of a sequence are equal if their greatest and lowest codes are.
    highest = np.maximum.reduceat(codes, starts)
    lowest = np.minimum.reduceat(np.where(codes < 0, len(encoded.dictionary), codes), starts)
    torn = np.flatnonzero((highest >= 0) & (highest != lowest))
    if len(torn):
        found = encoded.dictionary.take(pa.array([lowest[torn[0]], highest[torn[0]]])).to_pylist()
        advice = ", or --target positions" if role == "label" else ""
        said = f"its rows do not agree on {role}, {found[0]!r} and {found[1]!r}; one sequence has one{advice}"
        raise DataError(f"id {names[torn[0]]!r}: {said}")
    return encoded.dictionary.take(pa.array(highest, pa.int64(), mask=highest < 0))


def _read(table: Table, options: ImportOptions, values: list[str], changed: dict[str, str]) -> pa.Table:
    """Return the columns that are needed, named by their roles."""
    used = [options.id, options.time, *values, *options.roles.values()]
    parts = []
    n_rows = size = 0
    for batch in table.batches(used):
        ids = words(batch[options.id], changed, options.id)
        if ids.null_count:
            row = first_true(ids.is_null())
            said = str(batch[options.id][row].as_py() or "").strip()
            said = f"is {said!r}, which counts as empty" if said else "is empty"
            raise DataError(f"{table.name(n_rows + row)}: {options.id} {said}; every row needs one")
        columns = {"id": ids, "time": batch[options.time]}
        columns |= {role: words(batch[column], changed, column) for role, column in options.roles.items()}
        columns |= {f"value {column}": batch[column] for column in values}
        parts.append(pa.table(columns))
        size += parts[-1].nbytes
        check_memory(size, table.path.name)
        n_rows += batch.num_rows
        report_progress(f"read {table.path.name}", n_rows, table.n_rows)
    if not n_rows:
        raise DataError(f"{table.path.name} has no rows")
    rows = pa.concat_tables(parts, promote_options="permissive")
    return rows.set_column(1, "time", _times(rows["time"].combine_chunks(), options.time, table))


def _times(array: pa.Array, column: str, table: Table) -> pa.Array:
    """Return times as they are or, of text, as integers, floats or timestamps."""
    times = words(array) if is_text(array.type) else array
    if pa.types.is_floating(times.type):
        times = pc.if_else(pc.is_nan(times), None, times)
    if times.null_count:
        name = table.name(first_true(times.is_null()))
        raise DataError(f"{name}: {column} is empty; every row needs one")
    if not (is_text(times.type) or pa.types.is_nested(times.type)):
        return times
    if decimal_sign([times], table.separator) == ",":
        times = with_points(times)
    stamps = pa.timestamp("ns"), pa.timestamp("ns", "UTC")  # the second is for times that name their zone
    for kind in (pa.int64(), pa.float64(), *stamps):  # in this order no digit is lost
        try:
            return times.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    times_are = "times such as 2024-12-31 23:59:59, all or none of them with a zone such as Z or +01:00"
    raise DataError(f"column {column!r} holds neither numbers nor {times_are}")


def _padded(cells: pa.Array) -> str:
    """Return the first cell of text that is a number with a leading zero, or ""."""
    if not is_text(cells.type):
        return ""
    found = words(cells)
    found = found.filter(pc.match_substring_regex(found, r"^[-+]?0\d+$"))
    return str(found[0]) if len(found) else ""


def _doubts(cells: dict[str, pa.Array]) -> list[str]:
    """Return a hint for every column of values whose numbers may be codes."""
    padded = {column: cell for column, each in cells.items() if (cell := _padded(each))}
    advice = "--kind tokens takes codes for names"
    return [
        f"column {column!r} holds {cell!r}, which is read as {float(cell):g}; {advice}"
        for column, cell in padded.items()
    ]


def _flat(
    cells: dict[str, pa.Array], where: Where, options: ImportOptions, events: list[str] | None, decimal: Sign
) -> tuple[np.ndarray, SequenceKind, list[str]]:
    """Return values of all channels, or numbers of named events; with their kind and the names of events.

    Args:
        cells: (T,) by column.
        where: returns how messages name the row of the table that a cell is from.
        events: see ``read_long``.
    """
    column, only = next(iter(cells.items()))
    may_be_words = is_text(only.type) and not has_commas(only)
    if events is None and len(cells) == 1 and may_be_words and options.kind != "values":
        try:
            read_numbers(only, where, column, decimal)
            if options.kind == "tokens" and _padded(only):  # 007 and 7 are two codes
                events = sorted(words(only).drop_null().unique().to_pylist())
        except DataError as error:
            advice = "; --kind tokens takes all for names of events"
            if options.kind == "auto" and share_of(only, MEASURED) > 0.5:
                raise DataError(f"{error}{advice}") from error
            if options.kind == "auto" and (odd := odd_number(only)):
                raise DataError(f"column {column!r} holds {odd}{advice}") from error
            events = sorted(words(only).drop_null().unique().to_pylist())
    if events:
        names = words(only)
        if names.null_count:
            row = first_true(names.is_null())
            said = f"column {column!r} has {names.null_count:,} empty cells; every event needs a name"
            counted = f", and {str(only[row])!r} counts as empty" if only[row].as_py() else ""
            raise DataError(f"{where(row)}: {said}{counted}")
        places = pc.index_in(names, value_set=pa.array(events, pa.large_string()))
        return places.fill_null(len(events)).to_numpy().astype(np.int32), "tokens", events
    flat = np.stack([read_numbers(cell, where, name, decimal) for name, cell in cells.items()], axis=1)
    return (flat[:, 0], "tokens", []) if options.kind == "tokens" else (flat, "values", [])
