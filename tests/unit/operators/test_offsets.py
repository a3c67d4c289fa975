from __future__ import annotations

import datetime as dt
import logging
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.hooks import variables
from airflow_provider_connect.offsets import Offset, recompute, variable_key
from airflow_provider_connect.sink import Ledger, LedgerRow, Sink
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.source import Source
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.window import DaySet, SourceKind
from tests.equipment.airflow.connectors import TinySink, TinySource
from tests.unit.operators.conftest import Supervisor

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
        days = DaySet.from_dates(self.done)
        if self.moves:
            self.done.append(self.moves.pop(0))
        return days


def test_offset_holds_ranges_position_and_origin(supervisor: Supervisor) -> None:
    recompute(SOURCE, SINK, MemoryLedger([*DAYS[:3], DAYS[5]]), FIRST)
    offset = Offset.read(SOURCE, SINK)
    assert offset is not None
    assert offset.days == ((DAYS[0], DAYS[2]), (DAYS[5], DAYS[5]))
    assert (offset.position, offset.origin) == (DAYS[2], FIRST)


class IncrementLedger(MemoryLedger):
    """A ledger whose newest increment was polled at noon, or is polled later by another run, one after each look."""

    def __init__(self, *increments: tuple[int, int, int]) -> None:
        super().__init__(DAYS[:1])
        self.increments = list(increments)

    def newest(self, day: dt.date, kind: SourceKind) -> LedgerRow | None:
        if not self.increments:
            return None
        number, generation, hour = self.increments.pop(0) if len(self.increments) > 1 else self.increments[0]
        at = dt.datetime(2026, 10, 1, hour, tzinfo=dt.UTC)
        span = Span(number=number, to="z")
        return LedgerRow(day=DAYS[0], generation=generation, token="t", rows=1, polled_at=at, span=span)


FOLLOWED = SqlSource(conn_id="c", table="t", mode="incrementing", incrementing_column="id")


def test_an_offset_of_increments_tells_when_the_newest_was_read(supervisor: Supervisor) -> None:
    def read_at(*increments: tuple[int, int, int]) -> int | None:
        recompute(FOLLOWED, SINK, IncrementLedger(*increments), FIRST)
        offset = Offset.read(FOLLOWED, SINK)
        assert offset is not None
        return None if offset.read_at is None else offset.read_at.hour

    assert read_at((1, 1, 10)) == 10
    assert read_at((2, 1, 11), (3, 1, 12)) == 12, "another run published meanwhile"
    assert read_at((3, 2, 15)) == 12, "a clear reads no newer rows"
    assert read_at((4, 1, 16)) == 16
    assert read_at() is None


def test_an_offset_of_days_tells_no_time(supervisor: Supervisor) -> None:
    assert recompute(SOURCE, SINK, IncrementLedger((1, 1, 10)), FIRST).read_at is None


CUSTOMERS = SqlSource(conn_id="shop_db", table="customers", snapshot="replace")
TABLE = DeltaSink(path="/data/lake/customers")


def test_a_snapshot_stream_that_catches_up_in_parallel_ends_without_a_gap(supervisor: Supervisor) -> None:
    """The example DAG sql_daily does it: days 3 to 5 lost to the 6th, and no clear can publish them any more."""
    followed = recompute(CUSTOMERS, TABLE, MemoryLedger([*DAYS[:2], DAYS[5]]), FIRST)
    assert (followed.position, followed.days) == (DAYS[5], ((FIRST, DAYS[5]),))
    assert len(followed.settled.gaps) == 0
    assert Offset.read(CUSTOMERS, TABLE) == followed


