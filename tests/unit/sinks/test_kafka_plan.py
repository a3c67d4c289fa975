"""Whether a day's time suffices for one transaction (K6): the numbers, and where they come from."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import LedgerRow, StreamKey
from airflow_provider_connect.sinks._kafka_ledger import Entry, KafkaLedger, LedgerTopic
from airflow_provider_connect.sinks._kafka_plan import check_time
from airflow_provider_connect.sinks.kafka import KafkaSink

MONDAY = dt.date(2026, 10, 5)


class Known(KafkaLedger):
    """A ledger that knows these days, each with its rows and the seconds it took, newest first."""

    def __init__(self, *days: tuple[int, float]) -> None:
        connection = Connection(conn_id="kafka_default", conn_type="kafka", extra={})
        super().__init__(LedgerTopic(connection, "ledger", 1.0), StreamKey(connector="c", stream="s"), "events")
        self.given = days

    def newest(self, days: int) -> list[Entry]:
        return [
            Entry(row=LedgerRow(day=MONDAY - dt.timedelta(number), generation=1, token="t", order=1, rows=rows,
                                counts={"publish_ms": int(seconds * 1000)}), run="r")
            for number, (rows, seconds) in enumerate(self.given)
        ][:days]  # fmt: skip


def test_a_day_that_fits_is_no_problem() -> None:
    sink = KafkaSink(topic="events")
    check_time(sink, 0, Known())
    check_time(sink, 4_500_000, Known())
    check_time(sink, 8_000_000, Known((1_000_000, 50)))


def test_without_a_measured_day_a_slow_rate_is_taken() -> None:
    with pytest.raises(ConfigError) as caught:
        check_time(KafkaSink(topic="events"), 4_500_001, Known((99_999, 90)))
    assert str(caught.value) == (
        "topic 'events': 4,500,001 rows in one transaction take about 450 s at 10,000 rows/s (assumed, as the ledger "
        "knows no large day yet), and transaction_timeout_seconds=900 leaves no room for that: raise it (the broker's "
        "transaction.max.timeout.ms must allow it), or set atomicity='partition'"
    )


def test_the_slowest_large_day_of_late_counts() -> None:
    days = ((200_000, 10), (200_000, 100), (50_000, 5000), (200_000, 0))
    with pytest.raises(ConfigError, match=r"500 s at 2,000 rows/s \(measured on 2026-10-04\)"):
        check_time(KafkaSink(topic="events"), 1_000_000, Known(*days))
    check_time(KafkaSink(topic="events", transaction_timeout_seconds=3600), 1_000_000, Known(*days))


def test_a_small_day_costs_no_question_to_the_ledger() -> None:
    class Unasked(Known):
        def newest(self, days: int) -> list[Entry]:
            raise AssertionError

    check_time(KafkaSink(topic="events"), 99_999, Unasked())
    with pytest.raises(AssertionError):
        check_time(KafkaSink(topic="events", transaction_timeout_seconds=10), 50_001, Unasked())
