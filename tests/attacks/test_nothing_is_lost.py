"""What was computed is written before anything is printed: a screen that breaks, a pipe that closes and a full disk lose nothing."""

import resource
import subprocess
import sys

import pytest

from residual_audio.cli import screen
from residual_audio.extraction import Run

FEW, MANY = (["synthetic-voice", "--limit", number] for number in ("16", "40"))
SMALL = ["--units", "S3B1 heads", "--form", "gains", "--epochs", "1", "--rate", "0.1"]
# Each verb that has something to write, and what is there when it has.
VERBS = {
    "zero-shot": (["tiny", *FEW], ["run.json", "clips.parquet", "tables/classes.csv"]),
    "ablate": (["tiny", *FEW, "--units", "S3 stages", "--clips", "4"], ["tables/ablation_stage.csv"]),
    "retrieve": (["tiny", "synthetic-captions", "--limit", "8"], ["retrieval.json", "tables/retrieval.csv"]),
    "truncate": (["tiny", *MANY, "--units", "S3B1 heads", "--retain", "1"], ["retention.json", "tables/retention.csv"]),
    "compare": (["tiny", *MANY, "--methods", "plain"], ["comparison.json", "tables/comparison_summary.csv"]),
    "few-shot": (["tiny", *FEW, "--methods", "plain", "--shots", "1"], ["few_shot.json", "tables/few_shot.csv"]),
    "search": (["tiny", *MANY, "--space", "grid", "--set", "rate=0.1", *SMALL[:-2]], ["search.json", "tables/search.csv"]),
    "adapt": (["tiny", *FEW, *SMALL, "--no-held"], ["adapter_config.json", "adapter_model.safetensors", "training.json"]),
    "steer": (
        ["tiny", "--more", "rain", "--units", "S3B1 heads", "--top", "2", "--controls", "0", "--limit", "16"],
        ["adapter_config.json", "adapter_model.safetensors"],
    ),
    "describe": (
        ["RUN", "--units", "S3B1H0 S3B1H1", "--method", "somp", "--permutations", "2", "--resamples", "0", "--no-figures"],
        ["describe.json", "tables/words.csv"],
    ),
    "ask": (["RUN", "a bell", "--units", "S3B1 heads"], ["tables/ask_units.csv"]),
    "analyze": (["RUN", "--no-figures", "--draws", "0"], ["tables/heads.csv"]),
}


class Broken(screen.Screen):
    """A terminal that is gone."""

    def print(self, *args, **options):
        raise OSError(5, "Input/output error")


@pytest.fixture(scope="module")
def run(command, tmp_path_factory):
    home = tmp_path_factory.mktemp("run") / "run"
    assert command("extract", "tiny", *FEW, "--granularity", "head,embedding,direct", "--out", home) == 0
    return home


@pytest.mark.parametrize("verb", VERBS)
def test_results_are_written_before_anything_is_printed(verb, run, command, tmp_path, monkeypatch):
    given, expected = VERBS[verb]
    monkeypatch.setattr(screen, "console", Broken())
    with pytest.raises(OSError, match="Input/output error"):
        command(verb, *[run if word == "RUN" else word for word in given], "--out", tmp_path / "out")
    for name in expected:
        assert (tmp_path / "out" / name).stat().st_size > 0, name


def test_a_pipe_that_closes_loses_nothing(tmp_path):
    """`residual-audio … | head -1`."""
    program = "import sys; from residual_audio.cli import main; sys.argv[0] = 'residual-audio'; main()"
    words = [sys.executable, "-c", program, "zero-shot", "tiny", *FEW, "--out", str(tmp_path / "out")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        told = process.stderr.read()
    assert "Traceback" not in told
    assert (tmp_path / "out" / "run.json").exists()


def test_a_full_disk_is_told_in_a_line_and_the_same_command_resumes(command, capsys, tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    words = ["extract", "tiny", "synthetic-voice", "--limit", "8", "--out", tmp_path / "run"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        assert command(*words) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "make room, and the same command resumes" in capsys.readouterr().err.replace("\n", " ")
    assert not [p for p in (tmp_path / "run").rglob("*") if p.name.endswith(".tmp")], "nothing half-written is left"
    assert command(*words) == 0
    assert Run.open(tmp_path / "run").problems() == []
