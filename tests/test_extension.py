"""An addition is one file: a toy dataset, encoder, method, form, measure, classifier and figure, each a file put beside the others.

The package is copied, seven files are added, nothing else is touched, and everything that goes over datasets, encoders, … knows them.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import residual_audio

TOYS = {
    "data/sets/toy.py": '''
"""Two classes of noise that differ in level."""

from ..clip import Clip, make_dataset
from ..registry import DATASETS, Generated
from ..synthetic import FIRST_TAKE


def load():
    clips = [
        Clip(id=f"{label}-{i}", path=f"synthetic:source/{index}/{FIRST_TAKE + i}", label=label, fold=i % 3 + 1)
        for label, index in (("toy bell", 8), ("toy noise", 3))
        for i in range(12)
    ]
    return make_dataset("toy-sounds", clips, folds="official")


DATASETS.add(Generated("toy-sounds", "a toy: two classes, twenty-four sounds", load))
''',
    "models/encoders/toy.py": '''
"""The bundled model under another name."""

from ..registry import ENCODERS, EncoderKind, KnownModel
from .clap import TINY, ClapEncoder


def open_toy(source, device, options):
    return ClapEncoder(TINY, source, device)


ENCODERS.add(EncoderKind("toy", open_toy, own_names=("toy-model",), known=(KnownModel("toy-model", "a toy: tiny again"),)))
''',
    "adaptation/methods/toy.py": '''
"""Embeddings with some noise."""

from dataclasses import dataclass

from ...options import option
from ..options import MethodOptions
from . import method


@dataclass(frozen=True)
class ToyOptions(MethodOptions):
    toy_noise: float = option(0.0, "How much noise `toy` adds.", least=0)


@method("toy", ToyOptions, "a toy: the model as it is, and noise")
def toy(task, options):
    import torch

    from ..task import Adaptation

    def embed(setting):
        noise = torch.randn(setting.embeddings.shape, generator=torch.Generator().manual_seed(task.seed))
        return setting.embeddings + options.toy_noise * noise

    return Adaptation(7, embed=embed)
''',
    "adaptation/forms/toy.py": '''
"""Each axis gets what the next one has."""

from . import FORMS, Form


def turned(values, axes):
    return axes.roll(1, -2) * (values - 1)[..., None]


FORMS.add(Form("toy-form", "a toy: axes move up", lambda k: 1, 1.0, turned, None))
''',
    "analysis/measures/toy.py": '''
"""Twice the share of the first axis."""

from ...spectra import shares
from . import MEASURES, SpectrumMeasure

MEASURES.add(
    SpectrumMeasure(
        name="toy_measure", title="Toy measure", short="Toy", help="twice the share of the first axis",
        compute=lambda variance: 2 * shares(variance)[..., 0],
    )
)
''',
    "evaluation/classifiers/toy.py": '''
"""Centroids under another name."""

from ..classifier import CLASSIFIERS, Classifier
from .centroids import make

CLASSIFIERS.add(Classifier("toy-classifier", "a toy: centroids again", make))
''',
    "report/figures/toy.py": '''
"""Two measures against each other."""

from .drawing import FIGURES, Drawing
from .style import SINGLE, new_figure


def plot(tables, context):
    figure, grid = new_figure(SINGLE, 2.0)
    grid[0, 0].plot(tables["heads"]["evr_1"], tables["heads"]["toy_measure"], ".")
    return figure


FIGURES.add(Drawing("toy_figure", {"heads": ("toy_measure",)}, plot))
''',
}  # fmt: skip

PROGRAM = """
import json, sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from residual_audio.cli import app
from residual_audio.report.figures import style

style.DPI = 50
said, out = {}, Path(sys.argv[1])
for name, words in json.loads(sys.argv[2]).items():
    text = StringIO()
    with redirect_stdout(text):
        import residual_audio.cli.screen as screen
        screen.console.file = text
        app(words, standalone_mode=False)
    said[name] = text.getvalue()
