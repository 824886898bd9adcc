"""Train an estimator on a file, and predict the sequences of another file that has the same layout."""

import csv
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data.importing.arrays import ArraySource, find_sequences, read_arrays
from ..data.importing.columns import TableSource
from ..data.importing.importer import import_to_memory, plan_import
from ..data.importing.long_tables import LongSource, long_source
from ..data.importing.media_files import TEXTS, MediaSource, media_in
from ..data.importing.numerals import decimal_sign
from ..data.importing.options import ImportOptions
from ..data.importing.recordings import SOUNDS, as_format
from ..data.importing.source import Part, Source, check_column, positions
from ..data.importing.tables import Table, check_regular, open_table
from ..data.spec import SequenceSpec, Tokens
from ..data.store import StoredDataset
from ..errors import DataError, SpecError, nearest
from ..system import files
from ..system.files import Json
from ..tasks.base import Task, load_task
from ..tasks.imported import Imported
from .base import SequenceEstimator
from .inputs import BYTES, Alphabet, Sequences, complaint
from .models import KINDS
from .persistence import make_folder
from .predictor import ESTIMATORS


def fit(
    origin: str, options: ImportOptions, settings: Mapping[str, Any], folder: Path | None = None
) -> SequenceEstimator:
    """Train an estimator on a task or a file, and store its scores on the held-out test split.

    Args:
        origin: name of a task, path of a file or folder, or hf:OWNER/NAME.
        folder: created before training, so that a model is not lost for want of a place to save it.

    Raises:
        DataError: if the data cannot be used.
        StoreError: if the folder cannot be created.
    """
    plan = None
    exists = origin.startswith("hf:") or Path(origin).expanduser().exists()
    if not exists and ("." not in origin or ":" in origin):  # a dot: a path that does not exist, not a task
        task = load_task(origin)
        data: Task | StoredDataset = task.data() if isinstance(task, Imported) else task
    else:
        if options.missing == "mask":
            raise SpecError("--missing mask adds channels that new data would lack; use fill")
        plan = plan_import(origin, options)
        data = import_to_memory(plan)
    if isinstance(data, StoredDataset) and isinstance(data.form.signal, Tokens):
        settings = {**settings, "signal": "text" if _is_text(data) else "tokens"}
    estimator = _estimator(data.form, settings)
    if folder is not None:
        make_folder(folder)
    estimator.fit(data)
    if plan is not None:
        estimator.data_facts_ |= {"source": origin}
        estimator.reading_ = layout_of(plan.source, plan.options)
    estimator.note_scores(estimator.task_)
    return estimator


def _is_text(data: StoredDataset) -> bool:
    """Return whether symbols are bytes; as many events of a long table as there are bytes are no text."""
    signal = data.form.signal
    is_long = bool(data.meta["about"].get("options", {}).get("id"))
    return isinstance(signal, Tokens) and signal.vocab == BYTES and not is_long


def _estimator(form: SequenceSpec, settings: Mapping[str, Any]) -> SequenceEstimator:
    """Return the estimator for the targets of a task.

    Raises:
        SpecError: if a setting is given that it, or every estimator, does not have.
    """
    kind = KINDS[ESTIMATORS[form.target.kind]]
    known = {field.name for field in fields(kind)}
    everything = known.union(*({field.name for field in fields(each)} for each in KINDS.values()))
    for name, value in settings.items():
        if name not in everything:
            raise SpecError(f"there is no setting {name!r}{nearest(name, sorted(everything))}")
        if name not in known and value:
            raise SpecError(f"{name} is not for targets that are {form.target.kind}; leave it out")
    return kind().set_params(**{name: value for name, value in settings.items() if name in known})


def layout_of(source: Source, options: ImportOptions) -> Json | None:
    """Return the layout of a file, by which new files are read, or None if there is none to reuse."""
    layout: Json = {"kind": source.kind, "encoding": options.encoding, "header": options.header}
    if isinstance(source, TableSource):
        return layout | {"form": source.form, "sequence": source.sequence, "decimal": source.decimal}
    if isinstance(source, LongSource):
        layout |= {"form": "long", "sequence": source.values, "id": options.id, "time": options.time}
        return layout | {"events": source.events} if source.events else layout
    if isinstance(source, MediaSource):
        layout |= {"form": "texts" if source.vocab else "recordings", "features": options.features}
        return layout | {"rate": source.rate, "resample": options.rate, "dtype": source.dtype}
    return None


def numbered(row: int) -> str:
    """Return how messages name a row that has no line or name."""
    return f"row {row + 1}"


