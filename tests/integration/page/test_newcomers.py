"""What a newcomer, or somebody at 3 a.m., finds at once: states, links, addresses, errors."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.equipment.page.sample_answers import FAILED_RUN
from tests.equipment.page.server import Answers
from tests.integration.page.conftest import EVENTS, ORDERS, go

pytestmark = pytest.mark.slow


def test_paused_streams_are_folded_and_a_search_finds_them(page: Page, answers: Answers) -> None:
    answers.streams[0] |= {"state": "paused", "state_text": "The DAG is paused"}
    go(page, answers)
    names = page.locator(".streams td:first-child a").filter(visible=True)
    expect(names).to_have_text(["orders", "posts"])
    fold = page.get_by_role("button", name="1 paused stream")
    expect(fold).to_have_attribute("aria-expanded", "false")
    fold.click()
    expect(names).to_have_text(["orders", "posts", "events"])
    expect(fold).to_have_attribute("aria-expanded", "true")
    fold.click()
    page.get_by_label("Filter streams").fill("events")
    expect(names).to_have_text(["events"])


def test_the_state_stands_first_on_a_phone(page: Page, answers: Answers) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    go(page, answers)
    tops = page.evaluate(
        """[...document.querySelector('.streams tbody tr').cells].map((cell) =>
        [cell.getBoundingClientRect().top, cell.dataset.name]).sort((a, b) => a[0] - b[0]).map((each) => each[1])"""
    )
    assert tops[:2] == ["State", "Stream"]


def test_a_failed_run_a_dag_and_the_newest_log_are_one_click_away(page: Page, answers: Answers) -> None:
    answers.streams[1]["failed_runs"] = [FAILED_RUN | {"run_id": "manual__1", "first_day": None, "last_day": None}]
    go(page, answers)
    expect(page.get_by_role("link", name="Log")).to_have_attribute("href", FAILED_RUN["task_url"])
    go(page, answers, ORDERS)
    expect(page.get_by_role("link", name="manual__1")).to_have_attribute("href", FAILED_RUN["task_url"])
    for name, address in (("DAG", ""), ("Task", "/tasks/orders"), ("Newest log", "/runs/newest/tasks/orders")):
        link = page.get_by_role("navigation", name="In Airflow").get_by_role("link", name=name)
        expect(link).to_have_attribute("href", f"/dags/orders_daily{address}")


@pytest.mark.parametrize("clipboard", ["with", "without"])
def test_an_error_is_copied(page: Page, answers: Answers, clipboard: str) -> None:
    if clipboard == "with":
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    else:  # as on a page without TLS
        page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
        page.add_init_script("document.addEventListener('copy', () => (window.heard = String(getSelection())))")
    go(page, answers, ORDERS + "&day=2026-11-20")
    page.locator(".day").get_by_role("button", name="Copy error").click()
    expect(page.locator(".day .copy")).to_have_text("Copied")
    told = page.evaluate("navigator.clipboard?.readText() ?? window.heard")
    assert told == "DataError: the source answered with 412 rows, and 9,310 are published"


def test_the_calendar_begins_at_the_first_wanted_day(page: Page, answers: Answers) -> None:
    answers.first_day = "2026-11-15"
    go(page, answers, EVENTS)
    expect(page.locator('[role="gridcell"]')).to_have_count(8)
    expect(page.locator(".window")).to_have_text("2026-11-15 to 2026-11-22")
    expect(page.get_by_role("button", name="Earlier days")).to_be_disabled()


@pytest.mark.parametrize(("choice", "count"), [("month", 30), ("quarter", 90)])
def test_thirty_and_ninety_days_stand_beside_the_years(page: Page, answers: Answers, choice: str, count: int) -> None:
    go(page, answers, EVENTS)
    page.get_by_label("Number of days").select_option(choice)
    expect(page.locator('[role="gridcell"]')).to_have_count(count)
    expect(page).to_have_url(re.compile(f"span={choice}"))


def test_within_airflow_every_view_is_a_load_with_an_address(page: Page, answers: Answers) -> None:
    """Airflow writes the addresses of loads in its frame into the browser's address bar, but no pushState."""
    page.goto(answers.url.replace("/connect/", "/around"))
    (frame,) = [each for each in page.frames if each.parent_frame]
    frame.evaluate("window.isOld = true")
    frame.get_by_role("link", name="orders", exact=True).click()
    frame.wait_for_url(re.compile("dag_id=orders_daily&task_id=orders"))
    expect(frame.get_by_role("heading", level=1)).to_contain_text("orders")
    assert frame.evaluate("window.isOld ?? null") is None, "a load"
    frame.goto(answers.url + ORDERS)
    frame.evaluate("window.isOld = true")
    frame.locator('[data-day="2026-11-20"]').click()
    frame.wait_for_url(re.compile("day=2026-11-20"))
    expect(frame.locator('[data-day="2026-11-20"]')).to_be_focused()
    assert frame.evaluate("window.isOld ?? null") is None
