from __future__ import annotations

import datetime as dt
import logging
import random
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.offsets import Offset, follow, variable_key
from airflow_provider_connect.sink import Ledger, LedgerRow
from airflow_provider_connect.window import DaySet

from .conftest import Supervisor
from .connectors import TinySink, TinySource

SOURCE, SINK = TinySource(conn_id="c"), TinySink(table="t")
FIRST = dt.date(2026, 10, 1)
DAYS = [FIRST + dt.timedelta(days=i) for i in range(30)]


class MemoryLedger(Ledger):
    """Days in memory; ``moves`` are committed by others, one after each look."""

    def __init__(self, days: list[dt.date], moves: list[dt.date] | None = None) -> None:
        self.done = list(days)
        self.moves = list(moves or [])

    def row(self, day: dt.date) -> LedgerRow | None:
        raise AssertionError("offsets look at days only")

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        raise AssertionError("offsets look at days only")

    def days(self) -> DaySet:
        days = DaySet.of(self.done)
        if self.moves:
            self.done.append(self.moves.pop(0))
        return days


def test_offset_holds_ranges_position_and_origin(supervisor: Supervisor) -> None:
    follow(SOURCE, SINK, MemoryLedger([*DAYS[:3], DAYS[5]]), FIRST)
    offset = Offset.read(SOURCE, SINK)
    assert offset is not None
    assert offset.days == ((DAYS[0], DAYS[2]), (DAYS[5], DAYS[5]))
    assert (offset.position, offset.origin) == (DAYS[2], FIRST)


def test_ledger_that_moves_meanwhile_is_followed_to_its_rest(supervisor: Supervisor) -> None:
    offset = follow(SOURCE, SINK, MemoryLedger(DAYS[:1], moves=DAYS[1:10]), FIRST)
    assert offset.position == DAYS[9]
    assert Offset.read(SOURCE, SINK) == offset


def test_ledger_that_never_rests_ends_in_a_retry(supervisor: Supervisor) -> None:
    moves = [FIRST + dt.timedelta(days=2 * i) for i in range(1, 300)]
    with pytest.raises(RetriableError, match="moved"):
        follow(SOURCE, SINK, MemoryLedger([FIRST], moves), FIRST)


def test_lead_of_the_variable_is_taken_out_with_a_warning(
    supervisor: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    Offset.set(SOURCE, SINK, DAYS[:5])
    with caplog.at_level(logging.WARNING):
        follow(SOURCE, SINK, MemoryLedger(DAYS[:2]), None)
    assert "2026-10-03..2026-10-05" in caplog.text
    offset = Offset.read(SOURCE, SINK)
    assert offset is not None
    assert offset.position == DAYS[1]


def test_garbage_is_replaced_by_a_task_and_named_to_a_person(supervisor: Supervisor) -> None:
    supervisor.variables[variable_key(SOURCE, SINK)] = "[]"
    with pytest.raises(ConfigError, match="is no offset"):
        Offset.read(SOURCE, SINK)
    follow(SOURCE, SINK, MemoryLedger(DAYS[:2]), None)
    assert Offset.read(SOURCE, SINK) is not None


def test_shadow_in_the_environment_is_an_error(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    key = variable_key(SOURCE, SINK)
    monkeypatch.setenv(f"AIRFLOW_VAR_{key.upper()}", "{}")
    with pytest.raises(ConfigError, match="AIRFLOW_VAR_"):
        follow(SOURCE, SINK, MemoryLedger(DAYS[:2]), None)


def test_read_list_set_reset(supervisor: Supervisor) -> None:
    assert Offset.read(SOURCE, SINK) is None
    other = TinySink(table="other")
    Offset.set(SOURCE, SINK, DAYS[:3])
    Offset.set(SOURCE, other, DAYS[:1])
    assert sorted(offset.target for offset in Offset.list()) == ["other", "t"]
    Offset.reset(SOURCE, SINK)
    assert [offset.target for offset in Offset.list()] == ["other"]


class NamedSource(TinySource):
    stream: str

    @property
    def stream_key(self) -> str:
        return self.stream


@given(st.text(min_size=1, max_size=400), st.text(min_size=1, max_size=400))
def test_keys_fit_and_differ(stream: str, table: str) -> None:
    source = NamedSource(conn_id="c", stream=stream)
    key = variable_key(source, TinySink(table=table))
    assert len(key) <= 250
    assert key != variable_key(source, TinySink(table=table + "x"))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False))
def test_sixteen_tasks_in_any_order_leave_exactly_all_days(supervisor: Supervisor, order: random.Random) -> None:
    supervisor.variables.clear()
    ledger = MemoryLedger([])
    days = DAYS[:]
    order.shuffle(days)
    queue = iter(days)
    lock = threading.Lock()

    def worker() -> None:
        while True:
            with lock:
                day = next(queue, None)
            if day is None:
                return
            ledger.done.append(day)
            follow(SOURCE, SINK, ledger, FIRST)

    threads = [threading.Thread(target=worker) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    offset = Offset.read(SOURCE, SINK)
    assert offset is not None
    assert offset.days == ((DAYS[0], DAYS[-1]),)
    assert offset.position == DAYS[-1]
