"""What does not fit, is not allowed, or goes away under the Kafka sink: refused whole and early, or set aside."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.frozen import KEY, MONDAY, TUESDAY, events
from tests.equipment.kafka.bench import SinkBench, connection_to, drop_topic, make_topic, running_bench, set_topic
from tests.equipment.kafka.fixtures import records
from tests.equipment.kafka.proxy import Api, Hold, KafkaProxy, Refuse, Slow
from tests.equipment.waiting import wait_until
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow

ROWS = ("a", "b", "b", "c")
MAX_BYTES = 20_000
SECONDS = 3.0


@pytest.fixture
def bench(broker: KafkaBroker, tmp_path: Path) -> Iterator[SinkBench]:
    """A topic of the test's own that takes little; a small batch is not compressed."""
    config = {"max.message.bytes": str(MAX_BYTES)}
    with running_bench(broker.bootstrap, tmp_path, timeout_seconds=10, topic_config=config) as made:
        yield replace(made, connection=connection_to(broker.bootstrap, compression__type="none"))


@pytest.fixture
def through(bench: SinkBench, kafka_proxy: KafkaProxy) -> SinkBench:
    return bench.through(kafka_proxy)


def sized(*sizes: int) -> pa.Table:
    """Return rows whose records have keys of these sizes; a value holds the key once more."""
    return events(*(f"{number:03}".ljust(size, "x") for number, size in enumerate(sizes)))


def seen(bench: SinkBench, isolation: Any = "read_committed") -> int:
    return len(records(bench.bootstrap, bench.sink.topic, isolation))


def refusal(bench: SinkBench, staged: Any) -> str | None:
    try:
        bench.publish(staged)
    except DataError as error:
        return str(error)
    return None


# Size


@pytest.mark.parametrize("headers", [True, False])
def test_records_around_what_the_topic_takes_are_taken_or_refused_by_name_and_at_once(
    bench: SinkBench, headers: bool
) -> None:
    """Nothing of a size near the limit hangs in librdkafka, and what is refused is refused before it is sent."""
    most = MAX_BYTES // (3 if headers else 2)  # the key is there in the value, too, and in the header event_id
    taken = refused = 0
    started = time.monotonic()
    for number, size in enumerate(range(most - 900, most + 250, 160)):
        staged = bench.stage(MONDAY + ONE_DAY * number, sized(10, size, 10))
        reason = refusal(bench.having(headers=headers), staged)
        taken += reason is None
        refused += reason is not None and "row 1: " in reason and f"accepts {MAX_BYTES:,}" in reason
    assert taken + refused == number + 1
    assert taken >= 2
    assert refused >= 2
    assert time.monotonic() - started < 30
    assert seen(bench) == 3 * taken


def test_a_day_with_one_large_record_is_refused_whole_and_readers_go_on(bench: SinkBench) -> None:
    small = sized(*[300] * 2000)
    staged = bench.stage(MONDAY, small, sized(MAX_BYTES))
    for _ in range(3):  # to leave a transaction whose records are on their way is what breaks clients
        with pytest.raises(DataError, match="accepts 20,000"):
            bench.publish(staged)
    assert seen(bench) == 0
    assert seen(bench, "read_uncommitted") > 0  # who reads those too was told: isolation.level=read_committed
    bench.publish(bench.stage(MONDAY, events(*ROWS), order=2))
    bench.holds(MONDAY, ROWS)


def test_large_records_among_small_ones_go_to_the_dead_letters_of_the_same_transaction(bench: SinkBench) -> None:
    tolerant = bench.having(errors_tolerance="all", dead_letter_topic=f"{bench.sink.topic}.dead", max_rejects=2)
    row = tolerant.publish(bench.stage(MONDAY, sized(10, MAX_BYTES, 10, 3 * MAX_BYTES, 10)))
    assert (row.rows, row.counts["rejected"], seen(bench)) == (3, 2, 3)
    letters = records(bench.bootstrap, tolerant.sink.effective_dead_letter_topic)
    assert {letter.headers["__connect.errors.offset"] for letter in letters} == {"1", "3"}
    with pytest.raises(DataError, match="max_rejects=2"):
        tolerant.publish(bench.stage(TUESDAY, sized(10, *[MAX_BYTES] * 3)))
    assert len(records(bench.bootstrap, tolerant.sink.effective_dead_letter_topic)) == 2


