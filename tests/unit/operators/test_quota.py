"""A task reserves its requests before Spark starts, waits deferred for room, and is never failed by a quota."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_provider_connect.capabilities.source import HasQuota
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.hooks.variables import VariableStore
from airflow_provider_connect.operators import quota as quotas
from airflow_provider_connect.operators.quota import rank_of
from airflow_provider_connect.operators.quota_trigger import QuotaTrigger
from airflow_provider_connect.operators.retry import TryAgainError
from airflow_provider_connect.polling.quota.book import QuotaBook
from airflow_provider_connect.polling.quota.limits import Quota, QuotaClaim
from airflow_provider_connect.polling.quota.turns import Grant, Turns
from airflow_provider_connect.window import Day, group_days
from tests.equipment.airflow.connectors import TinyLedger, TinySource
from tests.unit.operators.conftest import DONE, SparkSubmit, Supervisor, Task, once

QUOTA = Quota("tiny", requests=3)


class CountedSource(TinySource, HasQuota):
    def quota(self, connection: Connection) -> Quota | None:
        return QUOTA


class GroupedSource(CountedSource):
    """Asks for two days at once."""

    def requests_for(self, days: Sequence[Day]) -> int:
        return len(group_days(days, 2))


@pytest.fixture
def counted(supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger) -> Task:
    return Task(ledger, source=CountedSource(conn_id="tiny_default"))


def turns() -> Turns:
    return Turns(VariableStore(), QUOTA)


def book() -> QuotaBook:
    return QuotaBook.read(QUOTA, VariableStore().keys("connect_quota/tiny/"))


def used() -> int:
    return book().used_requests(dt.datetime.now(dt.UTC).timestamp())


SENT = """
import time
publish("2026-10-05")
report(dict(day="2026-10-05", status="published", generation=1, rows_written=10), sent=[time.time()])
"""
NO_MORE = """
import time
failure = dict(type="QuotaError", message="the job may send 0 more", said={said})
report(dict(day="2026-10-05", status="not_started", failure=failure), failure=failure, sent=[time.time()],
       failed={{"2026-10-05": 1}})
sys.exit(75)
"""


def test_the_job_gets_an_allowance_and_unsent_requests_are_returned(counted: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does(SENT)
    counted.run()
    allowance = spark_submit.seen["job"]["allowance"]
    assert allowance["requests"] == 1, "there is no plenty to take spare ones from"
    assert used() == 1
    assert book().holds == {}
    assert book().waiting == []


def test_a_source_without_a_quota_has_no_allowance_and_no_keys(
    task: Task, spark_submit: SparkSubmit, supervisor: Supervisor
) -> None:
    spark_submit.does(DONE)
    task.run()
    assert spark_submit.seen["job"]["allowance"] is None
    assert not any(key.startswith("connect_quota/") for key in supervisor.variables)


def test_without_room_the_task_defers_and_starts_nothing(counted: Task, spark_submit: SparkSubmit) -> None:
    grant = turns().reserve(QuotaClaim("other", 3))
    assert isinstance(grant, Grant)
    with pytest.raises(TaskDeferred) as caught:
        counted.run()
    assert not (spark_submit.folder / "seen.json").exists()
    assert caught.value.method_name == "go_on"
    assert isinstance(caught.value.trigger, QuotaTrigger)
    turns().settle(grant, [])
    spark_submit.does(SENT)
    summary = getattr(counted.operator, caught.value.method_name)(counted.context, event={}, **caught.value.kwargs)
    assert summary["days"][0]["status"] == "published"
    assert book().waiting == [], "who has had a turn leaves the queue"


def test_a_killed_task_keeps_all_that_it_reserved(counted: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does("sys.exit(137)")
    with pytest.raises(TryAgainError):
        counted.run()
    assert len(book().holds) == 1


def test_a_job_that_was_never_submitted_keeps_nothing(
    counted: Task, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(AirflowFailException, match="PATH"):
        counted.run()
    assert book().holds == {}
    assert used() == 0


def test_wrong_connections_are_refused_before_anything_is_reserved(
    counted: Task, monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    with pytest.raises(AirflowFailException, match="spark_default"):
        counted.run()
    assert supervisor.variables == {}


def test_a_job_that_has_spent_its_part_goes_on_in_another_one_without_failing(
    counted: Task, spark_submit: SparkSubmit
) -> None:
    done_at_second = f"""
