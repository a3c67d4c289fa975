"""Days without a transaction, of runs that meet in the ledger: whose generation is whose, and which record stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sinks._kafka.claims import DayClaims
from airflow_provider_connect.sinks._kafka.ledger.records import DayEntry, LedgerKey
from tests.equipment.frozen import KEY, MONDAY, events
from tests.equipment.kafka.scene import Scene, scene_of
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow


@pytest.fixture
def sink(broker: KafkaBroker, tmp_path: Path) -> Scene:
    made = scene_of(broker.bootstrap, tmp_path, delivery="at_least_once")
    assert made.preflight() == []
    return made


@pytest.mark.parametrize("dies", [False, True])
def test_two_runs_that_claim_a_day_at_once_send_under_generations_of_their_own(
    sink: Scene, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    older, newer = sink.stage(MONDAY, events("o")), sink.stage(MONDAY, events("n"), order=2)
    record, tokens = DayClaims.new_claim, []

    def meets(claims: DayClaims, *given: Any) -> tuple[bytes, bytes]:
        """Let the newer run claim the day between the older one's look at the claims and its own."""
        monkeypatch.setattr(DayClaims, "new_claim", record)
        tokens.append(sink.begin(newer))
        if dies:
            monkeypatch.setattr(DayClaims, "new_claim", killed)
        return record(claims, *given)

    def killed(*_: Any) -> tuple[bytes, bytes]:
        """Stop before the next generation is claimed."""
        monkeypatch.setattr(DayClaims, "new_claim", record)
        raise RetriableError("killed")

    monkeypatch.setattr(DayClaims, "new_claim", meets)
    if dies:
        with pytest.raises(RetriableError, match="killed"):
            sink.begin(older)
    tokens.append(sink.begin(older))
    assert [token.generation for token in tokens] == [1, 2]
    for token, staged in zip(tokens, (newer, older), strict=True):
        sink.put(token, staged)
    assert sink.keys() == {1: ["n"], 2: ["o"]}


def test_the_record_that_counts_is_made_its_keys_last_again_by_whoever_reads_it(sink: Scene) -> None:
    """Its owner was overtaken by a loser that wrote the earlier winner again, and that died."""

    def entry(generation: int, attempt: str, built_on: int) -> DayEntry:
        row = {"day": str(MONDAY), "generation": generation, "token": attempt, "rows": 1, "attempt": attempt}
        return DayEntry.model_validate({"row": row, "built_on": built_on})

    won, lost, counts = entry(1, "won", 0), entry(1, "lost", 0), entry(2, "counts", 1)
    about = LedgerKey(KEY.connector, KEY.stream, sink.sink.topic, MONDAY).encode()
    producer = Producer({"bootstrap.servers": sink.bootstrap})
    for written in (won, lost, counts, won.rewritten_over(lost)):
        producer.produce(sink.sink.ledger_topic, written.model_dump_json().encode(), about)
    assert producer.flush(10) == 0
    assert sink.ledger.row(MONDAY).generation == 2
    assert sink.entry()["row"]["generation"] == 1
    staged = sink.stage(MONDAY, events("n"), order=3)
    assert sink.begin(staged).generation == 3
    assert sink.entry()["row"]["generation"] == 2
    assert sink.ledger.row(MONDAY).generation == 2
