"""The preview of a declaration: real requests, few of them, and rows on standard output alone."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from airflow_provider_connect.hooks.rest import main
from tests.equipment.rest_api.items import DATE
from tests.equipment.rest_api.server import RestApi

DECLARED = """
stream: items
conn_id: not_there
request: {path: /pages, params: {since: "{day.start}", until: "{day.end}"}}
paging: {kind: page_number, ends: empty_page}
records: {key: [id], columns: {id: bigint, at: timestamp}, undeclared: drop}
"""


@pytest.fixture
def declaration(tmp_path: Path) -> Path:
    path = tmp_path / "items.yaml"
    path.write_text(DECLARED)
    return path


def preview(there: RestApi, declaration: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> int:
    api = {"conn_type": "http", "host": there.connection.host, "port": there.port}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(api))
    return main(["preview", str(declaration), "--conn-id", "shop", "--day", DATE.isoformat(), *more])


def test_first_rows_are_printed_and_no_later_page_is_asked_for(
    declaration: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with RestApi() as there:
        assert preview(there, declaration, monkeypatch, "--rows", "12") == 0
        assert len(there.asked) == 2
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["id"] for row in rows] == list(range(1, 13))
    assert rows[0].keys() == {"id", "at", "record_key"}


def test_a_short_day_is_printed_to_its_end(
    declaration: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with RestApi() as there:
        assert preview(there, declaration, monkeypatch, "--rows", "100") == 0
    assert len(capsys.readouterr().out.splitlines()) == 35


def test_an_error_is_that_of_a_run(
    declaration: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with RestApi() as there:
        there.authorize = lambda _: False
        assert preview(there, declaration, monkeypatch) == 78
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("ConfigError: ")


def test_a_wrong_declaration_is_refused(declaration: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declaration.write_text(DECLARED.replace("empty_page", "no_such_rule"))
    assert main(["preview", str(declaration), "--day", DATE.isoformat()]) == 78
    assert "how the last page is known" in capsys.readouterr().err


def test_what_is_proposed_of_an_answer_shows_its_rows_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with RestApi() as there:
        api = {"conn_type": "http", "host": there.connection.host, "port": there.port}
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(api))
        assert main(["propose", "/pages", "--conn-id", "shop"]) == 0
        assert len(there.asked) == 1
        path = tmp_path / "proposed.yaml"
        path.write_text(capsys.readouterr().out)
        assert main(["preview", str(path), "--conn-id", "shop", "--day", f"{dt.datetime.now(dt.UTC):%Y-%m-%d}"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0]["id"] == 1


def test_a_path_without_records_is_an_error_of_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps({"openapi": "3.0.0", "paths": {"/items": {"get": {"responses": {}}}}}))
    assert main(["propose", "/items", "--openapi", str(document)]) == 78
    assert "describes no list of objects" in capsys.readouterr().err
