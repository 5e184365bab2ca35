"""An encoder runs through ``mteb.evaluate``, and its figure is ours."""

import io
import subprocess
import sys

import datasets
import numpy as np
import pytest
import soundfile
import torch
from mteb import evaluate
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.abstasks.zeroshot_classification import AbsTaskZeroShotClassification
from torch.utils.data import DataLoader

import residual_audio as ra
from residual_audio.data.prompts import TEMPLATES
from residual_audio.models import EncoderError

PER_CLASS = 2


@pytest.fixture(scope="module")
def data():
    """Real notes, a few of every instrument family."""
    return ra.load_dataset("notes").limited(10 * PER_CLASS)


def task_of(data, as_files: bool):
    """A local task of mteb's kind: the same clips, inside the dataset as files or as samples."""
    rows = {"audio": [], "label": [int(t) for t in data.targets]}
    for clip in data.clips:
        samples, rate = soundfile.read(clip.path, dtype="float32")
        stored = io.BytesIO()
        soundfile.write(stored, samples, rate, format="WAV", subtype="FLOAT")
        rows["audio"].append({"bytes": stored.getvalue(), "path": None} if as_files else {"array": samples, "sampling_rate": rate})
    split = datasets.Dataset.from_dict(rows)
    if as_files:
        split = split.cast_column("audio", datasets.Audio())

    class Notes(AbsTaskZeroShotClassification):
        metadata = TaskMetadata(
            name="LocalNotes", description="Families of instruments.", reference=None, type="AudioZeroshotClassification", category="a2t",
            modalities=["audio", "text"], eval_splits=["test"], eval_langs=["eng-Latn"], main_score="accuracy", date=None, domains=None,
            task_subtypes=None, license=None, annotations_creators=None, dialect=None, sample_creation=None, bibtex_citation=None,
            dataset={"path": "local", "revision": "1"},
        )  # fmt: skip
        input_column_name = "audio"

        def load_data(self, **kwargs) -> None:
            self.dataset, self.data_loaded = datasets.DatasetDict({"test": split}), True

        def get_candidate_labels(self) -> list[str]:
            return [TEMPLATES["sound-of"][0].format(data.names[label]) for label in data.labels]

    return Notes()


@pytest.fixture(scope="module")
def encoder():
    return ra.load_encoder("tiny")


@pytest.fixture(scope="module")
def ours(encoder, data):
    return ra.zero_shot(encoder, data, template="sound-of").summary()["top1"].value


@pytest.mark.parametrize("as_files", [True, False])
def test_its_figure_is_ours(encoder, data, ours, as_files):
    found = evaluate(ra.to_mteb(encoder), task_of(data, as_files), cache=None, show_progress_bar=False)
    theirs = found.task_results[0].scores["test"][0]["accuracy"]
    assert theirs == pytest.approx(ours, abs=1e-9)
    assert 1.5 / len(data.labels) < theirs < 1


def test_what_mteb_knows_of_the_model(encoder):
    model = ra.to_mteb(encoder)
    meta = model.mteb_model_meta
    assert (meta.name, meta.revision, meta.embed_dim, meta.modalities) == (
        "residual-audio/tiny",
        encoder.revision,
        encoder.dim,
        ["audio", "text"],
    )
    assert meta.n_parameters == sum(p.numel() for p in encoder.module.parameters())
    assert meta.loader() is model


def test_each_encoder_hears_at_its_own_rate(msclap_path, whisper_dir):
    """Microsoft's model gets 44.1 kHz, whatever the rows have; an encoder without a text side says so."""
    rows = datasets.Dataset.from_dict({"audio": [{"array": np.random.default_rng(0).standard_normal(48000) / 9, "sampling_rate": 48000}]})
    wave = np.asarray(rows[0]["audio"]["array"], np.float32)
    for path in (msclap_path, whisper_dir):
        encoder = ra.load_encoder(path)
        given = ra.to_mteb(encoder).get_audio_embeddings(DataLoader(rows))
        assert torch.allclose(torch.from_numpy(given), encoder.embed([wave], sample_rate=48000), atol=1e-6)
    assert ra.to_mteb(encoder).mteb_model_meta.modalities == ["audio"]
    with pytest.raises(EncoderError, match="no text side"):
        ra.to_mteb(encoder).get_text_embeddings(DataLoader(datasets.Dataset.from_dict({"text": ["a dog"]})))


def test_other_tasks_and_encoders_are_refused(encoder, clip_dir):
    model = ra.to_mteb(encoder)
    metadata = type("Metadata", (), {"name": "Pictures"})
    with pytest.raises(EncoderError, match="neither sounds nor texts"):
        model.encode(DataLoader(datasets.Dataset.from_dict({"image": [1]})), task_metadata=metadata, hf_split="test", hf_subset="default")
    with pytest.raises(EncoderError, match="images"):
        ra.to_mteb(ra.load_encoder(clip_dir))


def test_without_mteb_the_error_names_the_extra():
    code = "import sys; sys.modules['mteb'] = None; import residual_audio as ra; ra.to_mteb"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'residual-audio[mteb]'" in failed.stderr
