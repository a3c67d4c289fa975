"""The Kafka sink while its processes die or sleep at any moment: the one that publishes, and the broker.

A reader of committed records runs through all of it, and sees every day once and whole, or not at all.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.frozen import TUESDAY, events
from tests.equipment.kafka.bench import Child, SinkBench, connection_to, shared_bench
from tests.equipment.kafka.proxy import Api, Hold, KafkaProxy, Lose, Slow
from tests.standins.kafka_broker import KafkaBroker, Listener
from tests.standins.server import free_port

pytestmark = pytest.mark.slow

ROWS = tuple(f"e{number}" for number in range(1500))
NEWER = tuple(f"n{number}" for number in range(100))
DAYS = (TUESDAY + ONE_DAY * number for number in itertools.count(1))
SEED = 20261105
RANDOM_KILLS = 3
CALLS = (Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.END_TXN)
SHORT_SECONDS = 3.0


@pytest.fixture(scope="module")
def shared(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SinkBench]:
    """One topic for all tests of publishing processes, each with days of its own."""
    with shared_bench(broker.bootstrap, tmp_path_factory.mktemp("stage")) as made:
        yield made


@pytest.fixture
def bench(shared: SinkBench, kafka_proxy: KafkaProxy) -> SinkBench:
    """Without turns, so that a retry does not wait for a dead one: who dies in its turn is in test_kafka_turns.py."""
    return shared.through(kafka_proxy).having(turns="off")


@pytest.fixture
def day() -> dt.date:
    return next(DAYS)


def wait_until(happened: Callable[[], Any], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize(
    ("api", "action"),
    [
        *((api, "after its effect") for api in CALLS),
        (Api.PRODUCE, "before its effect"),
        (Api.END_TXN, "before its effect"),
    ],
)
def test_kill_minus_nine_at_each_call(
    bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date, api: Api, action: str
) -> None:
    """What it has open ends with the next try, and not only with its transaction's timeout."""
    staged = bench.stage(day, events(*ROWS))
    with Child(bench, staged) as child:
        breaks = Hold(threading.Event()) if action == "before its effect" else Slow(30)
        rule = kafka_proxy.breaks(api, breaks, containing=bench.naming(api))
        child.go()
        child.waits_at(rule)
        time.sleep(0.02)
        child.process.kill()
        child.process.wait(10)
    kafka_proxy.heal()
    started = time.monotonic()
    assert bench.publish(staged).generation == 1
    assert time.monotonic() - started < bench.sink.transaction_timeout_seconds / 3
    bench.holds(day, ROWS)


def test_kill_minus_nine_at_random_moments(bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date) -> None:
    moments = random.Random(SEED)
    kafka_proxy.breaks(Api.PRODUCE, Slow(0.01))
    staged = bench.stage(day, events(*ROWS))
    for _ in range(RANDOM_KILLS):
        with Child(bench, staged) as child:
            child.go()
            time.sleep(moments.uniform(0.0, 0.8))
            child.process.kill()
    assert bench.publish_at_last(staged).generation == 1
    bench.holds(day, ROWS)


@pytest.mark.parametrize(("api", "order"), [(Api.PRODUCE, 1), (Api.END_TXN, 1), (Api.PRODUCE, 2), (Api.END_TXN, 2)])
def test_a_sleeper_wakes_up_after_its_retry(
    bench: SinkBench, kafka_proxy: KafkaProxy, day: dt.date, api: Api, order: int
) -> None:
    """It finds itself fenced, says by whom, and nothing of it is ever seen; or it finds its day published."""
    bench = bench.having(timeout_seconds=60)  # so that no time that it slept is over before it knows who came
    staged = bench.stage(day, events(*ROWS))
    retry = staged if order == 1 else bench.stage(day, events(*NEWER), order=order)
    let_go = threading.Event()
    with Child(bench, staged) as child:
        rule = kafka_proxy.breaks(api, Hold(let_go), 1, containing=bench.naming(api))
        child.go()
        child.waits_at(rule)
        child.process.send_signal(signal.SIGSTOP)
        assert bench.publish(retry).generation == 1
        child.process.send_signal(signal.SIGCONT)
        let_go.set()
        code, said = child.end(150)
    if code == 0:
        assert order == 1
        assert said == "1"
    else:
        who = (
            rf"fenced by (dag/run-{order}/task|another task of this same attempt)"
            rf"|dag/run-{order}/task has published generation 1 since"
        )
        assert re.search(rf"^\S*(FencedError|OvertakenError): conformance/events {day}.*({who})", said)
    bench.holds(day, ROWS if order == 1 else NEWER)


