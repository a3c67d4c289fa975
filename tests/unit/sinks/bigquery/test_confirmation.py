"""The script of a confirmation as text: the fence, what it decides by, and the one row that it writes."""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.errors import ColumnError, ConflictError
from airflow_provider_connect.clients.bigquery.sql import column_list
from airflow_provider_connect.errors import OvertakenError, RetriableError
from airflow_provider_connect.sink import Publish
from airflow_provider_connect.sinks._bigquery import turns
from airflow_provider_connect.sinks._bigquery.decision import confirm_script, confirmed_row
from airflow_provider_connect.sinks._bigquery.ledger_rows import LEDGER_FIELDS
from airflow_provider_connect.sinks._bigquery.plan import LedgerStep
from airflow_provider_connect.sinks._bigquery.target import COLUMN_WAIT_SECONDS
from airflow_provider_connect.sinks._bigquery.turns import DML_PER_PUBLISH, pause_seconds
from tests.equipment.bigquery.turns import Turns, VirtualTime, statements, without_literals
from tests.equipment.clock import NoTime
from tests.unit.sinks.bigquery.test_publish import DAY, NOON, TARGET, TEXTS, answered, published

LEDGER = "`some-project.d.connect_ledger`"


def step(publish: Publish | None = None) -> LedgerStep:
    return LedgerStep(
        target=TARGET,
        staging=TARGET.sibling("events__stage_"),
        ledger=TARGET.sibling("connect_ledger"),
        publish=publish or replace(published(), answer="0a"),
    )


def test_the_confirmation_changes_the_fence_first_and_adds_its_row_after_the_decision() -> None:
    script = confirm_script(step())
    prelude, _, inside = script.partition("BEGIN TRANSACTION;\n")
    of_stream = "l.target = 'some-project.d.events' AND l.connector = 'mixpanel' AND l.stream = 'export'"
    assert inside.replace("connect_ledger.", "l.").startswith(
        f"UPDATE {LEDGER} AS connect_ledger SET published_at = CURRENT_TIMESTAMP()\n"
        f"  WHERE {of_stream} AND l.day IS NULL;\n"
    )
    before, _, after = inside.partition("IF outcome = 'confirmed' THEN\n")
    changes = re.compile(r"\b(INSERT INTO|DELETE FROM|MERGE INTO|UPDATE `)")
    assert (changes.findall(before), changes.findall(after)) == (["UPDATE `"], ["INSERT INTO"])
    assert "INSERT" not in after.partition("END IF;\nCOMMIT TRANSACTION;\n")[2]
    assert "INSERT" not in prelude


def test_a_confirmation_names_only_the_ledger_and_costs_no_more_than_a_publish() -> None:
    script = confirm_script(step())
    assert {*re.findall(r"`some-project[^`]*`", without_literals(script))} == {LEDGER}
    assert statements(script) == {LEDGER.strip("`"): DML_PER_PUBLISH}


def test_a_confirmation_compares_the_seen_generation_and_the_answer() -> None:
    cases = re.findall(r"WHEN (.*) THEN '(\w+)'", confirm_script(step()))
    assert cases == [
        ("seen.fences = 0", "unfenced"),
        ("seen.published IS NOT NULL", "already"),
        ("COALESCE(seen.erased, 0) != 0", "overtaken"),
        ("COALESCE(seen.newest, 0) != 2 OR COALESCE(seen.checks, 0) != 1", "overtaken"),
        ("COALESCE(seen.answer != '0a', TRUE)", "overtaken"),
    ]


def test_the_confirmations_row_copies_the_publish_except_run_and_poll_time() -> None:
    found = re.search(rf"INSERT INTO {LEDGER} \((.*)\)\n  SELECT (.*)\n  FROM", confirm_script(step()))
    assert found is not None
    columns = [field["name"] for field in LEDGER_FIELDS]
    assert found[1] == column_list(columns)
    selected = dict(zip(columns, found[2].split(", "), strict=True))
    assert {name: text for name, text in selected.items() if text != f"connect_ledger.`{name}`"} == {
        "token": "'t'",
        "run": "'dag/run/task'",
        "clear_number": "0",
        "polled_at": f"TIMESTAMP '{NOON:%Y-%m-%d %H:%M:%S.%f}+00:00'",
        "checks": "seen.checks + 1",
    }


@given(st.lists(TEXTS, min_size=4, max_size=4))
def test_values_of_a_confirmation_never_become_syntax(values: list[str]) -> None:
    stream, token, run, answer = values
    odd = step(replace(published(stream, token, run), answer=answer))
    assert without_literals(confirm_script(odd)) == without_literals(confirm_script(step()))


