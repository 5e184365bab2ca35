"""Streaming is reading: the same bits, cut into windows that cover everything."""

import numpy as np
import pytest
import soundfile

from residual_audio.audio import Waveform, read
from residual_audio.audio.windows import blocks, sliding
from residual_audio.media import MediaError


@pytest.mark.parametrize("rate", [16000, 44100])
def test_blocks_in_a_row_are_the_whole_file(sound_files, rate):
    for path in sound_files:
        np.testing.assert_allclose(np.concatenate(list(blocks(path, rate))), read(path, rate), atol=1e-6, err_msg=path.name)


def test_an_array_streams_as_a_file_does():
    wave = Waveform(np.random.default_rng(0).standard_normal((50_000, 2)).astype(np.float32), 22050)
    np.testing.assert_allclose(np.concatenate(list(blocks(wave, 16000))), read(wave, 16000), atol=1e-6)


@pytest.mark.parametrize("frames", [1, 999, 1000, 1001, 1400, 40_123])
@pytest.mark.parametrize("hop", [300, 1000])
def test_windows_cover_every_sample_and_are_all_full(frames, hop):
    samples = np.arange(frames, dtype=np.float32) / frames
    windows = list(sliding(Waveform(samples, 16000), 16000, 1000, hop))
    seen = np.full(frames, np.nan)
    for window in windows:
        assert len(window.samples) == min(1000, frames)
        seen[window.start : window.start + 1000] = window.samples
    np.testing.assert_array_equal(seen, samples)
    starts = [w.start for w in windows]
    assert starts[:-1] == [i * hop for i in range(len(starts) - 1)]
    assert starts[-1] == max(0, min((len(starts) - 1) * hop, frames - 1000))


def test_windows_that_leave_gaps_are_refused():
    with pytest.raises(ValueError, match="gaps"):
        next(sliding(Waveform(np.ones(10, np.float32), 16000), 16000, 4, 5))


def test_what_is_wrong_with_a_recording_is_told_where_it_shows(tmp_path):
    soundfile.write(tmp_path / "none.wav", np.zeros(0), 16000)
    with pytest.raises(MediaError, match="no audio frames"):
        next(sliding(tmp_path / "none.wav", 16000, 4, 4))
    late = np.zeros(100_000, np.float32)
    late[90_000] = np.nan
    soundfile.write(tmp_path / "late.wav", late, 16000, subtype="FLOAT")
    with pytest.raises(MediaError, match="NaN or infinite"):
        list(sliding(tmp_path / "late.wav", 16000, 1000, 1000))
