"""A small run for the page, made once."""

import pytest

from tests.helpers.page import Made, make


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Made:
    return make(tmp_path_factory.mktemp("page"))
