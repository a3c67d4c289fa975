"""A task that reconciles reserves the requests of the vendor's counts, too, and no limit is passed for them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_provider_connect.capabilities.source import Counts, HasQuota
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.hooks.variables import VariableStore
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.operators.quota_trigger import QuotaTrigger
from airflow_provider_connect.polling.quota.book import QuotaBook
from airflow_provider_connect.polling.quota.limits import Quota, QuotaClaim
from airflow_provider_connect.polling.quota.turns import Grant, Turns
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import Day
from tests.equipment.airflow.connectors import TinyLedger, TinySink, TinySource
from tests.unit.operators.conftest import SparkSubmit, Supervisor, Task, once

QUOTA, COUNTS = Quota("tiny", requests=30), Quota("counts", requests=30, per_second=2)


class CountedSource(TinySource, HasQuota, Counts):
    first: bool = False

    def quota(self, connection: Connection) -> Quota | None:
        return QUOTA

    def count_quota(self, connection: Connection) -> Quota | None:
        return COUNTS

    def count_problems(self) -> list[str]:
        return []

    @property
    def counts_first(self) -> bool:
        return self.first

    def requests_to_count(self, days: Sequence[Day]) -> int:
        return 3 * len(days)


def task_of(ledger: TinyLedger, *, first: bool = False, **options: Any) -> Task:
    return Task(ledger, source=CountedSource(conn_id="tiny_default", first=first), **options)


@pytest.fixture
def counted(supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger) -> Task:
    return task_of(ledger, reconcile="fail")


def book(quota: Quota) -> QuotaBook:
    return QuotaBook.read(quota, VariableStore().keys(f"connect_quota/{quota.name}/"))


def used(quota: Quota) -> int:
    return book(quota).used_requests(dt.datetime.now(dt.UTC).timestamp())


SENT = """
import time
publish("2026-10-05")
report(dict(day="2026-10-05", status="published", generation=1, rows_written=10), sent=[time.time()],
       counted=[time.time()] * 2)
"""
NO_MORE = """
import time
failure = dict(type="QuotaError", message="wants more")
report(dict(day="2026-10-05", status="not_started", failure=failure), failure=failure, {fields})
sys.exit(75)
"""


def test_both_quotas_are_reserved_and_unsent_requests_are_returned(counted: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does(SENT)
    counted.run()
    allowance = spark_submit.seen["job"]["count_allowance"]
    assert allowance["requests"] >= 3
    assert allowance["per_second"] == 2
    assert spark_submit.seen["job"]["rules"]["reconcile"] == "fail"
    assert (used(QUOTA), used(COUNTS)) == (1, 2)
    assert book(QUOTA).holds == book(COUNTS).holds == {}


@pytest.mark.parametrize(("first", "is_reserved"), [(False, False), (True, True)])
def test_without_reconcile_only_a_source_whose_plan_counts_reserves_for_that(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger, *, first: bool, is_reserved: bool
) -> None:
    spark_submit.does(SENT)
    task_of(ledger, first=first).run()
    assert (spark_submit.seen["job"]["count_allowance"] is not None) is is_reserved


def test_without_room_for_the_counts_the_task_gives_back_all_and_waits_for_that(
    counted: Task, spark_submit: SparkSubmit
) -> None:
    turns = Turns(VariableStore(), COUNTS)
    grant = turns.reserve(QuotaClaim("other", 30))
    assert isinstance(grant, Grant)
    with pytest.raises(TaskDeferred) as caught:
        counted.run()
    assert not (spark_submit.folder / "seen.json").exists()
    assert isinstance(caught.value.trigger, QuotaTrigger)
    assert caught.value.trigger.quota["name"] == "counts"
    assert used(QUOTA) == 0
    turns.settle(grant, [])
    spark_submit.does(SENT)
    summary = getattr(counted.operator, caught.value.method_name)(counted.context, event={}, **caught.value.kwargs)
    assert summary["days"][0]["status"] == "published"
    assert book(COUNTS).waiting == []


def test_the_vendors_refusal_of_counts_is_noted_for_counts_only(counted: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does(NO_MORE.format(fields="sent=[time.time()], counted=[time.time()], count_said=[31, 30, 0.0]"))
    with pytest.raises(TaskDeferred) as caught:
        counted.run()
    assert isinstance(caught.value.trigger, QuotaTrigger)
    assert caught.value.trigger.quota["name"] == "counts"
    assert book(QUOTA).said == []
    (said,) = book(COUNTS).said
    assert (said.used, said.limit) == (31, 30)


def test_a_killed_task_keeps_what_it_reserved_of_both(counted: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does("sys.exit(137)")
    with pytest.raises(Exception, match="killed"):
        counted.run()
    assert len(book(QUOTA).holds) == len(book(COUNTS).holds) == 1


def test_a_day_that_takes_more_requests_than_a_job_had_gets_them_in_the_next(
    counted: Task, spark_submit: SparkSubmit
) -> None:
    check = 'assert job["allowance"]["requests"] >= 9, job["allowance"]'
    spark_submit.does(once(NO_MORE.format(fields='needs={"2026-10-05": 9}, counted=[1.0]'), f"{check}\n{SENT.strip()}"))
    assert counted.run()["days"][0]["status"] == "published"


def test_a_day_that_turns_out_to_need_a_count_gets_one_reserved(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountedSource, "parts_at_once", 4)
    no_more = NO_MORE.format(fields='to_count=["2026-10-05"]').strip()
    first = f'assert job["count_allowance"] is None\n{no_more}'
    then = """
