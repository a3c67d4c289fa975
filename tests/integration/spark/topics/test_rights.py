"""What a source does with few rights: the ledger of KafkaSinks may be hidden from its user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._kafka.opening import open_poller
from airflow_provider_connect.sources.kafka import KafkaSource
from airflow_provider_connect.window import Day
from tests.equipment.frozen import MONDAY, events
from tests.equipment.kafka.scene import Scene, scene_of
from tests.equipment.kafka.secured import Secured, allow, forbid

pytestmark = pytest.mark.slow

USER = "scram512"


@pytest.fixture
def scene(cluster: Secured, tmp_path: Path) -> Iterator[Scene]:
    """A day of two records in a topic, and a user without any rights."""
    made = scene_of(cluster.broker.bootstrap, tmp_path)
    assert made.preflight() == []
    made.publish(made.stage(MONDAY, events("a", "b")))
    made.connections["source"] = cluster.sasl(USER, "SCRAM-SHA-512")
    yield made
    forbid(cluster, USER)


def rows(scene: Scene, **options: Any) -> int:
    """Return the number of rows that the source reads."""
    source = KafkaSource(
        topics=[scene.sink.topic], ledger_topic=scene.sink.ledger_topic, value_converter="string", **options
    )
    poller = open_poller(source, scene.connections["source"])
    monday = MONDAY.date if isinstance(MONDAY, Day) else MONDAY
    parts = poller.plan([Day(date=monday)])
    return sum(batch.num_rows for part in parts for _, batch in poller.poll(part, Tally()))


def test_a_hidden_ledger_hides_no_topic_of_our_own_sink(cluster: Secured, scene: Scene) -> None:
    with pytest.raises(ConfigError, match=r"give the connection's user the right|is hidden from the connection's user"):
        rows(scene)
    allow(cluster, USER, ("TOPIC", scene.sink.topic, "READ"))
    with pytest.raises(ConfigError, match=r"its records have the header connect\.generation"):
        rows(scene)
    with pytest.raises(ConfigError, match="right on the topic"):
        rows(scene, read_by="generation")
    allow(cluster, USER, ("TOPIC", scene.sink.ledger_topic, "READ"))
    with pytest.raises(ConfigError, match="was written by a KafkaSink: ledger topic"):
        rows(scene)
    assert rows(scene, read_by="generation") == 2
