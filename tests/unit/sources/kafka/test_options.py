"""Options of the Kafka source that do not fit together, and what a choice of them means."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.capabilities.source import CountsLate
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources._kafka.records import Record
from airflow_provider_connect.sources._kafka.timestamp_poller import arrival_times
from airflow_provider_connect.sources.kafka import KafkaSource


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"read_by": "generation", "ledger_topic": None}, "set ledger_topic, which knows the generations"),
        ({"published_stream": "mixpanel/s"}, "published_stream: set read_by='generation'"),
        ({"dead_letter_topic": "letters"}, "set errors_tolerance='all', or the first such record fails the run"),
        ({"dead_letter_topic": "orders", "errors_tolerance": "all"}, "it cannot be one of the topics"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        KafkaSource.from_options({"topics": ["orders"], **options})


def test_only_offsets_make_increments_and_only_timestamps_show_late_records() -> None:
    sources = {
        read_by: KafkaSource(topics=["orders"], read_by=read_by) for read_by in ("offset", "timestamp", "generation")
    }
    assert {name: source.kind for name, source in sources.items()} == {
        "offset": "increment",
        "timestamp": "day",
        "generation": "day",
    }
    assert [name for name, source in sources.items() if source.capability(CountsLate)] == ["timestamp"]


def test_a_record_arrived_no_earlier_than_the_newest_timestamp_before_it() -> None:
    def record(partition: int, offset: int, milliseconds: int | None) -> Record:
        return Record("orders", "id", partition, offset, milliseconds, None, None, ())

    newest: dict[tuple[str, int], int] = {}
    assert arrival_times([record(0, 0, 5), record(1, 0, 2), record(0, 1, 3), record(0, 2, None)], newest) == [
        5,
        2,
        5,
        5,
    ]
    assert arrival_times([record(1, 1, 1), record(0, 3, 9)], newest) == [2, 9], "a batch goes on from the one before it"
