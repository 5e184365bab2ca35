"""Shape annotations are checked in every test; small checkpoints of the real layouts are made once a session."""

import os
import sys
from pathlib import Path

if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    # Workers side by side share the cores out; two that each take all of them wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))))
os.environ["HF_HUB_OFFLINE"] = "1"  # no test may touch the network, and a hub that does not answer is waited for

from jaxtyping import install_import_hook

import tests.helpers.typechecker  # noqa: F401 — must be loaded before the hook looks for it

install_import_hook("residual_audio", "tests.helpers.typechecker.check")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import soundfile  # noqa: E402
import torch  # noqa: E402

from tests.helpers import checkpoints, pictures, published  # noqa: E402
from tests.helpers.browser import browser, chromium  # noqa: E402, F401

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def laion_dir(tmp_path_factory) -> Path:
    return checkpoints.laion(tmp_path_factory.mktemp("laion"), fused=False)


@pytest.fixture(scope="session")
def fused_dir(tmp_path_factory) -> Path:
    return checkpoints.laion(tmp_path_factory.mktemp("fused"), fused=True)


@pytest.fixture(scope="session")
def laion_path(tmp_path_factory) -> Path:
    return checkpoints.laion_original(tmp_path_factory.mktemp("original"))


@pytest.fixture(scope="session")
def msclap_path(tmp_path_factory) -> Path:
    return checkpoints.msclap(tmp_path_factory.mktemp("msclap"))


@pytest.fixture(scope="session")
def whisper_dir(tmp_path_factory) -> Path:
    return checkpoints.whisper(tmp_path_factory.mktemp("whisper"))


@pytest.fixture(scope="session")
def ast_dir(tmp_path_factory) -> Path:
    return checkpoints.ast(tmp_path_factory.mktemp("ast"))


@pytest.fixture(scope="session")
def clip_dir(tmp_path_factory) -> Path:
    return checkpoints.clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="session")
def vit_dir(tmp_path_factory) -> Path:
    return checkpoints.vit(tmp_path_factory.mktemp("vit"))


@pytest.fixture(scope="session")
def dinov2_dir(tmp_path_factory) -> Path:
    return checkpoints.dinov2(tmp_path_factory.mktemp("dinov2"))


@pytest.fixture(scope="session")
def exported_path(whisper_dir, tmp_path_factory) -> Path:
    return checkpoints.exported(whisper_dir, tmp_path_factory.mktemp("exported"))


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory) -> Path:
    return pictures.folder(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="session")
def image_files(tmp_path_factory) -> list[Path]:
    return pictures.files(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="session")
def sound_files(tmp_path_factory) -> list[Path]:
    """Seven real files: several formats, rates, lengths and channel counts."""
    folder = tmp_path_factory.mktemp("sounds")
    rng = np.random.default_rng(0)
    plans = [("a.wav", 16000, 1, 1.3), ("b.flac", 44100, 2, 4.0), ("c.ogg", 48000, 1, 0.4), ("d.mp3", 22050, 1, 2.0),
             ("e.wav", 8000, 1, 12.0), ("f.wav", 48000, 6, 1.0), ("g.flac", 96000, 1, 0.7)]  # fmt: skip
    paths = []
    for name, rate, channels, seconds in plans:
        t = np.arange(int(rate * seconds)) / rate
        tone = 0.3 * np.sin(2 * np.pi * rng.uniform(200, 2000) * t)[:, None]
        soundfile.write(folder / name, tone + 0.05 * rng.standard_normal((len(t), channels)), rate)
        paths.append(folder / name)
    return paths


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real weights and recordings that lie beside the project during development; absent at users' homes."""
    if not SHARED.is_dir():
        pytest.skip("no ../shared beside the project: real weights and recordings are not at hand")
    return SHARED


@pytest.fixture(scope="session")
def published_heads(tmp_path_factory) -> Path:
    """A file of the published layout whose blocks have the published means and spreads; see :mod:`tests.helpers.published`."""
    path = tmp_path_factory.mktemp("published") / "heads.csv"
    published.alike_heads().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The command in this process, where everything is imported already: ``command("ask", run, "rain")`` → exit code."""
    from residual_audio.cli import main
    from residual_audio.report.figures import style

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "DPI", 50)
        patch.setenv("COLUMNS", "120")
        patch.setenv("RESIDUAL_AUDIO_CACHE", str(tmp_path_factory.mktemp("cache")))

        def call(*words: object) -> int:
            patch.setattr(sys, "argv", ["residual-audio", *map(str, words)])
            with pytest.raises(SystemExit) as ended:
                main()
            return ended.value.code

        yield call


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
