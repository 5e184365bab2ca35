"""Twelve kills at random moments (benchmarks/kills.py does a hundred and sixty): whatever was killed ends with the same bits."""

import pytest

from benchmarks.kills import COMMANDS
from residual_audio.models.precision import bf16_ratio
from tests.helpers.kills import killed, nursery

KILLS = {"extract": 8, "extract in bf16": 2, "compare": 1, "adapt": 1}


@pytest.fixture(scope="module")
def home():
    with nursery() as process:
        yield process


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_random_and_finished(name, home, tmp_path):
    if "bf16" in name and bf16_ratio() is None:
        pytest.skip("this CPU has no bf16")
    # The first command warms the others up; a kill or two may come at any moment, however long a run lives.
    assert killed(home, COMMANDS[name].split(), tmp_path, KILLS[name], seed=len(name), warm=name == "extract").ends >= 1