def test_a_snapshot_settles_the_days_before_the_first_one(supervisor: Supervisor) -> None:
    """A DAG's first days were all superseded by the one that was faster."""
    assert recompute(CUSTOMERS, TABLE, MemoryLedger([DAYS[5]]), FIRST).position == DAYS[5]


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        (CUSTOMERS.model_copy(update={"snapshot": "daily"}), TABLE),
        (CUSTOMERS, TABLE.model_copy(update={"snapshot": "daily"})),
        (CUSTOMERS, KafkaSink(conn_id="k", topic="customers")),
        (CUSTOMERS, BigQuerySink(conn_id="b", table="d.customers", write_mode="append")),
        (CUSTOMERS, SINK),
    ],
    ids=["the source's daily", "the sink's daily", "a topic that keeps all", "append", "a sink that does not say"],
)
def test_daily_snapshots_keep_their_gaps(supervisor: Supervisor, source: Source, sink: Sink) -> None:
    followed = recompute(source, sink, MemoryLedger([*DAYS[:2], DAYS[5]]), FIRST)
    assert followed.position == DAYS[1]
    assert [*followed.settled.gaps] == DAYS[2:5]


def test_superseded_days_are_not_removed_as_a_lead(supervisor: Supervisor, caplog: pytest.LogCaptureFixture) -> None:
    recompute(CUSTOMERS, TABLE, MemoryLedger([DAYS[5]]), FIRST)
    with caplog.at_level(logging.WARNING):
        recompute(CUSTOMERS, TABLE, MemoryLedger([DAYS[5]]), FIRST, origin=DAYS[3])
    assert "that the sink's ledger does not have" not in caplog.text


def test_a_ledger_that_moves_meanwhile_is_read_until_it_rests(supervisor: Supervisor) -> None:
    offset = recompute(SOURCE, SINK, MemoryLedger(DAYS[:1], moves=DAYS[1:10]), FIRST)
    assert offset.position == DAYS[9]
    assert Offset.read(SOURCE, SINK) == offset


def test_ledger_that_never_rests_ends_in_a_retry(supervisor: Supervisor) -> None:
    moves = [FIRST + dt.timedelta(days=2 * i) for i in range(1, 300)]
    with pytest.raises(RetriableError, match="moved"):
        recompute(SOURCE, SINK, MemoryLedger([FIRST], moves), FIRST)