if (pathlib.Path(sys.argv[0]).parent / "once").exists():
    assert job["allowance"]["failed"] == {{"2026-10-05": 1}}, job["allowance"]
    {SENT.strip().replace(chr(10), chr(10) + "    ")}
else:
    (pathlib.Path(sys.argv[0]).parent / "once").touch()
    {NO_MORE.format(said=None).strip().replace(chr(10), chr(10) + "    ")}
"""
    spark_submit.does(done_at_second)
    assert counted.run()["days"][0]["status"] == "published"
    assert used() == 2


def test_the_vendors_count_is_noted_for_all_tasks_and_the_task_waits(counted: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does(NO_MORE.format(said="[4, 3, 0.0]"))
    with pytest.raises(TaskDeferred) as caught:
        counted.run()
    assert caught.value.kwargs["left"]["failed"] == {"2026-10-05": 1}
    (said,) = book().said
    assert (said.used, said.limit) == (4, 3)


def ran_out(after: int, *, has_all: bool = False) -> str:
    """Return a job whose day the vendor refused half way."""
    check = f'assert job["allowance"]["requests"] == {QUOTA.requests}, job["allowance"]' if has_all else ""
    return f"""{check}
failure = dict(type="QuotaError", message="no more", needs={after})
report(dict(day="2026-10-05", status="not_started", failure=failure), failure=failure, sent=[1.0],
       ran_out={{"2026-10-05": {after}}})
sys.exit(75)
"""


def test_a_day_that_ran_out_half_way_gets_more_in_its_next_job(counted: Task, spark_submit: SparkSubmit) -> None:
    """It begins again at its first page: with as few it would never come to the last one."""
    check = f'assert job["allowance"]["requests"] == {QUOTA.requests}, job["allowance"]'
    spark_submit.does(once(ran_out(2), f"{check}\n{SENT.strip()}"))
    assert counted.run()["days"][0]["status"] == "published"


def test_a_day_that_needs_more_than_an_hour_fails_with_a_remedy(counted: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does(once(ran_out(2), ran_out(3, has_all=True)))
    with pytest.raises(TryAgainError, match=r"ran out of requests after 3, though all of 3 requests an hour .* limits"):
        counted.run()


def test_days_of_which_one_ran_out_are_polled_one_after_the_other(counted: Task, spark_submit: SparkSubmit) -> None:
    """At once they would take the hour from each other again; and one that had only what others left goes on."""
    counted.operator.days = "2026-10-05..2026-10-06"
    first = ran_out(2).replace("report(", 'assert job["allowance"]["width"] == 2\nreport(')
    second = """
assert (job["allowance"]["requests"], job["allowance"]["width"]) == (3, 1), job["allowance"]
failure = dict(type="QuotaError", message="no more", needs=2)
report(dict(day="2026-10-05", status="published", generation=1, rows_written=10),
       dict(day="2026-10-06", status="not_started", failure=failure), failure=failure, sent=[1.0],
       ran_out={"2026-10-06": 2})
sys.exit(75)
"""
    third = """
publish("2026-10-05")
publish("2026-10-06")
report(dict(day="2026-10-05", status="already_published", generation=1, rows_written=10),
       dict(day="2026-10-06", status="published", generation=1, rows_written=5), sent=[1.0])
"""
    rest = once(second, third).replace('"once"', '"twice"')
    spark_submit.does(once(first, rest))
    assert [day["status"] for day in counted.run()["days"]] == ["published", "published"]


def test_days_of_a_group_that_are_polled_alone_are_reserved_one_by_one(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger
) -> None:
    """One request was reserved for the group. It ran into its deadline, and the job had none for the single days."""
    task = Task(ledger, source=GroupedSource(conn_id="tiny_default"))
    task.operator.days = "2026-10-05..2026-10-06"
    first = """
assert job["allowance"]["requests"] == 1, job["allowance"]
failure = dict(type="QuotaError", message="the job may send 0 more")
report(*(dict(day=f"2026-10-0{day}", status="not_started", failure=failure) for day in (5, 6)), failure=failure,
       sent=[1.0], alone=["2026-10-05", "2026-10-06"])
sys.exit(75)
"""
    second = """
assert job["allowance"]["requests"] == 2, job["allowance"]
for day in ("2026-10-05", "2026-10-06"):
    publish(day)
report(*(dict(day=f"2026-10-0{day}", status="published", generation=1, rows_written=1) for day in (5, 6)),
       sent=[1.0, 2.0])
