"""Every fault of the stand-in, and what the source makes of it."""

import datetime as dt
import json

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, DeadlineError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._mixpanel import client
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import Day
from tests.standins.mixpanel.access import Account
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn

CANARY = "canary%s{{'\"\n0 ü"
DAY = Day(date=dt.date(2026, 3, 1))
PROJECT = Project(events_per_day=400, duplicates_per_day=7, missing_ids_per_day=5)


@pytest.fixture(scope="module")
def standin():
    with StandIn(PROJECT, account=Account(secret=CANARY)) as server:
        yield server


def connection(server, **extra):
    fields = {"login": server.account.username, "password": CANARY} | extra.pop("fields", {})
    return Connection(
        conn_id="m",
        conn_type="mixpanel",
        host=server.url,
        extra={"project_id": server.account.project_id} | extra,
        **fields,
    )


def poll(server, *faults, source=None, day=DAY, conn=None):
    server.faults.replace([fault if isinstance(fault, Fault) else Fault(fault) for fault in faults])
    source = source or MixpanelSource()
    tally = Tally()
    conn = conn or connection(server)
    with source.open(conn, PollContext()) as poller:
        batches = [batch for part in poller.plan([day]) for _, batch in poller.poll(part, tally)]
    return [row for batch in batches for row in batch.to_pylist()], tally


def keys(rows):
    return sorted(row["record_key"] for row in rows)


@pytest.fixture(scope="module")
def whole(standin):
    return poll(standin)


def test_a_day_is_whole(standin, whole):
    rows, tally = whole
    truth = PROJECT.truth(DAY.date)
    assert (tally.rows, len(rows), tally.counts["duplicates"]) == (truth.lines, truth.rows, truth.duplicates)
    assert tally.counts["fallback_keys"] == truth.missing_ids
    times = [row["time"] for row in rows]
    assert (tally.earliest, tally.latest) == (min(times), max(times))
    assert 0 < tally.wire_bytes < tally.raw_bytes


RETRIABLE = {
    "terminated_early": "terminated early.*Read so far: [1-9]",
    "error_line": "an error inside its answer.*Read so far",
    "cut_last_line": "truncated: its last line",
    "cut_gzip": "gzip answer is cut",
    "no_trailer": "gzip answer is cut",
    "bad_crc": "gzip answer is damaged",
    "garbage_after": "not gzip",
    "html": "web page",
    "html_as_text": "not an export",
    "zeros": "not an export",
    "error_document": "an error inside its answer",
    "cut_chunked": "closed the connection|broke off",
    "short_length": "before the announced end",
    "eof_delimited": "neither Content-Length nor chunks",
    "reset": "reset|broke off|closed",
    "refuse": "closed the connection without an answer|reset",
    "status": "503",
}


@pytest.mark.parametrize("tolerance", ["none", "all"])
@pytest.mark.parametrize("kind", RETRIABLE)
def test_cut_and_foreign_answers_are_retriable(standin, whole, kind, tolerance):
    source = MixpanelSource(errors_tolerance=tolerance)
    with pytest.raises(RetriableError, match=RETRIABLE[kind]) as caught:
        poll(standin, kind, source=source)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert keys(poll(standin, source=source)[0]) == keys(whole[0])


def test_several_gzip_members_are_no_fault(standin, whole):
    assert keys(poll(standin, "multi_member")[0]) == keys(whole[0])


def test_split_records_are_rejoined(standin, whole):
    rows, tally = poll(standin, "split_record")
    assert tally.counts["rejoined"] == 2
    assert tally.counts["rejected"] == 0
    assert len(rows) == len(whole[0])
    assert set(keys(whole[0])) == set(keys(rows))
    for row in rows:
        json.loads(row["properties"])


