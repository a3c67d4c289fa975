"""A day in parts, of which two tries have the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect.clients.kafka.transaction import Transaction
from airflow_provider_connect.errors import RetriableError
from tests.equipment.frozen import MONDAY, events
from tests.equipment.kafka.scene import scene_of
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow


def test_a_zombie_takes_no_id_from_the_try_that_has_claimed_the_day_since(
    broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = scene_of(broker.bootstrap, tmp_path, atomicity="partition")
    assert parts.preflight() == []
    staged = parts.stage(MONDAY, events("a"), events("b"))
    zombie, token = parts.begin(staged), parts.begin(staged)
    taken, fence = [], Transaction.fence

    def counted(transaction: Transaction) -> None:
        taken.append(transaction.id)
        fence(transaction)

    monkeypatch.setattr(Transaction, "fence", counted)
    with pytest.raises(RetriableError, match="has begun to publish this day too"):
        parts.put(zombie, staged, 0)
    assert taken == []
    assert parts.commit(token, staged, parts.put(token, staged)).generation == 1
    assert parts.keys() == {1: ["a", "b"]}
