"""The demo's REST API: the example's declaration reads its days whole, though it is busy now and then."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_provider_connect.clients.http.pool import OpenResponses
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources.rest import RestSource
from airflow_provider_connect.testing.polls import Poll, poll
from airflow_provider_connect.window import Day
from tests.demo.report import compare
from tests.demo.rest_origin import LEDGER, RestDeltaTarget, RestOrigin
from tests.standins.rest.events import Ledger
from tests.standins.rest.server import StandIn

DECLARATION = Path(__file__).parents[3] / "dags" / "stripe_events.yaml"
DATE = dt.date(2026, 9, 1)
SMALL = Ledger(seed=3, events_per_day=250)


def read(api: StandIn, key: str = "sk_made_up") -> Poll:
    given = RestOrigin().connection(api.port, key)
    connection = Connection(
        conn_id="stripe",
        conn_type=given["conn_type"],
        host=given["host"],
        port=given["port"],
        password=given["password"],
        extra=json.loads(given["extra"]),
    )
    return poll(RestSource.from_file(DECLARATION, conn_id="stripe"), connection, Day(date=DATE))


def test_the_example_s_declaration_reads_a_day_that_the_demo_finds_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(OpenResponses, "sleep", lambda _, seconds: pauses.append(seconds))
    with StandIn(SMALL, key="sk_made_up", busy_every=3) as api:
        polled = read(api)
    assert len(pauses) == 1, "the API was busy, and its page was asked for again"
    batches = [batch for _, _, batch in polled.batches]
    table = pa.Table.from_batches(batches)
    assert table.num_rows == 250
    target = RestDeltaTarget(tmp_path)
    target.start({})
    write_deltalake(
        target.settings["CONNECT_DEMO_TABLE"], table.append_column("day", pa.array([DATE] * table.num_rows))
    )
    assert compare(target.events(), SMALL, [DATE], target.as_kept) == []
    assert [row[1] for row in target.sample()] == sorted(table["created"].to_pylist())[:3]


def test_who_has_another_key_is_refused() -> None:
    with StandIn(SMALL, key="sk_other") as api, pytest.raises(ConfigError, match="401"):
        read(api)


def test_what_is_asked_wrongly_is_refused() -> None:
    api = StandIn(SMALL, key="k")
    with api:
        for query, status in [("created[gte]=0&created[lt]=x", 400), ("created[gte]=0&created[lt]=9&limit=101", 400)]:
            assert api.answer(f"/v1/events?{query}", "Bearer k")[0] == status
        assert api.answer("/v1/charges", "Bearer k")[0] == 404


def test_days_are_made_up_once_and_for_all() -> None:
    events = LEDGER.events_of_day(DATE)
    assert len({event["id"] for event in events}) == LEDGER.events_per_day
    assert {dt.datetime.fromtimestamp(event["created"], dt.UTC).date() for event in events} == {DATE}
    assert events == sorted(events, key=lambda event: -event["created"])
    assert LEDGER.events_of_day(DATE + dt.timedelta(days=1))[0] != events[0]
