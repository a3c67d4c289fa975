"""The page in the frame of a real Airflow's navigation: each view has an address that opens it again."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.equipment.airflow.roles import AirflowWithRoles
from tests.equipment.browser import browser
from tests.system.conftest import System

pytestmark = pytest.mark.slow

STREAM = "/plugin/connect/connect/?dag_id=untouched&task_id=events"


def test_a_view_in_airflow_s_navigation_has_an_address_that_can_be_sent(system: System) -> None:
    airflow: AirflowWithRoles = system.airflow
    airflow.wait_for_dag("untouched")
    with browser() as opened, opened.new_context() as context:
        context.add_cookies([{"name": "_token", "value": airflow.token(), "url": airflow.url}])
        page = context.new_page()
        page.goto(f"{airflow.url}/plugin/connect")
        frame = page.frame_locator("iframe")
        row = frame.get_by_role("row", name=re.compile("untouched"))
        if not row.is_visible():
            frame.get_by_role("button", name=re.compile("paused stream")).click()
        row.get_by_role("link", name="events").click()
        expect(page).to_have_url(re.compile(re.escape(STREAM)), timeout=30_000)
        frame.locator("[data-day]").last.click()
        expect(page).to_have_url(re.compile(re.escape(STREAM) + ".*day="), timeout=30_000)
        address = page.url
        with context.new_page() as another:
            another.goto(address)
            expect(another.frame_locator("iframe").get_by_role("heading", level=1)).to_contain_text("events")
            expect(another.frame_locator("iframe").locator(".day h2")).to_contain_text("20", timeout=30_000)
