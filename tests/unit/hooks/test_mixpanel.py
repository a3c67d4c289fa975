from __future__ import annotations

import datetime as dt
import json
import runpy
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, QuotaError
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.hooks import mixpanel as hook_module
from airflow_provider_connect.hooks.mixpanel import MixpanelHook
from airflow_provider_connect.polling.quota.book import Book, Hold, prefix_of
from airflow_provider_connect.sources._mixpanel.limits import quota_of
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from tests.equipment.quota import Keys

EVENT = b'{"event":"a","properties":{"time":1}}\n'


class Mixpanel(HTTPServer):
    """Answers every request with one status and body; remembers what it was asked."""

    status = 200
    body = EVENT
    asked: list[tuple[str, str]]


class Handler(BaseHTTPRequestHandler):
    server: Mixpanel

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Authorization"]))
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def mixpanel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mixpanel]:
    with Mixpanel(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        connection = {
            "conn_type": "mixpanel",
            "host": f"http://127.0.0.1:{server.server_port}",
            "login": "me",
            "password": "hush-hush",
            "extra": {"project_id": "7"},
        }
        monkeypatch.setenv("AIRFLOW_CONN_MIXPANEL_DEFAULT", json.dumps(connection))
        yield server
        server.shutdown()
        thread.join()


def test_one_small_request_is_made(mixpanel: Mixpanel) -> None:
    assert MixpanelHook().test_connection()[0]
    ((path, authorization),) = mixpanel.asked
    assert "limit=1" in path
    assert "project_id=7" in path
    assert authorization.startswith("Basic ")


@pytest.mark.parametrize("body", [b"", EVENT, EVENT[:-1], b'{"event":"' + b"x" * 40_000], ids=len)
def test_an_export_is_one(mixpanel: Mixpanel, body: bytes) -> None:
    mixpanel.body = body
    assert MixpanelHook().test_connection() == (True, MixpanelHook().test_connection()[1])


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, b'{"error":"no"}', "credentials are wrong"),
        (402, b"", "plan"),
        (403, b"hush-hush", "role"),
        (200, b'{"error":"Unable to authenticate request"}', "credentials"),
        (200, b"<html>login</html>\n", "trouble"),
        (200, b"[1]\n", "trouble"),
        (503, b"", "trouble"),
    ],
)
def test_anything_else_is_named_without_the_secret(mixpanel: Mixpanel, status: int, body: bytes, told: str) -> None:
    mixpanel.status, mixpanel.body = status, body
    passed, message = MixpanelHook().test_connection()
    assert not passed
    assert told in message
    assert "hush-hush" not in message


