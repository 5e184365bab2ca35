"""Every way in which a file can be bad, and what comes of it."""

import subprocess
import sys

import numpy as np
import pytest
import soundfile

from residual_audio.audio import MelSpec, Preprocessing, Waveform, read
from residual_audio.media import MediaError
from residual_audio.models.batching import prepared_ahead

POLICY = Preprocessing(16000, 64000, MelSpec(n_fft=1024, hop=256, mels=64, filter_rate=16000, f_min=50.0, f_max=7600.0))


def tone(seconds: float, rate: int, channels: int = 1) -> np.ndarray:
    t = np.arange(int(seconds * rate)) / rate
    return np.repeat(0.5 * np.sin(2 * np.pi * 500 * t)[:, None], channels, axis=1)


def spectral_peak(samples: np.ndarray, rate: int) -> float:
    return np.abs(np.fft.rfft(samples)).argmax() * rate / len(samples)


def test_missing(tmp_path):
    with pytest.raises(MediaError, match="no such file"):
        POLICY.prepare(tmp_path / "gone.wav")


def test_directory(tmp_path):
    with pytest.raises(MediaError, match="is a directory"):
        POLICY.prepare(tmp_path)


def test_empty(tmp_path):
    (tmp_path / "x.wav").touch()
    with pytest.raises(MediaError, match="is empty"):
        POLICY.prepare(tmp_path / "x.wav")


def test_text_renamed(tmp_path):
    (tmp_path / "x.wav").write_text("Dear diary, today I renamed a text file.\n" * 40)
    with pytest.raises(MediaError, match="not an audio file"):
        POLICY.prepare(tmp_path / "x.wav")


def test_header_without_frames(tmp_path):
    soundfile.write(tmp_path / "x.wav", np.zeros((0, 1)), 16000)
    with pytest.raises(MediaError, match="no audio frames"):
        POLICY.prepare(tmp_path / "x.wav")


