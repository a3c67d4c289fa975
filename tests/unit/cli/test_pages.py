"""``airflow connect docs``: pages beside the options of connectors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.cli.cli_parser import get_parser

from airflow_provider_connect.cli.pages import page_names, read_page

PACKAGE = Path(__file__).parents[3] / "airflow_provider_connect"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        args = get_parser().parse_args(["connect", "docs", *arguments])
        with pytest.raises(SystemExit) as ended:
            args.func(args)
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return call


def test_pages_are_listed_with_their_titles(run: Run) -> None:
    titles = {row["page"]: row["title"] for row in json.loads(run("-o", "json")[1])}
    assert titles["late"] == "Late data and reloads"
    assert "index" not in titles


def test_a_page_is_printed_and_a_connector_wins_over_a_page_of_its_name(run: Run) -> None:
    assert run("operations")[1].startswith("# ")
    code, options, note = run("delta", "-o", "json")
    assert code == 0
    assert "path" in {row["option"] for row in json.loads(options)}
    assert "The page: airflow connect docs delta --page" in note
    assert run("delta", "--page")[1].startswith("# ")


def test_an_unknown_name_is_refused_with_the_nearest(run: Run) -> None:
    code, _, error = run("operation")
    assert code == 78
    assert "did you mean 'operations'?" in error
    assert "no page is named" in run("x_search", "--page")[2]


def test_the_sections_that_messages_name_exist() -> None:
    # Two neighbouring texts are one.
    texts = " ".join(file.read_text() for file in PACKAGE.rglob("*.py"))
    texts = re.sub(r'"\s+f?"', "", texts)
    references = set(re.findall(r"'([^']+)' in 'airflow connect docs (\w+)(?: --page)?'", texts))
    assert len(references) >= 4
    for section, page in references:
        assert page in page_names()
        assert re.search(rf"^#+ {re.escape(section)}$", read_page(page), re.MULTILINE), (section, page)
