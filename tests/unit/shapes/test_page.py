"""The page on shapes: what it shows is right, and it names all there is."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.shapes import Chain
from airflow_provider_connect.shapes.chain import SHAPES
from airflow_provider_connect.shapes.condition import Operator
from airflow_provider_connect.values.ddl import PLAIN_TYPES

PAGE = (Path(__file__).parents[3] / "docs" / "shapes.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(yaml|python|text)\n(.*?)```", PAGE, re.DOTALL)
YAML = [yaml.safe_load(textwrap.dedent(code)) for language, code in BLOCKS if language == "yaml"]
TRANSFORMS = (
    *("Cast", "DropHeaders", "ExtractField", "Filter", "Flatten", "HeaderFrom", "HoistField", "InsertField"),
    *("InsertHeader", "MaskField", "RegexRouter", "ReplaceField", "SetSchemaMetadata", "TimestampConverter"),
    *("TimestampRouter", "ValueToKey", "predicate", "negate"),
)


@pytest.mark.parametrize("shown", YAML)
def test_lists_that_are_shown_are_right(shown: Any) -> None:
    assert Chain.of(shown["shape"] if isinstance(shown, dict) else shown)


def test_python_and_yaml_say_the_same() -> None:
    space: dict[str, Any] = {}
    exec(next(code for language, code in BLOCKS if language == "python"), space)
    assert Chain.of(space["shape"]) == Chain.of(YAML[0]["shape"])


def test_the_message_on_the_page_is_raised() -> None:
    chain = Chain.of([*YAML[0]["shape"][:2], {"drop": {"columns": ["propertis"]}}])
    schema = pa.schema([(name, pa.string()) for name in ("event", "distinct_id", "properties")])
    with pytest.raises(ConfigError) as error:
        chain.result_schema(schema)
    assert str(error.value) == next(code.strip() for language, code in BLOCKS if language == "text")


def test_each_shape_operator_type_and_transform_is_named() -> None:
    rows = re.findall(r"^\| (.*?) \|", PAGE, re.MULTILINE)
    assert {f"`{name}`" for name in SHAPES} <= set(rows)
    named = set(re.findall("`([^`]+)`", re.sub("```.*?```", "", PAGE, flags=re.DOTALL)))
    assert {*Operator.__args__, *PLAIN_TYPES, *TRANSFORMS} <= named  # type: ignore[attr-defined]