@pytest.mark.parametrize("headers", [True, False])
def test_a_topic_that_takes_less_since_begin(bench: SinkBench, headers: bool) -> None:
    """Smaller batches are made then; a record that is too large by now is named."""
    bench = bench.having(headers=headers)
    small, large = bench.stage(MONDAY, sized(*[300] * 300)), bench.stage(TUESDAY, sized(*[300] * 30, 4_000))
    tokens = [bench.begin(small), bench.begin(large)]
    set_topic(bench.bootstrap, bench.sink.topic, max__message__bytes="5000")
    bench.put(tokens[0], small)
    assert seen(bench) == 300
    with pytest.raises(DataError, match=r"row 30: .* accepts 5,000"):
        bench.put(tokens[1], large)
    assert seen(bench) == 300


def test_a_topic_that_takes_less_since_begin_while_much_is_still_to_be_sent(bench: SinkBench) -> None:
    """The client refuses what comes after a broken batch, and says nothing of the reason."""
    staged = bench.stage(MONDAY, *(sized(*[900] * 400) for _ in range(20)))
    token = bench.begin(staged)
    set_topic(bench.bootstrap, bench.sink.topic, max__message__bytes="5000")
    bench.put(token, staged)
    assert seen(bench) == 8000


# Counting


def test_a_record_that_the_client_has_lost_keeps_the_day_from_being_committed(
    bench: SinkBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_provider_connect.clients.kafka import outbox as _kafka_outbox

    class Forgetful:
        """A client that loses one record without a word, as one would whose error is swallowed."""

        def __init__(self, made: Producer) -> None:
            self.made, self.calls = made, 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self.made, name)

        def __len__(self) -> int:
            return len(self.made)

        def produce_batch(self, topic: str, batch: list[Any], **more: Any) -> int:
            return self.made.produce_batch(topic, batch[1:], **more)

    made = _kafka_outbox.make_producer
    monkeypatch.setattr(_kafka_outbox, "make_producer", lambda *a, **more: Forgetful(made(*a, **more)))
    with pytest.raises(RetriableError, match="Nothing is committed"):
        bench.having(headers=False).publish(bench.stage(MONDAY, events(*ROWS)))
    assert seen(bench) == 0


# Time


def test_a_load_that_takes_longer_than_its_transaction_may_last_is_given_up_in_time(
    through: SinkBench, kafka_proxy: KafkaProxy
) -> None:
    bench = through.having(transaction_timeout_seconds=SECONDS)
    kafka_proxy.breaks(Api.PRODUCE, Slow(0.3), containing=bench.sink.topic.encode())
    staged = bench.stage(MONDAY, *(sized(*[900] * 400) for _ in range(10)))
    told = f"{MONDAY} into '{bench.sink.topic}': .*raise transaction_timeout_seconds"
    with pytest.raises(RetriableError, match=told):
        bench.publish(staged)
    kafka_proxy.heal()
    bench.publish_at_last(bench.stage(MONDAY, events(*ROWS)))
    bench.holds(MONDAY, ROWS)


def test_a_transaction_that_the_broker_has_ended_for_its_age(through: SinkBench, kafka_proxy: KafkaProxy) -> None:
    bench = through.having(transaction_timeout_seconds=2.0)
    staged, let_go = bench.stage(MONDAY, events(*ROWS)), threading.Event()
    rule = kafka_proxy.breaks(Api.END_TXN, Hold(let_go))  # all of them: the client asks again
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(bench.publish, staged)
        try:
            wait_until(lambda: rule.seen or done.done())
            bench.watch.caught_up()
            assert kafka_proxy.count(Api.INIT_PRODUCER_ID) == 1, "a next try has ended it, not the broker"
        finally:
            let_go.set()
        with contextlib.suppress(RetriableError):
            done.result(30)
    bench.publish_at_last(staged)
    bench.holds(MONDAY, ROWS)
    assert len(bench.records(MONDAY, "read_uncommitted")) > len(ROWS), "the first commit went through"


