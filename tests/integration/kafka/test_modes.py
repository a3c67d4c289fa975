"""How the Kafka sink delivers: a day or a file in a transaction, none at all, reloads and empty days."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.kafka.outbox import Outbox
from airflow_provider_connect.clients.kafka.transaction import Transaction
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, OvertakenError, RetriableError
from airflow_provider_connect.sinks._kafka.delivery import DayDelivery
from tests.equipment.frozen import MONDAY, TUESDAY, events
from tests.equipment.kafka.scene import Scene, scene_of
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
CANARY = "canary-7f3a'\"{{"


@pytest.fixture
def scene(broker: KafkaBroker, tmp_path: Path) -> Scene:
    return scene_of(broker.bootstrap, tmp_path)


@pytest.fixture
def parts(scene: Scene) -> Scene:
    """A sink with a transaction for each staged file."""
    made = scene.having(atomicity="partition", partitions=2)
    assert made.preflight() == []
    return made


def numbered(prefix: str, count: int) -> pa.Table:
    return events(*(f"{prefix}{number}" for number in range(count)))


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def shown(page: str, function: str) -> str:
    """Return the code block of a page that defines a function."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    [block] = [block for block in blocks if f"def {function}(" in block]
    return str(block)


@pytest.mark.parametrize("options", [{}, {"atomicity": "partition"}])
def test_a_record_that_the_client_loses_is_noticed_before_the_commit(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    sink = scene.having(**options)
    assert sink.preflight() == []
    staged = sink.stage(MONDAY, events("a", "b", "c"))
    sent = Outbox.send_with_headers

    def losing(outbox: Outbox, topic: str, *given: Any) -> None:
        *columns, size_bytes = given
        sent(outbox, topic, *(column[:-1] for column in columns), size_bytes)

    monkeypatch.setattr(Outbox, "send_with_headers", losing)
    with pytest.raises(
        RetriableError, match="3 rows were staged and 3 records were expected, but the client accepted 2"
    ):
        sink.publish(staged)
    assert sink.records() == []
    assert sink.ledger.row(MONDAY) is None
    monkeypatch.setattr(Outbox, "send_with_headers", sent)
    assert sink.publish(staged).rows == 3


def test_a_record_that_the_client_loses_is_noticed_without_a_transaction_too(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = scene.having(delivery="at_least_once", headers=False)
    assert sink.preflight() == []
    staged = sink.stage(MONDAY, events("a", "b", "c"))
    sent = Outbox.send_batch
    monkeypatch.setattr(Outbox, "send_batch", lambda outbox, topic, batch, size: sent(outbox, topic, batch[1:], size))
    with pytest.raises(
        RetriableError, match="3 rows were staged and 3 records were expected, but the client accepted 2"
    ):
        sink.publish(staged)
    assert sink.ledger.row(MONDAY) is None


# A transaction for each staged file


def test_parts_are_sent_at_once_and_a_retry_skips_what_is_there(parts: Scene) -> None:
    staged = parts.stage(MONDAY, *(numbered(f"{part}-", 50) for part in range(3)))
    token = parts.begin(staged)
    with ThreadPoolExecutor(4) as pool:
        first = list(pool.map(lambda part: parts.put(token, staged, part)[0], (0, 2)))
    assert parts.ledger.row(MONDAY) is None
    ends = len(parts.records())
    assert ends == 100
    again = parts.begin(staged)
    assert again.generation == token.generation == 1
    receipts = parts.put(again, staged)
    assert [receipts[0].entry, receipts[2].entry] == [first[0].entry, first[1].entry]
    row = parts.commit(again, staged, receipts)
    assert (row.rows, row.generation) == (150, 1)
    assert parts.keys() == {1: sorted(f"{part}-{number}" for part in range(3) for number in range(50))}
    assert parts.commit(again, staged, receipts) == row == parts.ledger.row(MONDAY)
    entry = parts.entry()
    for record in parts.records():
        begin, end = entry["offsets"][record.topic][str(record.partition)]
        assert begin <= record.offset < end


def test_two_runs_of_a_day_part_by_part_never_mix(parts: Scene) -> None:
    older = parts.stage(MONDAY, numbered("o", 3), numbered("O", 3), numbered("Ö", 3))
    newer = parts.stage(MONDAY, numbered("n", 3), order=2)
    first = parts.begin(older)
    parts.put(first, older, 0)
    second = parts.begin(newer)
    assert (first.generation, second.generation) == (1, 2)
    with pytest.raises(RetriableError, match=r"dag/run-2/task has begun to publish this day too"):
        parts.put(first, older, 2)
    receipts = parts.put(second, newer)
    with pytest.raises(RetriableError, match="dag/run-2/task has begun"):
        parts.commit(first, older, [])
    assert parts.commit(second, newer, receipts).generation == 2
    assert parts.keys() == {1: names("o", 3), 2: names("n", 3)}
    with pytest.raises(OvertakenError, match="dag/run-2/task has published generation 2"):
        parts.begin(older)


def test_a_part_that_is_being_sent_is_ended_by_the_run_that_claims_the_day(
    parts: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, newer = parts.stage(MONDAY, numbered("o", 3), numbered("O", 3)), parts.stage(MONDAY, events("n"), order=2)
    first = parts.begin(older)
    begun = Transaction.begin

    def overtaken(transaction: Transaction) -> None:
        """Let the newer run claim the day when the older one has sent its last record of a part."""
        begun(transaction)
        monkeypatch.setattr(Transaction, "begin", begun)
        tokens.append(parts.begin(newer))

    tokens: list[Any] = []
    monkeypatch.setattr(Transaction, "begin", overtaken)
    with pytest.raises(RetriableError, match=r"fenced by dag/run-2/task \(attempt"):
        parts.put(first, older, 1)
    assert parts.commit(tokens[0], newer, parts.put(tokens[0], newer)).generation == 2
    assert parts.keys() == {2: ["n"]}


def test_another_attempt_of_a_run_whose_files_differ_gets_a_generation_of_its_own(parts: Scene) -> None:
    first = parts.stage(MONDAY, numbered("a", 2), numbered("b", 2))
    parts.put(parts.begin(first), first, 0)
    second = parts.stage(MONDAY, numbered("b", 2), numbered("a", 2), attempt="2")
    assert parts.publish(second).generation == 2
    assert parts.keys() == {1: names("a", 2), 2: names("a", 2) + names("b", 2)}


def test_rejects_are_counted_over_all_parts(scene: Scene) -> None:
    schema = pa.schema([pa.field("event", pa.string()), pa.field("x", pa.float64())])
    bad = pa.table([["e"] * 2, [float("nan")] * 2], schema=schema)
    for delivery in ({"atomicity": "partition"}, {"delivery": "at_least_once"}):
        sink = scene.having(schema, errors_tolerance="all", max_rejects=3, **delivery)
        assert sink.preflight() == []
        with pytest.raises(DataError, match=r"4 rejects, more than max_rejects=3: .*4 rows cannot become records"):
            sink.publish(sink.stage(MONDAY, bad, bad))
        assert sink.ledger.row(MONDAY) is None
    looser = scene.having(schema, errors_tolerance="all", max_rejects=4, delivery="at_least_once")
    row = looser.publish(looser.stage(MONDAY, bad, bad, order=2, rejects=[b"{"]))
    assert (row.rows, row.counts["rejected"]) == (0, 5)


# Without transactions


def test_at_least_once_a_retry_sends_again_under_the_same_generation(scene: Scene) -> None:
    sink = scene.having(delivery="at_least_once")
    assert sink.preflight() == []
    staged = sink.stage(MONDAY, events("a"), events("b"))
    token = sink.begin(staged)
    sink.put(token, staged, 0)
    row = sink.publish(staged)
    assert (row.rows, row.generation) == (2, 1)
    assert sink.keys() == {1: ["a", "a", "b"]}
    twice = [record for record in sink.records() if record.key == b"a"]
    assert twice[0].headers == twice[1].headers
    assert twice[0].headers["connect.event_id"] == "a"
    assert sink.ledger.row(MONDAY) == row
    token = sink.begin(staged)
    assert sink.commit(token, staged, sink.put(token, staged)) == row
    newer = sink.publish(sink.stage(MONDAY, events("c"), order=2))
    assert newer.generation == 2
    again = sink.publish(staged)
    assert (again.generation, again.token, sink.ledger.row(MONDAY)) == (1, row.token, newer)


def test_at_least_once_two_runs_of_a_day_have_generations_of_their_own(scene: Scene) -> None:
    sink = scene.having(delivery="at_least_once")
    assert sink.preflight() == []
    older, newer = sink.stage(MONDAY, events("o")), sink.stage(MONDAY, events("n"), order=2)
    first, second = sink.begin(older), sink.begin(newer)
    sink.put(first, older)
    assert sink.commit(second, newer, sink.put(second, newer)).generation == 2
    assert sink.keys() == {1: ["o"], 2: ["n"]}


def test_at_least_once_an_older_run_that_wakes_up_in_its_commit_does_not_count(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = scene.having(delivery="at_least_once")
    assert sink.preflight() == []
    older, newer = sink.stage(MONDAY, events("o")), sink.stage(MONDAY, events("n"), order=2)
    token = sink.begin(older)
    receipts = sink.put(token, older)
    waits = DayDelivery.require_tolerated
    published = []

    def overtaken(attempt: DayDelivery, *given: Any) -> None:
        """Let the newer run publish between the older one's last look at the ledger and its record there."""
        waits(attempt, *given)
        monkeypatch.setattr(DayDelivery, "require_tolerated", waits)
        published.append(sink.publish(newer))

    monkeypatch.setattr(DayDelivery, "require_tolerated", overtaken)
    with pytest.raises(OvertakenError, match="dag/run-2/task has published generation 2"):
        sink.commit(token, older, receipts)
    assert sink.ledger.row(MONDAY) == published[0]
    assert sink.entry()["row"]["run"] == "dag/run-2/task"  # the last record of the key, which compaction keeps
    assert sink.newest_keys() == ["n"]


# K6: what takes longer than a transaction may


def test_k6_a_timeout_that_the_broker_does_not_allow_is_told_with_both_numbers(scene: Scene) -> None:
    [problem] = scene.having(transaction_timeout_seconds=7200).preflight()
    assert "7,200 is more than the broker allows (transaction.max.timeout.ms=3,600,000)" in problem
    assert scene.having(transaction_timeout_seconds=7200, delivery="at_least_once").preflight() == []


def test_k6_a_day_that_takes_too_long_is_refused_with_the_numbers(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_connect.sinks._kafka.planner.ROWS_PER_SECOND", 20)
    sink = scene.having(transaction_timeout_seconds=10)
    assert sink.preflight() == []
    large = sink.stage(MONDAY, numbered("a", 101))
    with pytest.raises(ConfigError, match=r"101 rows in one transaction take about 5 s at 20 rows/s \(assumed"):
        sink.publish(large)
    assert sink.records(isolation="read_uncommitted") == []
    in_parts = sink.having(atomicity="partition")
    assert in_parts.publish(in_parts.stage(MONDAY, numbered("a", 51), numbered("b", 50))).rows == 101
    [problem] = sink.preflight(TUESDAY)
    assert "or set atomicity='partition'" in problem
    assert "101 rows" in problem
    assert in_parts.preflight(TUESDAY) == []
    assert sink.having(delivery="at_least_once").preflight(TUESDAY) == []


# The ledger, and what is never told


def test_a_day_is_forgotten_as_the_docs_say(scene: Scene) -> None:
    found: dict[str, Any] = {}
    exec(shown("docs/kafka.md", "forget"), found)
    assert scene.preflight() == []
    scene.publish(scene.stage(MONDAY, events("a")))
    row = scene.publish(scene.stage(TUESDAY, events("b")))
    settings = {"bootstrap.servers": scene.bootstrap}
    found["forget"](settings, "conformance", "events", scene.sink.topic, str(MONDAY), scene.sink.ledger_topic)
    assert scene.ledger.row(MONDAY) is None
    assert list(scene.ledger.days()) == [TUESDAY]
    assert scene.ledger.row(TUESDAY) == row
    assert scene.publish(scene.stage(MONDAY, events("a"))).generation == 1


def test_a_foreign_record_in_the_ledger_is_no_guess(scene: Scene) -> None:
    from confluent_kafka import Producer

    assert scene.preflight() == []
    producer = Producer({"bootstrap.servers": scene.bootstrap, "log_level": 0})
    producer.produce(scene.sink.ledger_topic, key=b"mine", value=CANARY)
    assert producer.flush(20) == 0
    with pytest.raises(ConfigError, match="holds a record at offset 0 that no Kafka sink wrote") as caught:
        scene.ledger.days()
    assert CANARY not in str(caught.value)
    assert any("Use a separate ledger_topic" in problem for problem in scene.preflight())


def test_no_message_has_a_secret(scene: Scene) -> None:
    kafka = {"bootstrap.servers": scene.bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    kafka |= {"sasl.username": "u", "sasl.password": CANARY}
    registry = Connection(conn_id="registry", conn_type="http", host="http://127.0.0.1:9", login="u", password=CANARY)
    refused = scene.having(timeout_seconds=1)
    refused = replace(
        refused, connections={"kafka_default": Connection(conn_id="kafka_default", conn_type="kafka", extra=kafka)}
    )
    unregistered = scene.having(value_converter="avro", registry_conn_id="registry")
    unregistered.connections["registry"] = registry
    for sink, message in ((refused, "cluster|listener"), (unregistered, "registry")):
        with pytest.raises((ConfigError, RetriableError), match=message) as caught:
            sink.begin(scene.stage(MONDAY, events("a")))
        assert CANARY not in str(caught.value)
