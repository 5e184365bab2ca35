"""A cluster of two machines (two raylets on the loopback interface) that loses an actor, then a whole machine, while shards are written."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
import torch

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "residual-audio[ray]"')

from residual_audio.data import load_dataset  # noqa: E402
from residual_audio.extraction import extract  # noqa: E402
from residual_audio.extraction.engines import cluster as places  # noqa: E402
from residual_audio.models import load_encoder  # noqa: E402
from tests.helpers.stored import same_runs  # noqa: E402


@pytest.fixture
def machines(monkeypatch):
    """The machine that stays and the one that is lost, with room for two half-CPU actors on each."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_BACKEND_LOG_LEVEL", "fatal")
    with places.alone(ray):
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        lost = cluster.add_node(num_cpus=1)
        with places.muted_backend():
            ray.init(cluster.address, log_to_driver=False, logging_level="error")
        yield cluster, lost
        ray.shutdown()
        cluster.shutdown()


def actors_at_work() -> dict[int, int]:
    """Process → its machine's process, of those that write shards."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "cmdline").read_bytes().startswith(b"ray::MapWorker"):
                found[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def test_lost_actors_and_machines_cost_only_their_shards(machines, tmp_path):
    cluster, lost = machines
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        encoder, voices = load_encoder("tiny"), load_dataset("synthetic-voice", per_class=10)
        local = extract(encoder, voices, tmp_path / "local", batch_size=1)
    finally:
        torch.set_num_threads(before)
    total, seen, gone = len(local.store.names("shards")), [], []

    def lose(clips):
        seen.append(clips)
        if len(seen) == 2:
            staying = [
                pid for pid, machine in actors_at_work().items() if machine == cluster.head_node.all_processes["raylet"][0].process.pid
            ]
            os.kill(staying[0], signal.SIGKILL)
            gone.append(staying[0])
        if len(seen) == 4:
            cluster.remove_node(lost, allow_graceful=False)
            gone.append(lost)

    spread = extract(
        encoder, voices, tmp_path / "spread", batch_size=1, engine="ray", actors=4, cpus_per_actor=0.5, advance=lose
    )  # fmt: skip
    assert len(gone) == 2
    assert len(seen) == total
    same_runs(local, spread)
