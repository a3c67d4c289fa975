"""What every source must do with a server that has data: poll a day whole, twice the same, or say that it could not.

A source that polls several days with one request: each of them is the day that it is alone.
"""

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
    """A server that has a day of data.

    :param connection: to the server, with credentials that it takes.
    :param day: one that is over and has rows, in the source's zone.
    :param rows: how many rows the source yields of it.
    """

    connection: Connection
    day: Day
    rows: int


@dataclass
class Poll:
    """What a poll of a whole day brought."""

    schema: pa.Schema
    batches: list[tuple[InputPartition, Day, pa.RecordBatch]]
    tallies: list[Tally]

    @property
    def rows(self) -> Counter[str]:
        """Every row as text, with how often it came."""
        return Counter(
            json.dumps([str(day), row], default=repr, sort_keys=True)
            for _, day, batch in self.batches
            for row in batch.to_pylist()
        )


def poll(source: Source, connection: Connection, *days: Day) -> Poll:
    """Poll a day, or several that one plan takes, as driver and executors do.

    Each has a poller of its own, and all that travels is pickled.
    """
    with source.open(connection, PollContext()) as driver:
        schema, parts = driver.schema(), driver.plan(days)
    batches, tallies = [], []
    for part in parts:
        source_there = type(source).from_options(source.serialize())
        with source_there.open(pickle.loads(pickle.dumps(connection)), PollContext()) as executor:
            tally = Tally(part.days)
            part_there = pickle.loads(pickle.dumps(part))
            with closing(executor.poll(part_there, tally)) as yielded:  # type: ignore[type-var]
                batches += [(part, day, batch) for day, batch in yielded]
            tallies.append(tally)
    return Poll(schema, batches, tallies)


def _rows_apart(one: Poll, other: Poll) -> int:
    """Return how many rows one poll brought and the other did not: a failure must not print, or compare, whole days."""
    return ((one.rows - other.rows) + (other.rows - one.rows)).total()


