import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.values.walltime import instants

ZONES = [
    "UTC",
    "US/Pacific",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "Asia/Kolkata",
]
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # a wall clock
utc = dt.UTC


def by_datetime(wall, zone):
    local = (EPOCH + dt.timedelta(seconds=wall)).replace(tzinfo=ZoneInfo(zone))
    first, second = (int(local.replace(fold=fold).timestamp()) for fold in (0, 1))
    return first, first < second, first > second


@given(
    st.sampled_from(ZONES),
    st.lists(st.integers(-1_000_000_000, 4_000_000_000), min_size=1, max_size=50),
)
def test_agrees_with_datetime(zone, walls):
    found = instants(np.array(walls, dtype=np.int64), zone)
    assert list(zip(found.seconds.tolist(), found.ambiguous.tolist(), found.nonexistent.tolist(), strict=True)) == [
        by_datetime(wall, zone) for wall in walls
    ]


@pytest.mark.parametrize(
    ("zone", "date"),
    [
        ("US/Pacific", "2026-03-08"),
        ("US/Pacific", "2026-11-01"),
        ("Australia/Lord_Howe", "2026-04-05"),
        ("America/Sao_Paulo", "2018-11-04"),
        ("Pacific/Apia", "2011-12-30"),
        ("Asia/Beirut", "2026-03-29"),
    ],
)
def test_every_minute_around_a_change(zone, date):
    noon = int((dt.datetime.fromisoformat(date) - EPOCH).total_seconds())
    walls = np.arange(noon - 86_400, noon + 2 * 86_400, 60)
    found = instants(walls, zone)
    expected = [by_datetime(int(wall), zone) for wall in walls]
    assert found.seconds.tolist() == [one[0] for one in expected]
    assert found.ambiguous.tolist() == [one[1] for one in expected]
    assert found.nonexistent.tolist() == [one[2] for one in expected]
    assert found.ambiguous.any() or found.nonexistent.any()


def test_the_ends_of_the_calendar():
    walls = np.array([-62_135_596_800, 253_402_300_799], dtype=np.int64)
    assert len(instants(walls, "US/Pacific").seconds) == 2
    assert len(instants(walls[:0], "US/Pacific").seconds) == 0
