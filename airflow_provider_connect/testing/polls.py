"""Conformance cases of sources with a server."""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.capabilities.source import CountsLate
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.registry import days_per_plan
from airflow_provider_connect.source import InputPartition, PollContext, Source
from airflow_provider_connect.stage.counts import LATE_COUNTS
from airflow_provider_connect.stage.key_digest import RECORD_KEY
from airflow_provider_connect.testing.connectors import secrets_of
from airflow_provider_connect.testing.faults import FaultyServer
from airflow_provider_connect.window import ONE_DAY, Day


@dataclass
class Served:
    """A server with a day of data.

    :param connection: with valid credentials.
    :param day: over, in the source's zone.
    :param rows: number of the day's rows, above 0.
    """

    connection: Connection
    day: Day
    rows: int


@dataclass
class Poll:
    """Complete result of polling one plan."""

    schema: pa.Schema
    batches: list[tuple[InputPartition, Day, pa.RecordBatch]]
    tallies: list[Tally]

    @property
    def rows(self) -> Counter[str]:
        """Occurrences of each row, by JSON text of day and row."""
        return Counter(
            json.dumps([str(day), row], default=repr, sort_keys=True)
            for _, day, batch in self.batches
            for row in batch.to_pylist()
        )


def poll(source: Source, connection: Connection, *days: Day) -> Poll:
    """Poll one plan, with separate pollers and pickled copies."""
    with source.open(connection, PollContext()) as driver:
        schema, parts = driver.schema(), driver.plan(days)
    batches, tallies = [], []
    for part in parts:
        executor_source = type(source).from_options(source.serialize())
        with executor_source.open(pickle.loads(pickle.dumps(connection)), PollContext()) as executor:
            tally = Tally(part.days)
            executor_part = pickle.loads(pickle.dumps(part))
            with closing(executor.poll(executor_part, tally)) as day_batches:  # type: ignore[type-var]
                batches += [(part, day, batch) for day, batch in day_batches]
            tallies.append(tally)
    return Poll(schema, batches, tallies)


def _count_differing_rows(first: Poll, second: Poll) -> int:
    return ((first.rows - second.rows) + (second.rows - first.rows)).total()


