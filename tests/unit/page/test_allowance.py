from __future__ import annotations

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.page.facts.quota import quota_usage
from airflow_provider_connect.polling.quota.book import Hold, QueueEntry, SentRequests, VendorUsage, prefix_of
from airflow_provider_connect.polling.quota.limits import Quota

QUOTA = Quota("export", requests=60, seconds=3600)
NOW = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
AT = NOW.timestamp()


def keys(*names: str) -> list[str]:
    return [prefix_of(QUOTA) + name for name in names]


def test_a_quota_that_nobody_uses_is_free() -> None:
    expected = {"name": "export", "used": 0, "limit": 60, "period_seconds": 3600, "waiting": 0, "resets_at": None}
    assert quota_usage(QUOTA, [], NOW) == expected


def test_reservations_and_what_was_sent_count_and_come_free() -> None:
    sent = SentRequests("a", ((7, AT - 600),)).name
    found = quota_usage(QUOTA, keys(Hold("b", AT - 10, 12, 1).name, Hold("a", AT - 700, 20, 1).name, sent), NOW)
    assert found["used"] == 19
    free = dt.datetime.fromisoformat(found["resets_at"])
    assert abs((free - NOW).total_seconds() - (3600 - 600 + QUOTA.slack_seconds)) <= 2


def test_the_vendors_own_count_replaces_ours() -> None:
    found = quota_usage(QUOTA, keys(VendorUsage(AT - 1, 40, 50, 0.0).name), NOW)
    assert (found["used"], found["limit"]) == (40, 50)
    assert quota_usage(QUOTA, keys(VendorUsage(AT - 1, 10, 60, 30.0).name), NOW)["used"] == 60


def test_tasks_that_wait_are_counted() -> None:
    assert quota_usage(QUOTA, keys(QueueEntry(0, AT - 50, "x", 5, AT + 60).name), NOW)["waiting"] == 1


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5000)), max_size=6))
def test_what_is_used_is_within_the_limit_and_the_first_part_comes_free_within_two_periods(
    holds: list[tuple[int, int]],
) -> None:
    names = [SentRequests(str(number), ((count, AT - age),)).name for number, (count, age) in enumerate(holds)]
    found = quota_usage(QUOTA, keys(*names), NOW)
    assert 0 <= found["used"] <= found["limit"]
    assert (found["resets_at"] is None) == (found["used"] == 0)
    if found["resets_at"]:
        assert NOW < dt.datetime.fromisoformat(found["resets_at"]) <= NOW + dt.timedelta(seconds=7201)
