"""Answers in the shapes of Mixpanel's specification, with made-up values, and what becomes of broken ones.

Shapes: https://github.com/mixpanel/docs, openapi/query.openapi.yaml and annotations.openapi.yaml (2026-08).
"""

from __future__ import annotations

import copy
import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import DataError, RetriableError
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._mixpanel.query import answers as fields
from airflow_provider_connect.sources._mixpanel.query.retention import interval_of_day
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.spark.poll import PollTask, stage_partition
from airflow_provider_connect.window import Day
from tests.equipment.mixpanel import DAY, connection, poll
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn

FUNNEL: dict[str, Any] = {
    "meta": {"dates": ["2026-03-01"]},
    "data": {
        "2026-03-01": {
            "steps": [
                {
                    "count": 410,
                    "avg_time": None,
                    "avg_time_from_start": None,
                    "step_conv_ratio": 1,
                    "goal": "Open",
                    "overall_conv_ratio": 1,
                    "event": "Open",
                },
                {
                    "count": 205,
                    "avg_time": 61.5,
                    "avg_time_from_start": 61,
                    "step_conv_ratio": 0.5,
                    "goal": "$custom_event:44",
                    "step_label": "Größe gewählt",
                    "custom_event": True,
                    "custom_event_id": 44,
                    "overall_conv_ratio": 0.5,
                    "event": "$custom_event:44",
                },
            ],
            "analysis": {"completion": 205, "starting_amount": 410, "steps": 2, "worst": 1},
        }
    },
}
RETENTION: dict[str, Any] = {"2026-03-01": {"counts": [8, 5, 0], "first": 9}}
SEGMENTATION: dict[str, Any] = {
    "data": {"series": ["2026-03-01"], "values": {"iOS": {"2026-03-01": 12}, "Android": {}}},
    "legend_size": 2,
}
INSIGHTS: dict[str, Any] = {
    "computed_at": "2026-03-02T01:02:03.000004+00:00",
    "date_range": {"from_date": "2026-02-22T00:00:00-08:00", "to_date": "2026-03-01T23:59:59.999000-08:00"},
    "headers": ["$event"],
    "series": {"Open": {"2026-03-01T00:00:00-08:00": 5, "2026-03-08T00:00:00-08:00": 2.5}},
}
ANNOTATIONS: dict[str, Any] = {
    "status": "ok",
    "results": [{"id": 3, "date": "2026-03-01 10:00:00", "description": "x", "user": {"id": 1}, "tags": []}],
}

ASKED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "funnels": ("/api/query/funnels", FUNNEL, {"funnels": [1]}),
    "retention": ("/api/query/retention", RETENTION, {"born_event": "Open", "interval_count": 2}),
    "segmentation": ("/api/query/segmentation", SEGMENTATION, {"event": "Open", "on": 'properties["$os"]'}),
    "insights": ("/api/query/insights", INSIGHTS, {"bookmark_id": 9}),
    "annotations": ("/api/app/projects/{project_id}/annotations", ANNOTATIONS, {}),
}


@pytest.fixture(scope="module")
def standin():
    with StandIn(Project()) as server:
        yield server


def read(standin, stream, document, **more):
    path, _, options = ASKED[stream]
    body = document if isinstance(document, str) else json.dumps(document)
    return poll(standin, Fault("status", path=path, status=200, body=body), stream=stream, **options | more)


def test_a_funnel_is_a_row_for_each_step(standin):
    rows, _ = read(standin, "funnels", FUNNEL)
    for row in rows:
        row.pop("record_key")
    same = {"date": dt.date(2026, 3, 1), "funnel_id": 1, "funnel_name": None}
    assert rows == [
        same
        | {"step": 0, "event": "Open", "step_label": None, "custom_event_id": None, "count": 410}
        | {"step_conv_ratio": 1.0, "overall_conv_ratio": 1.0, "avg_time": None, "avg_time_from_start": None},
        same
        | {"step": 1, "event": "$custom_event:44", "step_label": "Größe gewählt", "custom_event_id": 44, "count": 205}
        | {"step_conv_ratio": 0.5, "overall_conv_ratio": 0.5, "avg_time": 61.5, "avg_time_from_start": 61.0},
    ]


def test_retention_is_a_row_for_each_interval(standin):
    rows, _ = read(standin, "retention", RETENTION)
    assert [(row["interval_number"], row["first"], row["count"], row["is_over"]) for row in rows] == [
        (0, 9, 8, True),
        (1, 9, 5, True),
        (2, 9, 0, True),
    ]


