"""A source without a DAG: it is checked, previewed and proposed from the command's own arguments."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser

from airflow_provider_connect.cli import check as check_module
from airflow_provider_connect.cli import preview as preview_module
from airflow_provider_connect.cli import propose as propose_module
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.polling.quota.book import Hold, QuotaBook, prefix_of
from airflow_provider_connect.sources._mixpanel.access import quota_of
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from tests.equipment.mixpanel_answers import Mixpanel, mixpanel
from tests.equipment.quota import Keys
from tests.equipment.rest_api.items import DATE
from tests.equipment.rest_api.server import RestApi
from tests.standins.x.server import StandIn as X

__all__ = ["mixpanel"]

Run = Callable[..., tuple[int, str, str]]

DECLARED = """
stream: items
conn_id: not_there
request: {path: /pages, params: {since: "{day.start}", until: "{day.end}"}}
paging: {kind: page_number, ends: empty_page}
records: {key: [id], columns: {id: bigint, at: timestamp}, undeclared: drop}
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        args = get_parser().parse_args(["connect", *arguments])
        with pytest.raises(SystemExit) as ended:
            args.func(args)
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> Keys:
    store = Keys()
    for module in (check_module, preview_module, propose_module):
        monkeypatch.setattr(module, "VariableStore", lambda: store)
    return store


@pytest.fixture
def declaration(tmp_path: Path) -> str:
    path = tmp_path / "items.yaml"
    path.write_text(DECLARED)
    return str(path)


def connect(there: RestApi, monkeypatch: pytest.MonkeyPatch) -> None:
    api = {"conn_type": "http", "host": there.connection.host, "port": there.port}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(api))


def lines(out: str) -> dict[str, tuple[str, str]]:
    return {line["what"]: (line["state"], line["found"]) for line in json.loads(out)}


# REST


def rest(run: Run, command: str, declaration: str, *more: str) -> tuple[int, str, str]:
    options = ["--source", "rest", "--options", declaration, "--conn-id", "shop", "--day", DATE.isoformat()]
    return run(command, *options, "-o", "json", *more)


