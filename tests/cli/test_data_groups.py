"""The command line tells of data without groups in one line, and names groups by `--group`."""

import soundfile

from residual_audio.cli import screen
from residual_audio.cli.options import Data


def test_a_warning_is_a_line_and_a_group_ends_it(tmp_path, monkeypatch):
    from rich.console import Console

    for i in range(4):
        path = tmp_path / "ab"[i % 2] / f"s{i // 2}-{i}.wav"
        path.parent.mkdir(exist_ok=True)
        soundfile.write(path, [0.1] * 800, 16000)
    said = Console(record=True, width=60, file=(tmp_path / "screen").open("w"))
    monkeypatch.setattr(screen, "errors", said)
    Data().open(f"folder:{tmp_path}")
    text = said.export_text()
    assert text.startswith(f"warning: folder:{tmp_path} does not say which clips belong together")
    assert text.count("\n") == 1
    assert Data(group=r"(s\d)-").open(f"folder:{tmp_path}").groups == ["s0", "s1", "s0", "s1"]
    assert said.export_text() == ""