class PollCases:
    """Cases that poll. They need the fixtures ``source`` and ``served_data``."""

    @pytest.fixture
    def served_data(self, source: Source, served: Served | None) -> Served:
        """Return the server with data. Skips the case without one."""
        if served is None:
            pytest.skip("no fixture 'served': the cases that poll need a server")
        assert served.day.zone == source.timezone, "the served day must be in the source's timezone"
        assert served.rows > 0, "the served day needs rows"
        return served

    @pytest.fixture
    def complete_poll(self, source: Source, served_data: Served) -> Poll:
        """Poll the day from the healthy server."""
        return poll(source, served_data.connection, served_data.day)

    @pytest.fixture
    def http_port(self, served_data: Served) -> int:
        """Return the server's port. Skips the case without plain HTTP."""
        match = re.fullmatch(r"http://(?:127\.0\.0\.1|localhost)(?::(\d+))?/?", served_data.connection.host or "")
        port = int(match[1]) if match and match[1] else served_data.connection.port
        if match is None or port is None:
            pytest.skip("needs a connection to http://127.0.0.1 with a port")
        return port

    def test_two_polls_of_a_day_bring_the_same_rows(
        self, source: Source, served_data: Served, complete_poll: Poll
    ) -> None:
        """A merging sink would add rows with a changed key."""
        assert sum(complete_poll.rows.values()) == served_data.rows
        assert _count_differing_rows(poll(source, served_data.connection, served_data.day), complete_poll) == 0

    def test_every_batch_fits_the_schema(self, complete_poll: Poll) -> None:
        """The stage has the driver's schema."""
        for _, _, batch in complete_poll.batches:
            assert batch.schema.equals(complete_poll.schema)
            for field, column in zip(batch.schema, batch.columns, strict=True):
                assert field.nullable or not column.null_count, f"{field.name} is NOT NULL and has nulls"

    def test_the_schema_survives_pickling_and_serialization(self, complete_poll: Poll) -> None:
        """Each task carries the schema to its executor."""
        for received in (
            pickle.loads(pickle.dumps(complete_poll.schema)),
            pa.ipc.read_schema(complete_poll.schema.serialize()),
        ):
            assert received.equals(complete_poll.schema, check_metadata=True)

    def test_keys_are_32_hex_digits(self, complete_poll: Poll) -> None:
        """The day's digest and merging sinks use the keys."""
        if RECORD_KEY not in complete_poll.schema.names:
            pytest.skip(f"rows have no {RECORD_KEY}")
        field = complete_poll.schema.field(RECORD_KEY)
        assert (field.type, field.nullable) == (pa.string(), False)
        keys = [key for _, _, batch in complete_poll.batches for key in batch.column(RECORD_KEY).to_pylist()]
        assert sum(not re.fullmatch(r"[0-9a-f]{32}", key or "") for key in keys) == 0, (
            "number of keys that are not 32 hex digits"
        )

    def test_each_batch_is_of_a_day_that_its_partition_names(self, complete_poll: Poll) -> None:
        """No task would publish rows of another day."""
        for part, day, _ in complete_poll.batches:
            assert day in part.days

    def test_the_tally_has_counted_every_row(self, complete_poll: Poll) -> None:
        """The report computes dropped rows from the tally."""
        rows_read = sum(tally.rows_of_all_days for tally in complete_poll.tallies)
        rows_yielded = sum(batch.num_rows for _, _, batch in complete_poll.batches)
        days = {
            id(tally.for_day(day)): tally.for_day(day)
            for part, tally in self._tally_by_partition(complete_poll)
            for day in part.days
        }
        assert rows_read >= rows_yielded, "tally.for_day(day).rows counts rows read, before duplicates are dropped"
        assert all(count >= 0 for tally in days.values() for count in tally.counts.values())
        rejected = sum(tally.counts["rejected"] for tally in days.values())
        assert rejected == sum(len(tally.rejects) for tally in days.values()), "count rejects with tally.reject()"

    def test_late_rows_are_counted_where_the_source_says_so(self, source: Source, complete_poll: Poll) -> None:
        """``lookback_days="measured"`` ignores days without counts of late rows."""
        if source.capability(CountsLate) is None:
            pytest.skip("the source does not count late rows")
        for part, tally in self._tally_by_partition(complete_poll):
            assert all(LATE_COUNTS[0] in tally.for_day(day).counts for day in part.days), "count with count_late()"

    @staticmethod
    def _tally_by_partition(complete_poll: Poll) -> list[tuple[InputPartition, Tally]]:
        parts = {part.index: part for part, _, _ in complete_poll.batches}
        return [(parts[index], tally) for index, tally in enumerate(complete_poll.tallies) if index in parts]

    def test_several_threads_may_plan_with_one_poller(self, source: Source, served_data: Served) -> None:
        """The driver has one poller and plans several days concurrently."""
        with source.open(served_data.connection, PollContext()) as poller, ThreadPoolExecutor(4) as pool:
            plans = list(pool.map(lambda _: poller.plan([served_data.day]), range(4)))
        assert plans == plans[:1] * 4

    def test_a_poll_may_be_left_half_way(self, source: Source, served_data: Served) -> None:
        """Closing must neither hang nor fail after a killed task."""
        with source.open(served_data.connection, PollContext()) as poller:
            (part, *_) = poller.plan([served_data.day])
            day_batches: Any = poller.poll(part, Tally(part.days))
            next(day_batches)
            day_batches.close()
        poller.close()

    @pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
    def test_an_answer_that_is_cut_is_never_a_short_day(
        self, source: Source, served_data: Served, complete_poll: Poll, http_port: int, share: float
    ) -> None:
        """Otherwise rows would be lost in a green task."""
        with FaultyServer(behind=http_port) as proxy:
            assert _count_differing_rows(poll(source, through(proxy, served_data), served_data.day), complete_poll) == 0
            size = proxy.passed
        with FaultyServer(behind=http_port, cut_after=min(int(size * share), size - 1)) as proxy:
            polled, error = attempt(lambda: poll(source, through(proxy, served_data), served_data.day))
        # All rows may precede the last bytes of the response.
        assert (polled is not None and not _count_differing_rows(polled, complete_poll)) or isinstance(
            error, RetriableError
        ), error
        assert not secrets_in(error, served_data)

    @pytest.mark.usefixtures("http_port")  # other protocols have no status
    @pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Service Unavailable", "429 Slow Down"])
    def test_a_server_in_trouble_is_tried_again_later(self, source: Source, served_data: Served, status: str) -> None:
        """The server may recover."""
        with FaultyServer(status=status) as server:
            polled, error = attempt(lambda: poll(source, through(server, served_data), served_data.day))
        assert polled is None, "the poll took an error response for a day"
        assert isinstance(error, RetriableError), error
        if status.startswith("429"):
            assert error.retry_after_seconds == 7, "the response has Retry-After: 7"
        assert not secrets_in(error, served_data)

    @pytest.mark.usefixtures("http_port")  # other protocols have no status
    @pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
    def test_refused_credentials_are_a_config_error(self, source: Source, served_data: Served, status: str) -> None:
        """Retries lock the account and delay the alert by hours."""
        with FaultyServer(status=status) as server:
            polled, error = attempt(lambda: poll(source, through(server, served_data), served_data.day))
        assert polled is None, "the poll took an error response for a day"
        assert isinstance(error, ConfigError), error
        assert not secrets_in(error, served_data)


