"""A bound on billed bytes under which no publish can pass is found before the poll."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Literal

import pytest

from airflow_provider_connect.clients.bigquery.sql import literal
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks._bigquery.columns.types import columns
from airflow_provider_connect.sinks._bigquery.preflight import rehearse_publish
from airflow_provider_connect.sinks._bigquery.script import (
    LEAST_BYTES_OF_TABLE,
    check_budget,
    most_tables,
    publish_script,
)
from airflow_provider_connect.sinks._bigquery.tables import Tables
from airflow_provider_connect.sinks._bigquery.target import Ready
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from tests.unit.sinks.bigquery.test_publish import PLANS, REJECTS, SCHEMA, TARGET

LEDGER_STAGING_REJECTS = 3
NEEDED = LEDGER_STAGING_REJECTS * LEAST_BYTES_OF_TABLE


@pytest.mark.parametrize(
    ("mode", "tables"), [("replace", 2), ("append", 2), ("rejects", 3), ("append with rejects", 3), ("merge", 3)]
)
def test_what_one_statement_names_is_counted(mode: str, tables: int) -> None:
    assert most_tables(PLANS[mode], publish_script(PLANS[mode])) == tables


def test_what_a_text_says_is_no_table() -> None:
    said = f"{TARGET.sql} {PLANS['merge'].ledger.sql} ;\n {TARGET.sql}"
    script = publish_script(PLANS["rejects"]).replace("'export'", literal(said))
    assert literal(said) in script
    assert most_tables(PLANS["rejects"], script) == LEDGER_STAGING_REJECTS


@pytest.mark.parametrize("mode", ["rejects", "append with rejects"])
@pytest.mark.parametrize("budget", [10_000_000, NEEDED - 1])
def test_a_bound_under_which_no_publish_can_pass_is_refused(mode: str, budget: int) -> None:
    with pytest.raises(ConfigError, match=f"maximum_bytes_billed={budget:,}.*: at least {NEEDED:,}"):
        check_budget(PLANS[mode], publish_script(PLANS[mode]), budget)


def test_a_bound_that_may_do_is_taken() -> None:
    plan = replace(PLANS["merge"], rejects=REJECTS)
    for budget in (NEEDED, None):
        check_budget(plan, publish_script(plan), budget)


@pytest.mark.parametrize("mode", ["replace", "append", "merge"])
def test_preflight_refuses_it(mode: Literal["replace", "append", "merge"]) -> None:
    ready, stream = Ready(columns(SCHEMA), None, (), None), StreamKey(connector="mixpanel", stream="export")
    key: tuple[str, ...] = ("id",) if mode == "merge" else ()
    for budget, refused in ((NEEDED - 1, True), (NEEDED, False), (None, False)):
        sink = BigQuerySink(table="d.events", write_mode=mode, key=key, maximum_bytes_billed=budget)
        with pytest.raises(ConfigError, match="lets no day into") if refused else nullcontext():
            rehearse_publish(Tables(sink, "some-project"), stream, SCHEMA, ready)
