"""A person looks for something on the built site: it is found, and nothing is fetched from elsewhere."""

from __future__ import annotations

import functools
import http.server
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.equipment.browser import browser

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (line,) = re.findall(r"^MKDOCS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    folder = tmp_path_factory.mktemp("site")
    command = f"{line.replace('$(BIN)', str(Path(sys.executable).parent))} --site-dir {folder}"
    ended = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.fixture(params=["http", "file"])
def site(request: pytest.FixtureRequest, built: Path) -> Iterator[str]:
    """The URL of the site: on a server, and as files."""
    if request.param == "file":
        yield built.as_uri()
        return
    handler = functools.partial(Quiet, directory=str(built))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_search_finds_and_nothing_comes_from_elsewhere(site: str) -> None:
    asked: list[str] = []
    with browser() as opened:
        page = opened.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{site}/index.html")
        page.keyboard.press("/")
        page.locator(".md-search__input").first.press_sequentially("lookback_days measured")
        found = page.locator(".md-search-result__item h1, .md-search-result__item h2")
        found.first.wait_for(timeout=120_000)
        assert "Late data and reloads" in found.all_inner_texts()
        found.get_by_text("Late data and reloads").first.click()
        page.wait_for_url(re.compile("late.html"))
    assert len(asked) > 5
    assert [url for url in asked if not url.startswith((site, "data:", "blob:"))] == []


def test_the_glossary_is_a_page_and_stands_once(built: Path) -> None:
    glossary, architecture = (
        (built / name).read_text(encoding="utf-8") for name in ("glossary.html", "architecture.html")
    )
    assert "erase list</td>" in glossary
    assert "erase list</td>" not in architecture
    assert 'href="glossary.html"' in architecture
