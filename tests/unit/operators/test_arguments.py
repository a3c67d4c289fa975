from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from tests.equipment.airflow.connectors import TinySink, TinySource


def make(**options: Any) -> ConnectOperator:
    return ConnectOperator(task_id="a", **({"source": TinySource(conn_id="c"), "sink": TinySink()} | options))


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"asset_events": "days"}, "asset_events: cannot be 'days'; did you mean 'day'"),
        ({"asset_events": "never"}, "asset_events: cannot be 'never'; known: day, task"),
        ({"progress_seconds": -3}, "progress_seconds: must be a number of seconds above 0, not -3"),
        ({"progress_seconds": True}, "progress_seconds: must be a number"),
        ({"progress_seconds": float("inf")}, "progress_seconds: must be a number"),
        ({"progress_seconds": "5"}, "progress_seconds: must be a number"),
        ({"on_shrink": "fial"}, "on_shrink: cannot be 'fial'; did you mean 'fail'"),
        ({"shrink_percent": 100}, "shrink_percent: must be a number of percent from 0 to below 100, not 100"),
        ({"shrink_percent": "5"}, "shrink_percent: must be a number of percent"),
        ({"row_bounds": 50}, "row_bounds: must be a RowBounds of airflow_provider_connect.completeness, not a int"),
        ({"ready_after": dt.timedelta(hours=-1)}, "ready_after: must be a datetime.timedelta of 0 or more"),
        ({"ready_after": 7200}, "ready_after: must be a datetime.timedelta of 0 or more, not 7200"),
        ({"lookback_days": -1}, "lookback_days: must be a whole number of days, 0 or more, or 'measured', not -1"),
        ({"lookback_days": True}, "lookback_days: must be a whole number of days"),
        (
            {"lookback_days": 1, "sink": TinySink(adds=True)},
            "lookback_days loads days again, and sink 'tiny' of t only appends",
        ),
        (
            {"lookback_days": 1, "source": TinySource(conn_id="c", whole=True)},
            "lookback_days loads days again, and source 'tiny' reads snapshots",
        ),
        (
            {"sink": DeltaSink(path="/lake/t", deletes="soft")},
            "source 'tiny', sink 'delta' of /lake/t: deletes='soft' needs a source of snapshots",
        ),
        ({"asset": "kafka://host/topic"}, "asset: must be an airflow.sdk.Asset, not a str"),
        ({"origin": "1 October"}, "origin: must be a date or 'YYYY-MM-DD', not '1 October'"),
        ({"origin": dt.datetime(2026, 10, 1, tzinfo=dt.UTC)}, "origin: must be a day, not an instant"),
        ({"progres_seconds": 3}, "progres_seconds: unknown argument; did you mean 'progress_seconds'"),
        ({"retrys": 3}, "retrys: unknown argument; did you mean 'retries'"),
        ({"zzz": 3}, "zzz: unknown argument; none of the "),
        ({"num_executor": 3}, "num_executor: unknown argument; did you mean 'num_executors'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_argument_is_refused_with_what_is_right(option: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make(**option)
    assert said in str(caught.value)


def test_all_wrong_arguments_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        make(asset_events="days", progress_seconds=0, sink=TinySource(conn_id="c"))
    assert all(f"{name}: " in str(caught.value) for name in ("asset_events", "progress_seconds", "sink"))


def test_arguments_of_sparks_operator_and_airflow_are_accepted() -> None:
    made = make(num_executors=2, pool="p", doc_md="x", default_args={"owner": "me"}, params={"x": 1})
    assert (made.pool, made.owner) == ("p", "me")
    assert make(origin="2026-10-01").origin == dt.date(2026, 10, 1)
