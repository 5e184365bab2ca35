"""Explanations: parts sum to wholes, sounds add up, curves begin and end where they must."""

import numpy as np
import pytest
import soundfile
import torch
import torch.nn.functional as F

import residual_audio as ra
from residual_audio.adaptation.attach import attached
from residual_audio.audio import Waveform
from residual_audio.data import load_dataset
from residual_audio.meaning import MeaningError
from residual_audio.meaning.concepts import concepts_for
from residual_audio.meaning.faithfulness import (
    FRACTIONS,
    ORDERS,
    Heard,
    areas,
    cell_numbers,
    curves,
    evidence,
    gradient_map,
    orders,
    over_clips,
    pooled,
    silence_of,
)  # fmt: skip
from residual_audio.meaning.listening import listen
from residual_audio.meaning.tokens import spread, token_map
from residual_audio.models import load_encoder

BELL = "synthetic:source/8/20000002"


@pytest.fixture(scope="module")
def heard(tiny):
    data = load_dataset("synthetic", per_class=2)
    return listen(tiny, data.only(lambda c: c.label in data.labels[:8], "some classes"))


@pytest.fixture(scope="module")
def made(tiny, heard):
    return ra.explain(tiny, BELL, ["bell", "rain"], listening=heard, draws=1, words=5)


@pytest.fixture(scope="module")
def clip(tiny, heard):
    """One clip, its text, its map, and where it speaks for the text."""
    concepts = concepts_for(heard, ["bell"])
    direction = concepts.directions[concepts.index("bell")]
    features = tiny.prepare(load_dataset("synthetic", per_class=1).clips[1].source).features
    one = Heard(tiny, features, silence_of(tiny), torch.tensor([False]), direction)
    written = token_map(tiny, features, torch.tensor([False]), direction)
    return one, written, evidence(written, one)


def test_units_sum_to_weights_and_scores(made):
    code, units = made.tables["explain_code"], made.tables["explain_units"]
    sums = units.groupby("concept", sort=False)[["weight", "score"]].sum()
    assert np.abs(sums.to_numpy() - code[["weight", "score"]].to_numpy()).max() < 1e-10
    assert len(units) == len(code) * (1 + 184 + 12 + 2)  # input, heads, MLPs, constant and penalty
    assert (code.weight >= 0).all()
    assert (code.weight > 0).sum() <= 5


def test_scores_are_cosines_without_the_gap(tiny, heard, made):
    embedding = tiny.embed([Waveform(made.original, made.sample_rate)])[0]
    concepts = concepts_for(heard, ["bell"])
    expected = F.cosine_similarity(embedding - heard.embeddings.mean(0), concepts.directions[concepts.index("bell")], dim=0)
    assert made.tables["explain_code"].set_index("concept").score["bell"] == pytest.approx(float(expected), abs=1e-4)


def test_the_first_concept_is_explained_where_no_text_is_asked(tiny, heard):
    made = ra.explain(tiny, BELL, listening=heard, curves=False)
    assert list(made.maps) == [made.tables["explain_code"].concept[0]]
    assert "explain_curves" not in made.tables


def test_an_adapter_is_explained_as_the_network_with_it_hears(tiny, heard, made):
    """Against the attached adapter, which folding has no part in."""
    adapter = ra.steer(tiny, more=["bell"], listening=heard, controls=0).adapter
    found = ra.explain(tiny, BELL, ["bell"], data=heard.dataset, adapter=adapter, curves=False)
    with attached(tiny, adapter):
        clips = tiny.embed([c.source for c in heard.dataset.clips])
        embedding = tiny.embed([Waveform(found.original, found.sample_rate)])[0]
    concepts = concepts_for(heard, ["bell"])
    expected = F.cosine_similarity(embedding - clips.mean(0), concepts.directions[concepts.index("bell")], dim=0)
    score = found.tables["explain_code"].set_index("concept").score["bell"]
    assert score == pytest.approx(float(expected), abs=1e-4)
    assert abs(score - made.tables["explain_code"].set_index("concept").score["bell"]) > 1e-3
    with pytest.raises(MeaningError, match="without the adapter"):
        ra.explain(tiny, BELL, adapter=adapter, listening=heard)


def test_what_is_kept_and_removed_is_the_sound_also_on_disk(made, tmp_path):
    made.write(tmp_path)
    original, rate = soundfile.read(tmp_path / "sounds" / "original.wav", dtype="float32")
    assert rate == made.sample_rate
    for name in ("1-bell", "2-rain"):
        kept, removed, against = (soundfile.read(tmp_path / "sounds" / f"{name}-{k}.wav", dtype="float32")[0] for k in
                                  ("kept", "removed", "against"))  # fmt: skip
        assert np.abs(kept + removed - original).max() < 1e-6
        assert 0 < (kept**2).sum() < (original**2).sum()
        assert len(against) == len(original)
    assert (original == made.original).all()
    for text, mask in made.masks.items():
        assert 0 < mask.sum() <= round(0.2 * mask.numel()), text


def test_evidence_sums_to_the_score_above_silence_and_spreading_keeps_sums(clip):
    one, _, values = clip
    scores = one.scores(torch.cat([one.features, one.silence]))
    assert float(values.sum()) == pytest.approx(float(scores[0] - scores[1]), abs=1e-4)
    coarse, weights = torch.tensor([[1.0, -2.0]]), torch.rand(4, 6, generator=torch.Generator().manual_seed(0))
    weights[:, :3] = 0  # nothing to go by: evenly
    dealt = spread(coarse, (4, 6), weights)
    assert torch.allclose(dealt[:, :3], torch.full((4, 3), 1 / 12))
    assert torch.allclose(dealt[:, 3:], -2 * weights[:, 3:] / weights[:, 3:].sum())