@pytest.mark.parametrize("kind", ["bad_line", "nan_line", "bad_utf8", "no_event"])
def test_a_line_that_is_not_a_record_fails_the_day_or_is_rejected(standin, whole, kind):
    with pytest.raises(DataError, match=r"line at byte [0-9]+ of the answer") as caught:
        poll(standin, kind)
    assert "inserted" not in str(caught.value)
    rows, tally = poll(standin, kind, source=MixpanelSource(errors_tolerance="all"))
    assert keys(rows) == keys(whole[0])
    (reject,) = tally.rejects
    assert reject.position > 0
    assert reject.record
    with pytest.raises(DataError, match="more than max_rejects=2: "):
        poll(standin, Fault(kind, count=3), source=MixpanelSource(errors_tolerance="all", max_rejects=2))


def test_duplicate_keys_of_a_line_count_as_they_stand_last(standin):
    rows, _ = poll(standin, "duplicate_keys")
    assert [row["event"] for row in rows if row["insert_id"] == "inserted"] == ["Other"]


def test_a_huge_line_is_a_row_or_fails_at_max_record_bytes(standin, whole):
    rows, _ = poll(standin, Fault("huge_line", size_bytes=6 << 20))
    assert len(rows) == len(whole[0]) + 1
    with pytest.raises(DataError, match="longer than max_record_bytes=100000"):
        poll(standin, Fault("huge_line", size_bytes=6 << 20), source=MixpanelSource(max_record_bytes=100_000))


def test_a_bomb_of_zeros_is_not_an_export(standin):
    with pytest.raises(RetriableError, match="not an export"):
        poll(standin, Fault("zeros", size_bytes=40 << 20))


def test_an_empty_answer_is_an_empty_day(standin):
    rows, tally = poll(standin, "empty")
    assert rows == []
    assert tally.rows == tally.raw_bytes == 0


def test_silence_and_a_slow_answer_reach_their_deadlines(standin):
    with pytest.raises(DeadlineError, match=r"sent nothing for read_timeout_seconds=0\.2.*first byte"):
        poll(standin, Fault("silent", seconds=1), source=MixpanelSource(read_timeout_seconds=0.2))
    with pytest.raises(RetriableError, match=r"request_deadline_seconds=0.3"):
        poll(
            standin,
            Fault("slow", seconds=0.05, size_bytes=10),
            source=MixpanelSource(read_timeout_seconds=1, request_deadline_seconds=0.3),
        )


@pytest.mark.parametrize(
    ("status", "body", "type_", "text"),
    [
        (400, "to_date cannot be later than today", ConfigError, "zone"),
        (400, "Unable to authenticate request", ConfigError, "region"),
        (400, "bad where", ConfigError, "where"),
        (401, "", ConfigError, "us, eu, in"),
        (402, "", ConfigError, "plan"),
        (403, "", ConfigError, "role"),
        (404, "", ConfigError, "host"),
        (418, "", ConfigError, "418"),
        (429, "", RetriableError, "limit"),
        (500, "", RetriableError, "500"),
        (504, "", RetriableError, "504"),
    ],
)
def test_a_refusal_is_an_error_by_status_without_secrets(standin, status, body, type_, text):
    echo = json.dumps({"request": "/x", "error": f"{body} {CANARY}"})
    with pytest.raises(type_, match=text) as caught:
        poll(standin, Fault("status", status=status, body=echo))
    assert type(caught.value) is type_
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "error", "seconds"),
    [
        ({"Retry-After": "7"}, "", 7),
        ({"Retry-After": "9999999"}, "", 3600),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, "", 0),
        ({"Retry-After": "soon"}, "", 60),
        ({}, "1/5 queries running concurrently and 61/60 queries running in the last hour", 900),
        ({}, "5/5 queries running concurrently and 6/60 queries running in the last hour", 10),
    ],
)
def test_a_429_waits_as_long_as_its_header_or_counters_require(standin, headers, error, seconds):
    with pytest.raises(RetriableError) as caught:
        poll(standin, Fault("status", status=429, headers=headers, body=json.dumps({"error": error})))
    assert caught.value.retry_after_seconds == seconds


