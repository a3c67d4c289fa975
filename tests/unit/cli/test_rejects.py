"""What a person reads of a day's rejects."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.cli.rejects import RejectCounts, format_reasons
from airflow_provider_connect.cli.replay import _require_replayable
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.stage.rejects import DayRejects, RejectedRecord
from airflow_provider_connect.window import Day

DAY = dt.date(2026, 3, 1)
SOME = st.lists(
    st.builds(RejectedRecord, st.sampled_from(["source", "sink"]), st.integers(0), st.sampled_from("abcdefg"))
)


def test_a_table_has_the_most_frequent_reasons_and_a_program_has_all() -> None:
    counted = {"a": 1, "b": 1200, "c": 2, "d": 3, "e": 1}
    assert format_reasons(counted, "table") == "1,200 x b; 3 x d; 2 x c; 2 x others"
    assert format_reasons(counted, "json") == counted
    assert not format_reasons({}, "table")


@given(SOME, st.none() | st.integers(0, 50), st.integers(0, 5))
def test_every_reject_is_counted_once_and_no_more_are_kept_than_wanted(
    rejects: list[RejectedRecord], counted: int | None, most: int
) -> None:
    found = RejectCounts.count(DayRejects(DAY, 1, counted, "there", iter(rejects)), most)
    assert found.remaining == found.origins.total() == found.reasons.total() == len(rejects)
    assert found.first_records == rejects[:most]
    assert found.rejected == (len(rejects) if counted is None else counted)
    assert found.missing == max(0, found.rejected - len(rejects))
    assert ("no longer there" in found.describe()) == bool(found.missing)


def test_a_replay_of_an_increment_is_refused() -> None:
    """A new run reads later rows. Only a clear reads those of the rejects again."""
    followed = SqlSource(conn_id="c", table="t", mode="incrementing", incrementing_column="id")
    pipeline: Any = SimpleNamespace(task=SimpleNamespace(name="d.t"), source=followed, sink=DeltaSink(path="/t"))
    with pytest.raises(ConfigError, match=f"reads increments.*Clear the run of {DAY} in Airflow"):
        _require_replayable(pipeline, Day(date=DAY), [])