def test_curves_begin_with_the_clip_and_end_in_silence(tiny, clip):
    one, _, values = clip
    order = values.flatten().argsort(descending=True)
    deletion, insertion = curves(one, order, tuple(values.shape), (0.0, 0.3, 1.0))
    with torch.no_grad():
        plain, silent = (F.cosine_similarity(tiny.encode(x, one.longer), one.direction[None])[0] for x in (one.features, one.silence))
    assert deletion[0] == insertion[2] == pytest.approx(float(plain), abs=1e-5)
    assert deletion[2] == insertion[0] == pytest.approx(float(silent), abs=1e-5)
    reverse, _ = curves(one, order.flip(0), tuple(values.shape), (0.7,))
    assert insertion[1] == pytest.approx(float(reverse[0]), abs=1e-5)  # deleting the other 70 % leaves the same input


def test_random_orders_come_from_the_seed_and_every_order_has_every_cell(clip):
    one, _, values = clip
    first, again, other = (orders(one, values, 2, seed) for seed in (0, 0, 1))
    assert set(first) == set(ORDERS)
    assert all((a == b).all() for name in ORDERS for a, b in zip(first[name], again[name], strict=True))
    assert (first["random"][0] != other["random"][0]).any()
    assert (first["random"][0] != first["random"][1]).any()
    assert all((o.sort().values == torch.arange(values.numel())).all() for some in first.values() for o in some)


def test_the_gradient_map_is_a_first_order_change_of_the_score(clip):
    """Its sum is the directional derivative towards silence, which a small step measures too."""
    one, _, values = clip
    grid = gradient_map(one, tuple(values.shape))
    step = 1e-3
    towards = one.features + step * (one.features - one.silence)
    back = one.features - step * (one.features - one.silence)
    measured = float(one.scores(towards) - one.scores(back)) / (2 * step)
    assert float(grid.sum()) == pytest.approx(measured, abs=0.02 * max(1.0, abs(measured)))


def test_cells_cover_the_input_once(clip):
    numbers = cell_numbers((16, 64), 251, 64)
    assert set(numbers.flatten().tolist()) == set(range(16 * 64))
    assert numbers[0, 0] == 0
    assert numbers[-1, -1] == 16 * 64 - 1
    assert pooled(torch.ones(251, 64), (16, 64)).sum() == 251 * 64


def test_areas_of_flat_curves_and_intervals_over_clips(made):
    table = made.tables["explain_curves"]
    assert set(table.fraction) == set(FRACTIONS)
    flat = areas(table[table.text == "bell"].assign(deletion=0.25, insertion=0.75))
    assert flat.difference.tolist() == pytest.approx([0.5] * len(ORDERS))
    one = areas(table[table.text == "bell"])
    both = over_clips({"a": one, "b": one.assign(difference=one.difference + 0.1)})
    assert both.set_index("order").difference["shares"] == pytest.approx(float(one.difference[0]) + 0.05)
    assert (both.low <= both.difference).all()
    assert both.set_index("order").shares_ahead["shares"] == 0


def test_classes_stand_in_where_texts_are_missing(whisper_dir):
    encoder = load_encoder(whisper_dir)
    data = load_dataset("synthetic", per_class=4)
    heard = listen(encoder, data.only(lambda c: c.label in data.labels[:3], "some classes"))
    name = data.names[data.labels[0]]
    made = ra.explain(encoder, heard.dataset.clips[0].path, [name], listening=heard, curves=False)
    assert made.info["concepts"] == "centroids"
    sounds = made.sounds[name]
    assert np.abs(sounds.kept + sounds.removed - made.original).max() < 1e-6
    assert made.masks[name].shape[0] == 1  # Whisper's tokens are stretches of time


def test_arrays_long_sounds_and_wrong_questions(tiny, heard, vit_dir):
    rng = np.random.default_rng(0)
    noise = (0.1 * rng.standard_normal(8000)).astype(np.float32)
    made = ra.explain(tiny, noise, ["rain"], sample_rate=16000, listening=heard, curves=False)
    assert len(made.original) == tiny.policy.samples
    with pytest.raises(MeaningError, match="between 0 and 1"):
        ra.explain(tiny, noise, sample_rate=16000, keep=1.5, listening=heard)
    with pytest.raises(MeaningError, match="images"):
        ra.explain(load_encoder(vit_dir), noise, sample_rate=16000)
    windows = load_encoder("tiny", crop="windows")
    with pytest.raises(MeaningError, match="one window"):
        ra.explain(windows, np.tile(noise, 20), sample_rate=16000, listening=heard)


@pytest.mark.parametrize("text", ["../../etc/passwd", "<script>alert(1)</script>", "=1+1", "\x1b[31m", "铃"])
def test_texts_name_no_other_file(tiny, heard, tmp_path, text):
    made = ra.explain(tiny, BELL, [text], listening=heard, curves=False)
    made.write(tmp_path / "out")
    written = [p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()]
    assert all(name.startswith("out/") and name.isascii() and "<" not in name for name in written)
    assert len([name for name in written if name.endswith(".wav")]) == 4
