"""What the page does by itself, every half minute: it asks again, tells how old things are, and moves nothing else."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from playwright.sync_api import Page, expect

from tests.equipment.page import sample_answers
from tests.equipment.page.server import Answers
from tests.integration.page.conftest import EVENTS, ORDERS, go

pytestmark = pytest.mark.slow

TICK = 30_000
"""In milliseconds."""


def at_noon(page: Page, answers: Answers, query: str = "", now: str = sample_answers.NOW) -> None:
    """Open the page at a time that stands still until a test moves it."""
    page.clock.install(time=dt.datetime.fromisoformat(now) - dt.timedelta(minutes=1))
    page.clock.pause_at(now)
    go(page, answers, query)


def again(page: Page) -> None:
    page.evaluate("dispatchEvent(new Event('visibilitychange'))")


def changed(page: Page, answers: Answers, text: str = "Changed meanwhile.") -> None:
    """Let the page ask again, and be answered otherwise."""
    answers.streams[0]["state_text"] = text
    again(page)
    expect(page.locator(".stream")).to_contain_text(text)


def test_the_page_refreshes_every_half_minute(page: Page, answers: Answers) -> None:
    at_noon(page, answers)
    answers.streams[1]["state_text"] = "Changed meanwhile."
    count = len(answers.asked)
    page.clock.run_for(TICK - 1000)
    assert len(answers.asked) == count
    page.clock.run_for(1000)
    expect(page.locator(".streams")).to_contain_text("Changed meanwhile.")
    assert len(answers.asked) == count + 1


def test_ages_are_updated_while_nothing_changes_and_without_answers(page: Page, answers: Answers) -> None:
    at_noon(page, answers)
    row = page.locator("tr", has_text="events")
    footer = page.locator("footer")
    expect(row).to_contain_text("28 minutes ago")
    expect(footer).to_contain_text("Read from Airflow just now. The newest report of a task is from 28 minutes ago.")
    page.clock.run_for(20 * TICK)
    expect(row).to_contain_text("38 minutes ago")
    expect(footer).to_contain_text("The newest report of a task is from 38 minutes ago.")
    answers.refusal = (502, "Airflow's API answered with status 500")
    page.clock.run_for(20 * TICK)
    expect(page.locator("#said")).to_have_text("Airflow's API answered with status 500")
    expect(row).to_contain_text("48 minutes ago")
    expect(footer).to_contain_text(
        "Read from Airflow 20 minutes ago. The newest report of a task is from 48 minutes ago."
    )


def test_times_ahead_are_updated_while_nothing_changes(page: Page, answers: Answers) -> None:
    at_noon(page, answers, EVENTS)
    facts = page.locator(".facts")
    expect(facts).to_contain_text("more in 15 minutes, 2 tasks waiting")
    expect(facts).to_contain_text("ends in 4 hours, about 2026-11-22 13:10 UTC")
    page.clock.run_for(20 * TICK)
    expect(facts).to_contain_text("more in 5 minutes")
    page.clock.fast_forward("03:00:00")
    expect(facts).to_contain_text("ends in 30 minutes")


@pytest.mark.parametrize("name", ["Earlier days", "Later days", "Number of days", "Start a backfill…", "2026-01-01 to"])
def test_a_focused_button_keeps_the_focus(page: Page, answers: Answers, name: str) -> None:
    go(page, answers, EVENTS.replace("2026-11-22", "2025-11-22"))
    stop = page.get_by_label(name).or_(page.get_by_role("button", name=name)).or_(page.get_by_role("link", name=name))
    stop.focus()
    changed(page, answers)
    expect(stop).to_be_focused()


def test_stepping_by_keyboard_continues(page: Page, answers: Answers) -> None:
    at_noon(page, answers, EVENTS)
    page.get_by_role("button", name="Earlier days").focus()
    for first in ("2024-11-21", "2023-11-21"):
        page.keyboard.press("Enter")
        expect(page.locator(".window")).to_contain_text(f"{first} to")
    expect(page.get_by_role("button", name="Earlier days")).to_be_focused()
    forth = page.get_by_role("button", name="Later days")
    forth.focus()
    for last in ("2025-11-21", "2026-11-22"):
        page.keyboard.press("Enter")
        expect(page.locator(".window")).to_contain_text(f"to {last}")
    expect(forth).to_be_disabled()
    expect(forth).to_be_focused()


def test_after_a_dialog_the_focus_is_where_it_was(page: Page, answers: Answers) -> None:
    go(page, answers, ORDERS + "&day=2026-11-20")
    button = page.get_by_role("button", name="Load 2026-11-20 again…")
    button.focus()
    page.keyboard.press("Enter")
    answers.streams[1]["state"] = "waiting"
    page.get_by_role("button", name="Load it again").click()
    expect(page.locator('[data-day="2026-11-20"]')).not_to_have_attribute("data-state", "failed")
    expect(page.locator(".day")).not_to_contain_text("DataError")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_focused()


def test_the_scroll_position_stays(page: Page, answers: Answers) -> None:
    page.set_viewport_size({"width": 360, "height": 700})
    go(page, answers, EVENTS)
    left = "document.querySelector('.blocks .scroll').scrollLeft"
    assert page.evaluate(left) > 500, "the newest days first"
    page.evaluate(f"{left} = 120")
    changed(page, answers)
    assert page.evaluate(left) == 120
    page.get_by_role("button", name="Earlier days").click()
    expect(page.locator(".window")).to_contain_text("to 2025-11-21")
    assert page.evaluate(left) > 500


def test_of_a_day_one_sentence_is_read_out(page: Page, answers: Answers) -> None:
    go(page, answers, ORDERS + "&day=2026-11-20")
    expect(page.locator(".day table")).to_be_visible()
    assert page.locator(".day [aria-live], .day[aria-live]").count() == 0
    expect(page.locator(".day").get_by_role("status")).to_have_text("Friday, 2026-11-20: failed.")


def test_a_proxy_and_airflow_have_different_messages(page: Page, answers: Answers) -> None:
    go(page, answers)
    said = page.locator("#said")
    page.route("**/api/**", lambda route: route.abort())
    again(page)
    expect(said).to_have_text("Airflow did not answer. The page retries by itself.")
    expect(page.locator(".streams")).to_be_visible()
    page.unroute("**/api/**")
    answers.instead = "<html>Sign in to the proxy</html>"
    again(page)
    expect(said).to_have_text("The answer is not from Airflow. A proxy may require you to sign in.")
    answers.instead = '{"as_of": "2026-11-22T09:30:00+00:00", "streams": null}'
    again(page)
    expect(said).to_contain_text("This page has an error, not Airflow:")
    expect(page.locator(".streams")).to_have_count(0)
    answers.instead = None
    again(page)
    expect(page.locator(".streams")).to_be_visible()
    expect(said).to_be_hidden()


@pytest.mark.parametrize(
    "query",
    ["until=2026-13-45", "until=2026-02-30", "until=0001-01-01", "span=constructor", "day=2026-13-45", "day=../../x"],
)
def test_nonsense_in_the_address_is_ignored(page: Page, answers: Answers, query: str) -> None:
    at_noon(page, answers, "?dag_id=orders_daily&task_id=orders&" + query)
    expect(page.locator(".window")).to_have_text("2025-11-22 to 2026-11-22")
    expect(page.get_by_label("Number of days")).to_have_value("year")
    expect(page.locator(".day")).to_be_hidden()
    assert all(
        re.fullmatch(r"streams/orders_daily/orders\?from=2025-11-22&to=2026-11-22", each) for each in answers.asked
    )


@pytest.mark.parametrize(
    ("zone", "now", "today"),
    [
        ("Pacific/Auckland", "2026-11-21T12:00:00+00:00", "2026-11-22"),
        ("UTC", "2026-11-21T12:00:00+00:00", "2026-11-21"),
        ("US/Pacific", "2026-11-21T05:00:00+00:00", "2026-11-20"),
        ("Mars/Olympus", "2026-11-21T12:00:00+00:00", "2026-11-22"),
        (None, "2026-11-21T12:00:00+00:00", "2026-11-22"),
    ],
)
def test_a_window_ends_with_today_where_the_days_are_counted(
    page: Page, answers: Answers, zone: str | None, now: str, today: str
) -> None:
    answers.streams[0]["timezone"] = zone
    at_noon(page, answers, "?dag_id=mixpanel_daily&task_id=events", now=now)
    expect(page.locator('[role="gridcell"]').filter(visible=True)).to_have_count(366 if today == "2026-11-22" else 365)
    assert (
        page.evaluate("[...document.querySelectorAll('[data-day]')].map((each) => each.dataset.day).sort().at(-1)")
        == today
    )
    expect(page.locator(".window")).to_contain_text(f"to {today}")
    expect(page.get_by_role("button", name="Later days")).to_be_disabled()
    assert len({each for each in answers.asked if "?" in each}) == 1, "one address, whatever the zone"
    page.get_by_role("button", name="Earlier days").click()
    page.get_by_role("button", name="Later days").click()
    expect(page.locator(".window")).to_contain_text(f"to {today}")


@pytest.mark.parametrize(
    ("first_day", "count"), [("2026-11-20", 2), ("2026-11-21", 1), ("2026-12-01", 1), ("2020-01-01", 365)]
)
def test_a_stream_without_days_has_no_year_of_empty_boxes(
    page: Page, answers: Answers, first_day: str, count: int
) -> None:
    answers.streams[0]["timezone"], answers.first_day = "UTC", first_day
    at_noon(page, answers, "?dag_id=mixpanel_daily&task_id=events", now="2026-11-21T12:00:00+00:00")
    expect(page.locator('[role="gridcell"]').filter(visible=True)).to_have_count(count)
    expect(page.get_by_role("button", name="Earlier days")).to_have_attribute(
        "aria-disabled", str(first_day > "2025-01-01").lower()
    )


def test_midnight_of_the_stream_brings_its_new_day(page: Page, answers: Answers) -> None:
    answers.streams[0]["timezone"] = "UTC"
    at_noon(page, answers, "?dag_id=mixpanel_daily&task_id=events", now="2026-11-20T23:59:45+00:00")
    expect(page.locator(".window")).to_contain_text("to 2026-11-20")
    page.clock.run_for(TICK)
    expect(page.locator(".window")).to_contain_text("to 2026-11-21")