def test_redirects_are_not_followed(standin):
    fault = Fault("status", status=302, headers={"Location": f"http://else.example/{CANARY.strip()[:6]}?a=b"}, body="")
    with pytest.raises(ConfigError, match=r"redirects \(status 302\) to else\.example\.") as caught:
        poll(standin, fault)
    assert "canary" not in str(caught.value)


def test_environment_proxies_and_netrc_are_ignored(standin, monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login other password other\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert poll(standin)[0]


def test_a_proxy_of_the_connection_is_used(standin):
    with pytest.raises(RetriableError, match="proxy") as caught:
        poll(standin, conn=connection(standin, proxy="http://user:canary@127.0.0.1:9"))
    assert "canary" not in str(caught.value)


def test_wrong_credentials_are_sent_once(standin):
    before = sum(sum(by.values()) for by in standin.stats["requests"].values())
    with pytest.raises(ConfigError, match="credentials") as caught:
        poll(standin, conn=connection(standin, fields={"password": "canary-too"}))
    assert sum(sum(by.values()) for by in standin.stats["requests"].values()) == before + 1
    assert "canary" not in str(caught.value)


def test_a_day_that_has_not_ended_is_refused(standin, monkeypatch):
    conn = connection(standin)
    monkeypatch.setattr(client, "current_time", lambda: DAY.end - dt.timedelta(minutes=10))
    with pytest.raises(RetriableError, match="not over yet") as caught:
        MixpanelSource().open(conn, PollContext()).plan([DAY])
    assert caught.value.retry_after_seconds == 600
    monkeypatch.setattr(client, "current_time", lambda: DAY.end - dt.timedelta(hours=2))
    with pytest.raises(ConfigError, match="not over yet"):
        MixpanelSource().open(conn, PollContext()).plan([DAY])
    monkeypatch.setattr(client, "current_time", lambda: DAY.end)
    assert len(MixpanelSource().open(conn, PollContext()).plan([DAY])) == 1


@pytest.mark.parametrize("date", [dt.date(2026, 3, 8), dt.date(2026, 11, 1), dt.date(2026, 6, 1)])
@pytest.mark.parametrize("regime", ["utc", "project_local"])
def test_days_of_another_zone_are_refused(regime, date):
    project = Project(regime=regime, timezone="US/Pacific", events_per_day=300)
    day = Day(date=date, zone="US/Pacific")
    source = MixpanelSource(zone="US/Pacific", timestamps=regime)
    with StandIn(project, account=Account(secret=CANARY)) as server:
        rows, tally = poll(server, source=source, day=day)
    assert rows
    assert all(day.start <= row["time"] < day.end for row in rows)
    assert all((row["time_local"] is None) == (regime == "utc") for row in rows)
    assert len(rows) + tally.counts["other_day"] == tally.rows
    if regime == "project_local":
        assert len(rows) == project.truth(date).rows
        assert tally.counts["nonexistent_time"] == tally.counts["outside_day"] == 0
        assert (tally.counts["ambiguous_time"] > 0) == (day.hours == 25)
    else:
        assert tally.counts["other_day"] > 0


def test_no_thread_is_left(standin):
    import threading

    with pytest.raises(ConnectError):
        poll(standin, "cut_gzip")
    assert [thread.name for thread in threading.enumerate() if thread.name == "prefetch"] == []


@pytest.mark.parametrize("tolerance", ["none", "all"])
@pytest.mark.parametrize(
    "end",
    [
        "upstream connect error\n",
        "Terminated Early\n",
        "terminated early: timeout\n",
        "<html>\n",
        '{"event":"a","prop\n',
    ],
)
def test_an_answer_that_ends_in_no_record_is_cut(standin, end, tolerance):
    """Servers and proxies put their own words where an answer breaks off; a day that ends so is never published."""
    body = '{"event":"a","properties":{"time":1772323200}}\n' * 3 + end
    cut = Fault("status", status=200, headers={"Content-Type": "text/plain"}, body=body)
    with pytest.raises(RetriableError, match="Read so far: 3 rows"):
        poll(standin, cut, source=MixpanelSource(errors_tolerance=tolerance))
