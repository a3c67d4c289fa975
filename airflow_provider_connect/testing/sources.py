"""What every source must do, whatever it reads."""

from __future__ import annotations

import datetime as dt
import importlib
import json
import pickle
import re
import socket
import time
from collections.abc import Iterator, Mapping
from typing import get_args

import pyarrow as pa
import pytest
from pydantic import SecretStr

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.definition import build_definition
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.registry import resumes
from airflow_provider_connect.source import InputPartition, PollContext, Poller, Source
from airflow_provider_connect.testing.connectors import (
    LOGIN,
    PASSWORD,
    ConnectorConformance,
    as_fixtures,
    secrets_of,
)
from airflow_provider_connect.testing.polls import PollCases, Served, TogetherCases
from airflow_provider_connect.values.ddl import ddl_columns
from airflow_provider_connect.window import ONE_DAY, Day, SourceKind, zone

SECONDS_TO_FAIL = 5.0

_DDL = re.compile(r"(?:\.\. code-block:: sql\n\n(?=    )|^```sql\n)((?:.*\S.*\n)+)", re.MULTILINE)
"""A block of SQL in a docstring, or on a page in Markdown."""

__all__ = ["Served", "SourceConformance"]


class SourceConformance(PollCases, TogetherCases, ConnectorConformance):
    """The source suite.

    A subclass sets ``source``, or gives a fixture of that name. These fixtures are there to be overridden:

    * ``served``, a :class:`.Served`: a server with a day of data. Without one, no case polls.
    * ``page``: the text that has the DDL of the rows; by default the docstring of the source's module. It may have that
      of other streams too.
    * ``place``: the connection's fields that say where the server is, without the port; by default its host is
      ``http://127.0.0.1``.
    * ``described``: a connection with which the source can say its columns and plan a day; by default one at which
      nobody answers, as most sources ask nobody. One whose columns are those of what is there gives a real one.
    * ``extra``: the fields of the connection's extra that the source knows, each with a good value, or None for one
      that need not be set.
    """

    def __init_subclass__(cls) -> None:
        as_fixtures(cls, ("source", "served", "extra", "connector"), (Source, Served, Mapping))

    @pytest.fixture
    def connector(self, source: Source) -> Source:
        """Return the source with its options."""
        return source

    @pytest.fixture
    def served(self) -> Served | None:
        """Return a server with data: none here."""
        return None

    @pytest.fixture
    def extra(self) -> Mapping[str, str | None]:
        """Return fields of the connection's extra: none here."""
        return {}

    @pytest.fixture
    def page(self, source: Source) -> str:
        """Return the text from which users know the columns."""
        return importlib.import_module(type(source).__module__).__doc__ or ""

    @pytest.fixture
    def deaf(self) -> Iterator[socket.socket]:
        """Hold a port at which every connection is refused."""
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            yield holder

    @pytest.fixture
    def place(self) -> Mapping[str, str]:
        """Return this machine, as the connection names it."""
        return {"host": "http://127.0.0.1"}

    @pytest.fixture
    def connection(
        self, source: Source, deaf: socket.socket, extra: Mapping[str, str | None], place: Mapping[str, str]
    ) -> Connection:
        """Return a good connection to a port of this machine, at which nobody answers."""
        return _connection_to(source, deaf, extra, place)

    @pytest.fixture
    def described(self, connection: Connection) -> Connection:
        """Return a connection with which columns and plans can be made: the one at which nobody answers."""
        return connection

    # What it says of itself

    def test_it_says_what_it_is(self, source: Source) -> None:
        """Ledger, offset and schedule are named and cut by these: a changed one is another stream."""
        assert source.kind in get_args(SourceKind)
        assert source.connection_types
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", kind) for kind in source.connection_types)
        assert re.fullmatch(r"[\w.-]+", source.stream_key)
        zone(source.timezone)

    def test_what_decides_its_rows_are_options(self, source: Source, connection: Connection) -> None:
        """The ledger keeps them, and compares: one that is misspelt would never differ."""
        unknown = [path for path in source.row_options if path.partition(".")[0] not in type(source).model_fields]
        assert unknown == []
        definition = build_definition(source, source.serialize(), connection)
        assert definition == build_definition(source, source.serialize(), connection)
        assert not _holds_a_secret(definition.model_dump_json())

    def test_its_name_in_lineage_holds_no_secret(self, source: Source, described: Connection) -> None:
        """OpenLineage's event goes to another system, and everybody there sees it."""
        name = source.dataset(described)
        assert all(name)
        assert not _holds_a_secret(" ".join(name))

    def test_columns_have_names_and_types_that_spark_knows(self, source: Source, described: Connection) -> None:
        """A column that Spark or the stage cannot hold fails the first day of every user."""
        with source.open(described, PollContext()) as poller:
            schema = poller.schema()
        lower = [name.lower() for name in schema.names]
        assert len(set(lower)) == len(lower) > 0
        assert "day" not in lower, "the stage's partition column"
        assert len(ddl_columns(schema)) == len(schema)
        assert all(field.type.unit == "us" for field in schema if pa.types.is_timestamp(field.type))
        assert all((field.metadata or {}).get(b"comment") for field in schema), "every column needs a comment"

    def test_the_documented_columns_are_the_real_ones(self, source: Source, described: Connection, page: str) -> None:
        """Users write their queries from the page."""
        blocks = [_columns_of(block) for block in _DDL.findall(page)]
        assert blocks, "the page has no DDL: '.. code-block:: sql', an empty line, and a column a line"
        with source.open(described, PollContext()) as poller:
            real = ddl_columns(poller.schema())
        assert max(blocks, key=lambda block: len(set(block) & set(real))) == real

    def test_a_source_is_picklable(self, source: Source) -> None:
        """Spark pickles it where it is used as a data source."""
        assert pickle.loads(pickle.dumps(source)) == source

    # The connection

    def test_a_good_connection_is_no_problem(self, source: Source, connection: Connection) -> None:
        """What check() finds stops the task before anything is asked."""
        assert source.check(connection) == []

    def test_all_problems_come_at_once_and_hold_no_secret(
        self, source: Source, connection: Connection, extra: Mapping[str, str | None]
    ) -> None:
        """A person mends a connection in one go, from messages that anybody may read."""
        breaks: list[dict[str, object]] = [
            {"password": None},
            {"login": f"{LOGIN}:x"},
            {"host": f"ftp://{LOGIN}:{PASSWORD}@nowhere.example"},
        ]
        breaks += [{"extra": connection.extra | {name: [PASSWORD]}} for name in extra]
        alone = [source.check(connection.model_copy(update=_as_fields(change))) for change in breaks]
        assert any(alone), "check() finds nothing wrong with any broken connection"
        everything = {key: value for change in breaks for key, value in change.items()}
        everything["extra"] = {name: [PASSWORD] for name in extra}
        together = source.check(connection.model_copy(update=_as_fields(everything)))
        assert not _holds_a_secret(" ".join([*together, *(text for found in alone for text in found)]))
        # A login is only a problem with a password beside it, so one of two may hide behind the other.
        assert len(together) >= len({text for found in alone for text in found}) - 1
        assert all(isinstance(text, str) and text.strip() for text in together)

    # The plan

    def test_a_plan_is_the_same_every_time_and_plain_data(self, source: Source, described: Connection) -> None:
        """A retry plans anew: a piece that is cut otherwise is polled twice, or never."""
        day = _long_ago(source)
        with source.open(described, PollContext()) as poller:
            parts = poller.plan([day])
            assert parts == poller.plan([day])
            if resumes(poller):
                left = [InputPartition.model_validate_json(part.model_dump_json()) for part in parts]
                assert [*poller.resume(day, left)] == parts
        assert [part.index for part in parts] == list(range(len(parts)))
        assert parts
        for part in parts:
            assert part.days == (day,)
            assert InputPartition.model_validate_json(part.model_dump_json()) == part
            assert json.loads(json.dumps(part.params)) == part.params
            assert pickle.loads(pickle.dumps(part)) == part
            assert not _holds_a_secret(part.model_dump_json())

    @pytest.mark.parametrize("days_ahead", [0, 1, 400])
    def test_a_day_that_is_not_over_is_refused_before_any_request(
        self, source: Source, extra: Mapping[str, str | None], place: Mapping[str, str], days_ahead: int
    ) -> None:
        """A day polled before its end is published short, and nobody polls it again."""
        if source.kind != "day":
            pytest.skip("a snapshot has no days")
        day = Day(date=_today(source) + days_ahead * ONE_DAY, zone=source.timezone)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(0)
            poller = source.open(_connection_to(source, listener, extra, place), PollContext())
            with poller, pytest.raises((ConfigError, RetriableError), match=str(day)):
                poller.plan([day])
            with pytest.raises(BlockingIOError):  # nobody came
                listener.accept()

    def test_planning_a_day_of_another_zone_is_refused(self, source: Source, connection: Connection) -> None:
        """The day of another zone has other hours: rows would be counted in two days, or in none."""
        elsewhere = "Asia/Tokyo" if source.timezone != "Asia/Tokyo" else "UTC"
        day = Day(date=_today(source) - 30 * ONE_DAY, zone=elsewhere)
        with source.open(connection, PollContext()) as poller, pytest.raises(ConfigError, match=elsewhere):
            poller.plan([day])

    # Nobody there

    def test_an_endpoint_that_is_away_is_retriable_soon_and_no_secret_is_told(
        self, source: Source, connection: Connection
    ) -> None:
        """An outage must end the poll, not the task for good; and it must not print the credentials."""
        started = time.monotonic()
        with source.open(connection, PollContext()) as poller, pytest.raises(RetriableError) as caught:
            _poll_first(poller, _long_ago(source))
        assert time.monotonic() - started < SECONDS_TO_FAIL
        error: BaseException | None = caught.value
        while error is not None:  # a traceback shows causes too
            assert not _holds_a_secret(str(error))
            assert not _holds_a_secret(repr(error))
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _poll_first(poller: Poller, day: Day) -> None:
    """Poll the first partition of a day; some sources ask already to plan it."""
    (part, *_) = poller.plan([day])
    list(poller.poll(part, Tally(part.days)))


def _columns_of(block: str) -> list[str]:
    """Return the columns of a block, without comments."""
    lines = [re.sub(r"\s+", " ", line.partition("--")[0].strip().rstrip(",")).strip() for line in block.splitlines()]
    return [line for line in lines if line not in ("", "...", "```")]


def _today(source: Source) -> dt.date:
    return dt.datetime.now(zone(source.timezone)).date()


def _long_ago(source: Source) -> Day:
    return Day(date=_today(source) - 30 * ONE_DAY, zone=source.timezone)


def _holds_a_secret(text: str) -> bool:
    return any(secret in text for secret in secrets_of([]))


def _connection_to(
    source: Source, holder: socket.socket, extra: Mapping[str, str | None], place: Mapping[str, str]
) -> Connection:
    return Connection(
        conn_id=getattr(source, "conn_id", "default"),
        conn_type=source.connection_types[0],
        port=holder.getsockname()[1],
        login=SecretStr(LOGIN),
        password=SecretStr(PASSWORD),
        extra={name: value for name, value in extra.items() if value is not None},
        **place,
    )


def _as_fields(change: dict[str, object]) -> dict[str, object]:
    made = Connection(conn_id="c", **change)  # type: ignore[arg-type]
    return {name: getattr(made, name) for name in change}