def test_missing_and_incomplete_connections_are_told_without_a_request(
    mixpanel: Mixpanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no connection 'nowhere'" in MixpanelHook("nowhere").test_connection()[1]
    monkeypatch.setenv("AIRFLOW_CONN_MIXPANEL_DEFAULT", json.dumps({"conn_type": "mixpanel", "login": "me"}))
    passed, message = MixpanelHook().test_connection()
    assert not passed
    assert "password" in message
    assert "project_id" in message
    assert mixpanel.asked == []


def test_the_form_shows_a_line_for_all_that_was_looked_at(mixpanel: Mixpanel) -> None:
    passed, message = MixpanelHook().test_connection()
    assert passed
    first, *rows, last = message.splitlines()
    assert first.endswith("stream export, works.")
    assert {row.partition(":")[0].partition(" ")[2] for row in rows} == {
        "credentials",
        "region",
        "project id",
        "role",
        "plan",
        "clock",
        "time zone and timestamps",
        "quota",
    }
    assert last == "Requests sent: 1 of the export."
    assert all(row.endswith(".") for row in rows), "readable, too, where a form joins the lines"


def test_a_source_is_checked_with_its_own_connection(mixpanel: Mixpanel) -> None:
    assert MixpanelHook().check(MixpanelSource(zone="US/Pacific", timestamps="utc")).passed
    (asked,) = mixpanel.asked
    assert asked[0].startswith("/api/2.0/export?")
    with pytest.raises(ConfigError, match=r"reads connection 'other'.*MixpanelHook\('other'\)"):
        MixpanelHook().check(MixpanelSource(conn_id="other"))


def test_a_stream_is_checked_by_its_name(mixpanel: Mixpanel) -> None:
    mixpanel.body = b'{"results":[]}'
    report = MixpanelHook().check("annotations")
    assert report.passed
    assert report.requests == {"app": 1}
    ((path, _),) = mixpanel.asked
    assert path.startswith("/api/app/projects/7/annotations?")


def test_the_request_is_counted_with_those_of_the_tasks(mixpanel: Mixpanel, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys()
    monkeypatch.setattr(hook_module, "VariableStore", lambda: keys)
    assert "OK quota: 59 of 60 requests an hour are left" in MixpanelHook().test_connection()[1]
    assert "OK quota: 58 of 60 requests an hour are left" in MixpanelHook().test_connection()[1]
    assert all(key.startswith("connect_quota/mixpanel.export.7.") for key in keys.all)


def test_a_proposal_asks_for_no_more_records_than_it_looks_at(mixpanel: Mixpanel) -> None:
    mixpanel.body = b'{"event":"a","properties":{"time":1,"plan":"pro","seats":3}}\n'
    proposal = MixpanelHook().propose_promote(day=dt.date(2026, 3, 1), records=7)
    assert proposal.promote == {"plan": "string", "seats": "bigint"}
    ((path, _),) = mixpanel.asked
    assert "limit=7" in path
    assert "from_date=2026-03-01&to_date=2026-03-01" in path


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Keys:
    store = Keys()
    monkeypatch.setattr(hook_module, "VariableStore", lambda: store)
    return store


@pytest.mark.parametrize("used", [0, 59])
def test_a_proposals_query_is_counted_with_those_of_the_tasks(mixpanel: Mixpanel, keys: Keys, used: int) -> None:
    quota = quota_of(credentials.resolve("mixpanel_default"), "export")
    assert quota is not None
    if used:
        keys.add(prefix_of(quota) + Hold("other", time.time(), used, 1).name)
    MixpanelHook().propose_promote()
    assert Book.read(quota, keys.all).used(time.time()) == used + 1
    assert "/sent/" in "".join(keys.all)


def test_a_used_up_hour_is_told_before_a_proposal_asks(mixpanel: Mixpanel, keys: Keys) -> None:
    quota = quota_of(credentials.resolve("mixpanel_default"), "export")
    assert quota is not None
    keys.add(prefix_of(quota) + Hold("other", time.time(), 60, 1).name)
    with pytest.raises(QuotaError, match=r"60 requests an hour of .* are used up or reserved.*nothing was asked"):
        MixpanelHook().propose_promote()
    assert mixpanel.asked == []
    assert len(keys.all) == 1, "a person does not queue"


def test_a_refusal_of_a_proposal_is_counted_and_told_to_the_tasks(mixpanel: Mixpanel, keys: Keys) -> None:
    mixpanel.status, mixpanel.body = 429, b'{"error":"61/60 queries running in the last hour"}'
    with pytest.raises(QuotaError):
        MixpanelHook().propose_promote()
    assert {key.split("/")[2] for key in keys.all} == {"sent", "said"}


def test_a_proposal_does_without_a_count_that_cannot_be_reached_and_says_so(
    mixpanel: Mixpanel, keys: Keys, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def gone(_: str) -> None:
        raise OSError("hush-hush")

    monkeypatch.setattr(keys, "keys", gone)
    assert MixpanelHook().propose_promote().records == 1
    assert "the count of requests cannot be reached (OSError)" in caplog.text
    assert "hush-hush" not in caplog.text


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr("sys.argv", ["propose", *arguments])
    monkeypatch.delitem(sys.modules, "airflow_provider_connect.hooks.propose", raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("airflow_provider_connect.hooks.propose", run_name="__main__")
    return ended.value.code


def test_the_command_prints_a_dict_that_is_an_option(
    mixpanel: Mixpanel, keys: Keys, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mixpanel.body = b'{"event":"a","properties":{"time":1,"plan":"pro","seats":3}}\n'
    assert command(monkeypatch, "--day", "2026-03-01", "--records", "7", "--columns", "1") == 0
    printed: dict[str, Any] = {}
    exec(capsys.readouterr().out, printed)  # as a person pastes it
    assert MixpanelSource(promote=printed["promote"]).promote == {"plan": "string"}
    ((path, _),) = mixpanel.asked
    assert "limit=7" in path
    assert "from_date=2026-03-01&to_date=2026-03-01" in path


def test_the_command_says_what_is_wrong_and_ends_with_its_code(
    mixpanel: Mixpanel, keys: Keys, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "other") == 78
    assert "ConfigError: Airflow has no connection 'other'" in capsys.readouterr().err
    mixpanel.status, mixpanel.body = 401, b'{"error":"hush-hush"}'
    assert command(monkeypatch) == 78
    said = capsys.readouterr().err
    assert "the credentials are wrong" in said
    assert "hush-hush" not in said
    assert command(monkeypatch, "--day", "yesterday") == 2