class PollCases:
    """Cases that poll; each needs the fixtures ``source`` and ``there``."""

    @pytest.fixture
    def there(self, source: Source, served: Served | None) -> Served:
        """Return the server; without one the case is skipped."""
        if served is None:
            pytest.skip("no fixture 'served': this source is never polled here")
        assert served.day.zone == source.timezone, "the served day is one of another zone"
        assert served.rows > 0, "a day without rows shows nothing"
        return served

    @pytest.fixture
    def whole(self, source: Source, there: Served) -> Poll:
        """Poll the day from the good server."""
        return poll(source, there.connection, there.day)

    @pytest.fixture
    def http_port(self, there: Served) -> int:
        """Return the server's port if it speaks HTTP without TLS; else the case is skipped."""
        match = re.fullmatch(r"http://(?:127\.0\.0\.1|localhost)(?::(\d+))?/?", there.connection.host or "")
        port = int(match[1]) if match and match[1] else there.connection.port
        if match is None or port is None:
            pytest.skip("the connection is not to http://127.0.0.1 and a port")
        return port

    def test_two_polls_of_a_day_bring_the_same_rows(self, source: Source, there: Served, whole: Poll) -> None:
        """A retry polls anew: rows or keys that differ are other rows to a sink that merges by key."""
        assert sum(whole.rows.values()) == there.rows
        assert _rows_apart(poll(source, there.connection, there.day), whole) == 0

    def test_every_batch_fits_the_schema(self, whole: Poll) -> None:
        """The stage is written with the driver's schema: a batch that differs fails the day half way."""
        for _, _, batch in whole.batches:
            assert batch.schema.equals(whole.schema)
            for field, column in zip(batch.schema, batch.columns, strict=True):
                assert field.nullable or not column.null_count, f"{field.name} is NOT NULL and has nulls"

    def test_the_schema_travels(self, whole: Poll) -> None:
        """It goes to the executors with each task; what is lost on the way, such as comments, no sink sees."""
        for there in (pickle.loads(pickle.dumps(whole.schema)), pa.ipc.read_schema(whole.schema.serialize())):
            assert there.equals(whole.schema, check_metadata=True)

    def test_keys_are_32_hex_digits(self, whole: Poll) -> None:
        """The digest of a day, and sinks that merge, take them: a null there is a row that nobody finds again."""
        if RECORD_KEY not in whole.schema.names:
            pytest.skip(f"rows have no {RECORD_KEY}")
        field = whole.schema.field(RECORD_KEY)
        assert (field.type, field.nullable) == (pa.string(), False)
        keys = [key for _, _, batch in whole.batches for key in batch.column(RECORD_KEY).to_pylist()]
        assert sum(not re.fullmatch(r"[0-9a-f]{32}", key or "") for key in keys) == 0, "so many are no keys"

    def test_each_batch_is_of_a_day_that_its_partition_names(self, whole: Poll) -> None:
        """Rows of a day that was not asked for would land in a day that nobody is about to publish."""
        for part, day, _ in whole.batches:
            assert day in part.days

    def test_the_tally_has_counted_every_row(self, whole: Poll) -> None:
        """Reports say from it how many rows were dropped: none may go without a trace."""
        read = sum(tally.rows_of_all_days for tally in whole.tallies)
        yielded = sum(batch.num_rows for _, _, batch in whole.batches)
        days = {id(tally.for_day(day)): tally.for_day(day) for part, tally in self._by_part(whole) for day in part.days}
        assert read >= yielded, "tally.for_day(day).rows counts rows read, before duplicates are dropped"
        assert all(count >= 0 for tally in days.values() for count in tally.counts.values())
        rejected = sum(tally.counts["rejected"] for tally in days.values())
        assert rejected == sum(len(tally.rejects) for tally in days.values()), "count rejects with tally.reject()"

    def test_late_rows_are_counted_where_the_source_says_so(self, source: Source, whole: Poll) -> None:
        """lookback_days="measured" takes a day without these counts for one that says nothing."""
        if source.capability(CountsLate) is None:
            pytest.skip("cannot tell how late its rows are")
        for part, tally in self._by_part(whole):
            assert all(LATE_COUNTS[0] in tally.for_day(day).counts for day in part.days), "count with count_late()"

    @staticmethod
    def _by_part(whole: Poll) -> list[tuple[InputPartition, Tally]]:
        parts = {part.index: part for part, _, _ in whole.batches}
        return [(parts[index], tally) for index, tally in enumerate(whole.tallies) if index in parts]

    def test_several_threads_may_plan_with_one_poller(self, source: Source, there: Served) -> None:
        """The driver has one poller for all days, and plans several of them at once."""
        with source.open(there.connection, PollContext()) as poller, ThreadPoolExecutor(4) as pool:
            plans = list(pool.map(lambda _: poller.plan([there.day]), range(4)))
        assert plans == plans[:1] * 4

    def test_a_poll_may_be_left_half_way(self, source: Source, there: Served) -> None:
        """A task that is killed or fails stops reading: what it leaves open must not hang, nor fail the close."""
        with source.open(there.connection, PollContext()) as poller:
            (part, *_) = poller.plan([there.day])
            yielded: Any = poller.poll(part, Tally(part.days))
            next(yielded)
            yielded.close()
        poller.close()

    @pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
    def test_an_answer_that_is_cut_is_never_a_short_day(
        self, source: Source, there: Served, whole: Poll, http_port: int, share: float
    ) -> None:
        """A server dies in the middle of a body: rows that did not come would be missing for good, in a green task."""
        with FaultyServer(behind=http_port) as proxy:
            assert _rows_apart(poll(source, through(proxy, there), there.day), whole) == 0
            size = proxy.passed
        with FaultyServer(behind=http_port, cut_after=min(int(size * share), size - 1)) as proxy:
            brought, error = attempt(lambda: poll(source, through(proxy, there), there.day))
        # The very last bytes may be such that all rows came before.
        assert (brought is not None and not _rows_apart(brought, whole)) or isinstance(error, RetriableError), error
        assert not secrets_in(error, there)

    @pytest.mark.usefixtures("http_port")  # other protocols have no status
    @pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Service Unavailable", "429 Slow Down"])
    def test_a_server_in_trouble_is_tried_again_later(self, source: Source, there: Served, status: str) -> None:
        """Any other error ends the task for good, though an hour later all would be well."""
        with FaultyServer(status=status) as server:
            brought, error = attempt(lambda: poll(source, through(server, there), there.day))
        assert brought is None, "an answer that is an error was taken for a day"
        assert isinstance(error, RetriableError), error
        if status.startswith("429"):
            assert error.retry_after_seconds == 7, "the answer's Retry-After: nobody should ask before"
        assert not secrets_in(error, there)

    @pytest.mark.usefixtures("http_port")  # other protocols have no status
    @pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
    def test_credentials_that_are_refused_are_for_a_person(self, source: Source, there: Served, status: str) -> None:
        """Trying again with a wrong password locks the account, and nobody hears of it for hours."""
        with FaultyServer(status=status) as server:
            brought, error = attempt(lambda: poll(source, through(server, there), there.day))
        assert brought is None, "an answer that is an error was taken for a day"
        assert isinstance(error, ConfigError), error
        assert not secrets_in(error, there)


