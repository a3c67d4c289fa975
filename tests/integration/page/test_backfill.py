"""The backfill dialog in a real browser: it proposes only missing days, and shows their cost before it starts them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.equipment.page import sample_answers
from tests.equipment.page.server import Answers
from tests.integration.page.conftest import EVENTS, ORDERS, go

pytestmark = pytest.mark.slow


def open_dialog(page: Page, answers: Answers, query: str = ORDERS, button: str = "Start a backfill…") -> Locator:
    go(page, answers, query)
    page.get_by_role("button", name=button).click()
    return page.get_by_role("dialog")


def dates(dialog: Locator) -> list[str]:
    return [dialog.get_by_label(name).input_value() for name in ("From", "To")]


def previews(answers: Answers) -> list[str]:
    return [address for address in answers.asked if address.startswith("backfill")]


def test_the_dialog_opens_on_the_gap_and_starts_what_it_has_shown(page: Page, answers: Answers) -> None:
    dialog = open_dialog(page, answers)
    assert dates(dialog) == ["2026-11-13", "2026-11-14"]
    expect(dialog).to_contain_text("2 runs, about 2 requests, about 12 min (at the pace of the last runs).")
    expect(dialog.get_by_role("listitem")).to_have_text("The DAG is paused. Its runs begin when you unpause it.")
    dialog.get_by_label("To").fill("2026-11-15")
    expect(dialog.get_by_role("button", name="Start it")).to_be_disabled()
    dialog.get_by_label("Which days").select_option("failed")
    expect(dialog).to_contain_text("3 runs")
    assert len(previews(answers)) == 2, "one at the opening, one for both changes"
    assert answers.orders == [], "asked, not done"
    dialog.get_by_role("button", name="Start it").click()
    expect(dialog).to_contain_text("It is asked for")
    ((path, _, body),) = answers.orders
    assert path == "actions/backfill"
    assert body == {"dag_id": "orders_daily", "from": "2026-11-13", "to": "2026-11-15", "reprocess": "failed"}


def test_without_a_gap_no_days_are_proposed(page: Page, answers: Answers) -> None:
    dialog = open_dialog(page, answers, EVENTS)
    assert dates(dialog) == ["", ""]
    expect(dialog).to_contain_text("Choose the first and the last day to see their cost.")
    expect(dialog.get_by_role("button", name="Start it")).to_be_disabled()
    assert previews(answers) == []
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name=re.compile("missing day"))).to_be_hidden()


def test_days_before_the_start_need_a_tick(page: Page, answers: Answers) -> None:
    dialog = open_dialog(page, answers)
    start, tick = dialog.get_by_role("button", name="Start it"), dialog.get_by_label("Run these as well")
    expect(start).to_be_enabled()
    expect(tick).to_be_hidden()
    dialog.get_by_label("From").fill("2026-10-31")
    expect(dialog).to_contain_text("1 of 15 runs is before the DAG's start. Its first day is 2026-11-01.")
    expect(start).to_be_disabled()
    tick.check()
    expect(start).to_be_enabled()
    dialog.get_by_label("From").fill("2026-10-30")
    expect(dialog).to_contain_text("2 of 16 runs are before")
    expect(tick).not_to_be_checked()
    tick.check()
    start.click()
    expect(dialog).to_contain_text("It is asked for")
    assert answers.orders[0][2]["before_start"] == "run"


def test_one_button_loads_the_missing_days(page: Page, answers: Answers) -> None:
    dialog = open_dialog(page, answers, button="Load the 2 missing days…")
    expect(dialog.get_by_role("heading")).to_have_text("Load the 2 missing days?")
    expect(dialog).to_contain_text("Missing: 2026-11-13 to 2026-11-14.")
    expect(dialog).to_contain_text("2 runs, about 2 requests")
    dialog.get_by_role("button", name="Load", exact=True).click()
    expect(dialog).to_contain_text("It is asked for")
    expected = {"dag_id": "orders_daily", "from": "2026-11-13", "to": "2026-11-14", "reprocess": "completed"}
    assert answers.orders[0][2] == expected


def test_several_gaps_are_loaded_without_the_days_between(page: Page, answers: Answers) -> None:
    answers.missing = [sample_answers.gap(day, day) for day in ("2026-11-02", "2026-11-05", "2026-11-07", "2026-11-09")]
    dialog = open_dialog(page, answers, button="Load the 4 missing days…")
    expect(dialog).to_contain_text("Missing: 2026-11-02, 2026-11-05, 2026-11-07 and 1 later gap.")
    dialog.get_by_role("button", name="Load", exact=True).click()
    expect(dialog).to_contain_text("It is asked for")
    expected = {"dag_id": "orders_daily", "from": "2026-11-02", "to": "2026-11-09", "reprocess": "failed"}
    assert answers.orders[0][2] == expected


def test_an_obstacle_is_named_with_a_command_to_copy(page: Page, answers: Answers) -> None:
    answers.preview = {"problem": "DAG 'orders_daily' has a running backfill", "notes": []}
    dialog = open_dialog(page, answers)
    expect(dialog.locator(".problem")).to_contain_text("DAG 'orders_daily' has a running backfill.")
    expect(dialog.get_by_role("button", name="Start it")).to_be_disabled()
    expect(dialog.locator("code")).to_have_text(re.compile("^airflow backfill create --dag-id orders_daily"))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    dialog.get_by_role("button", name="Copy").click()
    expect(dialog.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").startswith("airflow backfill create")


def test_a_refusal_shows_the_reason_and_the_command(page: Page, answers: Answers) -> None:
    dialog = open_dialog(page, answers)
    expect(dialog.locator("code")).to_be_hidden()
    start = dialog.get_by_role("button", name="Start it")
    expect(start).to_be_enabled()
    answers.refusal = (409, "There is already a running backfill for dag orders_daily")
    start.click()
    expect(dialog).to_contain_text("There is already a running backfill for dag orders_daily")
    expect(dialog.locator("code")).to_be_visible()
    dialog.get_by_label("To").fill("2026-11-15")
    expect(dialog.locator(".cost .problem")).to_contain_text("There is already a running backfill")
    expect(start).to_be_disabled()


def test_only_the_newest_days_count(page: Page, answers: Answers) -> None:
    """A slow answer to earlier days neither shows nor enables the button."""
    dialog = open_dialog(page, answers)
    expect(dialog).to_contain_text("2 runs")
    page.evaluate(
        """() => { const plain = window.fetch;
        window.fetch = async (address, options) => {
          if (String(address).includes("to=2026-11-15")) await new Promise((done) => setTimeout(done, 1500));
          return plain(address, options);
        }; }"""
    )
    dialog.get_by_label("To").fill("2026-11-15")
    page.wait_for_timeout(600)
    dialog.get_by_label("To").fill("2026-11-16")
    expect(dialog).to_contain_text("4 runs")
    page.wait_for_timeout(1500)
    expect(dialog).to_contain_text("4 runs")


@pytest.mark.parametrize("width", [360, 1280])
def test_the_dialog_fits_the_screen(page: Page, answers: Answers, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    answers.preview = {"problem": "DAG 'orders_daily' has a running backfill"}
    dialog = open_dialog(page, answers)
    expect(dialog.locator("code")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert dialog.evaluate("node => node.scrollWidth <= node.clientWidth")
