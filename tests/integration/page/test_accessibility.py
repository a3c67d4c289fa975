"""The page for everybody: axe-core, the checker that most accessibility tools use, finds no violation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import Page, expect

from tests.equipment.page.server import Answers
from tests.integration.page.conftest import EVENTS, ORDERS, go

pytestmark = pytest.mark.slow

ZOOMED_WIDTH = 320
"""A window of 1280 pixels at 400 % zoom."""
VIEWS = ["", EVENTS + "&day=2026-11-04", ORDERS + "&day=2026-11-20", ORDERS + "&span=three"]


@pytest.fixture(scope="module")
def axe() -> str:
    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def violations(page: Page, axe: str) -> list[str]:
    page.evaluate(axe)
    return list(page.evaluate("axe.run().then((told) => told.violations.map((each) => [each.id, each.nodes[0].html]))"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, ZOOMED_WIDTH])
def test_no_view_has_a_violation(page: Page, answers: Answers, axe: str, scheme: Any, width: int) -> None:
    answers.streams[2] |= {"state": "paused"}
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    for query in VIEWS:
        go(page, answers, query)
        if "day=" in query:
            expect(page.locator(".day table")).to_be_visible()
        assert violations(page, axe) == [], query
        assert page.evaluate("document.documentElement.scrollWidth") == width, query


@pytest.mark.parametrize("button", ["Load 2026-11-20 again…", "Start a backfill…", "Load the 2 missing days…"])
def test_a_dialog_has_no_violation(page: Page, answers: Answers, axe: str, button: str) -> None:
    go(page, answers, ORDERS + "&day=2026-11-20")
    page.get_by_role("button", name=button).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page, axe) == []


@pytest.mark.parametrize("span", ["month", "year"])
def test_a_phone_shows_the_newest_days(page: Page, answers: Answers, span: str) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    go(page, answers, EVENTS + f"&span={span}")
    for day in ("2026-11-02", "2026-11-22"):
        expect(page.locator(f'[data-day="{day}"]')).to_be_in_viewport()


def test_states_differ_without_colours(page: Page, answers: Answers) -> None:
    """Each state of a day has a sign of its own, and each state of a stream its name."""
    go(page, answers, ORDERS)
    signs = page.locator(".key i").evaluate_all(
        "keys => keys.map((key) => [key.textContent, 'reloaded' in key.dataset, 'rejected' in key.dataset].join())"
    )
    assert len(set(signs)) == len(signs) == 7


def test_focus_goes_from_the_top_down(page: Page, answers: Answers) -> None:
    go(page, answers, ORDERS + "&day=2026-11-20")
    expect(page.locator(".day table")).to_be_visible()
    tops: list[float] = []
    page.keyboard.press("Tab")  # the link that skips to the content, which is hidden without focus
    for _ in range(14):
        page.keyboard.press("Tab")
        tops.append(
            page.evaluate(
                "document.activeElement.closest('.bar, .links, p, .blocks, .legend, nav, .day')"
                "?.getBoundingClientRect().top + scrollY"
            )
        )
    assert tops == sorted(tops)
