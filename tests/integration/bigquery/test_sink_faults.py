"""The whole sink while every call that changes something breaks in turn, and while its drivers die or come back late.

Whatever happens, the day is there once and whole, the ledger says the same, and staging tables go.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import grpc
import pyarrow as pa
import pytest

from airflow_provider_connect.clients.bigquery import api as _bigquery_access
from airflow_provider_connect.clients.bigquery import streams as _bigquery_streams
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, OvertakenError, RetriableError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.bigquery.bench import SinkBench
from tests.equipment.bigquery.fixtures import connection_to, fresh_dataset
from tests.equipment.bigquery.proxy import BigQueryProxy, Cut, Fail, Hold, Lose, Refuse, Rule, Slow
from tests.equipment.frozen import MONDAY, SCHEMA, events, intent
from tests.equipment.waiting import wait_until
from tests.standins.bigquery_emulator import BigQueryEmulator

pytestmark = pytest.mark.slow

TABLES = "POST /projects/[^/]+/datasets/[^/]+/tables$"
JOBS = "POST /projects/[^/]+/jobs$"
RESULTS = "GET /projects/[^/]+/queries/"
UPLOAD, UPLOADED = "POST /upload/", "PUT /upload/"
DROP = "DELETE .*/tables/"
PATCH = "(PATCH|PUT) .*/tables/"
STORAGE_WRITE = [TABLES, "CreateWriteStream", "AppendRows", "FinalizeWriteStream", "BatchCommit", JOBS, DROP]
CALLS = [("storage_write", call) for call in STORAGE_WRITE] + [("load_job", call) for call in (UPLOAD, UPLOADED)]
# A driver that is late at these has something to lose; at the others it comes back to nothing.
COMMITTING = [case for case in CALLS if case[1] in ("BatchCommit", JOBS, DROP, UPLOADED)]
FAULTS = ["lost", "late", "cut, unavailable, rate limit"]
IN_TIME_SECONDS, LATE_SECONDS = 3.0, 4.0
DAYS = (MONDAY + ONE_DAY * i for i in itertools.count())
ROWS = ("a", "b", "b", "c")


def faults(call: str, fault: str) -> list[Any]:
    """Return what happens to a call's first try, its second and so on."""
    rest = " " in call
    exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
    kinds = {
        "lost": [Lose()],
        "late": [Slow(LATE_SECONDS)],
        "cut, unavailable, rate limit": [
            Cut(),
            Refuse(503, "backendError") if rest else Fail(grpc.StatusCode.UNAVAILABLE),
            Refuse(403, "rateLimitExceeded") if rest else Fail(exhausted, "requests per second"),
        ],
    }
    return kinds[fault]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (_bigquery_access, _bigquery_streams):
        monkeypatch.setattr(module, "_PAUSES", (0.02, 0.05, 0.1, 0.5))


@pytest.fixture(scope="module")
def front(emulator: BigQueryEmulator) -> Iterator[BigQueryProxy]:
    """A proxy for the whole file."""
    with BigQueryProxy(emulator) as started:
        yield started


@pytest.fixture(scope="module")
def shared(
    front: BigQueryProxy, google_connection: Connection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SinkBench]:
    """One table for all tests, each of which has days of its own."""
    with fresh_dataset(google_connection) as dataset:
        sink = BigQuerySink(table=f"{dataset}.events", retry_budget_seconds=30)
        bench = SinkBench(
            sink, connection_to(front), google_connection, tmp_path_factory.mktemp("stage"), timeout_seconds=15
        )
        assert bench.preflight() == []
        yield bench


@pytest.fixture
def bench(shared: SinkBench, front: BigQueryProxy) -> Iterator[SinkBench]:
    front.heal()
    yield shared
    front.heal()


