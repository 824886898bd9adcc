"""Recordings of strangers: cut, streamed, of several formats and channels; and what is left out."""

import struct
import sys

import numpy as np
import pytest
from scipy.io import wavfile

from imports import bring
from selfpretrain.cli import app
from selfpretrain.errors import DataError

pytestmark = pytest.mark.usefixtures("home")

RATE = 8000
FORMATS = {
    "pcm.wav": {"subtype": "PCM_16"},
    "bytes.wav": {"subtype": "PCM_U8"},
    "deep.wav": {"subtype": "PCM_24"},
    "deeper.wav": {"subtype": "PCM_32"},
    "float.wav": {"subtype": "FLOAT"},
    "double.wav": {"subtype": "DOUBLE"},
    "big-endian.wav": {"subtype": "PCM_16", "endian": "BIG"},
    "extensible.wav": {"format": "WAVEX", "subtype": "PCM_16"},
    "long.wav": {"format": "RF64", "subtype": "PCM_16"},
    "mu-law.wav": {"subtype": "ULAW"},
    "a-law.wav": {"subtype": "ALAW"},
    "adpcm.wav": {"subtype": "IMA_ADPCM"},
    "gsm.wav": {"subtype": "GSM610"},
    "apple.aiff": {},
    "apple float.aif": {"format": "AIFF", "subtype": "FLOAT"},
    "apple little.aifc": {"format": "AIFF", "endian": "LITTLE"},
    "sun.au": {},
    "free.flac": {},
    "vorbis.ogg": {},
    "opus.opus": {"format": "OGG", "subtype": "OPUS"},
    "mpeg.mp3": {},
}
LOSSY = {"adpcm", "gsm", "vorbis", "opus", "mpeg", "mu-law", "a-law"}


def tone(hertz, n=16000, channels=1):
    """A tone at two fifths of the range, its start at random, with noise that makes it unlike others."""
    random = np.random.default_rng(hertz)
    wave = 0.4 * np.sin(2 * np.pi * hertz * np.arange(n) / RATE) + 0.01 * random.normal(size=n)
    return wave if channels == 1 else np.stack([wave] * channels, axis=1)


def folder_of(root, n=2000):
    """Twelve recordings of each of two classes, 16 bits and mono."""
    for i in range(24):
        place = root / ("low", "high")[i % 2] / f"{i}.wav"
        place.parent.mkdir(parents=True, exist_ok=True)
        wavfile.write(place, RATE, (32767 * tone((300, 900)[i % 2] + i, n)).astype(np.int16))
    return root


def add(path, n=16000, channels=1, **how):
    pytest.importorskip("soundfile").write(path, tone(500, n, channels), RATE, **how)
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_read_at_one_scale_whole_or_not_at_all(tmp_path, name):
    folder = folder_of(tmp_path / "set")
    path = add(folder / "low" / name, **FORMATS[name])
    made = bring(folder)
    rows = np.flatnonzero(made.whole.lengths.numpy().ravel() >= 16000).tolist()
    assert len(made.split) == 25 and len(rows) == 1
    found = made.whole.sequence(rows[0])[:16000, 0].astype(float)
    scale = 32768 if made.whole.flat.numpy().dtype == np.int16 else 1
    size = np.sqrt(np.mean(np.square(found / scale)))
    assert size == pytest.approx(0.4 / np.sqrt(2), rel=0.15)
    if path.stem not in LOSSY:
        assert np.abs(found / scale - tone(500)).max() < 0.01
    whole = path.read_bytes()
    for share in (0.2, 0.5, 0.9):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(DataError, match=r"low/.* cannot be read: .*; --skip-bad leaves such files out"):
            bring(folder)
    made = bring(folder, skip_bad=True)
    assert len(made.split) == 24 and "cannot be read: 1 of 25 files" in made.meta["about"]["notes"][-1]


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("kind", ["u1", "i2", "i4", "f4"])
@pytest.mark.parametrize("missing", [1, 777, 1999])
def test_a_cut_recording_says_how_much_there_is(tmp_path, kind, channels, missing):
    folder = folder_of(tmp_path / "set")
    path = folder / "low" / "cut.wav"
    wavfile.write(path, RATE, np.ones((2000, channels) if channels > 1 else 2000, kind))
    path.write_bytes(path.read_bytes()[: -missing * channels * np.dtype(kind).itemsize])
    with pytest.raises(DataError) as caught:
        bring(folder)
    said = f"low/cut.wav cannot be read: it ends after {2000 - missing:,} of 2,000 samples"
    assert str(caught.value) == f"{said}; --skip-bad leaves such files out"


STREAMS = {
    "ffmpeg": (0xFFFFFFFF, 0xFFFFFFFF),
    "sox": (0x7FFFF024, 0x7FFFF000),
    "arecord": (0x80000024, 0x80000000),
    "gstreamer": (0, 0),
    "header written first": (36, 0),
}


