"""Schedules whose runs name no day of the source are refused when Airflow reads the DAG file."""

from __future__ import annotations

import datetime as dt
import textwrap
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import (
    DAG,
    Asset,
    AssetOrTimeSchedule,
    CronDataIntervalTimetable,
    CronPartitionTimetable,
    CronTriggerTimetable,
    DeltaDataIntervalTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
    TaskGroup,
)

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.timetables import daily, days_form, every
from tests.equipment.airflow.connectors import TinySink, TinySource

START = dt.datetime(2026, 10, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def task(zone_name: str = "UTC", **options: Any) -> ConnectOperator:
    source = TinySource(conn_id="c", zone_name=zone_name)
    return ConnectOperator(task_id="events", **({"source": source, "sink": TinySink()} | options))


def make(schedule: Any, zone_name: str = "UTC", params: Any = None, **options: Any) -> DAG:
    with DAG("d", schedule=schedule, start_date=START, params=params) as dag:
        task(zone_name, **options)
    return dag


@pytest.mark.parametrize(
    "schedule",
    [
        "@daily",
        "0 0 * * *",
        DAY,
        "@once",
        "@continuous",
        CronTriggerTimetable("0 0 * * *", timezone="UTC"),
        DeltaTriggerTimetable(DAY),
        MultipleCronTriggerTimetable("0 0 * * *", "0 12 * * *", timezone="UTC"),
        AssetOrTimeSchedule(timetable=CronTriggerTimetable("0 0 * * *", timezone="UTC"), assets=[Asset("a")]),
    ],
    ids=str,
)
def test_a_schedule_without_data_intervals_is_refused(schedule: Any) -> None:
    options = {"max_active_runs": 1} if schedule == "@continuous" else {}
    dag = DAG("d", schedule=schedule, start_date=START, **options)
    with pytest.raises(ConfigError, match=r"^ConnectOperator 'events': schedule of DAG 'd': .*no data inter") as caught:
        task("US/Pacific", dag=dag)
    remedy = "Set schedule=daily('US/Pacific') from airflow_provider_connect.timetables, or set days="
    assert remedy in str(caught.value)


@pytest.mark.parametrize(
    ("schedule", "zone_name"),
    [
        (daily("UTC"), "US/Pacific"),
        (daily("Europe/London"), "UTC"),  # the same midnights in winter alone
        (daily("America/Phoenix"), "US/Mountain"),
        (CronDataIntervalTimetable("0 6 * * *", timezone="UTC"), "UTC"),
        (CronDataIntervalTimetable("0 * * * *", timezone="UTC"), "UTC"),
        (every("1 hour", "UTC"), "UTC"),
        (CronDataIntervalTimetable("@weekly", timezone="Europe/Paris"), "UTC"),
    ],
)
def test_a_schedule_in_another_zone_than_the_source_is_refused(schedule: Any, zone_name: str) -> None:
    with pytest.raises(ConfigError, match=f"the source's days begin at midnight in {zone_name}"):
        make(schedule, zone_name)


@pytest.mark.parametrize(
    ("schedule", "zone_name"),
    [
        (daily("US/Pacific"), "US/Pacific"),
        (daily("US/Pacific"), "America/Los_Angeles"),
        (daily("UTC"), "Etc/UTC"),
        (CronDataIntervalTimetable("0 0 * * MON", timezone="UTC"), "UTC"),
        (CronDataIntervalTimetable("0 7 * * *", timezone="Etc/UTC"), "Etc/GMT+7"),  # midnight there
        (CronPartitionTimetable("0 0 * * *", timezone="UTC"), "US/Pacific"),
        (CronTriggerTimetable("0 0 * * *", timezone="UTC", interval=DAY), "UTC"),
        (DeltaDataIntervalTimetable(DAY), "UTC"),
        (None, "US/Pacific"),
        ([Asset("a")], "US/Pacific"),
        (daily("UTC"), "{{ params.zone }}"),
    ],
)
def test_other_schedules_pass(schedule: Any, zone_name: str) -> None:
    assert make(schedule, zone_name).task_ids == ["events"]


@pytest.mark.parametrize(
    "schedule",
    [every("15 minutes"), "*/15 * * * *", "@daily", "@once", CronDataIntervalTimetable("7 * * * *", timezone="UTC")],
    ids=str,
)
def test_increments_take_any_schedule(schedule: Any) -> None:
    followed = SqlSource(conn_id="c", table="t", mode="incrementing", incrementing_column="id")
    assert make(schedule, source=followed, sink=DeltaSink(path="/t")).task_ids == ["events"]


def test_days_of_the_task_or_a_default_of_the_form_make_any_schedule_pass() -> None:
    assert make("@daily", days="{{ ds }}").task_ids == ["events"]
    assert make("@daily", params={"days": "2026-10-01"}).task_ids == ["events"]
    with pytest.raises(ConfigError, match="no data interval"):
        make("@daily", params=days_form())


def test_a_schedule_is_checked_late_and_in_groups() -> None:
    late = task()
    with pytest.raises(ConfigError, match="no data interval"):
        late.dag = DAG("late", schedule="@daily", start_date=START)
    with pytest.raises(ConfigError, match="no data interval"):
        DAG("late", schedule="@daily", start_date=START).add_task(task())
    grouped = DAG("grouped", schedule="@daily", start_date=START)
    with grouped, TaskGroup("group"), pytest.raises(ConfigError, match=r"'events': schedule of DAG 'grouped'"):
        task()


def test_a_mapped_tasks_schedule_is_checked_unless_it_maps_days() -> None:
    with DAG("mapped", schedule="@daily", start_date=START):
        partial = ConnectOperator.partial(task_id="events", source=TinySource(conn_id="c"), sink=TinySink())
        assert partial.expand(days=["2026-10-05"]).task_id == "events"
        other = ConnectOperator.partial(task_id="other", source=TinySource(conn_id="c"))
        with pytest.raises(ConfigError, match="no data interval"):
            other.expand(sink=[TinySink(table="a"), TinySink(table="b")])


MISTAKES = {
    "on_empty": ("sink=sink, on_empty='nothing'", "on_empty: cannot be 'nothing'"),
    "days": ("sink=sink, days='2026-13-01'", "days: '2026-13-01' is neither 'YYYY-MM-DD'"),
    "memory": ("sink=sink, driver_memory='2 GB'", "driver_memory: must be a size such as '2g' or '512m', not '2 GB'"),
    "conf": ("sink=sink, conf={'spark.driver.memory': '2 GB'}", "conf: spark.driver.memory: must be a size"),
    "lookback": ("sink=TinySink(adds=True), lookback_days=1", "lookback_days loads days again"),
    "typo": ("sink=sink, lokback_days=1", "lokback_days: unknown argument; did you mean 'lookback_days'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_airflow_shows_the_dags_line_and_the_task_of_a_mistake(name: str, tmp_path: Path) -> None:
    arguments, text = MISTAKES[name]
    (tmp_path / "wrong.py").write_text(
        textwrap.dedent(
            f"""
            import datetime as dt
            from airflow.sdk import DAG
            from airflow_provider_connect.operators.connect import ConnectOperator
            from airflow_provider_connect.timetables import daily
            from tests.equipment.airflow.connectors import TinySink, TinySource
            source, sink = TinySource(conn_id="c"), TinySink()
            with DAG("wrong", schedule=daily(), start_date=dt.datetime(2026, 10, 1)):
                ConnectOperator(task_id="events", source=source, {arguments})
            """
        )
    )
    (error,) = DagBag(dag_folder=tmp_path).import_errors.values()
    assert f"ConfigError: ConnectOperator 'events': {text}" in error
    assert "wrong.py" in error
    assert f'ConnectOperator(task_id="events", source=source, {arguments})' in error


@pytest.mark.parametrize(
    "line",
    [
        "daily('Europe/Berln')",
        "TinySource(con_id='c')",
        "SqlSource(conn_id='c', tabel='t')",
        "ConnectOperator.partial(task_id='t', sorce=1)",
        "dags_from('*.yml')",
    ],
)
def test_other_mistakes_show_the_dags_line_too(line: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "from airflow.sdk import DAG\n"
        "from airflow_provider_connect.operators.connect import ConnectOperator\n"
        "from airflow_provider_connect.pipelines.dags import dags_from\n"
        "from airflow_provider_connect.sources.sql import SqlSource\n"
        "from airflow_provider_connect.timetables import daily\n"
        "from tests.equipment.airflow.connectors import TinySource\n"
        f"{line}\n"
    )
    (error,) = DagBag(dag_folder=tmp_path).import_errors.values()
    assert f'wrong.py", line 7, in <module>\n    {line}' in error
