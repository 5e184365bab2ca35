"""Steering by words: identity at zero, exact folding, gains that are what they say, controls from a seed."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from scipy.stats import linregress

import residual_audio as ra
from residual_audio.adaptation.attach import attached
from residual_audio.data import load_dataset
from residual_audio.meaning import MeaningError
from residual_audio.meaning.concepts import LONGEST_TEXT, concepts_for
from residual_audio.meaning.listening import listen, shares_of
from residual_audio.meaning.plan import plan
from residual_audio.meaning.steer import slopes
from residual_audio.meaning.textaxes import along, steering, text_axes
from residual_audio.models import load_encoder
from residual_audio.models.pathways import Pathways
from residual_audio.units import Unit


@pytest.fixture(scope="module")
def heard(tiny):
    data = load_dataset("synthetic", per_class=2)
    return listen(tiny, data.only(lambda c: c.label in data.labels[:12], "some classes"))


@pytest.fixture(scope="module")
def steered(tiny, heard):
    return ra.steer(tiny, more=["bell"], less=["bird"], listening=heard, top=6, controls=2)


@pytest.fixture(scope="module")
def whisper(whisper_dir):
    """A model without texts, small, and the clips whose classes stand in."""
    encoder = load_encoder(whisper_dir)
    data = load_dataset("synthetic", per_class=4)
    return listen(encoder, data.only(lambda c: c.label in data.labels[:3], "some classes"))


def test_shares_of_all_units_sum_to_the_embedding(heard, tiny):
    assert (heard.shares.sum(1) + heard.constant - heard.embeddings).abs().max() < 1e-5
    embedded = tiny.embed([c.source for c in heard.dataset.clips[:3]])
    assert (embedded - heard.embeddings[:3]).abs().max() < 1e-5
    assert not set(heard.fit) & set(heard.test)
    assert not {heard.dataset.groups[i] for i in heard.fit} & {heard.dataset.groups[i] for i in heard.test}


def test_shares_of_a_text_sum_to_one(heard):
    ranked = plan(heard, more=["bell"], top=5).ranked
    rows, direction = torch.from_numpy(heard.fit), (c := concepts_for(heard, ["bell"])).directions[c.index("bell")]
    rest = torch.cat([heard.shares[rows, :1], heard.constant[rows, None]], 1) @ direction
    score = (heard.embeddings[rows] @ direction).double()
    left = [np.cov(part.double(), score)[0, 1] / np.var(score.numpy(), ddof=1) for part in rest.T]
    assert ranked.share.sum() + sum(left) == pytest.approx(1, abs=1e-5)
    assert list(ranked[ranked.chosen].share) == sorted(ranked.share, reverse=True)[:5]


def test_no_strength_is_the_model_as_it_was(tiny, heard):
    adapter = plan(heard, more=["bell"], less=["bird"], top=3).adapter(0.0)
    assert all((s.values == 1).all() for s in adapter.sets)
    sources = [c.source for c in heard.dataset.clips[:2]]
    plain = tiny.embed(sources)
    with attached(tiny, adapter):
        assert (tiny.embed(sources) - plain).abs().max() < 1e-6
    assert (ra.fold(tiny, adapter).embed(sources) - plain).abs().max() < 1e-6
    none = ra.steer(tiny, more=["bell"], strength=0, listening=heard, top=3, controls=0).tables["steer_concepts"]
    assert (none.gain - 1).abs().max() < 1e-5


def test_what_is_saved_attaches_and_folds_alike(tiny, heard, steered, tmp_path):
    steered.write(tmp_path / "a")
    adapter = ra.load_adapter(tmp_path / "a", tiny)
    sources = [c.source for c in heard.dataset.clips[:3]]
    with attached(tiny, adapter):
        live = tiny.embed(sources)
    folded = ra.fold(tiny, adapter)
    assert (folded.embed(sources) - live).abs().max() <= 1e-5
    assert (live - tiny.embed(sources)).abs().max() > 1e-3  # it did something
    assert (tmp_path / "a" / "tables" / "steer_concepts.csv").exists()
    assert "nothing was trained" in (tmp_path / "a" / "README.md").read_text()


def test_targets_move_as_asked_and_more_than_all_others_and_the_controls(steered):
    concepts, summary = steered.tables["steer_concepts"], steered.tables["steer_summary"].set_index("model")
    gain = concepts.set_index("concept").gain
    assert gain["bell"] > 1.05
    assert gain["bird"] < 0.95
    assert summary.difference["steered"] > 0
    assert (summary.difference.drop("steered") < summary.difference["steered"] / 2).all()
    assert summary.p.drop("steered").tolist() == [pytest.approx(1 / 3)] * 2


def test_controls_come_from_the_seed(tiny, heard):
    def control(seed):
        table = ra.steer(tiny, more=["bell"], listening=heard, top=2, controls=1, seed=seed).tables["steer_summary"]
        return table.set_index("model").target.drop("steered").to_numpy()

    assert (control(1) == control(1)).all()
    assert (control(1) != control(2)).all()


def test_a_gain_is_the_slope_that_scipy_finds():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 3))
    y = x * [1.5, 1.0, 0.2] + 0.3 * rng.standard_normal((50, 3)) + 2
    expected = [linregress(x[:, i], y[:, i]).slope for i in range(3)]
    assert np.abs(1 + slopes(x, y).mean(0) - expected).max() < 1e-12


def test_a_text_aligned_gain_scales_a_units_share_by_exactly_that(whisper):
    """In the last block of a model of one resolution nothing comes after: the formula of the module, measured by a run."""
    encoder, ways = whisper.encoder, Pathways(whisper.encoder)
    direction = concepts_for(whisper).directions[0]
    last = len(encoder.sites) - 1
    unit = Unit(0, last, "mlp")
    (axis,) = text_axes(whisper, ways, direction, [unit])
    assert axis.alignment == pytest.approx(1, abs=1e-6)  # one direction for all clips and tokens
    adapter = steering(whisper, {unit: [(axis.axis, 0.5)]}, 0.5)

    def written(at_work):
        """Σ ω⟨w, z − μ⟩ with the norms of the plain run: the unit's share about its mean."""
        x, longer = whisper.inputs.batch(np.arange(2)), torch.zeros(2, dtype=torch.bool)
        with attached(encoder, adapter) if at_work else nullcontext(), torch.no_grad():
            outputs = shares_of(encoder, Pathways(encoder), x, longer).outputs
        return (outputs[unit] - whisper.outputs[unit][torch.from_numpy(whisper.fit)].mean(0)) @ axis.axis.float()

    assert torch.allclose(written(True), 1.5 * written(False), rtol=1e-3, atol=1e-5)