def test_first_rows_are_printed_and_no_later_page_is_asked_for(
    run: Run, declaration: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RestApi() as there:
        connect(there, monkeypatch)
        code, out, err = rest(run, "preview", declaration, "--rows", "12")
        assert len(there.asked) == 2
    assert code == 0, err
    rows = json.loads(out)
    assert [row["id"] for row in rows] == [str(number) for number in range(1, 13)]
    assert rows[0].keys() == {"id", "at", "record_key"}


def test_a_short_day_is_printed_to_its_end(run: Run, declaration: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with RestApi() as there:
        connect(there, monkeypatch)
        code, out, _ = rest(run, "preview", declaration, "--rows", "100")
    assert (code, len(json.loads(out))) == (0, 35)


def test_a_preview_fails_with_the_error_of_a_run(run: Run, declaration: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with RestApi() as there:
        connect(there, monkeypatch)
        there.authorize = lambda _: False
        code, out, err = rest(run, "preview", declaration)
        assert (code, out) == (78, "")
        assert "ConfigError: " in err
        code, out, _ = rest(run, "check", declaration)
    assert code == 1
    assert lines(out)["source: preflight"][0] == "problem"


def test_a_check_asks_for_the_first_page(run: Run, declaration: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with RestApi() as there:
        connect(there, monkeypatch)
        code, out, err = rest(run, "check", declaration)
        assert len(there.asked) == 1
    assert code == 0, out + err
    assert lines(out)["source: first page"] == ("ok", f"10 rows of {DATE}, as declared")
    assert lines(out)["source"] == ("ok", "3 columns")


def test_a_check_of_a_day_without_rows_says_so(run: Run, declaration: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with RestApi() as there:
        connect(there, monkeypatch)
        there.items = []
        code, out, _ = rest(run, "check", declaration)
    assert code == 0
    assert lines(out)["source: first page"][0] == "note"


def test_a_wrong_declaration_is_refused(run: Run, declaration: str) -> None:
    Path(declaration).write_text(DECLARED.replace("empty_page", "no_such_rule"))
    code, _, err = rest(run, "preview", declaration)
    assert code == 78
    assert "declare the end rule" in err


def test_what_is_proposed_of_an_answer_shows_its_rows_at_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RestApi() as there:
        connect(there, monkeypatch)
        code, out, err = run("propose", "rest", "--path", "/pages", "--conn-id", "shop")
        assert code == 0, err
        assert len(there.asked) == 1
        path = tmp_path / "proposed.yaml"
        path.write_text(out)
        today = f"{dt.datetime.now(dt.UTC):%Y-%m-%d}"
        arguments = ["--source", "rest", "--options", str(path), "--conn-id", "shop", "--day", today, "-o", "json"]
        code, out, err = run("preview", *arguments)
    assert code == 0, err
    assert json.loads(out)[0]["id"] == "1"


def test_a_path_without_records_is_an_error_of_ours(run: Run, tmp_path: Path) -> None:
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps({"openapi": "3.0.0", "paths": {"/items": {"get": {"responses": {}}}}}))
    code, _, err = run("propose", "rest", "--path", "/items", "--openapi", str(document))
    assert code == 78
    assert "has no list of objects" in err


# SQL


def test_a_table_is_checked_from_its_options(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, created_at TEXT)")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", json.dumps({"conn_type": "sqlite", "host": str(file)}))
    options = {"conn_id": "shop_db", "table": "orders", "snapshot": "replace"}
    code, out, err = run("check", "--source", "sql", "--options", json.dumps(options), "-o", "json")
    assert code == 0, out + err
    found = lines(out)
    assert found["source: rights"] == ("ok", "the user may read all columns")
    assert found["source: the key"] == ("ok", "id")
    path = tmp_path / "orders.yaml"
    path.write_text(json.dumps(options | {"table": "missing"}))
    code, out, _ = run("check", "--source", "sql", "--options", str(path), "-o", "json")
    assert code == 1
    assert lines(out)["source: the database"][0] == "problem"
    assert "source" not in lines(out), "the same error once more"


# X


def test_an_app_is_asked_for_its_usage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with X() as there:
        api = {"conn_type": "x", "host": there.url, "password": there.app.token}
        monkeypatch.setenv("AIRFLOW_CONN_X_DEFAULT", json.dumps(api))
        options = json.dumps({"conn_id": "x_default", "queries": ["cats"]})
        code, out, err = run("check", "--source", "x_search", "--options", options, "-o", "json")
        assert code == 0, out + err
        state, text = lines(out)["source: usage"]
        assert state == "ok"
        assert "X accepts the token" in text
        monkeypatch.setenv("AIRFLOW_CONN_X_DEFAULT", json.dumps(api | {"password": "wrong"}))
        code, out, _ = run("check", "--source", "x_search", "--options", options, "-o", "json")
    assert code == 1
    assert lines(out)["source: preflight"][0] == "problem"


# Mixpanel


def test_a_project_is_checked_with_the_source_s_options(run: Run, mixpanel: Mixpanel) -> None:
    code, out, err = run("check", "--source", "mixpanel", "--conn-id", "mixpanel_default", "-o", "json")
    assert code == 0, out + err
    ((path, _),) = mixpanel.asked
    assert path.startswith("/api/2.0/export?")
    found = lines(out)
    assert found["source: credentials"] == ("ok", "accepted")
    assert found["source: requests sent"] == ("ok", "1 of the export")


def test_a_stream_s_own_api_is_checked(run: Run, mixpanel: Mixpanel) -> None:
    mixpanel.body = b'{"results":[]}'
    code, out, err = run("check", "--source", "mixpanel", "--options", '{"stream": "annotations"}', "-o", "json")
    assert code == 0, out + err
    assert lines(out)["source: requests sent"] == ("ok", "1 of the App API")
    ((path, _),) = mixpanel.asked
    assert path.startswith("/api/app/projects/7/annotations?")


def test_a_refusal_is_a_problem_and_a_limit_is_for_later(run: Run, mixpanel: Mixpanel) -> None:
    mixpanel.status, mixpanel.body = 401, b'{"error":"hush-hush"}'
    code, out, err = run("check", "--source", "mixpanel", "-o", "json")
    assert code == 1
    assert lines(out)["source: credentials"][0] == "problem"
    assert "hush-hush" not in out + err
    mixpanel.status, mixpanel.body = 429, b'{"error":"61/60 queries running in the last hour"}'
    code, out, _ = run("check", "--source", "mixpanel", "-o", "json")
    assert code == 75
    assert lines(out)["source: quota"][0] == "try later"


def propose(run: Run, *arguments: str) -> tuple[int, str, str]:
    return run("propose", "mixpanel", *arguments)


def test_a_proposal_is_an_option_of_no_more_records_than_it_looks_at(run: Run, mixpanel: Mixpanel) -> None:
    mixpanel.body = b'{"event":"a","properties":{"time":1,"plan":"pro","seats":3}}\n'
    code, out, err = propose(run, "--day", "2026-03-01", "--records", "7", "--columns", "1")
    assert code == 0, err
    printed: dict[str, Any] = {}
    exec(out, printed)  # as a person pastes it
    assert MixpanelSource(promote=printed["promote"]).promote == {"plan": "string"}
    ((path, _),) = mixpanel.asked
    assert "limit=7" in path
    assert "from_date=2026-03-01&to_date=2026-03-01" in path


@pytest.mark.parametrize("used", [0, 59])
def test_a_proposals_query_is_counted_with_those_of_the_tasks(
    run: Run, mixpanel: Mixpanel, keys: Keys, used: int
) -> None:
    quota = quota_of(credentials.resolve_connection("mixpanel_default"), "export")
    assert quota is not None
    if used:
        keys.add(prefix_of(quota) + Hold("other", time.time(), used, 1).name)
    assert propose(run)[0] == 0
    assert QuotaBook.read(quota, keys.all).used_requests(time.time()) == used + 1
    assert "/sent/" in "".join(keys.all)


def test_a_used_up_hour_refuses_a_proposal_before_its_request(run: Run, mixpanel: Mixpanel, keys: Keys) -> None:
    quota = quota_of(credentials.resolve_connection("mixpanel_default"), "export")
    assert quota is not None
    keys.add(prefix_of(quota) + Hold("other", time.time(), 60, 1).name)
    code, _, err = propose(run)
    assert code == 75
    assert "60 requests an hour of " in err
    assert "No request was sent" in err
    assert mixpanel.asked == []
    assert len(keys.all) == 1, "a person does not queue"


def test_a_refusal_of_a_proposal_is_counted_and_noted_for_the_tasks(run: Run, mixpanel: Mixpanel, keys: Keys) -> None:
    mixpanel.status, mixpanel.body = 429, b'{"error":"61/60 queries running in the last hour"}'
    assert propose(run)[0] == 75
    assert {key.split("/")[2] for key in keys.all} == {"sent", "said"}


def test_a_failed_proposal_has_its_message_and_exit_code(run: Run, mixpanel: Mixpanel) -> None:
    code, _, err = propose(run, "--conn-id", "other")
    assert code == 78
    assert "ConfigError: Airflow has no connection 'other'" in err
    mixpanel.status, mixpanel.body = 401, b'{"error":"hush-hush"}'
    code, _, err = propose(run)
    assert code == 78
    assert "the credentials or the region are wrong" in err
    assert "hush-hush" not in err


# Arguments


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check"], "name a DAG, or a connector with --source"),
        (["check", "a_dag", "--source", "sql"], "name a DAG, or a connector with --source"),
        (["check", "a_dag", "--conn-id", "a"], "need --source"),
        (["check", "--source", "sq"], "no source is called 'sq'"),
        (["check", "--source", "sql", "--options", '{"tabel": "x"}'], "tabel: unknown option; did you mean 'table'?"),
        (["check", "--source", "sql", "--options", "{"], "must be a file or a JSON object"),
        (["check", "--source", "sql", "--options", "/no/such/file"], "cannot be read"),
        (["propose", "sql"], "source 'sql' has no proposals. Use one of: mixpanel, rest"),
        (["propose", "rest", "--records", "3"], "--records is unknown. Source 'rest' accepts --openapi, --path"),
        (["propose", "rest", "--path", "/a"], "--conn-id"),
        (["propose", "rest", "--conn-id", "mixpanel_default"], "--path: set the request's path"),
        (["propose", "mixpanel", "--day", "yesterday"], "'yesterday' is not a day"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_arguments_are_named(run: Run, mixpanel: Mixpanel, arguments: list[str], said: str) -> None:
    code, _, err = run(*arguments)
    assert code == 78
    assert said in err
    assert mixpanel.asked == []
