from __future__ import annotations

import copy
import json
import runpy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from airflow_provider_connect import registry
from airflow_provider_connect.pipelines.schema import schema
from airflow_provider_connect.pipelines.yaml_files import read_yaml

EXAMPLES = sorted((Path(__file__).parents[3] / "dags" / "pipelines").glob("*.yaml"))


@pytest.fixture(scope="module")
def validator() -> Any:
    made = schema()
    jsonschema.Draft202012Validator.check_schema(made)
    return jsonschema.Draft202012Validator(made)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_valid(validator: Any, path: Path) -> None:
    validator.validate(read_yaml(path, path.name).values)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("nam",), "x"),
        (("name",), "two words"),
        (("source", "sql", "tabel"), "x"),
        (("source", "sql", "parallel_days"), "four"),
        (("source", "mixpanel"), {"conn_id": "x"}),
        (("sink",), {"deltaa": {"path": "/x"}}),
        (("schedule",), "@daily"),
        (("schedule",), {"cron": "0 0 * * *", "zone": "UTC"}),
        (("on_empty",), "fall"),
        (("row_bounds",), {"percents": 5}),
        (("outlets",), []),
    ],
)
def test_a_wrong_file_is_invalid(validator: Any, place: tuple[str, ...], value: Any) -> None:
    values = copy.deepcopy(read_yaml(EXAMPLES[0], "").values)
    inner: Any = values
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    assert not validator.is_valid(values)


def test_an_option_may_be_a_template_and_a_date_is_text(validator: Any) -> None:
    values = copy.deepcopy(read_yaml(EXAMPLES[0], "").values)
    values["source"]["sql"]["parallel_days"] = "{{ params.width }}"
    assert isinstance(values["start_date"], str)
    validator.validate(values)


def test_the_schema_has_every_connector_and_describes_the_operators_arguments(validator: Any) -> None:
    properties = validator.schema["properties"]
    assert set(properties["source"]["properties"]) == set(registry.names("sources"))
    assert set(properties["sink"]["properties"]) == set(registry.names("sinks"))
    assert "deferred" in properties["ready_after"]["description"]
    assert "`~" not in json.dumps(properties)
    assert "shape" in properties


def test_the_schema_is_printed(validator: Any, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_module("airflow_provider_connect.pipelines", run_name="__main__", alter_sys=True)
    assert json.loads(capsys.readouterr().out) == validator.schema


IS_NULL, IN = {"column": "a", "operator": "is_null"}, {"column": "b", "operator": "in", "value": [1]}
SHAPED: list[dict[str, Any]] = [
    {"filter": {"where": {"any": [IS_NULL, {"all": [IN]}]}}},
    {"extract": {"column": "a", "into": {"x": "STRING", "y": {"type": "BIGINT", "at": "/y"}}}},
    {"flatten": {}},
    {"mask": {"columns": ["a"], "conn_id": "key", "when": {"column": "b", "operator": "equals", "value": True}}},
]
WRONG: list[dict[str, Any]] = [
    {"drop": {"colums": ["a"]}},
    {"dropp": {}},
    {"drop": {"columns": ["a"]}, "flatten": {}},
    {"mask": {"columns": ["a"], "mode": "md5"}},
    {"filter": {"where": {"column": "a", "operator": "equal"}}},
]


def test_shapes_are_known_with_their_options() -> None:
    made = jsonschema.Draft202012Validator(schema())
    values = read_yaml(EXAMPLES[0], "").values
    made.validate(values | {"shape": SHAPED})
    for wrong in WRONG:
        assert not made.is_valid(values | {"shape": [wrong]}), wrong