assert job["count_allowance"]["requests"] >= 3, job["count_allowance"]
assert job["allowance"]["width"] == 4, job["allowance"]
"""
    spark_submit.does(once(first, f"{then.strip()}\n{SENT.strip()}"))
    assert task_of(ledger).run()["days"][0]["status"] == "published"
    assert book(COUNTS).holds == {}


def test_a_day_that_needs_counts_waits_until_all_of_them_fit(counted: Task, spark_submit: SparkSubmit) -> None:
    turns = Turns(VariableStore(), QUOTA)
    assert isinstance(turns.reserve(QuotaClaim("other", 22)), Grant)
    spark_submit.does(NO_MORE.format(fields='needs={"2026-10-05": 9}, counted=[time.time()]'))
    with pytest.raises(TaskDeferred) as caught:
        counted.run()
    assert isinstance(caught.value.trigger, QuotaTrigger)
    assert caught.value.trigger.want["least"] == caught.value.kwargs["left"]["least"] == 9
    (spark_submit.folder / "seen.json").unlink()
    with pytest.raises(TaskDeferred):
        counted.operator.go_on(counted.context, event={}, **caught.value.kwargs)
    assert not (spark_submit.folder / "seen.json").exists(), "it is not forgotten over a wait"


def test_a_day_that_no_hour_has_room_for_is_refused(counted: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does(NO_MORE.format(fields='needs={"2026-10-05": 31}, counted=[1.0]'))
    with pytest.raises(AirflowFailException, match="a day takes 31 requests, and tiny allows 30 requests an hour"):
        counted.run()


def test_a_count_that_no_hour_has_room_for_is_refused(
    counted: Task, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountedSource, "requests_to_count", lambda source, days: 31 * len(days))
    with pytest.raises(AirflowFailException, match="count of a day takes 31 requests, and counts allows 30"):
        counted.run()
    assert not (spark_submit.folder / "seen.json").exists()


TWO_DAYS = """
import time
publish("2026-10-05")
failure = dict(type="QuotaError", message="wants more", said=[31, 30, 0.0])
report(dict(day="2026-10-05", status="published", generation=1, rows_written=10, poll_seconds=7.5),
       dict(day="2026-10-06", status="not_started", failure=failure),
       dict(day="2026-10-04", status="unchanged", lookback=True, generation=3), failure=failure,
       sent=[time.time()] * 3, counted=[time.time()] * 6)
sys.exit(75)
"""
REST = """
publish("2026-10-06")
report(dict(day="2026-10-05", status="already_published", generation=1, rows_written=10),
       dict(day="2026-10-06", status="published", generation=1, rows_written=5), sent=[1.0], counted=[1.0])
"""


def test_after_a_wait_only_the_days_that_are_left_are_counted_and_all_are_reported(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger
) -> None:
    ledger.append(dt.date(2026, 10, 4), generation=3, polled_at=dt.datetime(2026, 10, 5, 1, tzinfo=dt.UTC))
    task = task_of(ledger, reconcile="fail", days="2026-10-05..2026-10-06", lookback_days=1, origin="2026-10-01")
    spark_submit.does(TWO_DAYS)
    with pytest.raises(TaskDeferred) as caught:
        task.run()
    reserved = spark_submit.seen["job"]["count_allowance"]["requests"]
    assert reserved >= 9
    assert len(spark_submit.seen["job"]["lookback"]) == 1
    (said,) = book(QUOTA).said
    VariableStore().delete(f"connect_quota/{QUOTA.name}/{said.name}")
    kwargs = json.loads(json.dumps(caught.value.kwargs))
    spark_submit.does(REST)
    summary = task.operator.go_on(task.context, event={}, **kwargs)
    assert spark_submit.seen["job"]["count_allowance"]["requests"] == reserved - 6
    assert spark_submit.seen["job"]["lookback"] == [], "it is asked for once"
    assert [(day["day"], day["status"], day["poll_seconds"]) for day in summary["days"]] == [
        ("2026-10-05", "published", 7.5),
        ("2026-10-06", "published", 0.0),
        ("2026-10-04", "unchanged", 0.0),
    ]
    assert summary["rows_written"] == 15


def made(source: Any, **options: Any) -> ConnectOperator:
    return ConnectOperator(task_id="a", source=source, sink=TinySink(), **options)


@pytest.mark.parametrize(("source", "said"), [
    (TinySource(conn_id="c"), "reconcile='warn': source 'tiny' has no vendor's count"),
    (MixpanelSource(stream="engage"), "has no vendor's count of mixpanel_default.engage"),
    (MixpanelSource(where='properties["a"] == 1'), "List the events in option event"),
])  # fmt: skip
def test_a_source_without_a_count_is_refused(source: Any, said: str) -> None:
    assert made(source).rules.reconcile == "off"
    with pytest.raises(ConfigError, match=said):
        made(source, reconcile="warn")


def test_a_source_with_templates_is_checked_when_they_are_rendered() -> None:
    operator = made(MixpanelSource(where="{{ params.where }}"), reconcile="warn")
    operator.source = operator.source.rendered(lambda text: 'properties["a"] == 1')
    with pytest.raises(ConfigError, match="List the events"):
        operator._validate_rendered()


@pytest.mark.parametrize(("option", "said"), [
    ({"reconcile": "on"}, "reconcile: cannot be 'on'"),
    ({"reconcile_percent": -1}, "reconcile_percent: must be a number of percent"),
])  # fmt: skip
def test_wrong_options_are_refused(option: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(MixpanelSource(), **option)
