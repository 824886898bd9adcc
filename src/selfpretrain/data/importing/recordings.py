"""Recordings: their samples and sample format, and whether a file holds all that its header promises."""

import io
import struct
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from ...errors import DataError, install

SOUNDS = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aif", ".aiff", ".aifc", ".au")
PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
"""Formats of WAV files that SciPy reads; others, such as mu-law, are read with soundfile."""
COMPANDED = (6, 7)  # A-law and mu-law, of one byte per sample
AU_BYTES = {1: 1, 2: 1, 3: 2, 4: 3, 5: 4, 6: 4, 7: 8, 27: 1}  # encoding of an AU file -> bytes per sample
STREAM = 0x7FFFF000
"""Sizes from this on mean "unknown": sox, arecord and ffmpeg write one when the output is a pipe."""
OGG_PAGE = 65307  # maximum size of a page of an Ogg file in bytes
MP3_SLACK = 1152  # samples by which the length in the header of an MP3 file may be wrong: a frame


@dataclass
class Header:
    """What the header of an uncompressed recording says."""

    start: int  # of the samples in the file
    promised: int  # bytes of samples
    frame: int  # bytes of one sample of all channels; 0: unknown
    channels: int
    kind: int = PCM  # format of a WAV file
    size_at: int = 0  # where a WAV file has the size of its samples
    is_stream: bool = False  # written to a pipe: the samples end where the file ends


def read_recording(file: Path) -> tuple[int, np.ndarray]:
    """Return the sample rate, and (length, channels): bytes, 16-bit integers or floats in [-1, 1].

    WAV files keep their format, but 24 and 32 bits become floats. Other files are read as 16 bits.

    Raises:
        DataError: if soundfile is needed and missing.
        Exception: of many kinds, if the file is damaged; EOFError if it ends too early.
    """
    header = header_of(file)
    source: Path | io.BytesIO = file
    if header is not None:
        held = max(file.stat().st_size - header.start, 0)
        if header.is_stream:  # the sizes in its header are known once it has ended
            size = held // header.frame * header.frame if header.frame else held
            whole = bytearray(file.read_bytes()[: header.start + size])
            order = ">" if whole[:4] == b"RIFX" else "<"
            struct.pack_into(f"{order}I", whole, 4, len(whole) - 8)
            struct.pack_into(f"{order}I", whole, header.size_at, size)
            source = io.BytesIO(bytes(whole))
        elif header.promised > held:
            unit = header.frame or 1
            what = "samples" if header.frame else "bytes"
            raise EOFError(f"it ends after {held // unit:,} of {header.promised // unit:,} {what}")
    if file.suffix.lower() != ".wav" or (header is not None and header.kind not in (PCM, FLOAT)):
        return _read_soundfile(file, source)
    from scipy.io import wavfile

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wavfile.WavFileWarning)  # unknown chunks do not matter
        rate, samples = wavfile.read(source)
    samples = samples.astype(samples.dtype.newbyteorder("="), copy=False)  # RIFX has the other one
    if samples.dtype.kind == "i" and samples.dtype.itemsize > 2:  # training uses float32
        samples = (samples / 2.0 ** (8 * samples.dtype.itemsize - 1)).astype(np.float32)
    samples = samples if samples.dtype in (np.uint8, np.int16) else samples.astype(np.float32)
    return rate, samples[:, None] if samples.ndim == 1 else samples