@dataclass
class NewData:
    """The sequences of a file to predict, and its other columns."""

    sequences: Sequences
    columns: dict[str, list[Any]]
    name: Callable[[int], str] = numbered  # how messages name a row
    noted: bool = False  # whether a note has named the symbols that training lacks


def read_new(path: Path, estimator: SequenceEstimator) -> NewData:
    """Read the sequences of a file in the layout of the training file, recording those that cannot be read.

    Raises:
        DataError: if the file cannot be read at all, or lacks a column.
    """
    if not path.exists():
        raise DataError(f"there is no {path}")
    check_regular(path)
    signal = estimator.predictor_.form.signal
    layout = estimator.reading_
    offsets = estimator.offsets_.values
    if path.suffix in (".npy", ".npz"):
        arrays = read_arrays(path)
        if "x" not in arrays:
            raise DataError(f"{path.name} has no array 'x'")
        flat, starts, lengths = find_sequences(arrays)
        source = ArraySource(flat=flat, starts=starts, lengths=lengths, columns={})
        source.kind = "tokens" if isinstance(signal, Tokens) else "values"
        return NewData(_sequences(source, offsets), {"row": list(range(len(starts)))})
    if layout is None and isinstance(signal, Tokens) and signal.vocab == BYTES:
        layout = {"form": "texts", "kind": "tokens"}
    if layout is None:
        raise DataError(
            "this model does not know how such a file is to be read; give an .npy file, or ask it in Python"
        )
    if layout["form"] in ("texts", "recordings"):
        media = _media(path, layout, 0 if isinstance(signal, Tokens) else signal.channels)
        names = list(map(media.name, range(len(media.files))))
        return NewData(_sequences(media, offsets), {"file": names})
    table = open_table(path, layout["encoding"], layout.get("header", True))
    if layout["form"] == "long":
        return _long(table, layout, estimator.alphabet_, offsets)
    return _table(table, layout, offsets)


def _long(table: Table, layout: Json, alphabet: Alphabet | None, offsets: tuple[float, ...]) -> NewData:
    """Return the sequences of a long table, whose events have the numbers of training.

    An event that training lacks is the unknown symbol of the model; without one, its sequence cannot be read.
    """
    options = ImportOptions(id=layout["id"], time=layout["time"], kind=layout["kind"])
    options = replace(options, value=",".join(layout["sequence"]))
    events = layout.get("events", [])
    source = long_source(table, options, labelled=False, events=events)
    source.vocab = 0  # of as many events as there are bytes, it would be that of text
    if alphabet is None or alphabet.unknown is None:
        for row, name in source.unseen.items():
            event = f"event {name[:40]!r} is none of the {len(events):,} of training"
            source.unread[row] = f"{source.name(row)}: {event}"
        source.part = source.part.take(~np.isin(source.part.rows, list(source.unread)))
    elif source.unseen:
        row, name = next(iter(source.unseen.items()))
        said = f"{len(source.unseen):,} of {source.total:,} sequences hold events that training lacks"
        warnings.warn(f"{said}, such as {name[:40]!r} in {source.name(row)}; they are unknown", stacklevel=3)
    sequences = _sequences(source, offsets)
    for note in table.notes():
        warnings.warn(note, stacklevel=3)
    return NewData(sequences, {layout["id"]: source.ids}, noted=True)


def _table(table: Table, layout: Json, offsets: tuple[float, ...]) -> NewData:
    for column in layout["sequence"]:
        check_column(column, table.columns)
    source = TableSource(layout["kind"], table=table, options=ImportOptions(), form=layout["form"])
    source.sequence = layout["sequence"]
    source.vocab = BYTES if source.form == "text" else 0
    source.skip_bad = True
    first = next(table.batches(layout["sequence"]), None)
    if first is not None and layout["form"] == "wide":
        sign = decimal_sign(first.columns, table.separator)
        source.decimal = layout.get("decimal", ".") if sign == "?" else sign
    columns: dict[str, list[Any]] = {name: [] for name in table.columns if name not in source.sequence}
    for batch in table.batches(list(columns)) if columns else ():
        for name in columns:
            columns[name] += batch[name].to_pylist()
    sequences = _sequences(source, offsets)
    for note in table.notes():
        warnings.warn(note, stacklevel=3)
    return NewData(sequences, columns, table.name)


@dataclass
class NewMedia(MediaSource):
    """Texts or recordings to predict; recordings must have the rate and the format of those of training."""

    layout: Json = field(kw_only=True)

    def open(self, row: int) -> tuple[int, np.ndarray]:
        """Return the sample rate and the sequence of a file.

        Raises:
            DataError: if the file cannot be read, or differs from those of training.
        """
        rate, sequence = super().open(row)
        known = self.layout.get("rate", 0)
        if rate != known:
            raise DataError(f"it has {rate} samples per second, those of training {known}; resample it")
        if rate:
            sequence = as_format(sequence, self.layout["dtype"])
        if self.channels and sequence.shape[1] != self.channels:
            raise DataError(f"it has {sequence.shape[1]} channels, the model takes {self.channels}")
        return rate, sequence


