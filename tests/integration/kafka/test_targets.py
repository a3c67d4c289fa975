"""Which topics a sink takes, and which it leaves alone or does not make: before anything is made or sent."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_connect.errors import ConfigError
from tests.equipment.frozen import MONDAY, SCHEMA, TUESDAY, events
from tests.equipment.kafka.bench import drop_topic
from tests.equipment.kafka.scene import Scene, scene_of
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow


@pytest.fixture
def plain(broker: KafkaBroker, tmp_path: Path) -> Scene:
    return scene_of(broker.bootstrap, tmp_path, headers=True)


def published(scene: Scene, *values: str) -> Scene:
    """Publish Monday as a job does: after a preflight that finds nothing."""
    assert scene.preflight() == []
    scene.publish(scene.stage(MONDAY, events(*values)))
    return scene


@pytest.mark.parametrize("headers", [True, False])
def test_a_template_beside_a_topic_of_the_same_stream_is_published(plain: Scene, headers: bool) -> None:
    published(plain, "signup")
    template = plain.having(topic=f"{plain.name}-{{event}}", headers=headers)
    assert template.preflight() == []
    assert template.publish(template.stage(MONDAY, events("signup"))).generation == 1
    assert len(template.records(f"{plain.name}-signup")) == 1
    assert plain.preflight() == []


def test_a_template_whose_day_goes_into_the_topic_of_the_same_stream_is_refused(plain: Scene) -> None:
    published(plain, "signup")
    template = plain.having(topic=f"{plain.name}-{{event}}")
    assert template.preflight() == []
    with pytest.raises(
        ConfigError, match=f"topic '{plain.sink.topic}' already holds .*, published with topic='{plain.sink.topic}'"
    ):
        template.publish(template.stage(MONDAY, events("events", "signup")))
    assert f"{plain.name}-signup" not in plain.topics()


def test_a_topic_that_a_template_of_the_same_stream_filled_is_refused_by_name(plain: Scene) -> None:
    template = published(plain.having(topic=f"{plain.name}-{{event}}"), "events")
    [problem] = plain.preflight()
    assert f"topic '{plain.sink.topic}' already holds conformance/events, published with topic=" in problem
    assert f"topic='{template.sink.topic}'" in problem


def test_a_lost_ledger_is_noticed_beside_a_topic_that_the_new_one_knows(plain: Scene) -> None:
    template = published(plain.having(topic=f"{plain.name}-{{event}}"), "signup")
    drop_topic(plain.bootstrap, plain.sink.ledger_topic)
    assert plain.preflight() == []
    plain.publish(plain.stage(TUESDAY, events("signup")))
    [problem] = template.preflight()
    assert f"topic '{plain.name}-signup' holds records of conformance/events, but ledger topic" in problem


@pytest.mark.parametrize("template", ["", "-{event}"])
def test_a_new_topic_that_would_forget_the_days_is_not_made(plain: Scene, template: str) -> None:
    """Once made, it would be refused for ever for the settings that it was made with."""
    schema = SCHEMA.append(pa.field("time", pa.timestamp("us", "UTC")))
    timed = plain.having(schema, timestamp_field="time", topic=plain.sink.topic + template)
    [problem] = timed.preflight()
    assert "retention.ms is 604800000" in problem
    assert timed.topics() == set()
    assert timed.having(schema, topic_config={"retention.ms": "-1"}).preflight() == []
