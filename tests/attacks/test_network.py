"""A Ray of this machine alone is not to be reached from others."""

import os

import psutil
import pytest

pytest.importorskip("ray")

from residual_audio.extraction.engines.cluster import cluster, import_ray


def listening() -> set[str]:
    """The addresses on which this process and its children listen."""
    found = set()
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            found |= {c.laddr.ip for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN}
        except psutil.NoSuchProcess:
            continue
    return found


def test_ray_listens_on_the_loopback_interface_and_asks_for_a_token(monkeypatch):
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    ray = import_ray()
    before = listening()
    with cluster(ray, None) as own:
        assert own
        assert ray.get(ray.remote(num_cpus=0)(lambda: 7).remote()) == 7
        assert os.environ["RAY_AUTH_MODE"] == "token"
        opened = listening() - before
        assert opened, "nothing was looked at"
        assert all(ip.removeprefix("::ffff:") in ("127.0.0.1", "::1") for ip in opened), opened
    assert "RAY_AUTH_MODE" not in os.environ