def answer_of(outcome: str) -> dict[str, Any]:
    return answered(outcome) | {"checks": 2, "answer": "0a"}


@pytest.mark.parametrize("outcome", ["confirmed", "already"])
def test_confirmed_and_already_give_the_ledger_row(outcome: str) -> None:
    row = confirmed_row(step(), answer_of(outcome))
    assert (row.day, row.generation, row.checks, row.answer, row.rows) == (DAY, 3, 2, "0a", 7)
    assert row.polled_at == NOON.astimezone(dt.UTC)


@pytest.mark.parametrize(
    ("outcome", "cls", "text"),
    [
        ("overtaken", OvertakenError, "dag/run/task has confirmed generation 3 since .* at generation 2"),
        ("unfenced", RetriableError, "confirm mixpanel/export 2026-09-01 .*lost the fence row"),
    ],
)
def test_every_other_outcome_of_a_confirmation_is_an_error(outcome: str, cls: type[Exception], text: str) -> None:
    with pytest.raises(cls, match=text):
        confirmed_row(step(), answer_of(outcome))


def test_every_outcome_of_the_confirm_script_is_handled() -> None:
    found = set(re.findall(r"(?:THEN|ELSE) '(\w+)'", confirm_script(step())))
    assert found == {"unfenced", "already", "overtaken", "confirmed"}


class Failing:
    """Fails with the first script, and answers the next ones."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.jobs: list[str] = []

    def query(self, sql: str, *, job_id: str, **_: Any) -> tuple[list[dict[str, Any]], None]:
        assert sql == confirm_script(step())
        self.jobs.append(job_id)
        if len(self.jobs) == 1:
            raise self.error
        return [answer_of("confirmed")], None


def test_a_confirmation_that_loses_its_turn_pauses_and_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "count_publishers", lambda *_: 4)
    api: Any = Failing(ConflictError("another transaction changed the same tables first"))
    clock = NoTime()
    assert turns.run_confirmation(api, step(), {}, clock=clock).checks == 2
    assert len(set(api.jobs)) == 2
    (pause,) = clock.pauses
    assert pause_seconds(4, 0.0) <= pause <= pause_seconds(4, 1.0)


def test_columns_just_added_to_the_ledger_are_left_to_airflows_retry() -> None:
    api: Any = Failing(ColumnError("Unrecognized name: checks"))
    with pytest.raises(RetriableError, match="queries do not know them yet") as caught:
        turns.run_confirmation(api, step(), {}, clock=NoTime())
    assert caught.value.retry_after_seconds == COLUMN_WAIT_SECONDS * 2
    assert len(api.jobs) == 1


@dataclass
class Service:
    """Takes scripts by turns, and lists no staging table, as confirmations have none."""

    turns: Turns

    def call(self, *_: Any, **__: Any) -> list[Any]:
        return []

    def query(self, sql: str, *, job_id: str, **_: Any) -> tuple[list[dict[str, Any]], None]:
        body = {"jobReference": {"jobId": job_id}, "configuration": {"query": {"query": sql}}}
        job = self.turns.enter(json.dumps(body).encode())
        if job is None:
            return [answer_of("confirmed")], None
        if job["status"]["errorResult"]["reason"] == "rateLimitExceeded":
            raise RetriableError("too many", retry_after_seconds=30)
        raise ConflictError("another transaction changed the same tables first")


@pytest.mark.parametrize("open_seconds", [0.5, 2.0, 6.0])
def test_sixteen_concurrent_confirmations_all_finish_below_the_dml_limit(
    open_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each loser comes back so late that all together stay below it, though nobody can count them."""
    monkeypatch.setattr(turns, "random", random.Random(7))
    clock = VirtualTime(16)
    service = Service(Turns(clock.now, open_seconds=open_seconds))

    def confirm(_: int) -> int:
        clock.sleep(0.0)
        try:
            return turns.run_confirmation(cast(BigQueryApi, service), step(), {}, clock=clock).checks
        finally:
            clock.done()

    with ThreadPoolExecutor(16) as threads:
        assert [*threads.map(confirm, range(16))] == [2] * 16
    assert service.turns.lost > 0, "nobody lost a turn: the test shows nothing"
    assert (service.turns.refused, service.turns.most <= 25) == (0, True)
    assert clock.seconds < 16 * open_seconds * 3 + 90