def test_axes_add_up_and_never_beyond_the_strength():
    a, b = torch.eye(3, dtype=torch.float64)[:2]
    axes, gains = along([(a, 0.5), (b, -0.5)], 0.5)
    assert sorted(gains.tolist()) == [0.5, 1.0, 1.5]
    assert torch.allclose(axes.T @ torch.diag(gains) @ axes, torch.diag(torch.tensor([1.5, 0.5, 1.0], dtype=torch.float64)))
    assert along([(a, 0.5), (a, 0.5)], 0.5)[1].max() == 1.5
    assert along([(a, 0.5), (a, -0.5)], 0.5)[1].tolist() == [1, 1, 1]


def test_by_somp_ranks_by_what_a_text_explains_of_a_unit(heard):
    ranked = plan(heard, more=["bell"], by="somp", top=4).ranked
    assert ranked.explained.is_monotonic_decreasing
    unit, direction = ranked.label[0], (c := concepts_for(heard, ["bell"])).directions[c.index("bell")]
    shares = heard.shares[torch.from_numpy(heard.fit), heard.encoder.units.index(unit)]
    centred = shares - shares.mean(0)
    assert ranked.explained[0] == pytest.approx(float((centred @ direction).square().sum() / centred.square().sum()), rel=1e-4)


def test_classes_stand_in_where_texts_are_missing(whisper):
    names = [whisper.dataset.names[label] for label in whisper.dataset.labels]
    made = ra.steer(whisper.encoder, more=[names[0]], listening=whisper, units="mlps", top=2, controls=0)
    assert made.info["concepts"] == "centroids"
    assert set(made.tables["steer_concepts"].concept) == set(names)
    with pytest.raises(MeaningError, match="has no class 'rain of frogs'"):
        ra.steer(whisper.encoder, more=["rain of frogs"], listening=whisper)
    with pytest.raises(MeaningError, match="no dictionary"):
        ra.steer(whisper.encoder, more=[names[0]], dictionary="esc50", listening=whisper)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (dict(), "nothing to steer"),
        (dict(more=["bell"], less=["Bell "]), "both more and less"),
        (dict(more=["  "]), "1 to 500 characters"),
        (dict(more=["x" * (LONGEST_TEXT + 1)]), "1 to 500 characters"),
        (dict(more=["bell"], strength=-1.0), "strength"),
        (dict(more=["bell"], by="luck"), "unknown ranking"),
    ],
)
def test_wrong_questions_are_told(tiny, heard, texts, message):
    with pytest.raises(MeaningError, match=message):
        ra.steer(tiny, listening=heard, **texts)


def test_hostile_texts_are_texts(tiny, heard, tmp_path):
    hostile = "=cmd|' /C calc'!A0 <script>alert(1)</script> ../../x \x1b[31m"
    made = ra.steer(tiny, more=[hostile], listening=heard, top=2, controls=0)
    made.write(tmp_path / "a")
    csv = (tmp_path / "a" / "tables" / "steer_concepts.csv").read_text()
    assert "'=cmd" in csv
    card = (tmp_path / "a" / "README.md").read_text()
    assert "<script>" not in card
    assert "\x1b" not in card
    assert {p.name for p in tmp_path.iterdir()} == {"a"}
