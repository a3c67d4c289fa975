"""Profiles of Mixpanel through Spark into a compacted topic, typed; a later snapshot sends what changed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.equipment.kafka.fixtures import Target, records
from tests.equipment.mixpanel import ENGAGE, expected_id
from tests.integration.conftest import Submitter
from tests.standins.mixpanel.engage import Engage
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.people import People

pytestmark = pytest.mark.slow

PEOPLE = People(seed=4, users=330)
PROMOTE = {"plan": "string", "revenue": "double", "logins": "bigint", "is_admin": "boolean"}
SOURCE = {"stream": "engage", "promote": PROMOTE}


@pytest.fixture
def profiles(submit: Submitter, kafka_target: Target, monkeypatch: pytest.MonkeyPatch) -> Submitter:
    submit.standin.people = PEOPLE
    submit.standin.engage = Engage(page_size=100)
    submit.sink_name = "kafka"
    submit.sink_connections = kafka_target.connections
    options = {
        "topic": kafka_target.sink.topic,
        "ledger_topic": kafka_target.sink.ledger_topic,
        "key_fields": ["distinct_id"],
        "cleanup": "compact",
        "partitions": 2,
    }
    monkeypatch.setattr(submit, "sink_options", lambda: options)
    return submit


def state(target: Target) -> dict[str, dict[str, Any]]:
    """Return what a reader of the topic knows at its end, by key."""
    newest = {
        (record.key or b"").decode(): None if record.value is None else json.loads(record.value)
        for record in records(target.bootstrap, target.sink.topic)
    }
    return {key: value for key, value in newest.items() if value is not None}


def expected(people: People) -> dict[str, list[Any]]:
    found = {expected_id(one): one["$properties"] for one in people.all()}
    return {key: [*(properties[name] for name in PROMOTE), properties] for key, properties in found.items()}


def shown(target: Target) -> dict[str, list[Any]]:
    return {key: [*(value[name] for name in PROMOTE), value["properties"]] for key, value in state(target).items()}


def test_a_typed_snapshot_and_the_one_of_the_day_after(profiles: Submitter, kafka_target: Target) -> None:
    profiles.standin.faults.replace([Fault("expired", path=ENGAGE, page=2)])
    first = profiles.here(["2026-11-10"], source=SOURCE).report
    assert first.failure is None
    (day,) = first.days
    assert (day.status, day.rows_written, day.failure) == ("published", 330, None)
    assert shown(kafka_target) == expected(PEOPLE)

    fewer = replace(PEOPLE, users=300)
    profiles.standin.people = fewer
    second = profiles.run(["2026-11-11"], token="b" * 32, source=SOURCE).report
    assert second.days[0].status == "published"
    assert shown(kafka_target) == expected(fewer)
    sent = records(kafka_target.bootstrap, kafka_target.sink.topic)
    assert sum(record.value is None for record in sent) == 30
    assert len(sent) == 330 + 30, "unchanged profiles are not sent again"
