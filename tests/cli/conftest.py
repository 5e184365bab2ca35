"""What tests of the command line share."""

import sys

import pytest

from residual_audio.cli import main
from residual_audio.report.figures import style


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The command in this process, where everything is imported already: ``command("ask", run, "rain")`` → exit code."""
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