(out / "said.json").write_text(json.dumps(said))
"""


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """What the commands of the extended package say and write."""
    home = tmp_path_factory.mktemp("extended")
    shutil.copytree(Path(residual_audio.__file__).parent, home / "residual_audio", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in TOYS.items():
        assert not (home / "residual_audio" / name).exists()
        (home / "residual_audio" / name).write_text(text.lstrip())
    run, compare, adapter = (str(home / name) for name in ("run", "compare", "adapter"))
    commands = {
        "models": ["models"],
        "datasets": ["datasets"],
        "compare --help": ["compare", "--help"],
        "few-shot --help": ["few-shot", "--help"],
        "analyze --help": ["analyze", "--help"],
        "zero-shot --help": ["zero-shot", "--help"],
        "zero-shot": ["zero-shot", "toy-model", "toy-sounds", "--classifier", "toy-classifier"],
        "extract": ["extract", "toy-model", "toy-sounds", "--out", run],
        "analyze": ["analyze", run, "--draws", "0"],
        "compare": [
            "compare",
            "toy-model",
            "toy-sounds",
            "--methods",
            "plain,toy",
            "--toy-noise",
            "0.5",
            "--classifier",
            "auto,toy-classifier",
            "--out",
            compare,
        ],
        "adapt --help": ["adapt", "--help"],
        "adapt": ["adapt", "toy-model", "toy-sounds", "--form", "toy-form", "--units", "S3B1", "--epochs", "1", "--out", adapter],
        "fold": ["fold", "toy-model", adapter, "--out", str(home / "folded")],
        "report": ["report", run, "--compare", compare, "--clips", "4", "--audio", "none", "--no-model"],
    }
    words = [sys.executable, "-c", PROGRAM, str(home), json.dumps(commands)]
    env = {"PYTHONPATH": str(home), "COLUMNS": "300", "PATH": "/usr/bin:/bin", "HOME": str(home), "HF_HUB_OFFLINE": "1"}
    env |= {name: os.environ[name] for name in ("OMP_NUM_THREADS",) if name in os.environ}
    done = subprocess.run(words, capture_output=True, text=True, env=env, cwd=home, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return home, json.loads((home / "said.json").read_text())


def test_a_dataset_is_listed_and_loaded(toys):
    home, said = toys
    assert "toy-sounds" in said["datasets"]
    assert "toy-model on toy-sounds" in said["zero-shot"]
    assert len(pd.read_parquet(home / "run" / "clips.parquet")) == 24


def test_an_encoder_is_listed_and_opened(toys):
    home, said = toys
    assert "a toy: tiny again" in said["models"]
    record = json.loads((home / "run" / "run.json").read_text())
    assert record["model"]["name"] == "toy-model"


def test_a_method_has_its_options_and_is_compared(toys):
    home, said = toys
    for verb in ("compare --help", "few-shot --help"):
        assert "--toy-noise" in said[verb]
        assert "How much noise" in said[verb]
    assert "a toy: the model as it is, and noise" in said["compare --help"]
    summary = pd.read_parquet(home / "compare" / "tables" / "comparison_summary.parquet").set_index("method")
    assert summary.trained["toy"] == 7
    recorded = json.loads((home / "compare" / "comparison.json").read_text())["settings"]["methods"]
    assert recorded["toy"] == {"toy_noise": 0.5}
    assert "toy" in said["compare"]


def test_a_form_is_learned_and_folds(toys):
    home, said = toys
    assert "toy-form (a toy: axes move up)" in " ".join(said["adapt --help"].replace("│", " ").split())
    assert "residual --form toy-form" in said["compare --help"]
    assert "toy-form" in (home / "adapter" / "README.md").read_text()
    assert (home / "folded" / "model.safetensors").exists()


def test_a_classifier_can_be_asked_for(toys):
    _, said = toys
    for verb in ("zero-shot", "compare", "few-shot"):
        assert "toy-classifier (a toy: centroids again)" in " ".join(said[f"{verb} --help"].replace("│", " ").split())
    assert "toy+toy-classifier" in said["compare"]


def test_a_measure_is_in_tables_help_screen_and_page(toys):
    home, said = toys
    assert "twice the share of the first axis" in said["analyze --help"]
    tables = home / "run" / "tables"
    heads = pd.read_parquet(tables / "heads.parquet")
    pd.testing.assert_series_equal(heads.toy_measure, 2 * heads.evr_1, check_names=False)
    for name in ("blocks", "stages"):
        assert "toy_measure" in pd.read_parquet(tables / f"{name}.parquet")
    assert "toy_measure" in set(pd.read_parquet(tables / "statistics.parquet").measure)
    assert " Toy " in said["analyze"]
    page = (home / "run" / "report.html").read_text()
    assert "Toy measure" in page
    assert "twice the share of the first axis" in page


def test_a_figure_is_drawn(toys):
    home, _ = toys
    assert {"toy_figure.pdf", "toy_figure.png"} <= {p.name for p in (home / "run" / "figures").iterdir()}


def test_the_page_shows_the_comparison(toys):
    home, _ = toys
    assert '"method":"toy"' in (home / "run" / "report.html").read_text().replace('": "', '":"')
