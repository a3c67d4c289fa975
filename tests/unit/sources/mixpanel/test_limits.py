"""The project's limits: the vendor's figures by default, and settings of the connection."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, QuotaError
from airflow_provider_connect.sources._mixpanel.access import MixpanelAccess, quota_of
from airflow_provider_connect.sources._mixpanel.refusals import refusal_error
from airflow_provider_connect.sources._mixpanel.stream_definition import MixpanelStream
from airflow_provider_connect.sources._mixpanel.streams import STREAMS
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import Day
from tests.equipment.mixpanel import NEEDED

NOW = dt.datetime(2026, 10, 5, tzinfo=dt.UTC)


def connection(conn_id: str = "m", host: str | None = None, **extra: Any) -> Connection:
    return Connection(conn_id=conn_id, host=host, login="me", password="hush", extra={"project_id": 7} | extra)


def test_the_vendors_figures_are_the_default() -> None:
    quota = MixpanelSource().quota(connection())
    assert quota is not None
    assert (quota.requests, quota.seconds, quota.per_second, quota.at_once) == (60, 3600, 3, 100)
    query = quota_of(connection(), "query")
    assert (query.requests, query.at_once, query.name) == (60, 5, quota.name.replace("export", "query"))


@pytest.mark.parametrize("stream", STREAMS.values(), ids=lambda stream: stream.name)
def test_a_stream_is_under_its_own_api_s_limits(stream: MixpanelStream) -> None:
    quota = MixpanelSource(stream=stream.name, **NEEDED.get(stream.name, {})).quota(connection())
    if stream.api == "app":  # whose limits Mixpanel does not tell
        assert quota is None
    else:
        assert quota == quota_of(connection(), stream.api)


@pytest.mark.parametrize(
    ("options", "requests"),
    [
        ({"stream": "export"}, 1),
        ({"stream": "engage"}, 1),
        ({"stream": "funnels"}, 2),
        ({"stream": "funnels", "funnels": [1, 2, 3]}, 3),
        ({"stream": "cohort_members"}, 2),
        ({"stream": "cohort_members", "cohorts": [1, 2, 3]}, 3),
        ({"stream": "segmentation", "event": ["a", "b", "a"]}, 2),
    ],
)
def test_a_day_costs_the_requests_that_its_options_imply(options: dict[str, Any], requests: int) -> None:
    days = [Day(date=dt.date(2026, 3, number)) for number in (1, 2)]
    assert MixpanelSource(**options).requests_for(days) == 2 * requests


@pytest.mark.parametrize("form", [dict, json.dumps])
def test_limits_of_the_connection_replace_the_vendors(form: Any) -> None:
    limits = {"export": {"requests": 400, "seconds": 60.5}}
    quota = MixpanelSource().quota(connection(limits=limits if form is dict else form(limits)))
    assert (quota.requests, quota.seconds, quota.per_second) == (400, 60.5, 3)


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ("sixty", "JSON object"),
        ([60], "JSON object"),
        ({"exprot": {}}, "unknown 'exprot'; known: export, query"),
        ({"export": 60}, "must be an object"),
        ({"export": {"per_hour": 60}}, "unknown setting 'per_hour'"),
        ({"export": {"requests": 0}}, "requests must be a whole number above 0"),
        ({"export": {"requests": 1.5}}, "requests must be a whole number above 0"),
        ('{"export": {"requests": Infinity}}', "requests must be a whole number above 0"),
        ('{"export": {"seconds": NaN}}', "seconds must be a number above 0"),
        ('{"export": {"seconds": Infinity}}', "seconds must be a number above 0"),
        ({"query": {"seconds": True}}, "seconds must be a number above 0"),
    ],
)
def test_wrong_limits_are_reported_with_other_problems(limits: Any, told: str) -> None:
    found = MixpanelSource().check(connection(limits=limits, region="moon"))
    assert any(told in problem for problem in found), found
    assert any("'region'" in problem for problem in found)
    with pytest.raises(ConfigError):
        MixpanelSource().quota(connection(limits=limits))


def test_two_connections_to_one_project_share_its_quota_and_two_projects_do_not() -> None:
    names = [
        quota_of(connection("one"), "export").name,
        quota_of(connection("two"), "export").name,
        quota_of(connection("one", project_id=8), "export").name,
        quota_of(connection("one", region="eu"), "export").name,
        quota_of(connection("one", host="https://gateway"), "export").name,
    ]
    assert names[0] == names[1]
    assert len(set(names)) == 4
    assert all("/" not in name and len(name) < 100 for name in names)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1/5 queries running concurrently and 61/60 queries running in the last hour", (61, 60, 0.0)),
        ("5/5 queries running concurrently and 12/60 queries running in the last hour", None),
        ("slow down", None),
    ],
)
def test_the_counters_of_a_429_are_in_the_error(text: str, said: Any) -> None:
    error = refusal_error(429, json.dumps({"error": text}), MixpanelAccess.from_connection(connection()), now=NOW)
    assert getattr(error, "said", None) == said
    assert isinstance(error, QuotaError) is (said is not None)


def test_the_wait_of_a_429_is_the_vendors_and_not_an_estimate() -> None:
    text = "1/5 queries running concurrently and 61/60 queries running in the last hour"
    error = refusal_error(429, text, MixpanelAccess.from_connection(connection()), now=NOW, retry_after="33")
    assert isinstance(error, QuotaError)
    assert (error.said, error.retry_after_seconds) == ((61, 60, 33.0), 33.0)
