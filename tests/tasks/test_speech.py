"""Speech Commands: WAV files, the official lists, the papers' protocol; cepstral coefficients."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from releases import noise, write_speech, write_wav
from selfpretrain.data import audio
from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import DataError
from selfpretrain.tasks.base import with_stub
from selfpretrain.tasks.common import recording_sets
from selfpretrain.tasks.speech import ALL, RATE, TEN, Speech


@pytest.fixture
def release(tmp_path, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    folder = tmp_path / "raw" / "speech_commands_v0.02"
    write_speech(folder)
    return folder


@pytest.mark.parametrize("rate", [16_000, 8_000])
def test_plans_without_the_data_have_as_many_positions_as_a_second(rate):
    second = np.zeros(rate, np.int16)
    assert with_stub(Speech(rate=rate)).form.length == rate
    frames = len(recording_sets.mfcc(second, rate))
    assert with_stub(Speech(rate=rate, features="mfcc")).form.length == frames


def test_words_are_those_of_the_usual_code():
    assert len(set(ALL)) == 35
    assert set(TEN) < set(ALL)
    assert (ALL[0], ALL[34], TEN[0]) == ("bed", "zero", "yes")


def test_official_lists_are_followed_and_the_standard_library_suffices(release, monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    task = Speech(words=10)
    splits = [task.load(split) for split in SPLITS]
    assert [len(e) for e in splits] == [20, 20, 20]
    assert [e.groups.unique().tolist() for e in splits] == [[0, 5], [1, 2], [3, 4]]
    np.testing.assert_array_equal(splits[1].sequence(2)[:, 0], noise(RATE, seed=11))
    assert splits[1].targets[2] == 1
    assert sorted(splits[0].lengths[0].unique().tolist()) == [900, RATE]
    assert task.form.length == RATE


def test_papers_take_whole_seconds_only(release):
    task = Speech(words=10, split="papers")
    splits = [task.load(split) for split in SPLITS]
    assert [len(e) for e in splits] == [30, 10, 10]
    assert all(e.groups is None and set(e.lengths[0].tolist()) == {RATE} for e in splits)
    assert replace(task, split_seed=1).load("val").digests() != splits[1].digests()


def test_half_the_rate_keeps_what_is_low_and_loses_what_is_high(release):
    time = np.arange(RATE) / RATE
    for s, hertz in ((1, 500), (2, 7000)):
        write_wav(release / "yes" / f"{s:08x}_nohash_0.wav", 9000 * np.sin(2 * np.pi * hertz * time))
    low, high = (Speech(words=10, rate=8000).load("val").sequence(row)[:, 0] for row in (0, 1))
    inside = slice(100, -100)
    wanted = 9000 * np.sin(2 * np.pi * 500 * np.arange(8000) / 8000)
    assert np.abs(low - wanted)[inside].max() < 100
    assert np.abs(high)[inside].max() < 100


def test_cepstral_coefficients_of_recordings(release):
    task = Speech(words=10, features="mfcc")
    val = task.load("val")
    assert task.form.length == 161
    assert val.sequence(0).shape == (161, 20)
    np.testing.assert_array_equal(val.sequence(2), recording_sets.mfcc(noise(RATE, seed=11), RATE))


@pytest.mark.parametrize(
    ("harm", "advice"),
    [
        (lambda f: (f / "testing_list.txt").unlink(), "lists of validation and test"),
        (lambda f: [p.unlink() for p in (f / "up").iterdir()], "no recordings of 'up'"),
        (lambda f: (f / "go" / "x_nohash_0.wav").write_bytes(b"RIFF"), "not a WAV file"),
        (lambda f: write_wav(f / "go" / "x_nohash_0.wav", noise(800), rate=8000), "at 16000 Hz"),
        (lambda f: write_wav(f / "go" / "x_nohash_0.wav", noise(800), channels=2), "2 channels"),
        (lambda f: write_wav(f / "go" / "x_nohash_0.wav", noise(0)), "has 0 samples"),
    ],
)
def test_damage_is_said_in_one_line(release, harm, advice):
    harm(release)
    with pytest.raises(DataError, match=advice) as caught:
        Speech(words=10).load("train")
    assert "\n" not in str(caught.value)


def test_coefficients_are_those_of_torchaudio():
    """Frozen: from the filters and the transform of torchaudio 2.11 after torch.stft, in float32."""
    ours = recording_sets.mfcc(noise(RATE), RATE)
    assert ours.shape == (161, 20)
    assert ours[3, :4] == pytest.approx(GOLDEN[0], abs=2e-4)
    assert ours[160, :4] == pytest.approx(GOLDEN[1], abs=2e-4)
    assert recording_sets.mfcc(noise(RATE), 8000)[3, :4] == pytest.approx(GOLDEN[2], abs=2e-4)


GOLDEN = (
    [-11.7687, -13.3010, -1.5152, -3.4052],
    [-8.6399, -10.6556, -3.3679, -5.1854],
    [-7.6065, -8.2959, 1.4780, -1.0556],
)


@given(st.integers(1, 2000), st.integers(0, 2**31 - 1))
def test_coefficients_follow_the_spectrum_of_torch(length, seed):
    """A twin for the part before the filters, and a slow sum for the part after them."""
    x = noise(length, seed)
    padded = torch.from_numpy(np.pad(x / 32768.0, 100, mode="reflect"))
    window = torch.hann_window(200, dtype=torch.float64)
    spectrum = torch.stft(padded, 200, 100, window=window, center=False, return_complex=True).abs().T ** 2
    logs = np.log(spectrum.numpy() @ audio._mel_filters(RATE, recording_sets.WINDOW) + 1e-6)
    k, n = np.arange(20)[:, None], np.arange(64)
    cosines = np.cos(np.pi / 64 * (n + 0.5) * k) * np.where(k == 0, np.sqrt(1 / 64), np.sqrt(2 / 64))
    np.testing.assert_allclose(recording_sets.mfcc(x, RATE), logs @ cosines.T, rtol=1e-4, atol=1e-3)


def test_made_up_speakers_keep_to_their_split():
    assert Speech().tiny().load("train").groups is not None
    assert Speech(split="papers").tiny().load("train").groups is None


@pytest.mark.slow
@pytest.mark.needs_data("speech_commands_v0.02")
def test_the_release_has_the_known_counts(real_data):
    assert [len(Speech().load(split)) for split in SPLITS] == [84_843, 9_981, 11_005]
    assert sum(len(Speech(words=10, split="papers").load(split)) for split in SPLITS) == 34_975
