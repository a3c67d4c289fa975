"""Conformance suite of sources."""

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
"""SQL block in a docstring or in Markdown."""

__all__ = ["Served", "SourceConformance"]


class SourceConformance(PollCases, TogetherCases, ConnectorConformance):
    """Conformance suite of a source.

    A subclass sets ``source``, or defines a fixture of that name. It may override these fixtures:

    * ``served``, a :class:`.Served`: a server with a day of data. Without it, the cases that poll are skipped.
    * ``page``: text with the DDL of the rows, perhaps of other streams too. Defaults to the source module's docstring.
    * ``place``: connection fields that address the server, except the port. Defaults to the host ``http://127.0.0.1``.
    * ``described``: connection for listing columns and planning a day. By default no server answers it. Override it if
      the columns come from the server.
    * ``extra``: the extra's fields that the source reads, each with a valid value, or None if it is optional.
    """

    def __init_subclass__(cls) -> None:
        as_fixtures(cls, ("source", "served", "extra", "connector"), (Source, Served, Mapping))

    @pytest.fixture
    def connector(self, source: Source) -> Source:
        """Return the source."""
        return source

    @pytest.fixture
    def served(self) -> Served | None:
        """Return a server with data. Defaults to None."""
        return None

    @pytest.fixture
    def extra(self) -> Mapping[str, str | None]:
        """Return fields of the connection's extra. Defaults to none."""
        return {}

    @pytest.fixture
    def page(self, source: Source) -> str:
        """Return the text that documents the columns."""
        return importlib.import_module(type(source).__module__).__doc__ or ""

    @pytest.fixture
    def refusing_socket(self) -> Iterator[socket.socket]:
        """Return a socket whose port refuses every connection."""
        with socket.socket() as bound_socket:
            bound_socket.bind(("127.0.0.1", 0))
            yield bound_socket

    @pytest.fixture
    def place(self) -> Mapping[str, str]:
        """Return the connection fields that address this machine."""
        return {"host": "http://127.0.0.1"}

    @pytest.fixture
    def connection(
        self, source: Source, refusing_socket: socket.socket, extra: Mapping[str, str | None], place: Mapping[str, str]
    ) -> Connection:
        """Return a valid connection to a local port without a server."""
        return _connection_to(source, refusing_socket, extra, place)

    @pytest.fixture
    def described(self, connection: Connection) -> Connection:
        """Return a connection for listing columns and planning. Defaults to ``connection``."""
        return connection

    # Names and columns

    def test_kind_connection_types_stream_key_and_timezone_are_valid(self, source: Source) -> None:
        """Ledger, offset and schedule depend on these values."""
        assert source.kind in get_args(SourceKind)
        assert source.connection_types
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", kind) for kind in source.connection_types)
        assert re.fullmatch(r"[\w.-]+", source.stream_key)
        zone(source.timezone)

    def test_row_options_name_real_options(self, source: Source, connection: Connection) -> None:
        """The ledger compares them. A misspelt name would never differ."""
        unknown = [path for path in source.row_options if path.partition(".")[0] not in type(source).model_fields]
        assert unknown == []
        definition = build_definition(source, source.serialize(), connection)
        assert definition == build_definition(source, source.serialize(), connection)
        assert not _holds_a_secret(definition.model_dump_json())

    def test_its_name_in_lineage_holds_no_secret(self, source: Source, described: Connection) -> None:
        """OpenLineage events go to another system with other readers."""
        name = source.dataset(described)
        assert all(name)
        assert not _holds_a_secret(" ".join(name))

    def test_columns_have_names_and_types_that_spark_knows(self, source: Source, described: Connection) -> None:
        """Other columns would fail every first day."""
        with source.open(described, PollContext()) as poller:
            schema = poller.schema()
        lower_names = [name.lower() for name in schema.names]
        assert len(set(lower_names)) == len(lower_names) > 0
        assert "day" not in lower_names, "'day' is reserved for the stage's partition column"
        assert len(ddl_columns(schema)) == len(schema)
        assert all(field.type.unit == "us" for field in schema if pa.types.is_timestamp(field.type))
        assert all((field.metadata or {}).get(b"comment") for field in schema), "every column needs a comment"

    def test_the_documented_columns_are_the_real_ones(self, source: Source, described: Connection, page: str) -> None:
        """Users write queries from the documented columns."""
        blocks = [_columns_of(block) for block in _DDL.findall(page)]
        assert blocks, "the page needs DDL: '.. code-block:: sql', an empty line, then one column a line"
        with source.open(described, PollContext()) as poller:
            schema_columns = ddl_columns(poller.schema())
        assert max(blocks, key=lambda block: len(set(block) & set(schema_columns))) == schema_columns

    def test_a_source_is_picklable(self, source: Source) -> None:
        """Spark pickles a source that is used as a data source."""
        assert pickle.loads(pickle.dumps(source)) == source

    # The connection

    def test_a_good_connection_is_no_problem(self, source: Source, connection: Connection) -> None:
        """A problem from check() stops the task before its first request."""
        assert source.check(connection) == []

    def test_all_problems_come_at_once_and_hold_no_secret(
        self, source: Source, connection: Connection, extra: Mapping[str, str | None]
    ) -> None:
        """Users fix all problems in one edit."""
        broken_fields: list[dict[str, object]] = [
            {"password": None},
            {"login": f"{LOGIN}:x"},
            {"host": f"ftp://{LOGIN}:{PASSWORD}@nowhere.example"},
        ]
        broken_fields += [{"extra": connection.extra | {name: [PASSWORD]}} for name in extra]
        problem_lists = [source.check(connection.model_copy(update=_as_fields(change))) for change in broken_fields]
        assert any(problem_lists), "check() must find a problem in at least one broken connection"
        all_broken_fields = {key: value for change in broken_fields for key, value in change.items()}
        all_broken_fields["extra"] = {name: [PASSWORD] for name in extra}
        all_problems = source.check(connection.model_copy(update=_as_fields(all_broken_fields)))
        assert not _holds_a_secret(
            " ".join([*all_problems, *(text for problems in problem_lists for text in problems)])
        )
        # A login is only checked together with a password, so one problem may hide the other.
        assert len(all_problems) >= len({text for problems in problem_lists for text in problems}) - 1
        assert all(isinstance(text, str) and text.strip() for text in all_problems)

    # The plan

    def test_a_plan_is_the_same_every_time_and_plain_data(self, source: Source, described: Connection) -> None:
        """A retry with other partitions would poll rows twice or never."""
        day = _thirty_days_ago(source)
        with source.open(described, PollContext()) as poller:
            parts = poller.plan([day])
            assert parts == poller.plan([day])
            if resumes(poller):
                unfinished = [InputPartition.model_validate_json(part.model_dump_json()) for part in parts]
                assert [*poller.resume(day, unfinished)] == parts
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
        """No later run polls the day again."""
        if source.kind != "day":
            pytest.skip("a snapshot has no days")
        day = Day(date=_today(source) + days_ahead * ONE_DAY, zone=source.timezone)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(0)
            poller = source.open(_connection_to(source, listener, extra, place), PollContext())
            with poller, pytest.raises((ConfigError, RetriableError), match=str(day)):
                poller.plan([day])
            with pytest.raises(BlockingIOError):  # no connection was made
                listener.accept()

    def test_planning_a_day_of_another_zone_is_refused(self, source: Source, connection: Connection) -> None:
        """Rows would be in two days or in none."""
        other_zone = "Asia/Tokyo" if source.timezone != "Asia/Tokyo" else "UTC"
        day = Day(date=_today(source) - 30 * ONE_DAY, zone=other_zone)
        with source.open(connection, PollContext()) as poller, pytest.raises(ConfigError, match=other_zone):
            poller.plan([day])

    # Outages

    def test_an_unreachable_server_is_a_retriable_error_within_seconds_without_secrets(
        self, source: Source, connection: Connection
    ) -> None:
        """An outage must fail the try fast and stay retriable."""
        started = time.monotonic()
        with source.open(connection, PollContext()) as poller, pytest.raises(RetriableError) as caught:
            _poll_first(poller, _thirty_days_ago(source))
        assert time.monotonic() - started < SECONDS_TO_FAIL
        error: BaseException | None = caught.value
        while error is not None:  # a traceback shows causes too
            assert not _holds_a_secret(str(error))
            assert not _holds_a_secret(repr(error))
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _poll_first(poller: Poller, day: Day) -> None:
    (part, *_) = poller.plan([day])
    list(poller.poll(part, Tally(part.days)))