def test_dates_may_have_a_time_after_them(standin):
    rows, _ = read(standin, "retention", {"2026-03-01T00:00:00": RETENTION["2026-03-01"]})
    assert len(rows) == 3


def test_a_segment_whose_day_is_missing_has_zero(standin):
    rows, _ = read(standin, "segmentation", SEGMENTATION)
    assert [(row["segment"], row["count"]) for row in rows] == [("iOS", 12), ("Android", 0)]


def test_a_saved_report_is_a_row_for_each_value_with_its_path(standin):
    rows, _ = read(standin, "insights", INSIGHTS)
    assert [(row["date"], row["time"].isoformat(), row["value"]) for row in rows] == [
        (dt.date(2026, 3, 1), "2026-03-01T08:00:00+00:00", 5.0),
        (dt.date(2026, 3, 8), "2026-03-08T08:00:00+00:00", 2.5),
    ]


def test_values_that_are_no_numbers_are_counted(standin):
    series = {"Open": {"2026-03-01T00:00:00-08:00": "many", "2026-03-08T00:00:00-08:00": None}, "Max": {"all": True}}
    rows, tally = read(standin, "insights", INSIGHTS | {"series": series})
    assert [row["value"] for row in rows] == [None, None, None]
    assert tally.counts == {"value_unreadable": 2}


@pytest.mark.parametrize(
    ("stream", "document"),
    [
        ("funnels", FUNNEL | {"data": {}}),
        ("retention", {}),
        ("segmentation", {"data": {"series": ["2026-03-01"], "values": {}}, "legend_size": 0}),
        ("insights", INSIGHTS | {"series": {}}),
        ("annotations", {"status": "ok", "results": []}),
    ],
)
def test_an_empty_report_has_no_rows(standin, stream, document):
    assert read(standin, stream, document)[0] == []


def test_other_days_in_an_answer_are_left_out_and_counted(standin):
    rows, tally = read(standin, "retention", RETENTION | {"2026-03-02": {"first": 1, "counts": [1]}})
    assert {row["date"] for row in rows} == {dt.date(2026, 3, 1)}
    assert tally.counts == {"other_day": 1}


def broken(stream: str, *path: Any, to: Any) -> Any:
    document = copy.deepcopy(ASKED[stream][1])
    place = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return document


DATE = "2026-03-01"
BROKEN = [
    ("funnels", broken("funnels", "data", to=None), RetriableError, "incomplete answer"),
    ("funnels", broken("funnels", "data", DATE, "steps", to=None), DataError, "funnel 1: .* no list of steps"),
    ("funnels", broken("funnels", "data", DATE, "steps", 1, to=7), DataError, "funnel 1: .* no list of steps"),
    ("funnels", broken("funnels", "data", DATE, "steps", 1, "count", to="x"), DataError, "funnel 1: a count is not"),
    ("retention", broken("retention", DATE, "counts", to={}), DataError, "no counts for 2026-03-01"),
    ("retention", broken("retention", DATE, "first", to=None), DataError, "a count is not a whole number"),
    ("retention", broken("retention", DATE, "counts", 1, to=1.5), DataError, "a count is not a whole number"),
    ("retention", broken("retention", DATE, to=[]), DataError, "no counts for 2026-03-01"),
    ("segmentation", broken("segmentation", "data", "values", to=[]), RetriableError, "no series or no values"),
    (
        "segmentation",
        broken("segmentation", "data", "series", to=[]),
        RetriableError,
        "other days than the requested 2026-03-01",
    ),
    (
        "segmentation",
        {"data": {"series": ["2026-03-02"], "values": {}}},
        RetriableError,
        "other days than the requested 2026-03-01",
    ),
    ("segmentation", broken("segmentation", "data", "values", "iOS", to=3), RetriableError, "answer has no days"),
    ("segmentation", broken("segmentation", "data", "values", "iOS", DATE, to=True), DataError, "a count is not"),
    ("insights", broken("insights", "series", to=[]), RetriableError, "no headers or no series"),
    ("insights", broken("insights", "headers", to=None), RetriableError, "no headers or no series"),
    ("annotations", broken("annotations", "results", to=None), RetriableError, "incomplete answer"),
    (
        "annotations",
        broken("annotations", "results", 0, "id", to="3"),
        DataError,
        "annotations has an entry without an id",
    ),
]