"""
    spark_submit.does(once(first, second))
    assert [day["status"] for day in task.run()["days"]] == ["published"] * 2


def test_jobs_that_never_come_to_send_anything_end_in_a_retry(counted: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does(
        """
        failure = dict(type="QuotaError", message="has lapsed")
        report(dict(day="2026-10-05", status="not_started", failure=failure), failure=failure)
        sys.exit(75)
        """
    )
    with pytest.raises(TryAgainError, match="3 jobs in a row"):
        counted.run()


def test_the_trigger_fires_when_there_is_room_and_keeps_the_place(supervisor: Supervisor) -> None:
    want = QuotaClaim("me", 1)
    grant = turns().reserve(QuotaClaim("other", 3))
    assert isinstance(grant, Grant)
    wait = turns().join_queue(want)
    fast = Quota("tiny", requests=3, seconds=3600)
    trigger = QuotaTrigger(quota=asdict(fast), want=asdict(want), until=wait.until)
    path, fields = trigger.serialize()
    assert path == "airflow_provider_connect.operators.quota_trigger.QuotaTrigger"
    again = QuotaTrigger(**fields)

    async def fires_within(seconds: float, begin: Callable[[], None]) -> bool:
        waiting = asyncio.ensure_future(anext(again.run()))
        await asyncio.sleep(0.05)
        begin()
        done, _ = await asyncio.wait([waiting], timeout=seconds)
        waiting.cancel()
        return bool(done)

    assert not asyncio.run(fires_within(0.3, lambda: None))
    again.until = 0.0
    turns().settle(grant, [])
    assert asyncio.run(fires_within(5, lambda: None))
    assert [place.asker for place in book().waiting] == ["me"]


def test_an_unavailable_api_fails_no_waiting_task(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    away = iter([True, True])

    def keys(self: VariableStore, prefix: str) -> list[str]:
        if next(away, False):
            raise RuntimeError("the API server restarts")
        return []

    monkeypatch.setattr(VariableStore, "keys", keys)
    quota = Quota("tiny", seconds=0.6)
    trigger = QuotaTrigger(quota=asdict(quota), want=asdict(QuotaClaim("me", 1)), until=0.0)
    assert asyncio.run(asyncio.wait_for(anext(trigger.run()), 5)) is not None


def test_a_quota_that_cannot_be_checked_for_long_wakes_the_task(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait for ever, and nobody would see why; the task fails with the error."""

    def keys(self: VariableStore, prefix: str) -> list[str]:
        raise RuntimeError("nobody may list Variables here")

    monkeypatch.setattr(VariableStore, "keys", keys)
    quota = Quota("tiny", seconds=0.6)
    trigger = QuotaTrigger(quota=asdict(quota), want=asdict(QuotaClaim("me", 1)), until=0.0)
    assert asyncio.run(asyncio.wait_for(anext(trigger.run()), 5)) is not None


@pytest.mark.parametrize(
    ("run_type", "date", "rank"),
    [("scheduled", 6, 0), ("manual", 6, 0), ("scheduled", 1, 1), ("backfill", 6, 1), ("DagRunType.BACKFILL_JOB", 6, 1)],
)
def test_todays_run_comes_first(run_type: str, date: int, rank: int) -> None:
    now = dt.datetime(2026, 10, 7, 9, tzinfo=dt.UTC)
    assert rank_of(run_type, [Day(date=dt.date(2026, 9, 20)), Day(date=dt.date(2026, 10, date))], now) == rank


def test_a_long_window_begins_with_a_tenth_of_the_hour_and_a_day_with_one(counted: Task) -> None:
    for days, least in (("2026-01-01..2026-03-31", 6), ("2026-01-01", 1)):
        counted.operator.days = days
        order = counted.operator._build_spec(counted.context)  # type: ignore[arg-type]
        context: Any = counted.context
        made = quotas.QuotaRunner.for_task(order, Quota("q"), context, quotas.TaskProgress())
        assert made.want.least == least


def test_days_that_few_requests_serve_take_no_more_lanes_than_requests(
    counted: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountedSource, "requests_for", lambda self, days: -(-len(days) // 7))
    counted.operator.days = "2026-01-01..2026-01-14"
    order = counted.operator._build_spec(counted.context)  # type: ignore[arg-type]
    context: Any = counted.context
    want = quotas.QuotaRunner.for_task(order, Quota("q"), context, quotas.TaskProgress()).want
    assert (want.requests, want.width) == (2, 2)