def breaks(front: BigQueryProxy, call: str, fault: str, things: int = 1) -> Rule:
    """Break the first tries of a call, for the first things that need it; return a rule that counts every try."""
    actions = faults(call, fault)
    for number, action in enumerate(actions, start=1):
        front.breaks(call, action, *(number + thing * (len(actions) + 1) for thing in range(things)))
    return front.rules[-1]


def patient(bench: SinkBench, fault: str, **options: Any) -> SinkBench:
    seconds = IN_TIME_SECONDS if fault == "late" else 15
    return replace(bench.having(**options), timeout_seconds=seconds)


@pytest.mark.parametrize(
    ("method", "call", "fault"),
    [(*case, fault) for case in CALLS for fault in FAULTS if fault != "late" or case in COMMITTING],
)
def test_a_publish_survives_a_fault_of_any_call(
    bench: SinkBench, front: BigQueryProxy, method: str, call: str, fault: str
) -> None:
    sink = patient(bench, fault, load_method=method)
    day = next(DAYS)
    staged = sink.stage(day, events("a", "b"), events("b", "c"))
    broken = breaks(front, call, fault)
    row = sink.publish(staged)
    assert broken.seen >= len(faults(call, fault)), "the call that was to break was never made"
    assert (row.day, row.generation, row.rows) == (day, 1, 4)
    sink.holds_exactly(day, *ROWS)
    assert sink.staging_tables() == []


@pytest.mark.parametrize("fault", FAULTS)
def test_tables_are_created_and_changed_despite_faults(bench: SinkBench, front: BigQueryProxy, fault: str) -> None:
    sink = patient(bench, fault, table=f"{bench.sink.table}_{FAULTS.index(fault)}")
    made = breaks(front, TABLES, fault, 3)  # preflight's probe, the target and the ledger
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, events(*ROWS)))
    sink.holds_exactly(MONDAY, *ROWS)
    assert made.seen >= 3 * (len(faults(TABLES, fault)) + 1)
    front.heal()
    wider = sink.having(SCHEMA.append(pa.field("more", pa.int64())))
    changed = breaks(front, PATCH, fault)
    more = events("d", "e")
    wider.publish(wider.stage(MONDAY, more.append_column("more", more["n"]), order=2))
    assert changed.seen > 0
    wider.holds_exactly(MONDAY, "d", "e")
    assert wider.rows(MONDAY, "more") == [0, 1]
    sweep_all(wider)  # a table that was made too late, after it was dropped, expires or is swept


@pytest.fixture(scope="module")
def old_day(shared: SinkBench, front: BigQueryProxy) -> dt.date:
    """A day that is published, and that no failure may change."""
    front.heal()
    day = next(DAYS)
    shared.publish(shared.stage(day, events(*ROWS)))
    return day


@pytest.mark.parametrize(("method", "call"), [case for case in CALLS if case[1] not in ("FinalizeWriteStream", DROP)])
def test_b13_an_exhausted_quota_is_retriable_and_the_old_day_stays(
    bench: SinkBench, front: BigQueryProxy, old_day: dt.date, method: str, call: str
) -> None:
    sink = bench.having(load_method=method)
    exhausted = Fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "Quota exceeded: requests per day")
    rule = front.breaks(call, Refuse(403, "quotaExceeded") if " " in call else exhausted)
    staged = sink.stage(old_day, events("new"), order=2)
    with pytest.raises(RetriableError) as caught:
        sink.publish(staged)
    assert caught.value.retry_after_seconds is not None
    assert caught.value.retry_after_seconds >= 3600
    assert rule.seen == 1, "a used up quota was asked again"
    sink.holds_exactly(old_day, *ROWS)
    sweep_all(sink)


def sweep_all(sink: SinkBench) -> None:
    """Sweep as if every staging table were old."""
    sink.sweep_all()
    assert sink.staging_tables() == []


def dies_before(front: BigQueryProxy, call: str) -> None:
    """Let no call of this kind have an effect or be tried again: what comes after it never happens."""
    front.breaks(call, Refuse(400, "invalid") if " " in call else Fail(grpc.StatusCode.PERMISSION_DENIED))