@pytest.mark.parametrize("sizes", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("kind", ["i2", "f4"])
def test_streams_that_never_knew_their_length_end_with_the_file(tmp_path, sizes, kind):
    folder = folder_of(tmp_path / "set")
    path = folder / "low" / "0.wav"
    rate, samples = wavfile.read(path)
    samples = samples if kind == "i2" else (samples / 32768).astype(kind)
    wavfile.write(path, rate, samples)
    expected = bring(folder).digest
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, 4, sizes[0])
    struct.pack_into("<I", content, content.index(b"data") + 4, sizes[1])
    path.write_bytes(content)
    assert bring(folder).digest == expected
    path.write_bytes(content + b"\0" if kind == "i2" else content + b"\0\0\0")  # not all of a sample
    assert bring(folder).digest == expected


def test_an_empty_recording_with_a_comment_behind_it_is_no_stream(tmp_path):
    folder = folder_of(tmp_path / "set")
    wavfile.write(folder / "low" / "0.wav", RATE, np.zeros(0, np.int16))
    content = (folder / "low" / "0.wav").read_bytes() + b"LIST" + struct.pack("<I", 8) + b"INFOabcd"
    (folder / "low" / "0.wav").write_bytes(content[:4] + struct.pack("<I", len(content) - 8) + content[8:])
    with pytest.raises(DataError, match="holds no samples"):
        bring(folder)


@pytest.mark.parametrize("kinds", [("i2", "f4"), ("u1", "i2"), ("i2", "i4"), ("u1", "i2", "i4", "f4", "f8")])
def test_several_formats_are_brought_to_one_scale(tmp_path, kinds):
    for i in range(24):
        place = tmp_path / "set" / "ab"[i % 2] / f"{i:02d}.wav"
        place.parent.mkdir(parents=True, exist_ok=True)
        kind = kinds[i % len(kinds)]
        scale, offset = {"u1": (128, 128), "i2": (2**15, 0), "i4": (2**31, 0)}.get(kind, (1, 0))
        wavfile.write(place, RATE, (scale * tone(300 + i, 200) + offset).astype(kind))
    made = bring(tmp_path / "set")
    assert any("all are scaled to [-1, 1]" in note for note in made.meta["about"]["notes"])
    for place, row in zip([*range(0, 24, 2), *range(1, 24, 2)], range(24), strict=True):
        assert np.abs(made.whole.sequence(row)[:, 0] - tone(300 + place, 200)).max() < 0.01
    assert [made.form.signal.channels, made.form.length] == [1, 200]


@pytest.mark.parametrize("wide", [1, 23])
def test_recordings_with_other_channels_than_most_are_named(tmp_path, wide):
    folder = folder_of(tmp_path / "set")
    for i in range(wide):
        place = folder / ("low", "high")[i % 2] / f"{i}.wav"
        rate, samples = wavfile.read(place)
        wavfile.write(place, rate, np.stack([samples] * 2, axis=1))
    odd, most = (2, 1) if wide == 1 else (1, 2)
    with pytest.raises(
        DataError, match=rf"{odd} channels, others have {most}; .*sox \d+\.wav -c {most}.*--skip"
    ):
        bring(folder)
    made = bring(folder, skip_bad=True)
    assert len(made.split) == 23 and made.form.signal.channels == most
    assert len(bring(folder, features="mel").split) == 24  # of the mean of all channels


def test_without_soundfile_a_line_says_what_to_install(tmp_path, monkeypatch):
    folder = folder_of(tmp_path / "set")
    add(folder / "low" / "one.mp3")
    (tmp_path / "law" / "a").mkdir(parents=True)
    add(tmp_path / "law" / "a" / "x.wav", subtype="ULAW")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    for origin in (folder, tmp_path / "law"):
        with pytest.raises(
            DataError, match=r"(one\.mp3|x\.wav) needs soundfile.*pip install 'selfpretrain\[audio\]'"
        ):
            bring(origin)
    made = bring(folder, skip_bad=True)
    assert len(made.split) == 24 and "cannot be read: 1 of 25 files" in made.meta["about"]["notes"][-1]
    bring(folder_of(tmp_path / "plain"))  # 16-bit WAV files need nothing


def test_files_that_are_left_out_are_named(tmp_path, capsys):
    folder = folder_of(tmp_path / "set")
    for name in ("low/7.m4a", "metadata.csv", "README.txt"):
        (folder / name).write_text("some")
    made = bring(folder)
    assert len(made.split) == 24
    assert "not read: README.txt, low/7.m4a, metadata.csv" in made.meta["about"]["notes"]
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "1.m4a").write_text("some")
    assert app.run(["data", "import", str(tmp_path / "odd"), "-y"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert ".wav" in said and ".mp3" in said and ".csv" in said
