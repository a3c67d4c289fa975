"""A real browser without a window."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from tests.equipment.programs import program


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser, and close it."""
    with sync_playwright() as playwright:
        # Root has no sandbox; what it looks at is ours.
        started = playwright.chromium.launch(executable_path=program("chromium", "chromium"), args=["--no-sandbox"])
        yield started
        started.close()