@pytest.mark.parametrize(
    ("method", "call", "order"), [(*case, 1) for case in CALLS] + [(*case, 2) for case in COMMITTING]
)
def test_a_driver_that_dies_before_any_call_is_followed_by_one_that_publishes_once(
    bench: SinkBench, front: BigQueryProxy, method: str, call: str, order: int
) -> None:
    sink = bench.having(load_method=method)
    day = next(DAYS)
    frozen = sink.stage(day, events("a", "b"), events("b", "c"))
    dies_before(front, call)
    with pytest.raises(ConnectError) if call != DROP else contextlib.nullcontext():
        sink.publish(frozen)
    front.heal()
    # A retry finds the frozen day, and publishes it under the name that it has; a reload polls anew.
    row = sink.publish(frozen if order == 1 else sink.stage(day, events(*ROWS), order=order))
    assert (row.token, row.rows) == (intent(order).token, 4)
    first = [intent(1).token] if call == DROP else []
    assert sink.holds_exactly(day, *ROWS) == sorted({*first, intent(order).token})
    sweep_all(sink)


@pytest.mark.parametrize("method", ["storage_write", "load_job"])
def test_a_publish_that_failed_after_its_rows_were_staged_is_tried_again_whole(
    bench: SinkBench, front: BigQueryProxy, method: str
) -> None:
    sink = bench.having(load_method=method)
    frozen = sink.stage(next(DAYS), events(*ROWS))
    dies_before(front, JOBS)
    with sink.open() as publisher:
        token = publisher.begin(frozen)
        receipts = sink.put(frozen, token)
        with pytest.raises(ConfigError):
            publisher.commit(frozen, token, receipts)
        publisher.abort(frozen, token)
    front.heal()
    sink.publish(frozen)
    sink.holds_exactly(frozen.day.date, *ROWS)


OLD = ("old", "old", "older")


def overtaken(sink: SinkBench, front: BigQueryProxy, call: str, late: Publish, other: Publish) -> tuple[Any, LedgerRow]:
    """Hold one publish at a call until another one is done; return the future of the first and the row of the other."""
    let_go = threading.Event()
    held = front.breaks(call, Hold(let_go), 1)
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(sink.publish, late)
        try:
            wait_until(lambda: held.seen, "the call that was to be held was never made")
            return future, sink.publish(other)
        finally:
            let_go.set()


@pytest.mark.parametrize(("method", "call"), COMMITTING)
def test_a_driver_that_comes_back_late_after_another_of_its_intent_changes_nothing(
    bench: SinkBench, front: BigQueryProxy, method: str, call: str
) -> None:
    sink = bench.having(load_method=method)
    day = next(DAYS)
    old, again = sink.stage(day, events(*OLD)), sink.stage(day, events(*ROWS), attempt="2")
    late, row = overtaken(sink, front, call, old, again)
    assert late.result() == row
    assert sink.holds_exactly(day, *(OLD if call == DROP else ROWS)) == [intent(1).token]
    sweep_all(sink)


@pytest.mark.parametrize(("method", "call"), COMMITTING)
def test_a_driver_that_comes_back_late_after_another_intent_is_overtaken(
    bench: SinkBench, front: BigQueryProxy, method: str, call: str
) -> None:
    sink = bench.having(load_method=method)
    day = next(DAYS)
    # At the last call it has published before it is held, and the other one polls after that.
    old, new = sink.stage(day, events(*OLD)), sink.stage(day, events(*ROWS), order=2, seen=int(call == DROP))
    late, row = overtaken(sink, front, call, old, new)
    if call == DROP:
        assert (late.result().generation, row.generation) == (1, 2)
    else:
        with pytest.raises(OvertakenError, match="run-2/task has published generation 1"):
            late.result()
    tokens = [intent(1).token] * (call == DROP) + [intent(2).token]
    assert sink.holds_exactly(day, *ROWS) == tokens
    sweep_all(sink)
