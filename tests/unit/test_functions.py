"""What ``transform=`` may be, and how the driver finds a function by its name."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.arguments import require_valid_values
from airflow_provider_connect.spark.transform.transformation import load_function, takes_day
from airflow_provider_connect.stage.transform import parse_transform, transform_problem


def test_the_driver_says_why_it_cannot_run_a_function() -> None:
    with pytest.raises(ConfigError, match="the driver cannot import 'nowhere'"):
        load_function(parse_transform("nowhere.there:f"))
    with pytest.raises(ConfigError, match="module json has no function 'nothing'"):
        load_function(parse_transform("json:nothing"))
    import json

    assert load_function(parse_transform("json:dumps")) is json.dumps
    assert load_function(parse_transform("SELECT 1")) is None


def test_a_function_with_two_parameters_gets_the_day() -> None:
    assert takes_day(lambda frame, day: frame)
    assert not takes_day(lambda frame: frame)
    assert not takes_day(lambda frame, *, day=None: frame)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "SELECT * FROM polled",
        "-- why\n/* and\nmore */ (with a AS (SELECT 1) SELECT * FROM a)",
        "FROM polled |> WHERE n > 0",
        "{{ var.value.query }}",
        "my_project.transforms:daily",
    ],
)
def test_what_may_be_a_transform(value: Any) -> None:
    assert transform_problem(value) is None
    require_valid_values("", {"transform": value})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "is empty"),
        ("-- nothing", "is empty"),
        ("DROP TABLE polled", "but begins with 'DROP'"),
        ("polled", "but begins with 'polled'"),
        (3, "not a int$"),
        (dict, "not a type"),
        (takes_day, "not a function. Put the function into a module that Spark's driver can import, such as a file in"),
    ],
)
def test_what_may_not(value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        require_valid_values("", {"transform": value})