def _columns_of(block: str) -> list[str]:
    lines = [re.sub(r"\s+", " ", line.partition("--")[0].strip().rstrip(",")).strip() for line in block.splitlines()]
    return [line for line in lines if line not in ("", "...", "```")]


def _today(source: Source) -> dt.date:
    return dt.datetime.now(zone(source.timezone)).date()


def _thirty_days_ago(source: Source) -> Day:
    return Day(date=_today(source) - 30 * ONE_DAY, zone=source.timezone)


def _holds_a_secret(text: str) -> bool:
    return any(secret in text for secret in secrets_of([]))


def _connection_to(
    source: Source, listener: socket.socket, extra: Mapping[str, str | None], place: Mapping[str, str]
) -> Connection:
    return Connection(
        conn_id=getattr(source, "conn_id", "default"),
        conn_type=source.connection_types[0],
        port=listener.getsockname()[1],
        login=SecretStr(LOGIN),
        password=SecretStr(PASSWORD),
        extra={name: value for name, value in extra.items() if value is not None},
        **place,
    )


def _as_fields(changed_fields: dict[str, object]) -> dict[str, object]:
    connection = Connection(conn_id="c", **changed_fields)  # type: ignore[arg-type]
    return {name: getattr(connection, name) for name in changed_fields}
