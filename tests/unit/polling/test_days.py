from __future__ import annotations

import datetime as dt

import pytest

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.polling.days import require_begun, require_over, require_recent
from airflow_provider_connect.window import Day

DAY = Day(date=dt.date(2026, 10, 5), zone="Asia/Tokyo")
END = dt.datetime(2026, 10, 5, 15, tzinfo=dt.UTC)
SECOND = dt.timedelta(seconds=1)


def test_a_day_is_over_at_its_zones_midnight() -> None:
    require_over(DAY, "Asia/Tokyo", END)
    require_over(DAY, "Asia/Tokyo")  # by the system's clock: years ago


def test_a_day_that_is_nearly_over_is_worth_waiting_for() -> None:
    with pytest.raises(RetriableError, match="2026-10-05 is not over yet in Asia/Tokyo") as caught:
        require_over(DAY, "Asia/Tokyo", END - SECOND)
    assert caught.value.retry_after_seconds == 1


def test_a_day_that_lies_ahead_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="2026-10-05 is not over yet"):
        require_over(DAY, "Asia/Tokyo", END - dt.timedelta(hours=1) - SECOND)


def test_a_day_of_another_zone_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="Asia/Tokyo, but this source uses UTC"):
        require_over(DAY, "UTC", END)


def test_a_snapshot_may_be_taken_while_its_day_lasts_and_not_before() -> None:
    require_begun(DAY, "Asia/Tokyo", DAY.start)
    with pytest.raises(
        ConfigError, match="2026-10-05 is in the future in Asia/Tokyo: it begins at 2026-10-04T15:00:00"
    ):
        require_begun(DAY, "Asia/Tokyo", DAY.start - SECOND)
    with pytest.raises(ConfigError, match="Asia/Tokyo, but this source uses UTC"):
        require_begun(DAY, "UTC", END)


def test_what_there_is_now_is_what_a_day_left_for_a_day() -> None:
    require_recent(DAY, END + dt.timedelta(days=1), "the API has")
    with pytest.raises(
        ConfigError, match="stores the rows that the API has now, but the day ended more than a day ago"
    ):
        require_recent(DAY, END + dt.timedelta(days=1) + SECOND, "the API has")
