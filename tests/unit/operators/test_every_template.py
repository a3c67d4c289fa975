"""Every text of every connector's options takes a template: the models are walked, so that none is forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_provider_connect import registry
from airflow_provider_connect.sources.rest import RestSource
from tests.unit.operators.test_templates import make, rendered

LAKE = Asset(name="lake", uri="x-lake://all")
PARENT: dict[str, Any] = {
    "conn_id": "api",
    "stream": "repos",
    "request": {"path": "/repos", "params": {"state": "open"}, "headers": {"accept": "application/json"}},
    "paging": {"kind": "cursor", "at": "next", "param": "cursor", "ends": "no_token"},
    "records": {"at": "items", "key": ["id"], "columns": {"id": {"type": "bigint", "at": "nr"}, "name": "string"}},
    "snapshot": "replace",
}
REST = PARENT | {
    "stream": "comments",
    "request": {"path": "/repos/{parent.name}", "method": "POST", "body": {"filter": [{"state": "open"}]}},
    "parent": PARENT,
    "parent_columns": {"repo": "id"},
    "errors": [{"status": ["404"], "then": "ignore", "why": "deleted"}],
    "limits": {"remaining": "x-left", "reset": {"header": "x-reset"}},
}
EXAMPLES: dict[str, tuple[str, dict[str, Any]]] = {
    "rest": ("source", REST),
    "mixpanel": ("source", {"conn_id": "m", "event": ["a", "b"], "where": "x", "zone": "UTC"}),
    "sql": ("source", {"conn_id": "shop", "table": "orders", "day_column": "at", "where": "x > 1", "zone": "UTC"}),
    "x_search": ("source", {"conn_id": "x", "queries": ["cats", "dogs"]}),
    "bigquery": ("sink", {"conn_id": "g", "table": "a.b", "labels": {"team": "growth"}}),
    "delta": ("sink", {"path": "/lake/events"}),
    "kafka": ("sink", {"conn_id": "k", "topic": "events"}),
}


def texts(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each text in nested options."""
    if isinstance(value, str):
        yield place
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts(item, (*place, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from texts(item, (*place, number))


def with_template(value: Any, place: tuple[Any, ...]) -> Any:
    """Return the options with a template that renders to the text at a place."""
    if not place:
        return "{{ params.text }}"
    first, *rest = place
    if isinstance(value, list):
        return [with_template(item, tuple(rest)) if at == first else item for at, item in enumerate(value)]
    return {key: with_template(item, tuple(rest)) if key == first else item for key, item in value.items()}


def text_at(value: Any, place: tuple[Any, ...]) -> str:
    for step in place:
        value = value[step]
    return str(value)


CASES = [(name, place) for name, (_, options) in EXAMPLES.items() for place in texts(options)]


@pytest.mark.parametrize(("name", "place"), CASES, ids=[f"{name}-{'.'.join(map(str, place))}" for name, place in CASES])
def test_a_template_anywhere_gives_the_same_options(name: str, place: tuple[Any, ...]) -> None:
    role, options = EXAMPLES[name]
    cls: Any = registry.source_class(name) if role == "source" else registry.sink_class(name)
    templated = cls(**with_template(options, place))
    operator = rendered(make(**{role: templated}, asset=LAKE), text=text_at(options, place))
    assert getattr(operator, role).serialize() == cls(**options).serialize()


def test_every_connector_has_an_example() -> None:
    assert {name for room in ("sources", "sinks") for name in registry.names(room)} >= set(EXAMPLES)
    ours = {name for name in EXAMPLES if registry_knows(name)}
    assert ours == set(EXAMPLES)


def registry_knows(name: str) -> bool:
    return name in registry.names("sources") or name in registry.names("sinks")


def test_a_declaration_in_a_file_takes_templates(tmp_path: Any) -> None:
    file = tmp_path / "comments.yaml"
    file.write_text(
        "stream: repos\nrequest: {path: '/repos/{{ params.text }}'}\npaging: {kind: single}\n"
        "records: {key: [id], columns: {id: bigint}}\nsnapshot: replace\n"
    )
    operator = rendered(make(source=RestSource.from_file(file, conn_id="api"), asset=LAKE), text="all")
    assert operator.source.request.path == "/repos/all"
