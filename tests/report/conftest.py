"""A small run for the page, made once, and a browser to open it."""

import os
import shutil
import subprocess

import pytest

from tests.helpers.page import Made, make


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Made:
    return make(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="session")
def chromium() -> str:
    """Debian's browser; installed if this may be done, and a missing one is a failure where tests must all run."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None and hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-qq", "chromium"], capture_output=True, timeout=600, check=False)
        found = shutil.which("chromium")
    if found is None:
        reason = "no chromium: install it (apt-get install chromium) or name it in CHROMIUM"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def browser(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--autoplay-policy=no-user-gesture-required"])
        yield opened
        opened.close()
