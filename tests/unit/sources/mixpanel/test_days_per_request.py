"""How many days one export is asked for: the option, what it costs, and what ``auto`` comes to."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from airflow_provider_connect.capabilities.poller import Together
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.planning import plan
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._mixpanel.request_planning import TARGET_BYTES
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import Day, days_between, parse_days

CONNECTION = Connection(conn_id="m", conn_type="mixpanel", login="u", password="p", extra={"project_id": "1"})
YEAR = "2025-01-01..2025-12-31"


def days(text: str) -> list[Day]:
    return parse_days(text, "UTC")


@pytest.mark.parametrize("wrong", [0, -1, 32, "many", 1.5, True, None])
def test_a_wrong_number_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="a whole number from 1 to 31, or 'auto'"):
        MixpanelSource(days_per_request=wrong)


def test_days_per_request_is_refused_for_other_streams() -> None:
    with pytest.raises(ConfigError, match=r"days_per_request: stream 'engage' does not use it.*export"):
        MixpanelSource(stream="engage", days_per_request=7)
    assert MixpanelSource(days_per_request="7").days_per_request == 7, "a template is text"
    assert MixpanelSource.from_options(MixpanelSource(days_per_request="auto").serialize()).days_per_request == "auto"


def test_days_per_request_defaults_to_one_day() -> None:
    with MixpanelSource().open(CONNECTION, PollContext()) as poller:
        assert poller.days_per_plan == 1
        assert len(poller.plan(days("2025-03-01..2025-03-03"))) == 3


@pytest.mark.parametrize(
    ("size", "text", "requests"),
    [
        (1, YEAR, 365),
        (7, YEAR, 53),
        (31, YEAR, 12),
        (7, "2025-01-01", 1),
        ("auto", "2025-01-01..2025-03-01", 60),
        ("auto", "2025-01-01..2025-03-02", 31),
        ("auto", YEAR, 53),
        ("auto", "2000-01-01..2025-12-31", 307),  # 31 days are the most
    ],
)
def test_a_window_costs_as_many_requests_as_it_has_groups_of_days(size: Any, text: str, requests: int) -> None:
    assert MixpanelSource(days_per_request=size).requests_for(days(text)) == requests


def test_gaps_and_days_of_the_lookback_cost_requests_of_their_own() -> None:
    source = MixpanelSource(days_per_request=7)
    window, lookback = days("2025-03-10..2025-03-14"), days("2025-03-07..2025-03-09")
    assert source.requests_for([*window, *lookback]) == 2
    assert source.requests_for([*window[:2], *window[3:]]) == 2
    assert source.requests_for([]) == 0


def test_a_year_in_groups_of_days_takes_no_hour_instead_of_six() -> None:
    planned = plan(MixpanelSource(days_per_request=7), YEAR, connection=CONNECTION)
    assert (planned.days, planned.requests, planned.hours) == (365, 53, 0.0)
    assert "365 days of mixpanel_default.export need at least 53 requests" in str(planned)


def test_planning_with_a_template_is_refused_with_a_remedy() -> None:
    with pytest.raises(ConfigError, match="days_per_request: the cost of a template is unknown until it is rendered"):
        plan(MixpanelSource(days_per_request="{{ params.days }}"), YEAR, connection=CONNECTION)  # type: ignore[arg-type]


# auto


def chosen(text: str, *sizes: int) -> Together:
    with MixpanelSource(days_per_request="auto").open(CONNECTION, PollContext()) as poller:
        assert poller.days_per_plan == 31
        return poller.days_together(days(text), lambda: sizes)


def test_auto_takes_one_day_if_the_hour_has_room_for_each() -> None:
    def sizes() -> list[int]:
        raise AssertionError("nobody needs to know")

    with MixpanelSource(days_per_request="auto").open(CONNECTION, PollContext()) as poller:
        together = poller.days_together(days("2025-01-01..2025-03-01"), sizes)
    assert together.days == 1
    assert "60 days fit into 60 requests an hour, one day in each" in together.why


def test_auto_takes_one_day_until_a_size_is_known() -> None:
    assert chosen(YEAR) == (1, "the size of no day is known yet")


def test_auto_takes_the_days_that_fit_the_window_into_an_hour() -> None:
    together = chosen(YEAR, 1_000_000, 5_000_000)
    assert together.days == 7
    assert "with 7 days in each." in together.why
    assert "largest known day nearby has 5.0 MB" in together.why
    assert chosen("2025-01-01..2025-03-02", 1).days == 2
    assert chosen(YEAR, 0).days == 7, "days without events"


def test_auto_takes_no_more_bytes_than_the_target() -> None:
    assert chosen(YEAR, 1, TARGET_BYTES // 3).days == 3
    assert chosen(YEAR, TARGET_BYTES * 2).days == 1
    assert chosen("2000-01-01..2025-12-31", 1).days == 31


def test_a_fixed_number_of_days_is_used_unchanged() -> None:
    with MixpanelSource(days_per_request=5).open(CONNECTION, PollContext()) as poller:
        assert poller.days_together(days_between(dt.date(2025, 1, 1), dt.date(2025, 1, 2), "UTC"), list) == (5, "")