def through(server: FaultyServer, served: Served) -> Connection:
    """Return the connection to a server that stands before the real one."""
    return served.connection.model_copy(update={"host": "http://127.0.0.1", "port": server.port})


def attempt(call: Callable[[], Poll]) -> tuple[Poll | None, ConnectError | None]:
    """Return what a poll brought, or its error."""
    try:
        return call(), None
    except ConnectError as error:
        return None, error


def secrets_in(error: BaseException | None, served: Served) -> list[str]:
    """Return the secrets that an error shows, its causes included, as a traceback shows them."""
    texts = []
    while error is not None:
        texts += [str(error), repr(error)]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return [secret for secret in secrets_of([served.connection]) if any(secret in text for text in texts)]


_MOST = 3


class TogetherCases:
    """Cases for sources whose poller is a :class:`.SeveralDaysARequest`; they need ``source`` and ``there``."""

    @pytest.fixture
    def days(self, source: Source, there: Served) -> list[Day]:
        """Return the served day and those before it; the case is skipped for a source that plans each day alone."""
        with source.open(there.connection, PollContext()) as poller:
            count = min(days_per_plan(poller), _MOST)
        if count == 1:
            pytest.skip("days_per_plan is 1: no request serves several days")
        return [Day(date=there.day.date - ago * ONE_DAY, zone=there.day.zone) for ago in reversed(range(count))]

    def test_days_of_one_plan_are_those_of_a_plan_each(self, source: Source, there: Served, days: list[Day]) -> None:
        """A day that is reloaded alone must be the same day: a row that moved would be there twice, or never."""
        together = poll(source, there.connection, *days)
        apart: Counter[str] = Counter()
        for day in days:
            apart += poll(source, there.connection, day).rows
        assert sum(apart.values()) >= there.rows
        assert ((together.rows - apart) + (apart - together.rows)).total() == 0

    def test_each_of_several_days_is_planned(self, source: Source, there: Served, days: list[Day]) -> None:
        """One that is forgotten would be taken for an empty day."""
        with source.open(there.connection, PollContext()) as poller:
            parts = poller.plan(days)
            assert parts == poller.plan(days)
        assert {day for part in parts for day in part.days} == set(days)

    @pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
    def test_a_cut_answer_of_several_days_is_never_a_short_day(
        self, source: Source, there: Served, days: list[Day], http_port: int, share: float
    ) -> None:
        """Whichever day the rows belong to that did not come: all of them are asked for again."""
        with FaultyServer(behind=http_port) as proxy:
            whole = poll(source, through(proxy, there), *days).rows
            size = proxy.passed
        with FaultyServer(behind=http_port, cut_after=min(int(size * share), size - 1)) as proxy:
            brought, error = attempt(lambda: poll(source, through(proxy, there), *days))
        # The very last bytes may be such that all rows came before.
        is_whole = brought is not None and not ((brought.rows - whole) + (whole - brought.rows)).total()
        assert is_whole or isinstance(error, RetriableError), error
        assert not secrets_in(error, there)
