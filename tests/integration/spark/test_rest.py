"""A declared REST source under a real spark-submit, into each sink: days and children, whole or not at all."""

from __future__ import annotations

import datetime as dt
import json
import os
import threading
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.sources.rest import PageNumber
from tests.equipment.kafka import fixtures
from tests.equipment.rest_api.items import items_of
from tests.equipment.rest_api.reading import BOUNDS, declared, records
from tests.equipment.rest_api.server import Answer, Request, RestApi

pytestmark = pytest.mark.slow

DAYS = ["2026-10-05", "2026-10-06"]
BY_PAGE = {
    "conn_id": "api",
    "stream": "items",
    "request": {"path": "/pages/totals", "params": BOUNDS},
    "paging": {"kind": "page_number", "ends": {"rule": "flag", "at": "more", "last": False}},
    "records": {
        "at": "items",
        "key": ["id"],
        "columns": {"id": "bigint", "amount": "decimal(20,4)"},
    },
    "retry_budget_seconds": 5,
}


def loaded(submit: Any) -> dict[str, list[int]]:
    table = DeltaTable(str(submit.table)).to_pyarrow_table(columns=["day", "id"]).to_pylist()
    found: dict[str, list[int]] = {}
    for row in table:
        found.setdefault(str(row["day"]), []).append(row["id"])
    return {day: sorted(ids) for day, ids in found.items()}


def test_days_and_children_of_parents_are_in_delta_whole_or_not_at_all(submit: Any) -> None:
    submit.source_name = "rest"
    by_day = {day: items_of(dt.date.fromisoformat(day), 40 + at, first_id=100 * at + 1) for at, day in enumerate(DAYS)}
    expected = {day: [each["id"] for each in items] for day, items in by_day.items()}
    with RestApi([each for items in by_day.values() for each in items]) as api:
        busy = iter([Answer({"error": "busy"}, 503, {"Retry-After": "0"})])
        api.faults.append(lambda asked: next(busy, None) if asked.first("page") == "3" else None)
        ended = submit.run(DAYS, source=BY_PAGE, connection=api.connection)
        assert ended.process.returncode == 0, ended.output
        assert loaded(submit) == expected
        assert {(day.status, day.generation) for day in ended.report.days} == {("published", 1)}
        assert "canary" not in ended.output

        def lies(asked: Request) -> Answer | None:
            return Answer({"items": [], "more": None}) if asked.first("page") == "2" else None

        api.faults[:] = [lies]
        failed = submit.here(DAYS[:1], token="b" * 32, source=BY_PAGE, connection=api.connection)
        assert failed.report.exit_code == 75, failed.output
        assert loaded(submit) == expected, "an answer that is no page has changed a day"

        api.faults[:] = []
        parent = {
            "stream": "parents",
            "request": {"path": "/parents"},
            "paging": {"kind": "page_number", "ends": "empty_page"},
            "records": {"key": ["id"], "columns": {"id": "string"}},
            "snapshot": "replace",
        }
        source = declared(
            "/parents/{parent.id}/items",
            PageNumber(ends="empty_page"),
            parent=parent,
            parent_columns={"parent_id": "id"},
            records=records(key=("parent_id", "id")),
            partitions=3,
        )
        children = submit.here(
            DAYS, source=source.serialize(), sink={"path": str(submit.tmp / "children")}, connection=api.connection
        )
        assert children.report.exit_code == 0, children.output
        table = DeltaTable(str(submit.tmp / "children")).to_pyarrow_table(columns=["id"])
        assert sorted(table["id"].to_pylist()) == sorted(each for ids in expected.values() for each in ids)


def test_a_local_master_of_all_cores_polls_as_many_days_at_once_as_the_options_allow(submit: Any) -> None:
    width = min(8, len(os.sched_getaffinity(0)) + 2)
    days = [str(dt.date(2026, 10, 5) + dt.timedelta(at)) for at in range(width)]
    submit.source_name, submit.master = "rest", "local[*]"
    all_at_once = threading.Barrier(width)

    def answer_together(request: Request) -> bool:
        if request.first("page") == "1":
            all_at_once.wait(60)
        return True

    items = [item for at, day in enumerate(days) for item in items_of(dt.date.fromisoformat(day), 3, first_id=10 * at)]
    with RestApi(items) as api:
        api.authorize = answer_together
        source = {**BY_PAGE, "parallel_days": width}
        ended = submit.run(days, source=source, connection=api.connection, concurrent_polls=width)
    assert ended.process.returncode == 0, ended.output
    assert loaded(submit) == {day: [10 * at, 10 * at + 1, 10 * at + 2] for at, day in enumerate(days)}


def test_a_day_into_bigquery(submit: Any, bigquery_target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    submit.source_name, submit.sink_name, submit.sink_connections = "rest", "bigquery", bigquery_target.connections
    submit.staging.mkdir()
    monkeypatch.setattr(submit, "sink_options", lambda: {"table": bigquery_target.sink.table})
    items = items_of(dt.date.fromisoformat(DAYS[0]), 25)
    with RestApi(items) as api:
        ended = submit.here(DAYS[:1], source=BY_PAGE, connection=api.connection)
    assert ended.report.exit_code == 0, ended.output
    rows = bigquery_target.query(
        "SELECT id, CAST(amount AS STRING) AS amount, TO_JSON_STRING(document) AS document FROM {table} ORDER BY id"
    )
    assert [(row["id"], float(row["amount"])) for row in rows] == [(each["id"], each["amount"]) for each in items]
    assert [json.loads(row["document"])["name"] for row in rows] == [each["name"] for each in items]


def test_a_day_into_kafka(submit: Any, kafka_target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    submit.source_name, submit.sink_name, submit.sink_connections = "rest", "kafka", kafka_target.connections
    sink = kafka_target.sink
    options = {"topic": sink.topic, "ledger_topic": sink.ledger_topic, "key_fields": ["id"]}
    monkeypatch.setattr(submit, "sink_options", lambda: options)
    items = items_of(dt.date.fromisoformat(DAYS[0]), 25)
    with RestApi(items) as api:
        ended = submit.run(DAYS[:1], source=BY_PAGE, connection=api.connection)
    assert ended.process.returncode == 0, ended.output
    sent = [json.loads(record.value) for record in fixtures.records(kafka_target.bootstrap, sink.topic)]
    assert sorted((row["id"], float(row["amount"])) for row in sent) == [(each["id"], each["amount"]) for each in items]
    assert sorted(row["document"]["name"] for row in sent) == sorted(each["name"] for each in items)
