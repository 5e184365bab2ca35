"""One server for all tests that leave it as it was: a small run with hostile names, and an adapter for it."""

import pytest

from tests.helpers.page import Made, make
from tests.helpers.serving import Server


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Made:
    return make(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("live") / "folder"


@pytest.fixture(scope="session")
def server(made, folder, tmp_path_factory):
    opened = Server(
        made.folder, "--adapter", made.adapter, "--folder", folder, "--clips", 28, "--words", 3, "--max-upload", 2, "--max-seconds", 30,
        cache=tmp_path_factory.mktemp("cache"),
    )  # fmt: skip
    yield opened
    assert opened.end() == 0, "SIGTERM ends it cleanly"