def test_truncated_wav_uses_what_is_there(tmp_path):
    soundfile.write(tmp_path / "whole.wav", tone(2, 16000), 16000)
    content = (tmp_path / "whole.wav").read_bytes()
    (tmp_path / "cut.wav").write_bytes(content[: len(content) // 2])
    half = read(tmp_path / "cut.wav", 16000)
    assert 15000 < len(half) < 16100
    assert np.array_equal(half, read(tmp_path / "whole.wav", 16000)[: len(half)])


def test_truncated_in_the_header(tmp_path):
    soundfile.write(tmp_path / "whole.flac", tone(2, 16000), 16000)
    (tmp_path / "cut.flac").write_bytes((tmp_path / "whole.flac").read_bytes()[:20])
    with pytest.raises(MediaError, match=r"cut\.flac"):
        POLICY.prepare(tmp_path / "cut.flac")


@pytest.mark.parametrize("name", ["x.flac", "x.ogg", "x.mp3"])
def test_truncated_compressed_file_is_used_or_refused_but_never_invented(tmp_path, name):
    soundfile.write(tmp_path / name, tone(4, 16000), 16000)
    content = (tmp_path / name).read_bytes()
    (tmp_path / f"cut-{name}").write_bytes(content[: len(content) // 2])
    try:
        samples = read(tmp_path / f"cut-{name}", 16000)
    except MediaError as error:
        assert "cut-" in str(error)
    else:
        assert 0 < len(samples) <= 64000 + 2000
        assert np.isfinite(samples).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_no_numbers(tmp_path, value):
    samples = tone(1, 16000)
    samples[100:103] = value
    soundfile.write(tmp_path / "x.wav", samples, 16000, subtype="FLOAT")
    with pytest.raises(MediaError, match=r"3 of .* samples are NaN or infinite"):
        POLICY.prepare(tmp_path / "x.wav")


def test_ten_milliseconds_are_repeated(tmp_path):
    soundfile.write(tmp_path / "x.wav", tone(0.01, 16000), 16000)
    (wave,), longer = POLICY.waveforms(tmp_path / "x.wav")
    assert len(wave) == 64000
    assert not longer
    assert np.array_equal(wave[:160], wave[160:320])


def test_forty_minutes_cost_what_their_start_costs(tmp_path):
    """Only the part that is used is decoded: in a fresh process, memory stays far below the 150 MB of the whole file."""
    with soundfile.SoundFile(tmp_path / "x.wav", "w", 16000, 1, subtype="PCM_16") as file:
        minute = tone(60, 16000)
        for _ in range(40):
            file.write(minute)
    program = (
        "import resource, sys; from residual_audio.audio import read; read(sys.argv[2], 16000, 0, 4);"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; x = read(sys.argv[1], 16000, 0, 4);"
        "y = read(sys.argv[1], 16000, 1200, 4);"
        "print(len(x), len(y), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    soundfile.write(tmp_path / "short.wav", minute[:80000], 16000)
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "x.wav", tmp_path / "short.wav"], capture_output=True, text=True, check=True
    )
    start, middle, grown = map(int, done.stdout.split())
    assert start == middle == 64000
    assert grown < 20_000


@pytest.mark.parametrize("rate", [8000, 11025, 44100, 192000])
def test_any_rate(tmp_path, rate):
    soundfile.write(tmp_path / "x.wav", tone(2, rate), rate)
    samples = read(tmp_path / "x.wav", 16000)
    assert abs(len(samples) - 32000) <= 1
    assert abs(spectral_peak(samples, 16000) - 500) < 1


def test_six_channels_are_averaged(tmp_path):
    samples = tone(1, 16000, 6) * np.array([1, 0, 0, 0, 0, 0.5])
    soundfile.write(tmp_path / "x.wav", samples, 16000, subtype="FLOAT")
    assert np.allclose(read(tmp_path / "x.wav", 16000), samples.mean(1), atol=1e-6)


@pytest.mark.parametrize(("name", "subtype", "tolerance"), [
    ("x.wav", "PCM_U8", 1e-2), ("x.wav", "PCM_16", 1e-4), ("x.wav", "PCM_24", 1e-6), ("x.wav", "PCM_32", 1e-7), ("x.wav", "FLOAT", 1e-7),
    ("x.wav", "DOUBLE", 1e-7), ("x.flac", "PCM_16", 1e-4), ("x.ogg", "VORBIS", 5e-2), ("x.mp3", "MPEG_LAYER_III", 5e-2),
])  # fmt: skip
def test_formats(tmp_path, name, subtype, tolerance):
    samples = tone(1, 44100)
    soundfile.write(tmp_path / name, samples, 44100, subtype=subtype)
    decoded = read(tmp_path / name, 44100)
    assert np.abs(decoded[2000:40000] - samples[2000:40000, 0]).max() < tolerance


def test_integer_arrays_are_scaled():
    assert np.allclose(read(Waveform((tone(1, 16000)[:, 0] * 32767).astype(np.int16), 16000), 16000), tone(1, 16000)[:, 0], atol=1e-4)


@pytest.mark.parametrize("samples", [np.zeros((2, 3, 4)), np.zeros(0)])
def test_arrays_of_the_wrong_shape(samples):
    with pytest.raises(MediaError):
        POLICY.prepare(Waveform(samples, 16000))


def test_the_good_clips_among_bad_ones_come_out_in_order(tmp_path):
    soundfile.write(tmp_path / "good.wav", tone(1, 16000), 16000)
    (tmp_path / "bad.wav").write_text("no")
    sources = [tmp_path / n for n in ("good.wav", "bad.wav", "gone.wav", "good.wav")]
    outcomes = list(prepared_ahead(sources, POLICY.prepare, workers=3))
    assert [isinstance(o, MediaError) for o in outcomes] == [False, True, True, False]


def test_stopping_early_leaves_no_threads():
    import threading

    before = threading.active_count()
    stream = prepared_ahead((Waveform(tone(1, 16000), 16000) for _ in range(1000)), POLICY.prepare, workers=4)
    next(stream)
    stream.close()
    assert threading.active_count() == before


def test_windows_cover_the_clip():
    from dataclasses import replace

    policy = replace(POLICY, crop="windows", max_windows=3)
    assert policy.window_starts(3.0) == [0.0]
    assert policy.window_starts(10.0) == [0.0, 3.0, 6.0]
    assert policy.window_starts(100.0) == [0.0, 48.0, 96.0]
    assert replace(POLICY, crop="centre").window_starts(10.0) == [3.0]


def test_the_hash_names_the_policy():
    from dataclasses import replace

    assert POLICY.hash == replace(POLICY).hash
    assert len({POLICY.hash, replace(POLICY, crop="centre").hash, replace(POLICY, mel=replace(POLICY.mel, hop=255)).hash}) == 3
