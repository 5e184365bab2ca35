"""What the page is told: components against scikit-learn, effects and maps against the run's own shares, answers against `ask`."""

import base64
import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.decomposition import PCA

from residual_audio.adaptation.forms import FORMS
from residual_audio.adaptation.gain import ResiDual
from residual_audio.analysis.keys import with_keys
from residual_audio.evaluation import prompt_directions
from residual_audio.extraction import Run
from residual_audio.meaning import ask
from residual_audio.meaning.tokens import token_map
from residual_audio.models.batching import as_batch
from residual_audio.models.pathways import Pathways
from residual_audio.models.readings import DIRECT
from residual_audio.models.recording import recorded
from residual_audio.report.page.answers import answers
from residual_audio.report.page.audio import RATE, SECONDS, SHAPE, encoded, spectrogram
from residual_audio.report.page.clips import shown_clips
from residual_audio.report.page.components import head_components
from residual_audio.report.page.effects import Scoring, knobs, page_effects, turned_shares
from residual_audio.report.page.gather import class_titles, measures, other_runs, pool_rows, stages, table
from residual_audio.report.page.pack import as_script, digits, quantised
from residual_audio.results import write_table
from tests.helpers.page import CLASSES, HOSTILE

TEXTS = ("a bell", "rain")


@pytest.fixture(scope="module")
def directions(made):
    return prompt_directions(made.encoder, [*TEXTS], ["{}"])


@pytest.fixture(scope="module")
def effects(made, directions):
    rows = np.arange(0, 21, 3)
    mapped = {int(rows[2]): [0, 1]}
    turned = knobs(made.run, made.residual)
    return (*page_effects(made.encoder, made.run, rows, directions, turned, made.residual, mapped, directions), rows, turned)


def shares_of(run, rows, directions):
    """Units' shares of the cosines, from what extraction stored."""
    shares, constant = run.joint_shares(rows.tolist())
    length = run.array("embedding.joint")[rows].norm(dim=-1)
    return shares @ directions.T / length[:, None, None], constant @ directions.T / length[:, None]


def test_scores_are_the_cosines_of_the_run(made, effects, directions):
    effect, _, rows, _ = effects
    shares, constant = shares_of(made.run, rows, directions)
    torch.testing.assert_close(effect.base, shares.sum(1) + constant, atol=1e-5, rtol=0)