def test_a_transaction_longer_than_the_broker_allows_is_refused_before_anything(bench: SinkBench) -> None:
    long = bench.having(transaction_timeout_seconds=3601.0)
    [problem] = long.preflight()
    assert "transaction.max.timeout.ms" in problem
    with pytest.raises(ConfigError, match="INVALID_TRANSACTION_TIMEOUT: lower transaction_timeout_seconds"):
        long.publish(long.stage(MONDAY, events(*ROWS)))
    assert seen(bench, "read_uncommitted") == 0


# Topics


def test_a_topic_that_is_gone_since_begin_is_named_at_once(bench: SinkBench) -> None:
    staged = bench.stage(MONDAY, events(*ROWS))
    token = bench.begin(staged)
    bench.watch.look_away()
    drop_topic(bench.bootstrap, bench.sink.topic)
    started = time.monotonic()
    with pytest.raises(ConfigError, match=f"topic '{bench.sink.topic}' was deleted after the publish began"):
        bench.put(token, staged)
    assert time.monotonic() - started < 6
    bench.publish(staged)  # makes it again
    assert seen(bench) == len(ROWS)


def test_what_is_wrong_with_a_topic_is_said_before_the_source_is_asked(broker: KafkaBroker, bench: SinkBench) -> None:
    name = f"wrong-{uuid.uuid4().hex[:8]}"
    [missing] = bench.having(topic=name, create_disposition="never").preflight()
    assert "is missing" in missing
    make_topic(broker.bootstrap, name, cleanup__policy="compact", min__insync__replicas="2")
    problems = " ".join(bench.having(topic=name, key_fields=()).preflight())
    assert "cleanup.policy is compact" in problems
    assert "min.insync.replicas is 2" in problems


def test_enough_replicas_are_missing_for_a_while(through: SinkBench, kafka_proxy: KafkaProxy) -> None:
    """Also where the broker loses its producer's state: a try that fails leaves nothing behind."""
    # NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, INVALID_PRODUCER_ID_MAPPING's neighbours
    for number, code in enumerate((19, 56, 67)):
        day = MONDAY + number * ONE_DAY
        rule = kafka_proxy.breaks(Api.END_TXN, Refuse(code), 1)
        through.publish_at_last(through.stage(day, events(*ROWS)))
        assert rule.seen, code
        kafka_proxy.heal()
        through.holds(day, ROWS)


# The registry


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_registry_that_is_away_is_asked_before_the_first_record(bench: SinkBench) -> None:
    away = Connection(conn_id="registry", conn_type="http", host=f"http://127.0.0.1:{unused_port()}")
    sink = bench.sink.model_copy(
        update={"value_converter": "avro", "registry_conn_id": "registry", "timeout_seconds": SECONDS}
    )
    staged = bench.stage(MONDAY, events(*ROWS))
    connections = bench.connections | {"registry": away}
    with pytest.raises(RetriableError):
        sink.open(KEY, connections).begin(staged)
    assert seen(bench, "read_uncommitted") == 0
    assert bench.ledger.row(MONDAY) is None


def test_dead_tries_are_seen_by_those_alone_who_read_uncommitted_records(
    through: SinkBench, kafka_proxy: KafkaProxy
) -> None:
    for number, code in enumerate((48, 49)):
        day = MONDAY + number * ONE_DAY
        rule = kafka_proxy.breaks(Api.END_TXN, Refuse(code), 1)
        through.publish_at_last(through.stage(day, events(*ROWS)))
        assert rule.seen, code
        kafka_proxy.heal()
        through.holds(day, ROWS)
        assert len(through.records(day, "read_uncommitted")) > len(ROWS), code
