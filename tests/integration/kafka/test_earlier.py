"""Topics and ledgers of version 1.0.0rc1 are read, loaded on, reloaded and erased from by this version."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.readers.kafka import newest_days
from airflow_provider_connect.readers.kafka import records as read
from tests.equipment.earlier import kafka_topics
from tests.equipment.earlier.cases import FOLDER, Earlier, EarlierCases, earlier_of
from tests.equipment.earlier.scenes import KAFKA
from tests.equipment.earlier.stories import Shop
from tests.equipment.kafka.fixtures import records

pytestmark = pytest.mark.slow


def people(shop: Shop) -> list[str]:
    """Read the person of every row: of a compacted topic the live keys, else of each day's newest generation."""
    bootstrap, topic = kafka_topics.bootstrap_of(shop), shop.target["topic"]
    if shop.target.get("cleanup") == "compact":
        newest = {record.key: record.value for record in records(bootstrap, topic)}
        return [(key or b"").decode() for key, value in newest.items() if value is not None]
    settings = {"bootstrap.servers": bootstrap}
    days = newest_days(settings, topic, ledger_topic=shop.target["ledger_topic"], timeout_seconds=20)
    values = [message.value() for _, message in read(settings, days, timeout_seconds=20)]
    return [json.loads(value or b"")["person"] for value in values]


class TestKafka(EarlierCases):
    @pytest.fixture(params=KAFKA)
    def target(self, request: Any, broker: Any, tmp_path: Path) -> Earlier:
        scene, path = KAFKA[request.param], FOLDER / "kafka" / request.param
        shop = kafka_topics.shop_of(tmp_path, broker.bootstrap, f"e-{uuid.uuid4().hex[:12]}", scene)
        kafka_topics.lay_out(path, shop)
        return earlier_of(shop, scene, path, people)