def test_axes_of_a_whole_basis_sum_to_the_head(effects, made):
    effect, _, _, turned = effects
    heads = [u.label for u in made.run.units.where("head")]
    for i in (0, 17, 63):
        torch.testing.assert_close(effect.axis[i].sum(1), effect.whole[:, heads.index(turned.heads[i])], atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("form", ["axes", "mixing"])
def test_learned_directions_add_up_to_what_the_form_does(made, form):
    """The sliders of a head, each at its learned gain, against the share of the head's outputs changed by the whole matrix."""
    ways, place = Pathways(made.encoder), made.residual.sets[-1].place
    basis = made.residual.sets[-1]
    values = 0.3 * torch.randn(len(basis.axes), FORMS[form].count(basis.axes.shape[1]), generator=torch.Generator().manual_seed(4))
    one = replace(basis, values=values, form=form)
    turned = knobs(made.run, ResiDual((one,)))
    features, longer, _ = as_batch(made.encoder, [made.encoder.prepare(c.source) for c in made.dataset.clips[:2]])
    with torch.inference_mode():
        scoring = Scoring.of(recorded(made.encoder, features, longer, DIRECT), ways)
        shares = turned_shares(scoring, turned)
        z = scoring.recording.heads[place.blocks[0]].unflatten(-1, (len(place.heads), -1))
        change = one.matrix() - torch.eye(z.shape[-1])
        moved = one.mean + torch.einsum("...hd,hed->...he", z - one.mean, change)
        recording = replace(scoring.recording, heads={**scoring.recording.heads, place.blocks[0]: moved.flatten(-2)})
        whole = turned_shares(replace(scoring, recording=recording), turned).whole
    heads = [u.label for u in made.run.units.where("head")]
    for label, axis, gain in zip(turned.heads, shares.axis, turned.gain, strict=True):
        added = torch.einsum("a,cao->co", gain - 1, axis)
        torch.testing.assert_close(added, whole[:, heads.index(label)], atol=1e-5 * float(whole.abs().max()), rtol=1e-3)


def test_heads_about_no_mean_are_the_stored_shares(made, directions, effects):
    """With μ = 0 the whole of a head is its stored share without the projection's bias, which heads of one block have in common."""
    rows = effects[2]
    turned = knobs(made.run, made.residual)
    bare = type(turned)(turned.heads[:1], turned.axes[:1], turned.gain[:1], [torch.zeros_like(m) for m in turned.mean], turned.written[:1])
    effect, _ = page_effects(made.encoder, made.run, rows, directions, bare, None, {}, directions)
    shares, _ = shares_of(made.run, rows, directions)
    for place in ((0, 1), (1, 0), (2, 3), (3, 1)):
        units = made.run.units.where("head", *place)
        own_heads = [made.run.units.where("head").index(u) for u in units]
        stored = shares[:, [made.run.units.index(u) for u in units]]
        got = effect.whole[:, own_heads]
        torch.testing.assert_close(got - got[:, :1], stored - stored[:, :1], atol=1e-5, rtol=1e-4)


def test_a_dropped_mean_is_what_centring_took_away(made, directions, effects):
    """Σ over the knobs' heads of (whole about nothing − whole about μ) is what `mean: drop` takes off the scores."""
    _, _, rows, turned = effects
    drop, bare = replace(turned, dropped=1.0), replace(turned, mean=[torch.zeros_like(m) for m in turned.mean])
    about, nothing = (page_effects(made.encoder, made.run, rows[:2], directions, k, None, {}, directions)[0] for k in (drop, bare))
    heads = [u.label for u in made.run.units.where("head")]
    own_heads = [heads.index(label) for label in turned.heads]
    torch.testing.assert_close(about.dropped, (about.whole - nothing.whole)[:, own_heads].sum(1), atol=1e-5, rtol=1e-4)


def test_the_adapted_scores_are_those_of_the_adapted_model(made, effects, directions):
    from residual_audio.adaptation.fold import fold

    effect, _, rows, _ = effects
    folded = fold(made.encoder, made.residual)
    again = folded.embed([made.run.clips["path"][i] for i in rows]) @ directions.T
    torch.testing.assert_close(effect.adapted, again.float(), atol=1e-5, rtol=0)
    assert (effect.adapted - effect.base).abs().max() > 1e-3


def test_maps_sum_to_the_units_shares_and_are_the_token_map(made, effects, directions):
    _, maps, rows, _ = effects
    row = int(rows[2])
    shares, _ = shares_of(made.run, np.array([row]), directions)
    prepared = made.encoder.prepare(made.run.clips["path"][row])
    for text in (0, 1):
        plane = maps[row, text]
        assert plane.sum() == pytest.approx(float(shares[0, :, text].sum()), abs=1e-5)
        whole = token_map(made.encoder, prepared.features, torch.tensor([prepared.longer]), directions[text]).of()
        f, t = whole.shape[0] // plane.shape[0], whole.shape[1] // plane.shape[1]
        cells = whole.unflatten(0, (-1, f)).unflatten(2, (-1, t)).sum((1, 3))
        np.testing.assert_allclose(plane, cells.numpy(), atol=1e-5)


def test_answers_are_those_of_ask(made, directions, monkeypatch, tmp_path):
    monkeypatch.setenv("RESIDUAL_AUDIO_CACHE", str(tmp_path))
    answered = answers(made.run, directions, np.arange(len(made.run.clips)))
    asked = ask(made.run, TEXTS[0], "heads", encoder=made.encoder, top=200, components=3)
    table = asked.tables["ask_units"].set_index("label").share
    for unit in made.run.units.where("head")[::7]:
        assert float(answered.share[0, made.run.units.index(unit)]) == pytest.approx(table[unit.label], abs=1e-4)
    best = asked.tables["ask_components"].sort_values("share", ascending=False).head(3)
    got = [(made.run.units[u].label, k) for u, k, _, _ in answered.components[0][:3]]
    assert got == list(zip(best.label, best.component, strict=True))
    assert [c[2] for c in answered.components[0][:3]] == pytest.approx(best.share.tolist(), abs=1e-4)


def test_components_are_scikit_learns(made):
    labels = made.run.clips["label"]
    targets, rows = np.array([CLASSES.index(x) for x in labels]), np.arange(0, 21, 2)
    records = head_components(made.run, rows, targets, 4)
    for head in (0, 90, 183):
        outputs = made.run.heads[:][:, head].double().numpy()
        reference = PCA().fit(outputs)
        np.testing.assert_allclose(records[head]["spectrum"], reference.explained_variance_ratio_, rtol=1e-3, atol=1e-6)
        scores = reference.transform(outputs)[:, 0]
        one = records[head]["parts"][0]
        if records[head]["parts"][0]["low"][0] == int(scores[rows].argmax()):
            scores = -scores
        assert one["low"][0] == int(scores[rows].argmin())
        assert one["high"][0] == int(scores[rows].argmax())
        means = [scores[targets == c].mean() / scores.std() for c in range(4)]
        np.testing.assert_allclose(one["means"], means, rtol=5e-3, atol=2e-3)


def test_the_page_takes_clips_class_by_class():
    labels = pd.Series(["a"] * 10 + ["b"] * 2 + ["c"] * 3)
    assert labels[pool_rows(labels, 7)].value_counts().to_dict() == {"a": 3, "b": 2, "c": 2}
    assert pool_rows(labels, 99).tolist() == list(range(15))


def test_classes_are_called_as_in_prompts_where_that_tells_them_apart(made):
    names = {"cel": "cello", "flu": "flute", "flu_2": "flute"}
    run = replace(made.run, info={**made.run.info, "labels": [*names, "big_drum"], "class_names": names})
    assert class_titles(run, [*names, "big_drum"]) == ["cello", "flu", "flu_2", "big drum"]


def test_the_page_reads_tables_with_keys_and_those_from_before(tmp_path):
    heads = pd.DataFrame({"label": ["a", "b"], "fisher": [1.0, 2.0]})
    post = with_keys(heads.assign(fisher=9.0), "post", "clip")
    for stored in (heads, pd.concat([post, with_keys(heads, "pre", "clip")])):
        write_table(stored, tmp_path / "tables", "heads")
        pd.testing.assert_frame_equal(table(tmp_path, "heads"), heads)
        assert [c["values"] for c in measures(tmp_path, ["b", "a"])] == [[2.0, 1.0]]
    write_table(post, tmp_path / "tables", "heads")
    assert table(tmp_path, "heads") is None, "what is only of another regime is not shown"
    assert measures(tmp_path, ["a", "b"]) == []
    assert stages(tmp_path) is None


def test_adapters_and_other_tables_colour_heads_too(tmp_path):
    write_table(pd.DataFrame({"label": ["a"], "margin_drop": [0.1], "kind": ["head"]}), tmp_path / "tables", "ablation_head")
    write_table(pd.DataFrame({"label": ["b"], "correlation": [0.3]}), tmp_path / "tables", "text_alignment")
    colours = measures(tmp_path, ["a", "b"], {"a": np.array([0.5, 2.0])})
    assert {c["key"]: (c["kind"], c["values"]) for c in colours} == {
        "margin_drop": ("zero", [0.1, None]),
        "alignment": ("zero", [None, 0.3]),
        "gain": ("up", [0.75, None]),
    }


def test_runs_of_other_models_do_not_colour_these_heads(made, tmp_path):
    shutil.copytree(made.folder, tmp_path / "other", ignore=shutil.ignore_patterns("tables"))
    info = json.loads((tmp_path / "other" / "run.json").read_text())
    info["model"]["revision"] = "something else"
    (tmp_path / "other" / "run.json").write_text(json.dumps(info))
    colours, notes = other_runs(made.run, [Run.open(tmp_path / "other")], [])
    assert colours == []
    assert len(notes) == 1
    assert "of another model (tiny)" in notes[0]


def test_numbers_survive_packing():
    values = np.random.default_rng(0).standard_normal((5, 6, 7)) * np.array([1, 10, 0, 1e-4, 3])[:, None, None]
    packed = quantised(values, (1, 2))
    steps = np.frombuffer(base64.b64decode(packed["int8"]), np.int8).reshape(packed["shape"])
    scale = np.frombuffer(base64.b64decode(packed["scale"]), "<f4")
    assert (np.abs(steps * scale[:, None, None] - values) <= np.abs(values).max((1, 2), keepdims=True) / 250 + 1e-12).all()
    assert digits([1.23456, float("nan"), float("inf")], 3) == [1.23, None, None]


@pytest.mark.parametrize("label", [HOSTILE, "<!--<script>", "]]>", "\u2028 & \\ \" '"])
def test_no_label_leaves_the_script_element(label):
    text = as_script({label: [label]})
    assert "<" not in text
    assert ">" not in text
    assert json.loads(text) == {label: [label]}


def test_sounds_are_short_and_can_be_played_again(made, tmp_path):
    import io

    import soundfile

    shown = shown_clips(made.run.clips, [0, 8], CLASSES, "sound", "embed", tmp_path / "x.html")
    kind, _, data = shown[0]["audio"].partition(";base64,")
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(data)))
    assert kind in ("data:audio/mpeg", "data:audio/ogg")
    assert rate == RATE
    assert len(samples) / rate == pytest.approx(shown[0]["seconds"], abs=0.15)
    assert shown[0]["seconds"] <= SECONDS
    tone = np.sin(2 * np.pi * 3000 * np.arange(RATE) / RATE).astype(np.float32)
    image = spectrogram(tone)
    assert image.shape == SHAPE
    assert image.max() == 255
    # 3 kHz on a Slaney scale from 40 Hz to 8 kHz: 31.4 of 0.6 … 45.2 mel, so about two thirds up.
    assert abs(int(image.mean(1).argmax()) - SHAPE[0] * 0.69) < 3
    assert len(encoded(tone)) < 20_000
    linked = shown_clips(made.run.clips, [0], CLASSES, "sound", "link", made.folder / "report.html")
    assert linked[0]["audio"] == "../0-0.wav"
    assert "audio" not in shown_clips(made.run.clips, [0], CLASSES, "sound", "none", tmp_path / "x.html")[0]