def sample_format(file: Path) -> tuple[str, int] | None:
    """Return dtype and number of channels of what ``read_recording`` returns; None if they are not known."""
    try:
        if file.suffix.lower() == ".wav":
            header = header_of(file)
            if header is None:
                return None
            whole = {1: "uint8", 2: "int16"}.get(header.frame // header.channels, "float32")
            return {PCM: whole, FLOAT: "float32"}.get(header.kind, "int16"), header.channels
        about = _soundfile(file).info(str(file))
        return _dtype(about.subtype), about.channels
    except Exception:  # of many kinds; reading the file will report it
        return None


def scaled(samples: np.ndarray) -> np.ndarray:
    """Return samples of any format as float32 in [-1, 1]."""
    scale = {np.dtype(np.uint8): 128.0, np.dtype(np.int16): 32768.0}.get(samples.dtype, 1.0)
    return (samples.astype(np.float32) - 128 * (samples.dtype == np.uint8)) / np.float32(scale)


def as_format(samples: np.ndarray, dtype: str) -> np.ndarray:
    """Return samples in another format, uint8, int16 or float32, brought to its range."""
    if samples.dtype == dtype or dtype not in ("uint8", "int16", "float32"):
        return samples
    x = scaled(samples)
    if dtype == "float32":
        return x
    x = x * 128 + 128 if dtype == "uint8" else x * 32768
    return np.rint(x).clip(np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)


def _soundfile(file: Path) -> ModuleType:
    try:
        import soundfile
    except ImportError as error:
        needs = "needs soundfile, as do all recordings but uncompressed WAV files"
        raise DataError(f"{file.name} {needs}: {install('audio')}") from error
    return soundfile


def _dtype(subtype: str) -> str:
    """Return the format in which a file is read; soundfile does not scale floats to integers."""
    return "float32" if subtype in ("FLOAT", "DOUBLE") else "int16"


def _read_soundfile(file: Path, source: Path | io.BytesIO) -> tuple[int, np.ndarray]:
    with _soundfile(file).SoundFile(source) as sound:
        frames = -1 if sound.seekable() else sound.frames
        samples = sound.read(frames, dtype=_dtype(sound.subtype), always_2d=True)
        if sound.format == "OGG":
            with file.open("rb") as opened:
                opened.seek(max(file.stat().st_size - OGG_PAGE, 0))
                tail = opened.read()
            page = tail[tail.rfind(b"OggS") :]
            segments = page[27 : 27 + page[26]] if len(page) > 26 else b""
            # A whole file ends with a whole page that says it is the last.
            if not segments or not page[5] & 4 or len(page) < 27 + len(segments) + sum(segments):
                raise EOFError("it ends before its last page")
        slack = MP3_SLACK if sound.format == "MP3" else 0
        if len(samples) < sound.frames - slack:
            raise EOFError(f"it ends after {len(samples):,} of {sound.frames:,} samples")
        return sound.samplerate, samples


def header_of(file: Path) -> Header | None:
    """Return the header of a WAV, AIFF or AU file; None if the file is of another kind, or damaged."""
    with file.open("rb") as opened:
        magic = opened.read(12)
        try:
            if magic[:4] in (b"RIFF", b"RIFX", b"RF64") and magic[8:] == b"WAVE":
                return _wav_header(opened, ">" if magic[:4] == b"RIFX" else "<", magic)
            if magic[:4] == b"FORM" and magic[8:] in (b"AIFF", b"AIFC"):
                return _aiff_header(opened)
            if magic[:4] == b".snd":
                start, size = struct.unpack(">II", magic[4:])
                encoding, _, channels = struct.unpack(">III", opened.read(12))
                promised = size if size < STREAM else 0
                return Header(start, promised, AU_BYTES.get(encoding, 0) * channels, channels)
        except (struct.error, ZeroDivisionError):
            pass
    return None


def _chunks(file: io.BufferedReader, order: str) -> Iterator[tuple[bytes, int]]:
    """Yield the name and size of every chunk, with the file at its content."""
    while len(head := file.read(8)) == 8:
        size = struct.unpack(f"{order}I", head[4:])[0]
        start = file.tell()
        yield head[:4], size
        file.seek(start + size + size % 2)


def _wav_header(file: io.BufferedReader, order: str, magic: bytes) -> Header | None:
    kind = channels = frame = long_size = 0
    for name, size in _chunks(file, order):
        if name == b"ds64":
            long_size = struct.unpack("<QQ", file.read(16))[1]
        elif name == b"fmt ":
            about = file.read(min(size, 40))
            kind, channels, _, _, frame = struct.unpack(f"{order}HHIIH", about[:14])
            if kind == EXTENSIBLE:
                kind = struct.unpack(f"{order}H", about[24:26])[0]
        elif name == b"data" and channels:
            start = file.tell()
            total = file.seek(0, io.SEEK_END)
            said = struct.unpack(f"{order}I", magic[4:8])[0] + 8
            unknown = size >= STREAM > total or (size == 0 and said != total)
            frame = frame if kind in (PCM, FLOAT, *COMPANDED) else 0
            if magic[:4] == b"RF64":
                return Header(start, long_size, frame, channels, kind)
            return Header(start, size, frame, channels, kind, start - 4, unknown)
    return None


def _aiff_header(file: io.BufferedReader) -> Header | None:
    channels = frames = 0
    for name, size in _chunks(file, ">"):
        if name == b"COMM":
            channels, frames = struct.unpack(">HI", file.read(6))
        elif name == b"SSND" and frames:
            offset = struct.unpack(">I", file.read(4))[0]
            promised = size - 8 - offset
            return Header(file.tell() + 4 + offset, promised, promised // frames, channels)
    return None
