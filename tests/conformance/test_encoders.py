"""One contract that every encoder fulfils."""

from pathlib import Path

import numpy as np
import pytest
import torch

from residual_audio.media import MediaError
from residual_audio.models import ENCODERS, EncoderError, encoders, load_encoder
from residual_audio.models.batching import prepared_ahead
from residual_audio.units import Unit
from tests.helpers.layouts import ALL, EXPORTS, FILES, clip_files, open_layout


@pytest.fixture(scope="module", params=ALL)
def encoder(request):
    return open_layout(request.param, request)


@pytest.fixture
def files(encoder, request):
    return clip_files(encoder, request)


def test_every_kind_of_the_package_has_a_layout_here(request):
    """A new kind of encoder needs a small checkpoint in tests/helpers/layouts.py, and then has the whole contract."""
    kinds = {type(open_layout(name, request)).__module__.rpartition(".")[2] for name in (*ALL, *FILES, *EXPORTS)}
    files = {path.stem for path in Path(encoders.__file__).parent.glob("[!_]*.py")}
    assert kinds == files
    assert files <= set(ENCODERS)


def test_embeddings_have_unit_length_and_the_stated_width(encoder, files):
    embedded = encoder.embed(files)
    assert embedded.shape == (len(files), encoder.dim)
    assert torch.allclose(embedded.norm(dim=-1), torch.ones(len(files)), atol=1e-5)
    assert (embedded[:, None] - embedded[None]).norm(dim=-1).fill_diagonal_(1).min() > 1e-4


def test_a_clip_does_not_depend_on_its_batch(encoder, files):
    """Alone, in a batch of seven, after shuffling, with one or four threads: the same input bits, embeddings within 1e-6."""
    alone = [encoder.prepare(path).features for path in files]
    order = np.random.default_rng(1).permutation(len(files))
    for workers in (1, 4):
        shuffled = list(prepared_ahead([files[i] for i in order], encoder.prepare, workers))
        assert all(torch.equal(alone[i], p.features) for i, p in zip(order, shuffled, strict=True))
    together = encoder.embed(files, batch_size=7)
    one_by_one = torch.cat([encoder.embed([path]) for path in files])
    mixed = encoder.embed([files[i] for i in order], batch_size=3)
    assert (together - one_by_one).abs().max() < 1e-6
    assert (together[order] - mixed).abs().max() < 1e-6


def test_sites_exist_and_their_shapes_agree_with_the_table(encoder):
    assert [(s.stage, s.block) for s in encoder.sites] == list(encoder.units.blocks)
    for site in encoder.sites:
        projection = encoder.module.get_submodule(site.projection)
        assert projection.weight.shape[0] == encoder.units.d_model[site.stage]
        assert projection.weight.shape[1] == site.heads * encoder.units.d_head[site.stage]
        assert site.heads == encoder.units.heads[site.stage][site.block]
        encoder.module.get_submodule(site.mlp)
        encoder.module.get_submodule(site.entry)


def test_sites_fire_and_the_stream_is_their_sum(encoder, files):
    """Within a stage, what enters a block is what entered the one before plus its attention's and its MLP's writes."""
    seen, handles = {}, []
    for site in encoder.sites:
        key = (site.stage, site.block)
        handles += [
            encoder.module.get_submodule(site.entry).register_forward_pre_hook(lambda m, a, key=key: seen.__setitem__((*key, "in"), a[0])),
            encoder.module.get_submodule(site.projection).register_forward_hook(
                lambda m, a, o, key=key: seen.__setitem__((*key, "attention"), o)
            ),
            encoder.module.get_submodule(site.mlp).register_forward_hook(lambda m, a, o, key=key: seen.__setitem__((*key, "mlp"), o)),
        ]
    encoder.embed(files[:1])
    for handle in handles:
        handle.remove()
    for (s, b), (next_s, next_b) in zip(encoder.units.blocks, encoder.units.blocks[1:], strict=False):
        if s != next_s:
            continue
        width = encoder.units.d_model[s]
        total = sum(seen[s, b, part].reshape(-1, width).double().mean(0) for part in ("in", "attention", "mlp"))
        assert torch.allclose(total, seen[next_s, next_b, "in"].reshape(-1, width).double().mean(0), atol=1e-4, rtol=1e-4)


def test_text_side_or_a_clear_word(encoder):
    if encoder.has_text:
        texts = encoder.embed_text(["a dog", "rain", "a church bell far away"])
        assert texts.shape == (3, encoder.dim)
        assert torch.allclose(texts.norm(dim=-1), torch.ones(3), atol=1e-5)
        assert (texts[0] - encoder.embed_text(["a dog"])[0]).abs().max() < 1e-5
    else:
        with pytest.raises(EncoderError, match="centroid"):
            encoder.embed_text(["a dog"])


def test_a_sample_rate_is_for_sounds(encoder, files):
    if encoder.media == "sounds":
        with pytest.raises(MediaError, match="sample_rate"):
            encoder.embed([np.zeros(100, np.float32)])
    else:
        with pytest.raises(EncoderError, match="have no sample rate"):
            encoder.embed(files, sample_rate=16000)


def test_several_windows_are_averaged(encoder, sound_files):
    if encoder.media == "images":
        pytest.skip("an image has no length")
    if encoder.policy.fusion:
        pytest.skip("fused models see the whole clip already")
    long = next(p for p in sound_files if p.name == "e.wav")
    windows = load_encoder(encoder.name, crop="windows")
    prepared = windows.prepare(long)
    assert len(prepared.features) == int(np.ceil(12.0 / encoder.policy.seconds))
    one_window = [torch.nn.functional.normalize(windows.encode(f[None], torch.tensor([True])), dim=-1)[0] for f in prepared.features]
    expected = torch.nn.functional.normalize(torch.stack(one_window).mean(0), dim=-1)
    assert (windows.embed([long])[0] - expected).abs().max() < 1e-5


def test_unit_table_round_trip(encoder):
    table = encoder.units
    assert table[0] == Unit.parse("E")
    for i, unit in enumerate(table):
        assert table.index(unit.label) == i
        assert Unit.parse(unit.label) == unit
