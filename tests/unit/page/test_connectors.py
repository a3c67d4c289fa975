from __future__ import annotations

import pytest

from airflow_provider_connect import offsets
from airflow_provider_connect.page.facts.connectors import ConnectorPair, _classes, connectors_of
from airflow_provider_connect.registry import names
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource


@pytest.mark.parametrize("room", ["sources", "sinks"])
def test_options_tell_every_connector_from_all_others(room: str) -> None:
    classes = _classes(room)
    assert [cls.name for cls in classes] == names(room)
    assert len({frozenset(cls.model_fields) for cls in classes}) == len(classes)


def test_a_task_s_rendered_fields_tell_its_source_and_sink() -> None:
    source = MixpanelSource(stream="export", zone="US/Pacific", event=["a"])
    sink = DeltaSink(path="/tables/events")
    found = connectors_of({"source": source.serialize(), "sink": sink.serialize(), "days": "2026-11-20"})
    assert found == ConnectorPair(source, sink)
    assert found.timezone == "US/Pacific"
    assert found.offset_key == offsets.variable_key(source, sink)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"source": None, "sink": "Truncated. You can change this behaviour"},
        {"source": {"conn_id": "x"}, "sink": {}},
        {
            "source": MixpanelSource().serialize() | {"stream": "***"},
            "sink": DeltaSink(path="/t").serialize() | {"path": 5},
        },
    ],
)
def test_what_is_masked_cut_or_missing_is_not_guessed(fields: dict[str, object]) -> None:
    assert connectors_of(fields) == ConnectorPair()
    assert connectors_of(fields).timezone is None
    assert connectors_of(fields).offset_key is None
