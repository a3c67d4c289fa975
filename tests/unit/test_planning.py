"""What a backfill costs is told before it starts."""

from __future__ import annotations

import json

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.planning import plan
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from tests.equipment.airflow.connectors import TinySource

YEAR = "2026-01-01..2026-12-31"


def test_a_year_takes_six_hours() -> None:
    planned = plan(MixpanelSource(), YEAR, connection=Connection(conn_id="m", extra={"project_id": 1}))
    assert (planned.days, planned.requests, planned.hours) == (365, 365, 6.0)
    assert str(planned) == (
        "365 days of mixpanel_default.export need at least 365 requests. At 60 requests an hour the last request can "
        "be sent 6.0 hours after the first, if this load has the quota to itself."
    )


def test_sixty_days_need_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MIXPANEL_DEFAULT", json.dumps({"conn_type": "mixpanel", "password": "hush"}))
    planned = plan(MixpanelSource(), "2026-01-01..2026-03-01")
    assert (planned.days, planned.hours) == (60, 0.0)
    assert "60 requests an hour have room for them" in str(planned)
    assert str(plan(MixpanelSource(), "2026-01-01")).startswith("1 day of mixpanel_default.export needs at least 1 req")


def test_days_that_are_counted_first_need_another_hour_too() -> None:
    source = MixpanelSource(split_rows=1_000_000)
    planned = plan(source, YEAR, connection=Connection(conn_id="m", extra={"project_id": 1}))
    assert (planned.requests, planned.hours, planned.counts) == (365, 6.0, 2920)
    assert str(planned).endswith(
        "Counting the days first takes up to 2,920 requests of another quota, and at 60 requests an hour up to 48.0 "
        "hours."
    )


def test_other_limits_are_the_connections() -> None:
    limits = {"export": {"requests": 10, "seconds": 600}}
    planned = plan(
        MixpanelSource(), "2026-01-01..2026-01-31", connection=Connection(conn_id="m", extra={"limits": limits})
    )
    assert planned.hours == 0.5
    assert "10 requests in 600 s" in str(planned)


def test_a_source_without_a_quota_says_so() -> None:
    planned = plan(TinySource(conn_id="tiny"), "2026-01-01..2026-01-02", connection=Connection(conn_id="tiny"))
    assert (planned.requests, planned.hours) == (2, 0.0)
    assert str(planned).endswith("The source has no quota.")


def test_a_missing_connection_is_named() -> None:
    with pytest.raises(ConfigError, match="'nowhere'"):
        plan(MixpanelSource(conn_id="nowhere"), YEAR)
