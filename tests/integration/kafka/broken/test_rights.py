"""Rights that are missing, told before the first request to the source: which, on what, and whose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from tests.equipment.frozen import MONDAY, events
from tests.equipment.kafka.bench import make_topic
from tests.equipment.kafka.fixtures import opened_topics
from tests.equipment.kafka.scene import Scene, scene_of
from tests.equipment.kafka.secured import Right, Secured, allow, forbid

pytestmark = pytest.mark.slow


@pytest.fixture
def scene(cluster: Secured, tmp_path: Path) -> Iterator[Scene]:
    """A scene whose connection is that of a user without any rights."""
    made = scene_of(cluster.broker.bootstrap, tmp_path)
    made.connections["kafka_default"] = cluster.sasl("scram512", "SCRAM-SHA-512").model_copy(
        update={"conn_id": "kafka_default"}
    )
    yield made
    forbid(cluster, "scram512")


def rights(scene: Scene, *left_out: tuple[str, str]) -> list[Right]:
    """Return all rights that the docs ask for, but some: (the end of a topic's name, operation)."""
    events, ledger = scene.sink.topic, scene.sink.ledger_topic
    all_rights = [("TOPIC", events, right) for right in ("CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS")]
    all_rights += [("TOPIC", ledger, right) for right in ("CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS")]
    all_rights += [("TRANSACTIONAL_ID", "connect-", "WRITE")]
    return [right for right in all_rights if (right[1].rpartition("-")[2], right[2]) not in left_out]


def allowed(cluster: Secured, scene: Scene, *left_out: tuple[str, str]) -> Scene:
    allow(cluster, "scram512", *rights(scene, *left_out))
    return scene


def test_with_the_rights_that_the_docs_ask_for_a_day_is_published(cluster: Secured, scene: Scene) -> None:
    allowed(cluster, scene)
    assert scene.preflight() == []
    assert scene.publish(scene.stage(MONDAY, events("a"))).rows == 1


def test_without_any_right_all_topics_are_named_at_once(scene: Scene) -> None:
    found = scene.preflight()
    assert [text.partition(":")[0] for text in found] == [
        f"user 'scram512' lacks DESCRIBE and READ and WRITE on topic '{scene.sink.ledger_topic}'",
        f"user 'scram512' lacks DESCRIBE and WRITE on topic '{scene.sink.topic}'",
    ]


@pytest.mark.parametrize(
    ("topic", "operation", "told"),
    [
        ("events", "WRITE", "lacks WRITE on topic '{events}' (it has CREATE, DESCRIBE, DESCRIBE_CONFIGS, READ)"),
        ("events", "READ", "lacks READ on topic '{events}' (it has CREATE, DESCRIBE, DESCRIBE_CONFIGS, WRITE)"),
        ("ledger", "WRITE", "lacks WRITE on topic '{ledger}' (it has CREATE, DESCRIBE, DESCRIBE_CONFIGS, READ)"),
        ("ledger", "READ", "lacks READ on topic '{ledger}' (it has CREATE, DESCRIBE, DESCRIBE_CONFIGS, WRITE)"),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_the_right_that_is_missing_is_told_before_the_poll(
    cluster: Secured, scene: Scene, topic: str, operation: str, told: str, there: bool
) -> None:
    if there:
        make_topic(scene.bootstrap, scene.sink.topic)
        make_topic(scene.bootstrap, scene.sink.ledger_topic, cleanup__policy="compact")
    allowed(cluster, scene, (topic, operation))
    [problem] = scene.preflight()
    wanted = told.format(events=scene.sink.topic, ledger=scene.sink.ledger_topic)
    assert problem.startswith(f"user 'scram512' {wanted}: grant it")


@pytest.mark.parametrize("topic", ["events", "ledger"])
def test_a_topic_that_may_not_be_made_is_told_before_any_is(cluster: Secured, scene: Scene, topic: str) -> None:
    allowed(cluster, scene, (topic, "CREATE"))
    [problem] = scene.preflight()
    assert f"user 'scram512' lacks CREATE on missing topic '{scene.name}-{topic}'" in problem
    assert scene.topics() == set()


def test_the_right_on_transactional_ids_is_told_before_the_poll(cluster: Secured, scene: Scene) -> None:
    allow(cluster, "scram512", *[right for right in rights(scene) if right[0] == "TOPIC"])
    [problem] = scene.preflight()
    assert "WRITE and DESCRIBE on transactional ids that begin with 'connect-'" in problem
    assert scene.topics() == set()
    assert scene.having(delivery="at_least_once").preflight() == []


def test_a_right_on_a_topic_of_a_template_is_told_before_the_first_record(cluster: Secured, scene: Scene) -> None:
    template = scene.having(topic=f"{scene.name}-events-{{event}}")
    allowed(cluster, template.having(topic=f"{scene.name}-events"), ("events", "WRITE"))
    assert template.preflight() == []
    with pytest.raises(
        ConfigError, match=f"lacks WRITE on topic '{scene.name}-events-a' .*; .* '{scene.name}-events-b'"
    ):
        template.begin(template.stage(MONDAY, events("a", "b")))


def test_a_cluster_without_access_lists_allows_all(kafka_connection: Connection, broker: Any, tmp_path: Path) -> None:
    scene = scene_of(broker.bootstrap, tmp_path)
    assert scene.preflight() == []
    topics = opened_topics(kafka_connection, scene.sink.topic_rules, 20)
    assert topics.missing_rights({scene.sink.topic: ("READ", "WRITE", "ALTER_CONFIGS")}) == []