def through(server: FaultyServer, served: Served) -> Connection:
    """Return the connection with a proxy as server."""
    return served.connection.model_copy(update={"host": "http://127.0.0.1", "port": server.port})


def attempt(call: Callable[[], Poll]) -> tuple[Poll | None, ConnectError | None]:
    """Poll. Returns (result, None), or (None, error)."""
    try:
        return call(), None
    except ConnectError as error:
        return None, error


def secrets_in(error: BaseException | None, served: Served) -> list[str]:
    """Return the secrets that the error's traceback would show."""
    texts = []
    while error is not None:
        texts += [str(error), repr(error)]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return [secret for secret in secrets_of([served.connection]) if any(secret in text for text in texts)]


_MAX_DAYS = 3


class TogetherCases:
    """Cases of :class:`.SeveralDaysARequest` pollers. They need ``source`` and ``served_data``."""

    @pytest.fixture
    def days(self, source: Source, served_data: Served) -> list[Day]:
        """Return the served day and days before it."""
        with source.open(served_data.connection, PollContext()) as poller:
            count = min(days_per_plan(poller), _MAX_DAYS)
        if count == 1:
            pytest.skip("days_per_plan is 1: the source plans each day alone")
        return [
            Day(date=served_data.day.date - ago * ONE_DAY, zone=served_data.day.zone) for ago in reversed(range(count))
        ]

    def test_days_of_one_plan_are_those_of_a_plan_each(
        self, source: Source, served_data: Served, days: list[Day]
    ) -> None:
        """A reload of one day must not repeat or lose rows."""
        polled_together = poll(source, served_data.connection, *days)
        rows_polled_alone: Counter[str] = Counter()
        for day in days:
            rows_polled_alone += poll(source, served_data.connection, day).rows
        assert sum(rows_polled_alone.values()) >= served_data.rows
        assert ((polled_together.rows - rows_polled_alone) + (rows_polled_alone - polled_together.rows)).total() == 0

    def test_each_of_several_days_is_planned(self, source: Source, served_data: Served, days: list[Day]) -> None:
        """A day missing from the plan would be published as empty."""
        with source.open(served_data.connection, PollContext()) as poller:
            parts = poller.plan(days)
            assert parts == poller.plan(days)
        assert {day for part in parts for day in part.days} == set(days)

    @pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
    def test_a_cut_answer_of_several_days_is_never_a_short_day(
        self, source: Source, served_data: Served, days: list[Day], http_port: int, share: float
    ) -> None:
        """The missing rows may belong to any of the days."""
        with FaultyServer(behind=http_port) as proxy:
            complete_rows = poll(source, through(proxy, served_data), *days).rows
            size = proxy.passed
        with FaultyServer(behind=http_port, cut_after=min(int(size * share), size - 1)) as proxy:
            polled, error = attempt(lambda: poll(source, through(proxy, served_data), *days))
        # All rows may precede the last bytes of the response.
        is_complete = polled is not None and not ((polled.rows - complete_rows) + (complete_rows - polled.rows)).total()
        assert is_complete or isinstance(error, RetriableError), error
        assert not secrets_in(error, served_data)
