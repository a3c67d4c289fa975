"""The whole Kafka sink while the calls that change something break, one after the other.

Whatever happens, the day is there once and whole for readers of committed records, and the ledger says the same.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_provider_connect.clients.kafka.transaction import transactional_id
from airflow_provider_connect.errors import OvertakenError, RetriableError
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.frozen import KEY, TUESDAY, events
from tests.equipment.kafka.bench import SinkBench, shared_bench
from tests.equipment.kafka.proxy import Api, ApiCall, Change, Cut, Drop, Hold, KafkaProxy, Lose, Refuse, Slow
from tests.equipment.waiting import wait_until
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow

ROWS = ("a", "b", "b", "c", *(f"e{number}" for number in range(200)))
NEWER = tuple(f"n{number}" for number in range(100))
SHORT_SECONDS = 5.0
GIVES_UP_SECONDS = 2.0
"""For a try that is to fail; one that is to succeed has longer, as the machine may be busy."""
CONCURRENT, MOVED, ABORTABLE, BAD_STATE = 51, 16, 120, 48
FENCED, BAD_EPOCH = 90, 47


DAYS = (TUESDAY + ONE_DAY * number for number in itertools.count(1))


@pytest.fixture(scope="module")
def shared(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SinkBench]:
    """One topic for all tests, each of which has days of its own."""
    with shared_bench(broker.bootstrap, tmp_path_factory.mktemp("stage")) as made:
        yield made


@pytest.fixture
def bench(shared: SinkBench, kafka_proxy: KafkaProxy) -> SinkBench:
    """The bench, which reaches the broker through the proxy."""
    return shared.through(kafka_proxy)


@pytest.fixture
def day() -> dt.date:
    return next(DAYS)


@pytest.fixture
def hasty(bench: SinkBench) -> SinkBench:
    return bench.having(timeout_seconds=SHORT_SECONDS)


def errors_of(bench: SinkBench, staged: Any) -> str:
    with pytest.raises(RetriableError) as caught:
        bench.publish(staged)
    return str(caught.value)


CALLS = (Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.END_TXN)


@pytest.mark.parametrize(("action", "times"), [(Lose(), 1), (Cut(), 2), (Slow(0.3), 1)])
def test_one_try_survives_that_all_its_calls_break(
    bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date, action: Any, times: int
) -> None:
    nth = range(1, times + 1)
    rules = [kafka_proxy.breaks(api, action, *nth, containing=bench.naming(api)) for api in CALLS]
    bench.publish(bench.stage(day, events(*ROWS)))
    assert all(rule.seen >= times for rule in rules)
    bench.holds(day, ROWS)


@pytest.mark.parametrize("action", [Lose(), Cut()])
def test_questions_are_asked_again(bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date, action: Any) -> None:
    asking = (Api.FIND_COORDINATOR, Api.METADATA, Api.LIST_OFFSETS, Api.FETCH)
    rules = [kafka_proxy.breaks(api, action, 1, 4) for api in asking]
    bench.publish_at_last(bench.stage(day, events(*ROWS)))
    assert all(rule.seen for rule in rules)
    bench.holds(day, ROWS)


@pytest.mark.parametrize("api", CALLS[:3])
def test_an_answer_that_never_comes_is_not_waited_for_longer_than_said(
    bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date, api: Api
) -> None:
    staged = bench.stage(day, events(*ROWS))
    rule = kafka_proxy.breaks(api, Drop(), containing=bench.naming(api))
    started = time.monotonic()
    message = errors_of(bench.having(timeout_seconds=GIVES_UP_SECONDS), staged)
    assert time.monotonic() - started < 6 * GIVES_UP_SECONDS + 8
    assert re.search(r"for 2 s|no broker answers|no answer|expected to pass", message)
    assert rule.seen
    kafka_proxy.heal()
    bench.publish_at_last(staged)
    bench.holds(day, ROWS)


def test_the_ledger_decides_when_the_answer_to_the_commit_is_lost(
    hasty: SinkBench, kafka_proxy: KafkaProxy, day: dt.date
) -> None:
    rule = kafka_proxy.breaks(Api.END_TXN, Drop(), 1)
    row = hasty.publish(hasty.stage(day, events(*ROWS)))
    assert (row.generation, rule.seen) == (1, 1)
    hasty.holds(day, ROWS)


def test_the_ledger_decides_when_the_commit_never_arrived(
    hasty: SinkBench, kafka_proxy: KafkaProxy, day: dt.date
) -> None:
    never = threading.Event()
    rule = kafka_proxy.breaks(Api.END_TXN, Hold(never), 1)
    row = hasty.publish(hasty.stage(day, events(*ROWS)))
    assert row.generation == 1
    assert rule.seen >= 2
    hasty.holds(day, ROWS)
    assert any(record.generation == 1 for record in hasty.records(day))
    assert len(hasty.records(day, "read_uncommitted")) == 2 * len(ROWS)


def test_a_commit_that_nobody_answers_is_decided_by_the_next_try(
    bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date
) -> None:
    staged = bench.stage(day, events(*ROWS))
    kafka_proxy.breaks(Api.END_TXN, Hold(threading.Event()))
    assert "The ledger shows the outcome" in errors_of(bench.having(timeout_seconds=GIVES_UP_SECONDS), staged)
    kafka_proxy.heal()
    assert bench.publish(staged).generation == 1
    bench.holds(day, ROWS)


def resent(broker: KafkaBroker, call: ApiCall) -> bytes:
    """Make a call once more, as a network that has kept it for long would; return the answer behind its header."""
    port = broker.listeners["PROXIED"].port
    with socket.create_connection(("127.0.0.1", port), timeout=10) as late:
        frame = struct.pack(">hhi", call.api, call.version, 7) + call.body
        late.sendall(struct.pack(">i", len(frame)) + frame)
        with late.makefile("rb") as answer:
            [length] = struct.unpack(">i", answer.read(4))
            return answer.read(length)[4:]


def test_a_commit_that_comes_late_changes_nothing(
    bench: SinkBench, hasty: SinkBench, kafka_proxy: KafkaProxy, day: dt.date, broker: KafkaBroker
) -> None:
    """It may neither commit what is open under the same id by then, nor bring back what was given up."""
    never, let_go = threading.Event(), threading.Event()
    own = transactional_id(KEY.connector, KEY.stream, bench.sink.topic, str(day)).encode()
    kafka_proxy.breaks(Api.END_TXN, Hold(never), 1, containing=own)
    kafka_proxy.breaks(Api.END_TXN, Hold(let_go), *range(2, 10), containing=own)

    def commits() -> list[ApiCall]:
        """Return the first call of each producer: a client may make its own again."""
        found = {
            call.body: call for call in reversed(kafka_proxy.calls) if call.api == Api.END_TXN and own in call.body
        }
        return sorted(found.values(), key=lambda call: call.started)

    with ThreadPoolExecutor(1) as pool:
        publishing = pool.submit(hasty.having(timeout_seconds=4.0).publish, hasty.stage(day, events(*ROWS)))
        wait_until(lambda: len(commits()) >= 2)
        [first, _] = commits()
        [code] = struct.unpack_from(">h", resent(broker, first), 4)
        assert code in (FENCED, BAD_EPOCH)
        assert hasty.watch.generations_of(day) == {}
        let_go.set()
        assert publishing.result(30).generation == 1
    bench.holds(day, ROWS)
    resent(broker, first)
    for call in [
        call for call in kafka_proxy.calls if call.api == Api.PRODUCE and bench.naming(Api.PRODUCE) in call.body
    ]:
        resent(broker, call)
    bench.holds(day, ROWS)


@pytest.mark.parametrize(
    ("api", "code"),
    [
        *((api, code) for api in (Api.INIT_PRODUCER_ID, Api.END_TXN) for code in (CONCURRENT, MOVED)),
        *((Api.END_TXN, code) for code in (ABORTABLE, BAD_STATE, FENCED)),
    ],
)
def test_errors_of_a_moved_coordinator_are_handled(
    bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date, api: Api, code: int
) -> None:
    rule = kafka_proxy.breaks(api, Refuse(code), 1, 2, containing=b"connect-")
    bench.publish_at_last(bench.stage(day, events(*ROWS)))
    assert rule.seen >= 2
    bench.holds(day, ROWS)


NOT_LEADER = 6


def _said_to_have_moved(answer: bytes) -> bytes:
    """Put "not the leader" into an answer to Produce (version 9 and later) about one partition."""
    # tag buffer, number of topics, name, number of partitions, index, and then the code
    assert answer[1] == 2
    name_end = 2 + answer[2]
    assert answer[name_end] == 2
    code = name_end + 5
    return answer[: code + 1] + struct.pack(">h", NOT_LEADER) + answer[code + 3 :]


def test_a_leader_that_moves_away_after_it_took_the_records(
    bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date
) -> None:
    rule = kafka_proxy.breaks(Api.PRODUCE, Change(_said_to_have_moved), 1, 2, 3, containing=bench.naming(Api.PRODUCE))
    bench.publish(bench.stage(day, events("a", "a")))
    assert rule.seen > 1
    bench.holds(day, ("a", "a"))


def test_all_connections_are_cut_again_and_again(bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date) -> None:
    staged = bench.stage(day, *(events(*ROWS) for _ in range(5)))
    kafka_proxy.breaks(Api.PRODUCE, Slow(0.05))
    stop = threading.Event()

    def cutting() -> None:
        for _ in range(6):
            stop.wait(0.15)
            kafka_proxy.cut()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(cutting)
        time.sleep(0.1)
        with contextlib.suppress(RetriableError):
            bench.publish(staged)
        stop.set()
        done.result(10)
    bench.publish_at_last(staged)
    bench.holds(day, ROWS * 5)


@dataclass
class Late:
    """A publish that stands still at a call until it is let go."""

    bench: SinkBench
    staged: Any
    proxy: KafkaProxy
    api: Api

    def __enter__(self) -> Late:
        self.let_go = threading.Event()
        rule = self.proxy.breaks(self.api, Hold(self.let_go), 1, containing=self.bench.naming(self.api))
        self.pool = ThreadPoolExecutor(1)
        self.publishing = self.pool.submit(self.bench.publish, self.staged)
        wait_until(lambda: rule.seen)
        return self

    def __exit__(self, *exc: object) -> None:
        self.let_go.set()
        self.pool.shutdown()


@pytest.mark.parametrize("api", CALLS)
def test_another_run_takes_the_day_over(bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date, api: Api) -> None:
    """Wherever the first one stands: what it sends then is refused, or comes to nothing, and it says why.

    Without turns: with them a run that lives is waited for.
    """
    bench = bench.having(turns="off")
    first, second = bench.stage(day, events(*ROWS)), bench.stage(day, events(*NEWER), order=2)
    with Late(bench, first, kafka_proxy, api) as late:
        assert bench.publish(second).generation == 1
        late.let_go.set()
        with pytest.raises(RetriableError) as caught:
            late.publishing.result(30)
    attempt = re.escape(f"(attempt 0000000000000002-1-{day:%Y%m%d})")
    told = rf"fenced by dag/run-2/task {attempt}|dag/run-2/task has published generation 1 since"
    assert re.search(told, str(caught.value))
    with pytest.raises(OvertakenError, match="generation 1"):
        bench.publish(first)
    bench.holds(day, NEWER)


@pytest.mark.parametrize("orders", [(1, 1), (2, 1), (1, 2, 3)])
def test_concurrent_runs_of_one_day_all_publish_in_the_end(
    bench: SinkBench, day: dt.date, orders: tuple[int, ...]
) -> None:
    """All looked before anybody polled: one publishes, the others are told to poll again, and then they publish too."""
    days = {order: (f"of-{order}",) * (10 * order) for order in orders}
    staged = [bench.stage(day, events(*days[order]), order=order, attempt=str(n)) for n, order in enumerate(orders)]

    def told(publish: Any) -> tuple[int, str]:
        try:
            return 1, bench.publish_at_last(publish, tries=8).token
        except OvertakenError as error:
            return 0, error.by

    with ThreadPoolExecutor(len(orders)) as pool:
        ended = list(pool.map(told, staged))
    [winner] = {token for _, token in ended}
    assert sum(published for published, _ in ended) == orders.count(int(winner, 16))
    again = [order for order in sorted(set(orders)) if f"{order:032x}" != winner]
    for order in again:
        bench.publish(bench.stage(day, events(*days[order]), order=order, attempt="again"))
    bench.holds(day, *(days[order] for order in [int(winner, 16), *again]))


def test_days_at_once_share_the_partitions(bench: SinkBench, day: dt.date) -> None:
    days = [day, *itertools.islice(DAYS, 5)]
    staged = [bench.stage(day, events(*ROWS)) for day in days]
    with ThreadPoolExecutor(len(days)) as pool:
        assert [row.generation for row in pool.map(bench.publish, staged)] == [1] * len(days)
    for day in days:
        bench.holds(day, ROWS)


def test_a_reload_is_a_generation_of_its_own(bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date) -> None:
    for order, rows in zip(itertools.count(1), (ROWS, NEWER, (), NEWER), strict=False):
        kafka_proxy.breaks(Api.END_TXN, Lose(), 1)
        assert bench.publish(bench.stage(day, *[events(*rows)] * bool(rows), order=order)).generation == order
    bench.holds(day, ROWS, NEWER, (), NEWER)