@pytest.mark.parametrize(("stream", "document", "error", "said"), BROKEN)
def test_a_broken_report_fails_with_its_name(standin, stream, document, error, said):
    with pytest.raises(error, match=said):
        read(standin, stream, document)


@pytest.mark.parametrize("stream", ASKED)
@pytest.mark.parametrize("document", ["", "[1]", "7", "null", '{"results":', '{"error":"trouble","status":"error"}'])
def test_an_answer_that_is_not_a_report_is_retriable(standin, stream, document):
    with pytest.raises(RetriableError):
        read(standin, stream, document)


def test_lone_surrogates_become_replacement_characters(standin):
    document = json.dumps(INSIGHTS).replace('"Open"', r'"O\ud800"')
    rows, _ = read(standin, "insights", document)
    assert {(row["metric"], row["path"]) for row in rows} == {("O\ufffd", '["O\ufffd"]')}


TYPES: list[tuple[Callable[[Any], Any], type]] = [
    (fields.bigint_or_none, int),
    (fields.float_or_none, float),
    (fields.text_or_none, str),
    (fields.flag_or_none, bool),
    (fields.wall_time_or_none, dt.datetime),
    (fields.instant_or_none, dt.datetime),
]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.datetimes().map(str),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.text(), below, max_size=2),
    max_leaves=3,
)


@given(ANYTHING)
def test_a_field_of_another_type_becomes_null(value):
    for read_field, kind in TYPES:
        assert type(read_field(value)) in (kind, type(None))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, True, "1", None])
def test_a_number_beyond_a_double_is_null(value):
    assert fields.float_or_none(value) is None


def test_a_number_beyond_a_bigint_is_null():
    assert (
        fields.bigint_or_none(2**63 - 1),
        fields.bigint_or_none(2**63),
        fields.bigint_or_none(True),
        fields.bigint_or_none(1.0),
    ) == (
        2**63 - 1,
        None,
        None,
        None,
    )


@given(st.integers(0, 40), st.integers(1, 90), st.sampled_from(["UTC", "US/Pacific", "Asia/Tokyo"]))
def test_intervals_follow_each_other_and_overlap_by_a_day(number, days, zone):
    day = Day(date=dt.date(2026, 3, 1), zone=zone)
    this, following = interval_of_day(day, number, days), interval_of_day(day, number + 1, days)
    assert this.start < following.start < this.end < following.end
    assert interval_of_day(day, 0, days).start == day.start
    after = Day(date=following_date(day, (number + 1) * days), zone=zone)
    assert (following.start, this.end) == (after.start, after.end)


def following_date(day: Day, days: int) -> dt.date:
    return day.date + dt.timedelta(days=days)


# Through the stage

STAGED = {
    "funnels": {"date": "date32[day]", "step": "int64", "avg_time": "double", "count": "int64"},
    "retention": {"date": "date32[day]", "interval_number": "int64", "is_over": "bool"},
    "segmentation": {"date": "date32[day]", "segment": "string", "count": "int64"},
    "insights": {"date": "date32[day]", "time": "timestamp[us, tz=UTC]", "value": "double", "path": "string"},
    "annotations": {"annotation_id": "int64", "date": "timestamp[us]", "tags": "string"},
}


@pytest.mark.parametrize("stream", STAGED)
def test_a_report_is_staged_typed_and_with_a_digest(standin, tmp_path: Path, stream):
    path, document, options = ASKED[stream]
    source, there = MixpanelSource(stream=stream, **options), connection(standin)
    standin.faults.replace([Fault("status", path=path, status=200, body=json.dumps(document))])
    with source.open(there, PollContext()) as poller:
        schema, (part,) = poller.schema(), poller.plan([DAY])
    task = PollTask(
        source_name="mixpanel",
        source=source.serialize(),
        part=part,
        root=str(tmp_path),
        attempts=("t-1",),
        progress_seconds=1,
    )
    polled = stage_partition(task, schema, there)[DAY.date]
    (file,) = polled.files
    table = pq.read_table(tmp_path / file.path, partitioning=None)
    assert {name: str(table.schema.field(name).type) for name in STAGED[stream]} == STAGED[stream]
    assert table.schema.names == schema.names
    assert table.num_rows == polled.rows_written == len(read(standin, stream, document)[0])
    keys = table.column("record_key").to_pylist()
    assert sum(int(key, 16) for key in keys) % 2**128 == int(polled.digest or "", 16)
    assert len(set(keys)) == len(keys)