# The broker


@pytest.fixture(scope="module")
def front() -> Iterator[KafkaProxy]:
    with KafkaProxy(free_port()) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def mortal(front: KafkaProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that may be killed: behind the proxy, nobody else's."""
    listeners = {"PROXIED": Listener(port=front.upstream, advertised_port=front.port)}
    started = KafkaBroker(tmp_path_factory.mktemp("mortal"), listeners=listeners)
    started.start()
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def mortal_shared(mortal: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SinkBench]:
    with shared_bench(mortal.bootstrap, tmp_path_factory.mktemp("stage"), timeout_seconds=30) as made:
        yield made


@pytest.fixture
def doomed(mortal_shared: SinkBench, front: KafkaProxy) -> Iterator[SinkBench]:
    front.forget()
    yield mortal_shared.through(front)
    front.forget()


@contextlib.contextmanager
def publishing(bench: SinkBench, staged: Any, front: KafkaProxy, api: Api, nth: int) -> Iterator[Future[Any]]:
    """Publish in a thread; go on when it has come to a call, which waits until the end of this."""
    let_go = threading.Event()
    rule = front.breaks(api, Hold(let_go), nth, containing=bench.naming(api))
    with ThreadPoolExecutor(1) as pool:
        try:
            done = pool.submit(bench.publish, staged)
            wait_until(lambda: rule.seen >= nth)
            yield done
        finally:
            let_go.set()


@pytest.mark.parametrize(("api", "nth"), [(Api.PRODUCE, 2), (Api.END_TXN, 1)])
def test_the_broker_is_killed_and_comes_back_on_its_data(
    doomed: SinkBench, front: KafkaProxy, mortal: KafkaBroker, day: dt.date, api: Api, nth: int
) -> None:
    """In the middle of the records, and between the last of them and the commit: the same try goes on."""
    staged = doomed.stage(day, *(events(*ROWS) for _ in range(3)))
    with publishing(doomed, staged, front, api, nth) as done:
        mortal.kill()
        mortal.start()
    with contextlib.suppress(RetriableError):
        assert done.result(60).generation == 1
    assert doomed.publish_at_last(staged).generation == 1
    doomed.holds(day, ROWS * 3)


def test_the_broker_is_killed_when_it_has_committed_and_before_it_said_so(
    doomed: SinkBench, front: KafkaProxy, mortal: KafkaBroker, day: dt.date
) -> None:
    """Killed when readers see the day and its ledger record. For a kill before that, see test_lost_ends.py."""
    staged = doomed.stage(day, events(*ROWS))
    straight = replace(doomed, connection=connection_to(mortal.bootstrap))
    rule = front.breaks(Api.END_TXN, Lose())
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(doomed.publish, staged)
        wait_until(lambda: rule.seen and doomed.watch.generations_of(day)[1].total() == len(ROWS))
        wait_until(lambda: straight.ledger.row(day))
        mortal.kill()
        front.heal()
        mortal.start()
        assert done.result(60).generation == 1
    doomed.holds(day, ROWS)


@pytest.mark.parametrize("api", [Api.INIT_PRODUCER_ID, Api.PRODUCE])
def test_a_broker_that_sleeps_is_not_waited_for_longer_than_said(
    doomed: SinkBench, front: KafkaProxy, mortal: KafkaBroker, day: dt.date, api: Api
) -> None:
    hasty = doomed.having(timeout_seconds=SHORT_SECONDS)
    staged = hasty.stage(day, events(*ROWS))
    started = time.monotonic()
    try:
        with publishing(hasty, staged, front, api, 1) as done:
            mortal.pause()
        with pytest.raises(RetriableError, match=r"for 3 s|no broker answers|no answer|ledger decides|within 3 s"):
            done.result(60)
        took = time.monotonic() - started
    finally:
        mortal.resume()
    assert took < 4 * SHORT_SECONDS + 12  # the last ten are for an end of the transaction that readers see
    assert doomed.publish_at_last(staged).generation == 1
    doomed.holds(day, ROWS)


def test_a_short_sleep_of_the_broker_is_not_noticed(
    doomed: SinkBench, front: KafkaProxy, mortal: KafkaBroker, day: dt.date
) -> None:
    staged = doomed.stage(day, events(*ROWS))
    with publishing(doomed, staged, front, Api.PRODUCE, 1) as done:
        mortal.pause()
        time.sleep(1.0)
        mortal.resume()
    assert done.result(60).generation == 1
    doomed.holds(day, ROWS)
