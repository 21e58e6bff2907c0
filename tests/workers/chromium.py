"""Runs the system's Chromium. Where there is none the tests of pages are skipped, and say so.

With CHROMIUM_REQUIRED in the environment, as in CI, they fail.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
]

in_chromium = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CHROMIUM_REQUIRED"),
    reason="no chromium is installed",
)


@contextmanager
def running_browser() -> "Iterator[Browser]":
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it takes long to import

    assert CHROMIUM is not None, "CHROMIUM_REQUIRED is set, and no chromium is installed"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
