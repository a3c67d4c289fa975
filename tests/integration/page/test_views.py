"""The page's views as a person meets them: addresses, folded streams, windows, links, and an audit of accessibility."""

from __future__ import annotations

import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.equipment.page import sample_answers
from tests.equipment.page.server import Answers
from tests.integration.page.conftest import EVENTS, ORDERS, go

pytestmark = pytest.mark.slow

CELLS = '[role="gridcell"]'


def test_paused_streams_are_folded_below_the_others(page: Page, answers: Answers) -> None:
    answers.streams += [sample_answers.stream(f"old_{number}", state="paused") for number in range(3)]
    go(page, answers)
    folded = page.locator("details", has_text="paused stream")
    expect(folded).to_contain_text("3 paused streams")
    expect(page.get_by_role("link", name="old_1")).to_be_hidden()
    folded.locator("summary").click()
    expect(page.get_by_role("link", name="old_1", exact=True)).to_be_visible()
    page.get_by_label("Filter streams").fill("old_2")
    expect(folded).to_contain_text("1 paused stream")


def test_a_search_finds_a_folded_stream(page: Page, answers: Answers) -> None:
    answers.streams.append(sample_answers.stream("old_1", state="paused"))
    go(page, answers)
    page.get_by_label("Filter streams").fill("old_1")
    expect(page.get_by_role("link", name="old_1", exact=True)).to_be_visible()


@pytest.mark.parametrize(("span", "count"), [("month", 30), ("quarter", 90), ("year", 366)])
def test_a_window_of_thirty_or_ninety_days_can_be_chosen_and_sent(
    page: Page, answers: Answers, span: str, count: int
) -> None:
    go(page, answers, EVENTS)
    page.get_by_label("Number of days").select_option(span)
    expect(page.locator(CELLS)).to_have_count(count)
    page.reload()
    expect(page.locator(CELLS)).to_have_count(count)


@pytest.mark.parametrize("span", ["month", "year"])
def test_a_phone_shows_the_newest_days_first(page: Page, answers: Answers, span: str) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    go(page, answers, EVENTS + f"&span={span}")
    expect(page.locator('[data-day="2026-11-22"]')).to_be_in_viewport()
    expect(page.locator('[data-day="2026-11-02"]')).to_be_in_viewport()


def test_the_calendar_begins_at_the_first_wanted_day(page: Page, answers: Answers) -> None:
    answers.origin = "2026-11-15"
    go(page, answers, EVENTS)
    expect(page.locator(CELLS)).to_have_count(366)
    answers.first_done = "2026-11-16"
    go(page, answers, EVENTS)
    expect(page.locator(CELLS)).to_have_count(8)
    expect(page.locator('[data-day="2026-11-15"]')).to_be_visible()
    expect(page.locator(".window")).to_have_text("2026-11-15 to 2026-11-22")


def test_a_stream_without_any_day_shows_a_month(page: Page, answers: Answers) -> None:
    answers.origin, answers.first_done = None, "2099-01-01"
    go(page, answers, EVENTS)
    expect(page.locator(CELLS)).to_have_count(30)


def test_a_stream_that_is_on_schedule_is_not_behind(page: Page, answers: Answers) -> None:
    answers.streams[0]["lag_days"] = 21
    go(page, answers)
    expect(page.locator("tr", has_text="events")).to_contain_text("on schedule")
    go(page, answers, EVENTS)
    expect(page.locator(".facts")).to_contain_text("on schedule")


def test_a_failed_stream_leads_to_its_logs_and_its_error_can_be_copied(page: Page, answers: Answers) -> None:
    log = "/dags/orders_daily/runs/r/tasks/orders"
    answers.streams[1]["failed"] = [
        {"run_id": "manual__1", "from": None, "to": None, "log_url": log},
        {"run_id": "scheduled__2", "from": "2026-11-20", "to": "2026-11-20", "log_url": log},
    ]
    go(page, answers, ORDERS)
    links = page.locator(".links")
    expect(links.get_by_role("link", name="Log of manual__1")).to_have_attribute("href", log)
    expect(links.get_by_role("link", name="Log of 2026-11-20")).to_have_attribute("href", log)
    expect(links.get_by_role("link", name="Newest log")).to_be_visible()
    expect(page.get_by_role("link", name="orders_daily")).to_have_attribute("href", "/dags/orders_daily")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    links.get_by_role("button", name="Copy the error").click()
    expect(links.get_by_role("button", name="Copied")).to_be_visible()
    assert "the source answered with 412 rows" in page.evaluate("navigator.clipboard.readText()")


def test_each_view_has_an_address_that_airflows_own_page_shows_too(page: Page, answers: Answers) -> None:
    """Airflow writes a load of its frame into the address bar, and the page writes what it shows without a load."""
    page.goto(answers.url.replace("/connect/", "/plugin/connect/connect/"))
    frame = page.frame_locator("iframe")
    loads: list[str] = []
    page.on("framenavigated", lambda loaded: loads.append(loaded.url) if loaded != page.main_frame else None)
    frame.get_by_role("link", name="events", exact=True).click()
    expect(frame.get_by_role("heading", level=1)).to_contain_text("events")
    assert any(url.endswith("/connect/?dag_id=mixpanel_daily&task_id=events") for url in loads), "a load, not a script"
    frame.locator('[data-day="2026-11-20"]').click()
    expect(page).to_have_url(
        re.compile(r"/plugin/connect/connect/\?dag_id=mixpanel_daily&task_id=events&day=2026-11-20")
    )
    frame.get_by_role("link", name="Streams").click()
    expect(frame.locator(".streams")).to_be_visible()
    assert loads[-1].endswith("/connect/")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("query", ["", EVENTS + "&day=2026-11-04", ORDERS + "&day=2026-11-20"])
def test_an_audit_of_accessibility_finds_nothing(page: Page, answers: Answers, scheme: Any, query: str) -> None:
    """axe-core's rules: names for screen readers, roles, contrast, focus order."""
    answers.streams.append(sample_answers.stream("old_1", state="paused"))
    page.emulate_media(color_scheme=scheme)
    go(page, answers, query)
    if query:
        expect(page.locator(".day table")).to_be_visible()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_the_backfill_dialog_passes_the_audit(page: Page, answers: Answers) -> None:
    go(page, answers, ORDERS)
    page.get_by_role("button", name="Start a backfill…").click()
    expect(page.get_by_role("dialog")).to_contain_text("runs")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("query", ["", ORDERS + "&day=2026-11-20"])
def test_at_four_times_the_size_nothing_scrolls_sideways(page: Page, answers: Answers, query: str) -> None:
    """A window of 1280 pixels at 400 % shows 320 (https://www.w3.org/WAI/WCAG22/Understanding/reflow.html)."""
    page.set_viewport_size({"width": 320, "height": 256})
    go(page, answers, query)
    assert page.evaluate("document.documentElement.scrollWidth") == 320


def test_on_a_phone_the_state_comes_first(page: Page, answers: Answers) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    go(page, answers)
    row = page.locator("tr", has_text="orders")
    names = ("Stream", "State", "Source", "Reported")
    tops = {name: row.locator(f'td[data-name="{name}"]').bounding_box() for name in names}
    heights = [box["y"] for box in tops.values() if box is not None]
    assert heights == sorted(heights)
    assert len(heights) == 4
