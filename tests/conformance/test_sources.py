"""What every file in ``sources/`` must do, whatever it reads."""

from __future__ import annotations

import datetime as dt
import importlib
import json
import pickle
import re
import socket
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, Source
from airflow_provider_connect.values.ddl import columns
from airflow_provider_connect.window import ONE_DAY, Day, zone
from tests.conformance.conftest import LOGIN, PASSWORD, connection_to, form_fields

SECONDS_TO_FAIL = 5.0


def today(source: Source) -> dt.date:
    return dt.datetime.now(zone(source.timezone)).date()


def long_ago(source: Source) -> Day:
    return Day(date=today(source) - 30 * ONE_DAY, zone=source.timezone)


def holds_a_secret(text: str) -> bool:
    return LOGIN in text or PASSWORD in text or json.dumps(PASSWORD)[1:-1] in text


def test_it_says_what_it_is(source: Source) -> None:
    assert source.kind in ("day", "snapshot")
    assert source.connection_types
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", kind) for kind in source.connection_types)
    assert re.fullmatch(r"[\w.-]+", source.stream_key)
    zone(source.timezone)


def test_columns_have_names_and_types_that_spark_knows(source: Source, deaf: socket.socket) -> None:
    with source.open(connection_to(source, deaf)) as poller:
        schema = poller.schema()
    lower = [name.lower() for name in schema.names]
    assert len(set(lower)) == len(lower) > 0
    assert "day" not in lower, "the stage's partition column"
    assert len(columns(schema)) == len(schema)
    assert all(field.type.unit == "us" for field in schema if pa.types.is_timestamp(field.type))
    assert all((field.metadata or {}).get(b"comment") for field in schema), "every column needs a comment"


def test_the_documented_columns_are_the_real_ones(source: Source, deaf: socket.socket) -> None:
    page = importlib.import_module(type(source).__module__).__doc__ or ""
    block = re.search(r"\.\. code-block:: sql\n\n((?:    .*\n)+)", page)
    assert block, "the page has no DDL"
    lines = [re.sub(r"\s+", " ", line.partition("--")[0].strip().rstrip(",")).strip() for line in block[1].splitlines()]
    fixed = [line for line in lines if line not in ("", "...")]
    with source.open(connection_to(source, deaf)) as poller:
        assert fixed == columns(poller.schema())


def test_a_good_connection_is_no_problem(source: Source, deaf: socket.socket) -> None:
    assert source.check(connection_to(source, deaf)) == []


def test_all_problems_come_at_once_and_hold_no_secret(source: Source, deaf: socket.socket) -> None:
    good = connection_to(source, deaf)
    breaks: list[dict[str, object]] = [
        {"password": None},
        {"login": f"{LOGIN}:x"},
        {"host": f"ftp://{LOGIN}:{PASSWORD}@nowhere.example"},
        *({"extra": good.extra | {name: [PASSWORD]}} for name in form_fields(source.connection_types[0])),
    ]
    alone = [source.check(good.model_copy(update=_as_fields(change))) for change in breaks]
    assert any(alone), "no broken connection is ever found"
    everything = {key: value for change in breaks for key, value in change.items()}
    everything["extra"] = {name: [PASSWORD] for name in form_fields(source.connection_types[0])}
    together = source.check(good.model_copy(update=_as_fields(everything)))
    assert not holds_a_secret(" ".join([*together, *(text for found in alone for text in found)]))
    # A login is only a problem with a password beside it, so one of two may hide behind the other.
    assert len(together) >= len({text for found in alone for text in found}) - 1
    assert all(isinstance(text, str) and text.strip() for text in together)


def _as_fields(change: dict[str, object]) -> dict[str, object]:
    made = Connection(conn_id="c", **change)  # type: ignore[arg-type]
    return {name: getattr(made, name) for name in change}


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port that takes connections, so that it is known whether anybody came."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def nobody_came(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return True
    return False


def test_a_plan_is_the_same_every_time_and_plain_data(source: Source, deaf: socket.socket) -> None:
    day = long_ago(source)
    with source.open(connection_to(source, deaf)) as poller:
        parts = poller.plan([day])
        assert parts == poller.plan([day])
    assert [part.index for part in parts] == list(range(len(parts)))
    assert parts
    for part in parts:
        assert part.days == (day,)
        assert InputPartition.model_validate_json(part.model_dump_json()) == part
        assert json.loads(json.dumps(part.params)) == part.params
        assert pickle.loads(pickle.dumps(part)) == part
        assert not holds_a_secret(part.model_dump_json())


def test_a_source_is_picklable(source: Source) -> None:
    assert pickle.loads(pickle.dumps(source)) == source


@pytest.mark.parametrize("days_ahead", [0, 1, 400])
def test_a_day_that_is_not_over_is_refused_before_any_request(
    source: Source, listener: socket.socket, days_ahead: int
) -> None:
    if source.kind != "day":
        pytest.skip("a snapshot has no days")
    day = Day(date=today(source) + days_ahead * ONE_DAY, zone=source.timezone)
    poller = source.open(connection_to(source, listener))
    with poller, pytest.raises((ConfigError, RetriableError), match=str(day)):
        poller.plan([day])
    assert nobody_came(listener)


def test_planning_a_day_of_another_zone_is_refused(source: Source, deaf: socket.socket) -> None:
    elsewhere = "Asia/Tokyo" if source.timezone != "Asia/Tokyo" else "UTC"
    day = Day(date=today(source) - 30 * ONE_DAY, zone=elsewhere)
    poller = source.open(connection_to(source, deaf))
    with poller, pytest.raises(ConfigError, match=elsewhere):
        poller.plan([day])


def test_an_endpoint_that_is_away_is_retriable_soon_and_no_secret_is_told(source: Source, deaf: socket.socket) -> None:
    with source.open(connection_to(source, deaf)) as poller:
        parts = poller.plan([long_ago(source)])
        started = time.monotonic()
        with pytest.raises(RetriableError) as caught:
            list(poller.poll(parts[0], Tally(parts[0].days)))
    assert time.monotonic() - started < SECONDS_TO_FAIL
    error: BaseException | None = caught.value
    while error is not None:  # a traceback shows causes too
        assert not holds_a_secret(str(error))
        assert not holds_a_secret(repr(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
