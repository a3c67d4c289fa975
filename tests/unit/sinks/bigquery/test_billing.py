"""A bound on billed bytes under which no publish can pass is found before the poll."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Literal

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks._bigquery.columns.types import make_columns
from airflow_provider_connect.sinks._bigquery.preflight import rehearse_publish
from airflow_provider_connect.sinks._bigquery.script import (
    MAX_TABLES_PER_STATEMENT,
    MIN_BILLED_BYTES_PER_TABLE,
    check_budget,
    publish_script,
)
from airflow_provider_connect.sinks._bigquery.tables import TargetTables
from airflow_provider_connect.sinks._bigquery.target import PreparedTarget
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from tests.equipment.bigquery.turns import without_literals
from tests.unit.sinks.bigquery.test_publish import PLANS, SCHEMA, TARGET

NEEDED = MAX_TABLES_PER_STATEMENT * MIN_BILLED_BYTES_PER_TABLE


@pytest.mark.parametrize(
    ("mode", "tables"), [("replace", 2), ("append", 2), ("rejects", 3), ("append with rejects", 3), ("merge", 3)]
)
def test_one_statement_names_at_most_three_tables(mode: str, tables: int) -> None:
    script = without_literals(publish_script(PLANS[mode]))
    named = [set(re.findall(r"`some-project\.[^`]+`", statement)) for statement in script.split(";\n")]
    assert max(map(len, named)) == tables <= MAX_TABLES_PER_STATEMENT


@pytest.mark.parametrize("budget", [10_000_000, NEEDED - 1])
def test_a_bound_too_small_for_any_publish_is_refused(budget: int) -> None:
    with pytest.raises(ConfigError, match=f"maximum_bytes_billed={budget:,}.*Set at least {NEEDED:,}"):
        check_budget(TARGET, budget)


def test_a_sufficient_bound_is_accepted() -> None:
    for budget in (NEEDED, None):
        check_budget(TARGET, budget)


@pytest.mark.parametrize("mode", ["replace", "append", "merge"])
def test_preflight_refuses_a_bound_that_is_too_small(mode: Literal["replace", "append", "merge"]) -> None:
    ready, stream = (
        PreparedTarget(make_columns(SCHEMA), None, (), None),
        StreamKey(connector="mixpanel", stream="export"),
    )
    key: tuple[str, ...] = ("id",) if mode == "merge" else ()
    for budget, refused in ((NEEDED - 1, True), (NEEDED, False), (None, False)):
        sink = BigQuerySink(table="d.events", write_mode=mode, key=key, maximum_bytes_billed=budget)
        with pytest.raises(ConfigError, match="is too small for any publish into") if refused else nullcontext():
            rehearse_publish(TargetTables(sink, "some-project"), stream, SCHEMA, ready)
