"""A day that is found unchanged: a record in the ledger alone, whatever the delivery, and who meets whom there."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.clients.kafka.transaction import Transaction
from airflow_provider_connect.errors import ConfigError, OvertakenError, RetriableError
from airflow_provider_connect.readers.kafka import newest_days
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks._kafka.at_least_once import AtLeastOnceDelivery
from airflow_provider_connect.sinks._kafka.ledger.records import LedgerKey
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.testing.bench import DAYS, SCHEMA, Bench
from airflow_provider_connect.testing.bench import KEY as SUITES_KEY
from airflow_provider_connect.testing.bench import Target as BenchTarget
from airflow_provider_connect.testing.confirmations import ConfirmationCases
from tests.equipment.frozen import KEY, MONDAY, TUESDAY, events, intent
from tests.equipment.kafka.fixtures import Target
from tests.equipment.kafka.scene import Scene, scene_of
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow
DELIVERIES: dict[str, dict[str, Any]] = {
    "day": {},
    "parts": {"atomicity": "partition"},
    "at_least_once": {"delivery": "at_least_once"},
    "compacted": {"cleanup": "compact"},
}


class TestParts(ConfirmationCases):
    """The suite runs them over a day in one transaction; here over one for each staged file."""

    @pytest.fixture
    def bench(self, kafka_target: Target, tmp_path: Path) -> Iterator[Bench]:
        chosen = {name: getattr(kafka_target.sink, name) for name in kafka_target.sink.model_fields_set}
        own = replace(kafka_target, sink=KafkaSink(**chosen | DELIVERIES["parts"]))
        with own.sink.open(SUITES_KEY, own.connections) as publisher:
            assert publisher.preflight(SCHEMA, DAYS, "day") == []
            yield Bench(BenchTarget(own.sink, own.rows, own.connections), publisher, tmp_path)


@pytest.fixture
def scene(broker: KafkaBroker, tmp_path: Path) -> Scene:
    return scene_of(broker.bootstrap, tmp_path, partitions=2)


def staged(scene: Scene, *names: str, order: int = 1, answer: str = "a") -> Publish:
    return replace(scene.stage(MONDAY, events(*names), order=order), answer=answer)


def confirm(scene: Scene, publish: Publish) -> LedgerRow:
    return scene.publisher.confirm(publish)


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_readers_and_topics_notice_nothing(scene: Scene, delivery: str) -> None:
    sink = scene.having(**DELIVERIES[delivery])
    assert sink.preflight() == []
    sink.publish(staged(sink, "old"))
    sink.publish(staged(sink, "a", "b", order=2))
    sink.publish(sink.stage(TUESDAY, events("t")))

    def seen() -> Any:
        found = newest_days({"bootstrap.servers": sink.bootstrap}, sink.sink.topic, ledger_topic=sink.sink.ledger_topic)
        ends = sink._ends(sink.sink.topic, "read_uncommitted")
        return [(day, dict(day.spans)) for day in found], ends, sink.newest_keys(), sink.entry()["offsets"]

    before, again = seen(), staged(sink, "a", "b", order=3)
    row = confirm(sink, again)
    assert (row.checks, sink.ledger.row(MONDAY)) == (1, row)
    assert confirm(sink, again) == row
    assert seen() == before
    for order, generation in ((1, 1), (2, 2), (3, 2)):
        found = sink.ledger.published(MONDAY, intent(order).token)
        assert (found.generation, found.token) == (generation, intent(order).token)
    entry = sink.entry()
    covered = [(earlier["token"], earlier["generation"], earlier["rows"]) for earlier in entry["covered"]]
    assert [each[1:] for each in covered] == [(2, 2), (1, 1)]
    assert (entry["row"]["checks"], entry["row"]["run"], entry["row"]["rows"]) == (1, "dag/run-3/task", 2)


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_record_of_an_earlier_version_is_read_and_confirms_nothing(scene: Scene, delivery: str) -> None:
    sink = scene.having(**DELIVERIES[delivery])
    assert sink.preflight() == []
    sink.publish(staged(sink, "a"))
    entry = sink.entry()
    del entry["row"]["checks"], entry["row"]["answer"], entry["built_on_checks"]
    about = LedgerKey(KEY.connector, KEY.stream, sink.sink.topic, MONDAY).encode()
    producer = Producer({"bootstrap.servers": sink.bootstrap})
    producer.produce(sink.sink.ledger_topic, json.dumps(entry).encode(), about)
    assert producer.flush(10) == 0
    found = sink.ledger.row(MONDAY)
    assert (found.rows, found.checks, found.answer) == (1, 0, None)
    with pytest.raises(OvertakenError):
        confirm(sink, staged(sink, "a", order=2))
    assert sink.publish(staged(sink, "a", order=2)).generation == 2
    assert confirm(sink, staged(sink, "a", order=3)).checks == 1


def test_a_confirmation_ends_who_is_sending_an_older_answer(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = scene.having(turns="off")  # else it waits until the other one has sent its day
    assert sink.preflight() == []
    sink.publish(staged(sink, "a"))
    older, same = staged(sink, "o", order=2, answer="b"), staged(sink, "a", order=3)
    token, begun, made = sink.begin(older), Transaction.begin, []

    def overtaken(transaction: Transaction) -> None:
        begun(transaction)
        monkeypatch.setattr(Transaction, "begin", begun)
        made.append(confirm(sink, same))

    monkeypatch.setattr(Transaction, "begin", overtaken)
    with pytest.raises(RetriableError, match=r"fenced by .* a run that found the day unchanged"):
        sink.put(token, older)
    assert sink.ledger.row(MONDAY) == made[0]
    with pytest.raises(OvertakenError, match="dag/run-3/task has confirmed generation 1"):
        sink.put(token, older)
    assert sink.keys() == {1: ["a"]}


@pytest.mark.parametrize("first", ["confirmation", "publish"])
def test_without_transactions_the_first_in_the_ledger_counts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """The other one has looked before, and writes its record behind the one that counts."""
    sink = scene.having(delivery="at_least_once")
    assert sink.preflight() == []
    sink.publish(staged(sink, "a"))
    same, other = staged(sink, "a", order=2), staged(sink, "o", order=3, answer="b")
    token = sink.begin(other)
    receipts, settle, made = sink.put(token, other), AtLeastOnceDelivery._write_until_settled, []

    def overtaken(attempt: AtLeastOnceDelivery, *given: Any) -> None:
        monkeypatch.setattr(AtLeastOnceDelivery, "_write_until_settled", settle)
        made.append(confirm(sink, same) if first == "confirmation" else sink.commit(token, other, receipts))
        settle(attempt, *given)

    monkeypatch.setattr(AtLeastOnceDelivery, "_write_until_settled", overtaken)
    with pytest.raises(OvertakenError, match=f"has {'confirm' if first == 'confirmation' else 'publish'}ed generation"):
        sink.commit(token, other, receipts) if first == "confirmation" else confirm(sink, same)
    assert sink.ledger.row(MONDAY) == made[0]
    # The last record of the key, which compaction keeps, is the one that counts.
    assert sink.entry()["row"]["token"] == made[0].token
    assert sink.newest_keys() == (["a"] if first == "confirmation" else ["o"])


def test_what_is_gone_is_not_confirmed(scene: Scene) -> None:
    assert scene.preflight() == []
    scene.publish(staged(scene, "a"))
    same = staged(scene, "a", order=2)
    renamed = f"{scene.name}-{uuid.uuid4().hex}"
    elsewhere = scene.having(ledger_topic=renamed)
    with pytest.raises(ConfigError, match="has no day of it"):
        confirm(elsewhere, same)
