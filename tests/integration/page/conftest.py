"""A browser, a server of made-up answers, and a page on which nothing goes wrong unseen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.equipment.browser import browser
from tests.equipment.page.server import Answers, served

EVENTS = "?dag_id=mixpanel_daily&task_id=events&until=2026-11-22"
ORDERS = "?dag_id=orders_daily&task_id=orders&until=2026-11-22"


@pytest.fixture(scope="module")
def opened() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def answers() -> Iterator[Answers]:
    with served() as serving:
        yield serving


@pytest.fixture
def page(opened: Browser, answers: Answers) -> Iterator[Page]:
    """A page on which nothing may go wrong unseen, or be fetched from elsewhere."""
    wrong: list[str] = []
    here = answers.url.removesuffix("connect/")
    with opened.new_context(viewport={"width": 1280, "height": 900}) as context:
        made = context.new_page()
        made.on("pageerror", lambda error: wrong.append(str(error)))
        made.on("console", lambda message: wrong.append(message.text) if refused(message.text) else None)
        made.on("request", lambda request: None if request.url.startswith(here) else wrong.append(request.url))
        yield made
    assert wrong == []


def refused(text: str) -> bool:
    return "Content Security Policy" in text or "Uncaught" in text


def go(page: Page, answers: Answers, query: str = "") -> None:
    page.goto(answers.url + query)
    expect(page.locator("#said")).to_be_hidden()
