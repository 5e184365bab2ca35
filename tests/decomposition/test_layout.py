"""Index vectors against transformers' own partitioning, and against the model's folding of time."""

import pytest
import torch
from transformers import ClapAudioConfig
from transformers.models.clap.modeling_clap import ClapAudioEncoder, ClapAudioPatchMerging, window_partition

from residual_audio.decomposition.layout import group_order, to_groups, to_spectrogram, window_order


@pytest.mark.parametrize(("side", "window", "shift"), [(16, 4, 0), (16, 4, 2), (8, 8, 0), (32, 8, 4)])
def test_window_order_is_transformers_partition(side, window, shift):
    grid = torch.arange(side * side).view(1, side, side, 1)
    theirs = window_partition(grid.roll((-shift, -shift), (1, 2)), window).flatten()
    assert torch.equal(window_order((side, side), window, shift), theirs)


def test_without_windows_nothing_moves():
    assert torch.equal(window_order((1, 7), 0, 0), torch.arange(7))


def test_group_order_is_what_merging_concatenates():
    """Push token numbers through two of transformers' merges (identity norm, exposed before the linear layer)."""
    seen = {}
    tokens = torch.arange(64.0).view(1, 64, 1)
    for level, side in enumerate((8, 4)):
        merge = ClapAudioPatchMerging(tokens.shape[-1])
        merge.norm = torch.nn.Identity()
        merge.norm.register_forward_pre_hook(lambda m, a, level=level: seen.__setitem__(level, a[0]))
        merge(tokens, (side, side))
        tokens = seen[level]
    assert torch.equal(group_order((8, 8), 2), tokens.flatten().long())
    assert torch.equal(group_order((8, 8), 0), torch.arange(64))


def test_to_groups_undoes_the_windows_first():
    grid, window, shift = (16, 16), 4, 2
    in_windows = window_order(grid, window, shift)
    assert torch.equal(in_windows[to_groups(grid, window, shift, 2)], group_order(grid, 2))


def test_to_spectrogram_undoes_the_folding():
    """A spectrogram whose value is its time (or frequency) comes back in that order after transformers' folding."""
    encoder = ClapAudioEncoder(ClapAudioConfig(spec_size=128, num_mel_bins=64, patch_embeds_hidden_size=16, hidden_size=128, window_size=4))
    for axis in (2, 3):
        mel = torch.arange(256.0)[None, None, :, None].expand(1, 1, 256, 64) if axis == 2 else torch.arange(64.0).expand(1, 1, 256, 64)
        image = encoder.reshape_mel2img(mel)
        tokens = torch.nn.functional.avg_pool2d(image, 4)[0, 0].flatten()
        pick = to_spectrogram((32, 32), encoder.freq_ratio)
        assert pick.shape == (16, 64)
        laid_out = tokens[pick]
        assert (laid_out.diff(dim=1 if axis == 2 else 0) > 0).all()
