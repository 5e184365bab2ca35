"""Links in a folder that came from a stranger lead nothing elsewhere: not figures, not the page, not adapters, not checkpoints."""

from pathlib import Path

import pandas as pd
import pytest

import residual_audio as ra
from residual_audio.adaptation.adapter import CARD, CONFIG, WEIGHTS, load_adapter, save_adapter
from residual_audio.comparison.search import search
from residual_audio.evaluation import EvaluationError
from residual_audio.extraction.store import StoreError
from residual_audio.report.figures.style import new_figure, save
from residual_audio.report.tables import write_paper_table
from residual_audio.writing import LinkError, own_folder
from tests.helpers.gains import made_up


@pytest.fixture(scope="module")
def tiny():
    return ra.load_encoder("tiny")


@pytest.fixture(scope="module")
def voices():
    return ra.load_dataset("synthetic-voice", per_class=1)


@pytest.fixture
def precious(tmp_path):
    """A file and an empty folder of somebody's."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "thesis.tex").write_text("precious")
    yield tmp_path / "thesis.tex"
    assert (tmp_path / "thesis.tex").read_text() == "precious"
    assert not list((tmp_path / "elsewhere").iterdir())


def test_figures(precious, tmp_path):
    figure, _ = new_figure(2, 2)
    (tmp_path / "figures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LinkError, match="is a link"):
        save(figure, tmp_path / "figures", "x")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "x.png").symlink_to(precious)
    (tmp_path / "own" / "x.pdf").symlink_to(precious)
    assert all(path.is_file() and not path.is_symlink() for path in save(figure, tmp_path / "own", "x"))


def test_tables_for_papers(precious, tmp_path):
    (tmp_path / "paper").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LinkError, match="is a link"):
        write_paper_table(pd.DataFrame({"a": [1]}), tmp_path / "paper", "t", "title")


def test_the_page(precious, tiny, voices, tmp_path):
    run = ra.extract(tiny, voices, tmp_path / "run", ["head"])
    (tmp_path / "run" / "report.html").symlink_to(precious)
    page = ra.report(run, clips=4, model=False, audio="none")
    assert page == tmp_path / "run" / "report.html"
    assert not page.is_symlink()
    assert page.read_text().startswith("<!")


def test_adapters_and_checkpoints(precious, tiny, tmp_path):
    residual = made_up(tiny, "S3B0 heads", "keep")
    folder = save_adapter(tmp_path / "adapter", tiny, residual)
    for name in (CONFIG, WEIGHTS, CARD):
        (folder / name).unlink()
        (folder / name).symlink_to(precious)
    save_adapter(folder, tiny, residual, replace=True)
    assert not any(path.is_symlink() for path in folder.iterdir())
    assert load_adapter(folder, tiny).trained == residual.trained
    (tmp_path / "folded").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LinkError, match="is a link"):
        ra.fold(tiny, residual).save(tmp_path / "folded")


@pytest.mark.parametrize("place", ["comparison", "shots-1", "trials", "trials/rate=0.1", "optuna.db", "ablation"])
def test_folders_of_results(place, precious, tiny, voices, tmp_path):
    """Each is refused before a clip is read."""
    calls = {
        "comparison": lambda out: ra.compare(tiny, voices, out, ["plain"]),
        "shots-1": lambda out: ra.few_shot(tiny, voices, out, ["plain"], shots=[1]),
        "ablation": lambda out: ra.ablate(tiny, voices, "S3 blocks", out=out),
    }
    (tmp_path / "out" / place).parent.mkdir(parents=True)
    (tmp_path / "out" / place).symlink_to(precious if place.endswith(".db") else tmp_path / "elsewhere")
    recipe = ra.Recipe(form="gains", units="S3B1 heads", epochs=1)
    with pytest.raises(LinkError, match="is a link"):
        calls.get(place, lambda out: search(tiny, voices, out, "grid", recipe, settings=["rate=0.1"]))(tmp_path / "out")


def test_a_place_that_the_user_chose_may_be_a_link(tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "scratch")
    assert own_folder(tmp_path / "runs" / "a", below=tmp_path / "runs") == tmp_path / "runs" / "a"


def test_a_search_that_failed_claims_nothing(tiny, tmp_path):
    """Every clip unreadable: another search may begin in the same folder. One that learned something may not be mixed."""
    data = ra.load_dataset("synthetic-voice", per_class=4)
    gone = data.only(lambda c: True, "gone")
    gone = type(gone)(**{**vars(gone), "clips": tuple(type(c)(**{**vars(c), "path": str(tmp_path / "none.wav")}) for c in gone.clips)})
    recipe = ra.Recipe(form="gains", units="S3B1 heads", epochs=1)
    with pytest.raises(EvaluationError, match="could be read"):
        search(tiny, gone, tmp_path / "s", "optuna", recipe, settings=["rate=0.01:0.1"], trials=1)
    assert Path(tmp_path / "s" / "run.json").exists()
    search(tiny, data, tmp_path / "s", "optuna", recipe, settings=["kept=2:4"], trials=1)
    with pytest.raises(StoreError, match="other settings"):
        search(tiny, data, tmp_path / "s", "optuna", recipe, settings=["kept=2:6"], trials=1)
