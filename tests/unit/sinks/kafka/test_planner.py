"""Whether a day's time suffices for one transaction (K6): the numbers, and where they come from."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import LedgerRow, StreamKey
from airflow_provider_connect.sinks._kafka.ledger.kafka_ledger import KafkaLedger
from airflow_provider_connect.sinks._kafka.ledger.records import DayEntry
from airflow_provider_connect.sinks._kafka.planner import (
    MAX_TOPICS_PER_DAY,
    map_values_to_topics,
    require_transaction_time,
)
from airflow_provider_connect.sinks.kafka import KafkaSink
from tests.equipment.frozen import freeze

MONDAY = dt.date(2026, 10, 5)


class Known(KafkaLedger):
    """A ledger that knows these days, each with its rows and the seconds it took, newest first."""

    def __init__(self, *days: tuple[int, float]) -> None:
        connection = Connection(conn_id="kafka_default", conn_type="kafka", extra={})
        key = StreamKey(connector="c", stream="s")
        super().__init__(connection, KafkaSink(topic="events"), key)
        self.given = days

    def newest_entries(self, days: int, undecided: Literal["wait", "leave", "ignore"] = "leave") -> list[DayEntry]:
        return [
            DayEntry(row=LedgerRow(day=MONDAY - dt.timedelta(number), generation=1, token="t", rows=rows,
                                counts={"publish_ms": int(seconds * 1000)}))
            for number, (rows, seconds) in enumerate(self.given)
        ][:days]  # fmt: skip


def test_a_day_that_fits_is_no_problem() -> None:
    sink = KafkaSink(topic="events")
    require_transaction_time(sink, 0, Known())
    require_transaction_time(sink, 4_500_000, Known())
    require_transaction_time(sink, 8_000_000, Known((1_000_000, 50)))


def test_without_a_measured_day_a_slow_rate_is_taken() -> None:
    with pytest.raises(ConfigError) as caught:
        require_transaction_time(KafkaSink(topic="events"), 4_500_001, Known((99_999, 90)))
    assert str(caught.value) == (
        "topic 'events': 4,500,001 rows in one transaction take about 450 s at 10,000 rows/s (assumed, because the "
        "ledger has no large day yet), and transaction_timeout_seconds=900 is too short: raise it (the broker's "
        "transaction.max.timeout.ms must allow it), or set atomicity='partition'"
    )


def test_what_even_the_fastest_large_day_of_late_could_not_do_is_refused() -> None:
    days = ((200_000, 10), (200_000, 100), (50_000, 0.1), (200_000, 0))
    require_transaction_time(KafkaSink(topic="events"), 16_000_000, Known(*days))
    with pytest.raises(ConfigError) as caught:
        require_transaction_time(KafkaSink(topic="events"), 20_000_000, Known(*days))
    assert (
        "about 1,000 s at 20,000 rows/s (measured on 2026-10-05, the fastest of 2 large days. The slowest, 2026-10-04, "
        "reached 2,000 rows/s)"
    ) in str(caught.value)
    require_transaction_time(KafkaSink(topic="events", transaction_timeout_seconds=3600), 20_000_000, Known(*days))


def test_a_day_that_was_slow_refuses_no_other_of_its_size() -> None:
    require_transaction_time(KafkaSink(topic="events"), 500_000, Known((500_000, 600)))


def test_a_small_day_costs_no_question_to_the_ledger() -> None:
    class Unasked(Known):
        def newest_entries(self, days: int, undecided: Literal["wait", "leave", "ignore"] = "leave") -> list[DayEntry]:
            raise AssertionError

    require_transaction_time(KafkaSink(topic="events"), 99_999, Unasked())
    with pytest.raises(AssertionError):
        require_transaction_time(KafkaSink(topic="events", transaction_timeout_seconds=10), 50_001, Unasked())


def test_a_template_of_a_column_with_a_value_for_each_row_is_refused(tmp_path: Path) -> None:
    sink = KafkaSink(topic="x_{who}")
    whole = freeze(tmp_path, MONDAY, pa.table({"who": [f"u{number}" for number in range(MAX_TOPICS_PER_DAY)]}))
    assert len(map_values_to_topics(sink, whole)) == MAX_TOPICS_PER_DAY
    more = freeze(
        tmp_path, MONDAY, pa.table({"who": [f"u{number}" for number in range(MAX_TOPICS_PER_DAY + 1)]}), attempt="2"
    )
    with pytest.raises(ConfigError, match=r"column 'who' has 1,001 values or more on 2026-10-05.* may have 1,000"):
        map_values_to_topics(sink, more)
