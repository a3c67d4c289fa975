"""Turns at one ledger by a clock of the test's own: sixteen publishers stay below the limit, and all get through."""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_connect.clients.bigquery.api import LONG_WAIT_SECONDS
from airflow_provider_connect.clients.bigquery.errors import GoneError
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sinks._bigquery.columns.types import Field
from airflow_provider_connect.sinks._bigquery.script import publish_script
from airflow_provider_connect.sinks._bigquery.staging import staging_prefix, staging_table_for
from airflow_provider_connect.sinks._bigquery.target import COLUMN_WAIT_SECONDS
from airflow_provider_connect.sinks._bigquery.turns import (
    DML_PER_PUBLISH,
    DML_SECONDS,
    DML_STATEMENTS,
    MAX_PAUSE_SECONDS,
    count_publishers,
    pause_seconds,
    run_publish,
)
from tests.equipment.bigquery.server import Server, api_at, job
from tests.equipment.bigquery.turns import statements
from tests.unit.sinks.bigquery.test_publish import PLANS, TARGET


@pytest.mark.parametrize("mode", PLANS)
def test_dml_statements_of_a_publish_are_counted_for_each_table(mode: str) -> None:
    cost = statements(publish_script(PLANS[mode]))
    in_force = int(mode == "definition")  # the fence once more, where another came into force
    assert cost["some-project.d.connect_ledger"] == 2 + in_force  # the fence and the row
    assert cost[TARGET.id] == (1 if mode.startswith(("merge", "append", "forced")) else 2)
    assert max(cost.values()) == DML_PER_PUBLISH + in_force


def test_sql_words_inside_a_text_are_not_counted_as_statements() -> None:
    assert not statements(r"SELECT 'DELETE FROM `a.b.c` \' INSERT INTO `a.b.c` '")


def run(publishers: int, script_seconds: float, seed: int) -> tuple[int, float]:
    """Let publishers take turns; return the most DML statements of any ten seconds, and when the last one was done."""
    chance = random.Random(seed)
    due = [(chance.random() * 0.2, number) for number in range(publishers)]
    heapq.heapify(due)
    made: deque[float] = deque()
    free_at, waiting, most, end = 0.0, publishers, 0, 0.0

    def count(now: float) -> None:
        nonlocal most
        made.append(now)
        while made[0] <= now - DML_SECONDS:
            made.popleft()
        most = max(most, len(made))

    while due:
        now, number = heapq.heappop(due)
        count(now)
        if now < free_at:
            heapq.heappush(due, (now + pause_seconds(waiting, chance.random()), number))
            continue
        count(now)  # its row in the ledger
        free_at, waiting, end = now + script_seconds, waiting - 1, now + script_seconds
    return most, end


@pytest.mark.parametrize("script_seconds", [0.2, 1.0, 4.0, 12.0])
@pytest.mark.parametrize("publishers", [2, 5, 16])
def test_concurrent_publishers_stay_below_the_dml_limit_and_all_publish(publishers: int, script_seconds: float) -> None:
    runs = [run(publishers, script_seconds, seed) for seed in range(50)]
    assert max(most for most, _ in runs) <= DML_STATEMENTS
    longest = max(end for _, end in runs)
    assert longest < publishers * script_seconds * 3 + 90, f"{longest:.0f} s"


def test_pauses_are_bounded_and_a_single_publisher_waits_briefly() -> None:
    assert pause_seconds(10_000, 1.0) <= MAX_PAUSE_SECONDS * 1.5
    assert pause_seconds(0, 0.0) < 1


def table(*fields: Field) -> tuple[int, Any]:
    reference = {"projectId": TARGET.project, "datasetId": TARGET.dataset, "tableId": TARGET.table}
    return 200, {"tableReference": reference, "type": "TABLE", "schema": {"fields": list(fields)}}


def failed(message: str) -> tuple[int, Any]:
    status, body = job("invalidQuery")
    body["status"]["errorResult"]["message"] = f"Query error: {message} at [24:9]"
    return status, body


@pytest.mark.parametrize(
    "message",
    [
        "Column a_b is not present in table some-project.d.events",
        "Unrecognized name: a_b",
        "Query column 3 has type STRUCT<x INT64, y INT64> which cannot be inserted into column s, which has type "
        "STRUCT<x INT64>",
        "Value of type STRUCT<x INT64, y INT64> cannot be assigned to s, which has type STRUCT<x INT64>",
        "Field name y does not exist in STRUCT<x INT64>",
    ],
)
def test_columns_that_queries_do_not_know_yet_are_left_to_airflows_retry(server: Server, message: str) -> None:
    """Another publisher has added them: the table has them, and BigQuery's queries learn of it a moment later."""
    plan = PLANS["replace"]
    server.first, server.answer = [failed(message)], table(*(column.target for column in plan.layout.columns))
    with api_at(server.url) as api, pytest.raises(RetriableError, match="queries do not know them yet") as caught:
        run_publish(api, plan, {}, lambda: None)
    assert "or its ledger" in str(caught.value)
    assert caught.value.retry_after_seconds == COLUMN_WAIT_SECONDS * 2 > LONG_WAIT_SECONDS
    assert not isinstance(caught.value, GoneError), "the rows stay staged"


def test_another_error_is_final_where_the_columns_fit(server: Server) -> None:
    plan = PLANS["replace"]
    server.first, server.answer = (
        [failed("Division by zero")],
        table(*(column.target for column in plan.layout.columns)),
    )
    with api_at(server.url) as api, pytest.raises(ConfigError):
        run_publish(api, plan, {}, lambda: None)


def listed(server: Server, *names: str, **labels: str) -> None:
    tables = [
        {"tableReference": {"projectId": TARGET.project, "datasetId": "d", "tableId": name}, "labels": labels}
        for name in names
    ]
    server.answer = (200, {"tables": tables, "totalItems": len(tables)})


NAMES = ("events__stage_a1", "events__stage_b2", "events__stage_b2_rejects", "other__stage_a1", "other__stage_a2")


def test_only_staging_tables_of_the_same_target_are_counted(server: Server) -> None:
    listed(server, *NAMES, connect="staging")
    with api_at(server.url) as api:
        assert count_publishers(api, PLANS["replace"]) == 2


def test_in_a_staging_dataset_tables_are_counted_by_the_targets_full_name(server: Server) -> None:
    mine, second = (staging_table_for(staging_prefix(TARGET, "staging"), attempt) for attempt in ("a1", "a2"))
    other = staging_table_for(staging_prefix(TARGET.sibling("events2"), "staging"), "a1")
    listed(server, mine.table, second.table, other.table, connect="staging")
    with api_at(server.url) as api:
        assert count_publishers(api, replace(PLANS["replace"], staging=mine)) == 2


def test_a_table_without_the_staging_label_is_not_counted(server: Server) -> None:
    listed(server, *NAMES)
    with api_at(server.url) as api:
        assert count_publishers(api, PLANS["replace"]) == 0