def test_a_lead_of_the_variable_is_removed_with_a_warning(
    supervisor: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    Offset.set(SOURCE, SINK, DAYS[:5])
    with caplog.at_level(logging.WARNING):
        recompute(SOURCE, SINK, MemoryLedger(DAYS[:2]), None)
    assert "2026-10-03..2026-10-05" in caplog.text
    offset = Offset.read(SOURCE, SINK)
    assert offset is not None
    assert offset.position == DAYS[1]


def test_garbage_is_replaced_by_a_task_and_named_to_a_person(supervisor: Supervisor) -> None:
    supervisor.variables[variable_key(SOURCE, SINK)] = "[]"
    with pytest.raises(ConfigError, match="does not contain an offset"):
        Offset.read(SOURCE, SINK)
    recompute(SOURCE, SINK, MemoryLedger(DAYS[:2]), None)
    assert Offset.read(SOURCE, SINK) is not None


def test_shadow_in_the_environment_is_an_error(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    key = variable_key(SOURCE, SINK)
    monkeypatch.setenv(f"AIRFLOW_VAR_{key.upper()}", "{}")
    with pytest.raises(ConfigError, match="AIRFLOW_VAR_"):
        recompute(SOURCE, SINK, MemoryLedger(DAYS[:2]), None)


def test_read_list_set_reset(supervisor: Supervisor) -> None:
    assert Offset.read(SOURCE, SINK) is None
    other = TinySink(table="other")
    Offset.set(SOURCE, SINK, DAYS[:3])
    Offset.set(SOURCE, other, DAYS[:1])
    assert sorted(offset.target for offset in Offset.list()) == ["other", "t"]
    Offset.reset(SOURCE, SINK)
    assert [offset.target for offset in Offset.list()] == ["other"]


def offset() -> Offset:
    found = Offset.read(SOURCE, SINK)
    assert found is not None
    return found


def test_a_dag_without_a_start_date_leaves_the_origin_where_it_is(supervisor: Supervisor) -> None:
    ledger = MemoryLedger([DAYS[0], *DAYS[2:4]])
    recompute(SOURCE, SINK, ledger, DAYS[2])
    recompute(SOURCE, SINK, ledger, None)
    assert (offset().origin, offset().position) == (DAYS[2], DAYS[3])


def test_two_dags_with_different_start_dates_do_not_move_the_position_to_and_fro(supervisor: Supervisor) -> None:
    ledger = MemoryLedger(DAYS[:8])
    ledger.done.remove(DAYS[3])
    seen = []
    for start in (DAYS[5], DAYS[0], DAYS[5], DAYS[0]):
        recompute(SOURCE, SINK, ledger, start)
        seen.append((offset().origin, offset().position))
    assert seen == [(DAYS[5], DAYS[7]), (DAYS[0], DAYS[2]), (DAYS[0], DAYS[2]), (DAYS[0], DAYS[2])]


def test_an_operator_s_origin_counts_before_every_start_date(supervisor: Supervisor) -> None:
    ledger = MemoryLedger(DAYS[:8])
    recompute(SOURCE, SINK, ledger, DAYS[0])
    recompute(SOURCE, SINK, ledger, DAYS[0], origin=DAYS[5])
    recompute(SOURCE, SINK, ledger, DAYS[0])
    recompute(SOURCE, SINK, ledger, None)
    assert (offset().origin, offset().origin_is_set) == (DAYS[5], True)
    recompute(SOURCE, SINK, ledger, DAYS[5], origin=DAYS[0])
    assert offset().origin == DAYS[0]


def test_an_origin_that_is_set_by_hand_stands_also_when_it_is_later(supervisor: Supervisor) -> None:
    ledger = MemoryLedger(DAYS[5:8])
    recompute(SOURCE, SINK, ledger, DAYS[0])
    assert offset().position is None
    Offset.set(SOURCE, SINK, DAYS[5:8], origin=DAYS[5])
    recompute(SOURCE, SINK, ledger, DAYS[0])
    assert (offset().origin, offset().position) == (DAYS[5], DAYS[7])
    Offset.reset(SOURCE, SINK)
    recompute(SOURCE, SINK, ledger, DAYS[0])
    assert offset().origin == DAYS[0]


def test_two_origins_of_operators_cause_a_warning(supervisor: Supervisor, caplog: pytest.LogCaptureFixture) -> None:
    recompute(SOURCE, SINK, MemoryLedger(DAYS[:8]), None, origin=DAYS[5])
    with caplog.at_level(logging.WARNING):
        recompute(SOURCE, SINK, MemoryLedger(DAYS[:8]), None, origin=DAYS[1])
    assert "changes the origin from 2026-10-06 to 2026-10-02" in caplog.text


@pytest.mark.parametrize(
    ("start", "origin", "meddler", "stands"),
    [
        (DAYS[0], None, {"origin": DAYS[5]}, (DAYS[0], False)),
        (DAYS[5], None, {"origin": DAYS[0]}, (DAYS[0], False)),
        (DAYS[0], None, {"origin": DAYS[5], "origin_is_set": True}, (DAYS[5], True)),
        (DAYS[0], DAYS[3], {"origin": DAYS[5]}, (DAYS[3], True)),
        (DAYS[0], DAYS[3], {"origin": DAYS[5], "origin_is_set": True}, (DAYS[5], True)),
    ],
    ids=["later start", "earlier start", "set by hand", "start against origin=", "two of origin="],
)
def test_an_origin_that_another_task_writes_over_is_read_back_until_it_stands(
    supervisor: Supervisor,
    monkeypatch: pytest.MonkeyPatch,
    start: dt.date,
    origin: dt.date | None,
    meddler: dict[str, Any],
    stands: tuple[dt.date, bool],
) -> None:
    """Another task chose its origin before ours was written, and writes right behind us."""
    write, left = variables.write, [meddler]

    def written_over(key: str, text: str, description: str) -> None:
        write(key, text, description)
        if left:
            other = Offset.model_validate_json(text).model_copy(update={"origin_is_set": False} | left.pop())
            write(key, other.model_dump_json(), description)

    monkeypatch.setattr(variables, "write", written_over)
    recompute(SOURCE, SINK, MemoryLedger(DAYS[:8]), start, origin=origin)
    assert (offset().origin, offset().origin_is_set) == stands


class LedgerThatIsLookedAt(MemoryLedger):
    """A day is committed at every look, and something else happens at one of them."""

    def __init__(self, look: int, happens: Callable[[], object]) -> None:
        super().__init__(DAYS[:1], moves=DAYS[1:8])
        self.happens = {look: happens}
        self.looks = 0

    def days(self) -> DaySet:
        self.looks += 1
        self.happens.get(self.looks, int)()
        return super().days()


@pytest.mark.parametrize("look", [1, 2, 3, 7])
@pytest.mark.parametrize("person_s", [DAYS[1], DAYS[5]], ids=["later", "much later"])
def test_an_origin_that_a_person_sets_while_the_ledger_moves_stands(
    supervisor: Supervisor, look: int, person_s: dt.date
) -> None:
    ledger = LedgerThatIsLookedAt(look, lambda: Offset.set(SOURCE, SINK, DAYS[:1], origin=person_s))
    followed = recompute(SOURCE, SINK, ledger, DAYS[0])
    assert (offset().origin, offset().origin_is_set, offset().position) == (person_s, True, DAYS[7])
    assert followed == offset()


@pytest.mark.parametrize("look", [1, 2, 3, 7])
def test_an_earlier_start_that_another_dag_writes_while_the_ledger_moves_stands(
    supervisor: Supervisor, look: int
) -> None:
    def other() -> None:
        recompute(SOURCE, SINK, MemoryLedger(DAYS[:1]), DAYS[0])

    recompute(SOURCE, SINK, LedgerThatIsLookedAt(look, other), DAYS[5])
    assert (offset().origin, offset().origin_is_set, offset().position) == (DAYS[0], False, DAYS[7])


@pytest.mark.parametrize("look", [1, 2, 3])
def test_an_offset_that_is_reset_while_the_ledger_moves_is_made_anew(supervisor: Supervisor, look: int) -> None:
    Offset.set(SOURCE, SINK, DAYS[:1], origin=DAYS[5])
    recompute(SOURCE, SINK, LedgerThatIsLookedAt(look, lambda: Offset.reset(SOURCE, SINK)), DAYS[0])
    assert (offset().origin, offset().origin_is_set) == (DAYS[0], False)


@pytest.mark.parametrize("look", [1, 2, 3])
def test_an_operator_s_origin_is_not_undone_by_a_task_that_still_has_the_old_one(
    supervisor: Supervisor, look: int
) -> None:
    """The other task read what was set before, and writes it over the operator's word."""
    Offset.set(SOURCE, SINK, DAYS[:1], origin=DAYS[5])
    old = supervisor.variables.copy()
    recompute(
        SOURCE, SINK, LedgerThatIsLookedAt(look, lambda: supervisor.variables.update(old)), DAYS[0], origin=DAYS[2]
    )
    assert (offset().origin, offset().origin_is_set, offset().position) == (DAYS[2], True, DAYS[7])


@pytest.mark.parametrize(("look", "stands"), [(1, DAYS[2]), (2, DAYS[5]), (7, DAYS[5])])
def test_an_operator_s_origin_counts_before_what_was_set_until_it_is_written(
    supervisor: Supervisor, look: int, stands: dt.date
) -> None:
    """A person who sets it after that has the last word, until the operator's next task."""
    ledger = LedgerThatIsLookedAt(look, lambda: Offset.set(SOURCE, SINK, DAYS[:1], origin=DAYS[5]))
    recompute(SOURCE, SINK, ledger, DAYS[0], origin=DAYS[2])
    assert (offset().origin, offset().origin_is_set) == (stands, True)
    recompute(SOURCE, SINK, ledger, DAYS[0], origin=DAYS[2])
    assert offset().origin == DAYS[2]


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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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
            recompute(SOURCE, SINK, ledger, FIRST)

    threads = [threading.Thread(target=worker) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    offset = Offset.read(SOURCE, SINK)
    assert offset is not None
    assert offset.days == ((DAYS[0], DAYS[-1]),)
    assert offset.position == DAYS[-1]
