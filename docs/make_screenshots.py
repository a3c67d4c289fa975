"""Takes the pictures of the page that docs/page.md shows, from made-up answers: `python docs/make_screenshots.py`.

It needs the browser that the tests use. The pictures differ a little from machine to machine, as fonts do, so that no
test compares them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.equipment.browser import browser
from tests.equipment.page import sample_answers
from tests.equipment.page.server import served

IMAGES = Path(__file__).parent / "images"
EVENTS = "?dag_id=mixpanel_daily&task_id=events&until=2026-11-22&day=2026-11-04"
ORDERS = "?dag_id=orders_daily&task_id=orders&until=2026-11-22&day=2026-11-20"
PICTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "page-streams": ("", {"color_scheme": "light", "viewport": {"width": 1100, "height": 400}}),
    "page-light": (EVENTS, {"color_scheme": "light", "viewport": {"width": 1100, "height": 740}}),
    "page-dark": (ORDERS, {"color_scheme": "dark", "viewport": {"width": 1100, "height": 740}}),
    "page-day": (ORDERS, {"color_scheme": "light", "viewport": {"width": 1100, "height": 800}}),
    "page-narrow": (EVENTS, {"color_scheme": "light", "viewport": {"width": 380, "height": 900}}),
}


def take(opened: Browser, url: str, name: str) -> None:
    """Take one picture, at the time of the answers."""
    query, options = PICTURES[name]
    with opened.new_context(**options) as context:
        page = context.new_page()
        page.clock.set_fixed_time(sample_answers.NOW)
        page.goto(url + query)
        page.locator("#said").wait_for(state="hidden")
        if query:
            page.locator(".day table").wait_for()
        part = page.locator(".day") if name == "page-day" else page
        part.screenshot(path=IMAGES / f"{name}.png")


def main() -> None:
    """Take all of them."""
    IMAGES.mkdir(exist_ok=True)
    with served() as answers, browser() as opened:
        for name in PICTURES:
            take(opened, answers.url, name)


if __name__ == "__main__":
    main()
