"""A task of many tables on the page: each stream with its own offset and reports."""

from __future__ import annotations

import datetime as dt
from typing import Any

from airflow_provider_connect import offsets
from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.page.facts.connectors import connectors_of
from airflow_provider_connect.page.facts.reports import reports_of_event, reports_of_summary
from airflow_provider_connect.page.facts.stream import Stream
from airflow_provider_connect.page.stream_list import _with_offsets
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import DaySet

AT = dt.datetime(2026, 10, 6, 8, tzinfo=dt.UTC)
DAY = dt.date(2026, 10, 5)
_SOURCE = SqlSource(conn_id="shop_db", tables=["public.*", "!public.audit_*"], snapshot="replace")
_SINK = DeltaSink(path="/lake/{schema}/{table}")
CONNECTORS = connectors_of({"source": _SOURCE.serialize(), "sink": _SINK.serialize()})


def event(name: str, rows: int) -> dict[str, Any]:
    extra = {"target": f"/lake/public/{name}", "days": [{"day": str(DAY), "status": "published", "rows_written": rows}]}
    return {"source_run_id": "r", "timestamp": AT.isoformat(), "extra": extra}


def stored(table: str, path: str) -> dict[str, Offset]:
    source, sink = SqlSource(conn_id="shop_db", table=table, snapshot="replace"), DeltaSink(path=path)
    offset = Offset.from_published(source, sink, DaySet.from_dates([DAY]), None)
    return {offsets.variable_key(source, sink): offset}


def task_stream(**fields: Any) -> Stream:
    values: dict[str, Any] = {
        "dag": {"dag_id": "shop"},
        "task_id": "load",
        "map_index": -1,
        "connectors": CONNECTORS,
        "offset": None,
        "reports": [*reports_of_event(event("orders", 7)), *reports_of_event(event("stock", 9))],
        "runs": [],
        "has_run": True,
        "can_edit": True,
        "as_of": AT,
    }
    return Stream(**values | fields)


def test_each_stream_has_its_own_offset_and_reports() -> None:
    known = {
        **stored("orders", "/lake/public/orders"),  # once loaded by a task of its own
        **stored("public.stock", "/lake/public/stock"),
        **stored("public.audit_log", "/lake/public/audit_log"),
        **stored("public.other", "/elsewhere/other"),
    }
    streams = {stream.key: stream for stream in _with_offsets(task_stream(), known)}
    assert sorted(streams) == ["shop_db.orders", "shop_db.public.stock"]
    assert [report.rows for report in streams["shop_db.orders"].reports] == [7]
    assert streams["shop_db.orders"].id == "shop/load#shop_db.orders"
    assert streams["shop_db.public.stock"].connectors.sink == DeltaSink(path="/lake/public/stock")
    assert streams["shop_db.public.stock"].offset == known[next(key for key in known if "stock" in key)]


def test_a_task_without_offsets_is_one_stream() -> None:
    (stream,) = _with_offsets(task_stream(), {})
    assert (stream.key, stream.id) == ("", "shop/load")


def test_a_failed_tasks_report_tells_each_streams_days() -> None:
    failure = {"type": "DataError", "message": "bad"}
    summary = {
        "streams": {
            "public.orders": {"target": "/lake/public/orders", "days": [{"day": str(DAY), "status": "published"}]},
            "public.stock": {
                "target": "/lake/public/stock",
                "days": [{"day": str(DAY), "status": "failed", "failure": failure}],
            },
        }
    }
    reports = reports_of_summary(summary, "r", -1, AT)
    assert [(report.target, report.status, report.message) for report in reports] == [
        ("/lake/public/orders", "published", None),
        ("/lake/public/stock", "failed", "bad"),
    ]
