"""Days of a topic take turns: a plain reader of committed records sees each whole, whoever dies or sleeps meanwhile."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_provider_connect.clients.kafka.transaction import Transaction, transactional_id
from airflow_provider_connect.errors import OvertakenError, RetriableError
from airflow_provider_connect.sinks._kafka.turn import PassedOverError, Turn
from airflow_provider_connect.sinks._kafka.turn_queue import DEAD_SECONDS
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.frozen import KEY, TUESDAY, events
from tests.equipment.kafka.bench import Child, SinkBench, shared_bench
from tests.equipment.kafka.proxy import Api, Hold, KafkaProxy, Slow
from tests.equipment.waiting import wait_until
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow

ROWS = tuple(f"e{number}" for number in range(300))
OTHERS = tuple(f"o{number}" for number in range(40))
DAYS = (TUESDAY + ONE_DAY * number for number in itertools.count(1))
AT_ONCE = 16


@pytest.fixture(scope="module")
def shared(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SinkBench]:
    """One topic for all tests, each of which has days of its own."""
    with shared_bench(broker.bootstrap, tmp_path_factory.mktemp("stage"), timeout_seconds=60) as made:
        yield made


@pytest.fixture
def bench(shared: SinkBench, kafka_proxy: KafkaProxy) -> SinkBench:
    return shared.through(kafka_proxy)


@pytest.fixture
def day() -> dt.date:
    return next(DAYS)


def id_of(bench: SinkBench, day: dt.date) -> bytes:
    return transactional_id(KEY.connector, KEY.stream, bench.sink.topic, str(day)).encode()


def open_at_once(proxy: KafkaProxy, names: list[bytes]) -> int:
    """Return how many transactions were open at the same time at most: from their first record to their end."""
    with proxy.lock:
        calls = list(proxy.calls)
    moments = []
    for name in names:
        mine = [call for call in calls if name in call.body]
        begun = min(call.started for call in mine if call.api == Api.ADD_PARTITIONS_TO_TXN)
        moments += [(begun, 1), (max(call.started for call in mine if call.api == Api.END_TXN), -1)]
    return max(itertools.accumulate(step for _, step in sorted(moments)))


@pytest.mark.parametrize("turns", ["topic", "off"])
def test_sixteen_days_at_once_are_sent_one_at_a_time(bench: SinkBench, kafka_proxy: KafkaProxy, turns: str) -> None:
    """A plain reader beside them never sees a part; without turns their transactions are open at the same time."""
    bench = bench.having(turns=turns)
    days = list(itertools.islice(DAYS, AT_ONCE))
    staged = [bench.stage(day, events(*ROWS)) for day in days]
    kafka_proxy.breaks(Api.END_TXN, Slow(0.02))
    if turns == "off":
        bench.watch.torn.clear()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert [row.generation for row in pool.map(bench.publish, staged)] == [1] * AT_ONCE
    most = open_at_once(kafka_proxy, [id_of(bench, day) for day in days])
    if turns == "off":
        bench.watch.caught_up()
        bench.watch.torn.clear()
        assert most > 1
        return
    assert most == 1
    for day in days:
        bench.holds(day, ROWS)


@contextlib.contextmanager
def in_its_turn(bench: SinkBench, staged: Any, proxy: KafkaProxy, action: Any) -> Iterator[Child]:
    """Publish in a process that stands still at its commit: all records are sent."""
    with Child(bench, staged) as child:
        rule = proxy.breaks(Api.END_TXN, action, 1, containing=id_of(bench, staged.day.date))
        child.go()
        child.waits_at(rule)
        time.sleep(0.1)
        yield child


def test_who_is_killed_in_its_turn_is_passed_over_and_leaves_nothing(
    bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date
) -> None:
    other = next(DAYS)
    staged, next_one = bench.stage(day, events(*ROWS)), bench.stage(other, events(*OTHERS))
    with in_its_turn(bench, staged, kafka_proxy, Hold(threading.Event())) as child:
        child.process.kill()
        child.process.wait(20)
        started = time.monotonic()
        assert bench.publish(next_one).generation == 1
        assert time.monotonic() - started < bench.sink.transaction_timeout_seconds  # its timeout would end it, too
    bench.holds(other, OTHERS)
    assert bench.watch.generations_of(day) == {}
    assert bench.publish(staged).generation == 1
    bench.holds(day, ROWS)


def test_killed_after_the_commit_and_reloaded_by_hand_the_retry_sends_nothing(
    bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date
) -> None:
    staged = bench.stage(day, events(*ROWS))
    with in_its_turn(bench, staged, kafka_proxy, Slow(120)) as child:
        wait_until(lambda: bench.ledger.row(day) is not None)
        child.process.kill()
        child.process.wait(20)
    by_hand = bench.publish(bench.stage(day, events(*OTHERS), order=2))
    assert by_hand.generation == 2
    before = len(bench.records(day, "read_uncommitted"))
    token = bench.begin(staged)
    [sent] = bench.put(token, staged)
    row = bench.publisher.commit(staged, token, [sent])
    assert (row.generation, row.token, row.rows) == (1, staged.intent.token, len(ROWS))
    assert bench.ledger.published(day, staged.intent.token) == row
    assert bench.ledger.row(day) == by_hand
    assert len(bench.records(day, "read_uncommitted")) == before
    bench.holds(day, ROWS, OTHERS)


def test_who_sleeps_in_its_turn_wakes_up_fenced_and_publishes_in_its_next(
    bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date
) -> None:
    other, let_go = next(DAYS), threading.Event()
    staged, next_one = bench.stage(day, events(*ROWS)), bench.stage(other, events(*OTHERS))
    with in_its_turn(bench, staged, kafka_proxy, Hold(let_go)) as child:
        child.process.send_signal(signal.SIGSTOP)
        assert bench.publish(next_one).generation == 1
        child.process.send_signal(signal.SIGCONT)
        let_go.set()
        assert child.end(150) == (0, "1")
    bench.holds(other, OTHERS)
    bench.holds(day, ROWS)


def test_a_living_run_of_the_same_day_is_waited_for_and_not_fenced(
    bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date
) -> None:
    first, second = bench.stage(day, events(*ROWS)), bench.stage(day, events(*OTHERS), order=2)
    let_go = threading.Event()
    rule = kafka_proxy.breaks(Api.END_TXN, Hold(let_go), 1, containing=id_of(bench, day))
    with ThreadPoolExecutor(2) as pool:
        try:
            publishing = pool.submit(bench.publish, first)
            wait_until(lambda: rule.seen or publishing.done())
            waiting = pool.submit(bench.publish, second)
            time.sleep(DEAD_SECONDS + 1)
            assert not waiting.done()
        finally:
            let_go.set()
        assert publishing.result(60).generation == 1
        with pytest.raises(OvertakenError, match="dag/run-1/task has published generation 1"):
            waiting.result(60)
    bench.holds(day, ROWS)


def test_a_turn_that_does_not_come_in_time_is_left_to_the_next_try(
    bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = bench.stage(day, events(*ROWS)), bench.stage(next(DAYS), events(*OTHERS), order=2)
    let_go = threading.Event()
    rule = kafka_proxy.breaks(Api.END_TXN, Hold(let_go), 1, containing=id_of(bench, day))
    hasty = bench.having(transaction_timeout_seconds=2.0)
    with ThreadPoolExecutor(1) as pool:
        try:
            publishing = pool.submit(bench.publish, first)
            wait_until(lambda: rule.seen or publishing.done())
            with pytest.raises(
                RetriableError, match=f"dag/run-1/task .* has been sending into {bench.sink.topic} for 2 s"
            ):
                hasty.publish(second)
        finally:
            let_go.set()
        assert publishing.result(60).generation == 1
    assert bench.publish(second).generation == 1
    bench.holds(day, ROWS)


@pytest.mark.parametrize("later", ["waits", "was passed over"])
def test_two_runs_of_a_day_that_took_its_id_at_once_do_not_end_each_others_turn(
    bench: SinkBench, day: dt.date, later: str
) -> None:
    """The one that took it first was fenced, though it may queue behind the other: that one may be sending."""
    name, view = id_of(bench, day).decode(), bench.ledger.read_on(lambda _: False)

    def turn(attempt: str) -> Turn:
        return Turn(bench.connection, view, name, [bench.sink.topic], f"run {attempt}", attempt, 60, 60)

    with turn("first") as first, turn("second") as second:
        for one in (first, second):  # neither has queued when the other looks
            one.wait_for_same_day()
            Transaction(bench.connection, name, 60, 60).fence()
        second.wait_for_turn()
        [ticket] = second.queue.live_tickets()
        if later == "was passed over":
            second.leave_queue(transaction_is_over=False)
        with pytest.raises(PassedOverError, match="another run of the same day"):
            first.wait_for_turn()
        first.leave_queue(transaction_is_over=True)
        found = bench.ledger.read_on(lambda _: False).tickets
        assert list(found) == [ticket.number]
        second.leave_queue(transaction_is_over=True)
        assert bench.ledger.read_on(lambda _: False).tickets == {}


# What the driver does about an executor that died

_EXECUTOR = """
import pickle, sys
sink, token, stage, files, connections = pickle.load(sys.stdin.buffer)
sink.open(token.publish.key, connections).put(token, stage, files)
"""


def test_the_driver_ends_what_an_executor_left_open_that_died(
    bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date
) -> None:
    staged = bench.stage(day, events(*ROWS))
    token = bench.begin(staged)
    rule = kafka_proxy.breaks(Api.END_TXN, Hold(threading.Event()), 1, containing=id_of(bench, day))
    with subprocess.Popen([sys.executable, "-c", _EXECUTOR], stdin=subprocess.PIPE) as executor:
        assert executor.stdin is not None
        files = staged.manifest.polled.files
        pickle.dump((bench.sink, token, staged.stage, files, bench.connections), executor.stdin)
        executor.stdin.flush()
        wait_until(lambda: rule.seen or executor.poll() is not None)
        executor.kill()
    assert len(bench.ledger.read_on(lambda _: False).tickets) == 1
    bench.publisher.abort(staged, token)
    bench.watch.caught_up()  # fails where a transaction is open
    assert bench.ledger.read_on(lambda _: False).tickets == {}
    assert bench.watch.generations_of(day) == {}
    assert bench.publish(staged).generation == 1
    bench.holds(day, ROWS)


@pytest.mark.parametrize(
    ("turns", "begun"),
    [
        ("off", "before it"),
        ("topic", "before it"),
        ("topic", "after it"),
        ("topic", "after it, as another try of the same files"),
    ],
)
def test_a_driver_leaves_a_day_alone_that_another_one_is_sending(
    bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date, turns: str, begun: str
) -> None:
    bench = bench.having(turns=turns)
    lost, newer = bench.stage(day, events(*ROWS)), bench.stage(day, events(*OTHERS), order=2)
    token = bench.begin(lost) if begun == "before it" else None
    let_go = threading.Event()
    rule = kafka_proxy.breaks(Api.END_TXN, Hold(let_go), 1, containing=id_of(bench, day))
    with ThreadPoolExecutor(1) as pool:
        try:
            publishing = pool.submit(bench.publish, newer)
            wait_until(lambda: rule.seen or publishing.done())
            token = token or bench.begin(newer if "same files" in begun else lost)
            bench.publisher.abort(lost, token)
        finally:
            let_go.set()
        assert publishing.result(60).generation == 1
    assert len(bench.records(day, "read_uncommitted")) == len(OTHERS)  # it was not ended and sent again
    bench.holds(day, OTHERS)


# What tries of a day leave for the next one


def test_a_day_that_turns_out_to_be_published_leaves_no_ticket_of_its_first_try(bench: SinkBench, day: dt.date) -> None:
    staged = bench.stage(day, events(*OTHERS))
    token = bench.begin(staged)
    [sent] = bench.put(token, staged)
    view = bench.ledger.read_on(lambda _: False)
    name = id_of(bench, day).decode()
    with Turn(bench.connection, view, name, [bench.sink.topic], "run", "first", 60, 60) as undecided:
        undecided.wait_for_turn()
        undecided.leave_queue(transaction_is_over=False)
    assert len(bench.ledger.read_on(lambda _: False).tickets) == 1
    assert bench.put(token, staged)[0].entry == sent.entry
    assert bench.ledger.read_on(lambda _: False).tickets == {}
    bench.holds(day, OTHERS)


def test_a_day_whose_id_is_taken_by_who_ends_what_it_left_open_is_sent_again_at_once(
    bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date
) -> None:
    staged, let_go = bench.stage(day, events(*OTHERS)), threading.Event()
    rule = kafka_proxy.breaks(Api.ADD_PARTITIONS_TO_TXN, Hold(let_go), 1, containing=id_of(bench, day))
    with ThreadPoolExecutor(1) as pool:
        try:
            publishing = pool.submit(bench.publish, staged)
            wait_until(lambda: rule.seen or publishing.done())
            Transaction(bench.connection, id_of(bench, day).decode(), 60, 60).fence()
        finally:
            let_go.set()
        assert publishing.result(60).generation == 1
    bench.holds(day, OTHERS)