def _media(path: Path, layout: Json, channels: int) -> NewMedia:
    texts = layout["form"] == "texts"
    folder, found = (path, media_in(path)) if path.is_dir() else (path.parent, [path])
    odd = [file for file in found if file.suffix.lower() not in (TEXTS if texts else SOUNDS)]
    if odd:
        wanted = f"texts ({', '.join(TEXTS)})" if texts else f"recordings ({', '.join(SOUNDS)})"
        raise DataError(f"{odd[0]}: the model takes {wanted}")
    options = ImportOptions(rate=layout.get("resample"), features=layout.get("features", "raw"))
    vocab = BYTES if texts else 0
    source = NewMedia(layout["kind"], vocab, folder=folder, files=found, options=options, layout=layout)
    source.skip_bad = True
    source.channels = channels
    return source


def _sequences(source: Source, offsets: tuple[float, ...]) -> Sequences:
    """Return all sequences of a source, minus the offsets of a model, and why the others cannot be read."""
    parts = [part for part in [source.read()] if len(part.lengths)]
    if source.kind == "values":
        _note_missing(parts, source)
    wrong = dict(source.unread)
    shape = parts[0].flat.shape[1:] if parts and source.kind == "values" else ()
    for part in parts:
        if part.flat.shape[1:] != shape:
            channels = f"it has {part.flat.shape[-1]} channels"
            why = f"{channels}, not {shape[-1]}" if shape else f"{channels}; tokens have none"
            wrong |= dict.fromkeys(part.rows.tolist(), why)
    parts = [part for part in parts if part.flat.shape[1:] == shape]
    if not parts:
        name = source.name if isinstance(source, TableSource) else numbered
        raise DataError(complaint(wrong, len(wrong), name) if wrong else "there is no sequence in the file")
    return Sequences(
        "text" if source.vocab == BYTES else source.kind,
        np.concatenate([part.flat for part in parts]),
        np.concatenate([part.lengths for part in parts]),
        np.concatenate([part.rows for part in parts]),
        wrong,
    ).checked(offsets)


def _note_missing(parts: list[Part], source: Source) -> None:
    """Warn about missing values, naming the first."""
    found = []
    for part in parts:
        owner, place = positions(part.lengths)
        at, channel = np.nonzero(np.isnan(part.flat))
        rows, first = np.unique(owner[at], return_index=True)
        places = zip(place[at[first]].tolist(), channel[first].tolist(), strict=True)
        found += [
            f"{source.name(row)}: {source.spot(*spot)}"
            for row, spot in zip(part.rows[rows].tolist(), places, strict=True)
        ]
    if found:
        total = sum(len(part.lengths) for part in parts)
        warnings.warn(
            f"{len(found):,} of {total:,} sequences lack values, the first in {found[0]}; these are "
            f"interpolated, or left out where no value follows",
            stacklevel=4,
        )


def predict(estimator: SequenceEstimator, new: NewData, out: Path, skip_bad: bool) -> int:
    """Write a CSV with the columns of a file and the predictions, and return the number of unusable rows.

    Args:
        skip_bad: leave the predictions of unusable rows empty, and say why in a column "problem".

    Raises:
        DataError: naming the unusable rows, unless skip_bad.
    """
    found = usable(estimator, new, skip_bad)
    columns = dict(new.columns) or {"row": list(range(found.given))}
    for name, values in estimator.table(estimator.examples(found)).items():
        column: list[Any] = [""] * found.given
        for row, value in zip(found.rows.tolist(), values, strict=True):
            column[row] = value
        columns[name] = column
    if skip_bad:
        columns["problem"] = [found.wrong.get(row, "") for row in range(found.given)]
    with (
        files.explain_output_errors(out),
        files.replace_file(out) as temporary,
        temporary.open("w", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return len(found.wrong)


def usable(estimator: SequenceEstimator, new: NewData, skip_bad: bool) -> Sequences:
    """Return the sequences that the model accepts.

    Raises:
        DataError: naming the unusable rows, unless skip_bad; or if there is no usable row.
    """
    found = estimator.readable(new.sequences, None if new.noted else 1)
    if found.wrong and not skip_bad:
        raise DataError(f"{complaint(found.wrong, found.given, new.name)}; --skip-bad answers the others")
    if not len(found.rows):
        raise DataError(complaint(found.wrong, found.given, new.name))
    return found
