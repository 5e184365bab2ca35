"""Masks that can be heard: kept and removed are the sound, and a mask keeps what lies in its cells."""

import numpy as np
import pytest
import torch

from residual_audio.audio.mel import hertz_to_mel, mel_filters, mel_to_hertz
from residual_audio.meaning.masks import largest_cells, masked, mel_position
from residual_audio.models import load_encoder

SHAPE = (16, 64)


@pytest.fixture(scope="module")
def policy():
    return load_encoder("tiny").policy


def tone(policy, hertz, first=0.0, last=1.0):
    t = np.arange(policy.samples) / policy.sample_rate
    inside = (t >= first * policy.seconds) & (t < last * policy.seconds)
    return (0.3 * np.sin(2 * np.pi * hertz * t) * inside).astype(np.float32)


def test_all_is_the_sound_nothing_is_silence_and_halves_add_up(policy):
    wave = np.random.default_rng(0).standard_normal(policy.samples).astype(np.float32)
    assert np.abs(masked(wave, torch.ones(SHAPE), policy) - wave).max() < 1e-5
    assert np.abs(masked(wave, torch.zeros(SHAPE), policy)).max() == 0
    mask = (torch.rand(SHAPE, generator=torch.Generator().manual_seed(0)) < 0.3).float()
    assert np.abs(masked(wave, mask, policy) + masked(wave, 1 - mask, policy) - wave).max() < 1e-5


@pytest.mark.parametrize("hertz", [300.0, 2500.0])
def test_a_tone_stays_where_its_cells_are_kept(policy, hertz):
    low, high = hertz_to_mel(np.array([policy.mel.f_min, policy.mel.f_max]), policy.mel.scale)
    row = int((hertz_to_mel(np.array([hertz]), policy.mel.scale)[0] - low) / (high - low) * SHAPE[0])
    mask = torch.zeros(SHAPE)
    mask[max(0, row - 1) : row + 2] = 1
    wave = tone(policy, hertz)
    assert (masked(wave, mask, policy) ** 2).sum() > 0.95 * (wave**2).sum()
    assert (masked(wave, 1 - mask, policy) ** 2).sum() < 0.01 * (wave**2).sum()


def test_late_cells_keep_late_sound(policy):
    mask = torch.zeros(SHAPE)
    mask[:, SHAPE[1] // 2 :] = 1
    early, late = tone(policy, 500.0, 0.1, 0.4), tone(policy, 500.0, 0.6, 0.9)
    assert (masked(early, mask, policy) ** 2).sum() < 0.01 * (early**2).sum()
    assert (masked(late, mask, policy) ** 2).sum() > 0.95 * (late**2).sum()


def test_bins_lie_at_the_band_that_hears_them_most(policy):
    """Against the filterbank itself: the band with the largest filter (each scaled to its own peak) contains the bin's position."""
    filters = mel_filters(policy.mel)
    strongest = (filters / filters.amax(0)).argmax(1).numpy()
    position = mel_position(len(filters), policy.mel)
    edges = mel_to_hertz(np.linspace(*hertz_to_mel(np.array([policy.mel.f_min, policy.mel.f_max]), policy.mel.scale), 66), policy.mel.scale)
    hertz = np.arange(len(filters)) * policy.mel.filter_rate / policy.mel.n_fft
    inside = (hertz > edges[2]) & (hertz < edges[-3])
    assert np.abs(position[inside] - (strongest[inside] + 0.5)).max() <= 1.2


def test_the_largest_cells_are_as_many_as_asked_and_none_speaks_against():
    values = torch.arange(-8.0, 8.0).view(4, 4)
    kept = largest_cells(values, 0.25)
    assert kept.sum() == 4
    assert values[kept == 1].min() == 4
    assert largest_cells(values, 0.9).sum() == 7  # the cells above zero
    assert largest_cells(-values.abs(), 0.5).sum() == 0
