"""A real browser for tests of the page: Debian's chromium, driven by playwright."""

import os
import shutil
import subprocess

import pytest


def installed() -> str | None:
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def install() -> str:
    """Debian's chromium, where this may be done; says why it is not there otherwise. Fresh machines have no package lists yet."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not shutil.which("apt-get"):
        return "only root can install it here"
    for words in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]):
        result = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
        if result.returncode:
            return f"{' '.join(words)}: {result.stderr.strip()[-400:]}"
    return ""


@pytest.fixture(scope="session")
def chromium() -> str:
    """A browser; a missing one is a failure where tests must all run (CI=true)."""
    trouble = "" if installed() else install()
    path = installed()
    if path is None:
        reason = f"no chromium ({trouble}): install it (apt-get install chromium) or name it in CHROMIUM"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return path


@pytest.fixture(scope="session")
def browser(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        microphone = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]  # beeps
        flags = ["--no-sandbox", "--autoplay-policy=no-user-gesture-required", *microphone]
        opened = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield opened
        opened.close()
