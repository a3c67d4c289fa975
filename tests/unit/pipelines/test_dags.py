from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG

from airflow_provider_connect.completeness import RowBounds
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.pipelines.dags import dags_from
from airflow_provider_connect.pipelines.pipeline import DagOptions
from airflow_provider_connect.shapes import Drop
from airflow_provider_connect.timetables import daily

ORDERS = """\
name: orders
source: {sql: {conn_id: db, table: orders, day_column: created_at}}
sink:
  delta: {path: /data/orders}
"""


FOLLOWED = ORDERS.replace("day_column: created_at", "mode: incrementing, incrementing_column: id")


class Folder:
    """A folder with a DAG file and its pipelines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "pipelines").mkdir()

    def write(self, name: str, text: str) -> None:
        (self.path / "pipelines" / f"{name}.yaml").write_text(text)

    def dags(self, pattern: str = "pipelines/*.yaml") -> dict[str, DAG]:
        """Call dags_from as the DAG file would."""
        code = compile(f"made = dags_from({pattern!r})", str(self.path / "all.py"), "exec")
        names: dict[str, Any] = {"dags_from": dags_from}
        exec(code, names)
        return dict(names["made"])

    def dag(self, text: str) -> Any:
        self.write("one", text)
        (dag,) = self.dags().values()
        return dag

    def wrong(self, text: str) -> list[str]:
        """Return what is wrong with a file, its name left out."""
        self.write("one", text)
        with pytest.raises(ConfigError) as caught:
            self.dags()
        return [line.removeprefix("pipelines/one.yaml:") for line in str(caught.value).splitlines()[1:]]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_file_may_name_many_tables(folder: Folder) -> None:
    text = ORDERS.replace("table: orders, day_column: created_at", 'tables: ["public.*", "!*_log"], snapshot: replace')
    (task,) = folder.dag(text.replace("/data/orders", '"/data/{schema}/{table}"')).tasks
    assert (task.source.tables, task.sink.path) == (("public.*", "!*_log"), "/data/{schema}/{table}")
    assert [outlet.name for outlet in task.outlets] == ["delta:/data/{schema}/{table}"]
    (problem,) = folder.wrong(text)
    assert "path='/data/orders' of sink 'delta' has one target. Put {table} into it" in problem


def test_a_file_is_a_dag_with_one_task(folder: Folder) -> None:
    dag = folder.dag(
        ORDERS
        + """\
schedule: {daily: US/Pacific}
start_date: 2026-10-01
end_date: 2026-10-09T12:00:00Z
catchup: true
max_active_runs: 3
tags: [shop]
ready_after: PT2H
retry_delay: PT1M
lookback_days: 2
row_bounds: {percent: 50, over_days: 7}
reconcile: off
origin: 2026-09-01
asset: x-shop://orders
days: 2026-10-05
num_executors: 4
conf: {spark.ui.enabled: "false"}
"""
    )
    assert (dag.dag_id, dag.catchup, dag.max_active_runs, dag.tags) == ("orders", True, 3, {"shop"})
    assert dag.timetable == daily("US/Pacific")
    assert dag.start_date == dt.datetime(2026, 10, 1, tzinfo=ZoneInfo("US/Pacific"))
    assert dag.end_date == dt.datetime(2026, 10, 9, 12, tzinfo=dt.UTC)
    (task,) = dag.tasks
    assert (task.task_id, task.source.table, task.sink.path) == ("load", "orders", "/data/orders")
    assert (task.ready_after, task.retry_delay) == (dt.timedelta(hours=2), dt.timedelta(minutes=1))
    assert (task.lookback_days, task.rules.row_bounds) == (2, RowBounds(percent=50, over_days=7))
    assert (task.rules.reconcile, task.origin, task.days) == ("off", dt.date(2026, 9, 1), "2026-10-05")
    assert [outlet.uri for outlet in task.outlets] == ["x-shop://orders"]
    assert (task._num_executors, task.conf) == (4, {"spark.ui.enabled": "false"})
    assert (task.name, task.retries) == ("orders", 3)


def test_days_of_the_source_s_own_zone_unless_a_schedule_says_otherwise(folder: Folder) -> None:
    pacific = ORDERS.replace("day_column:", "zone: US/Pacific, day_column:") + "start_date: 2026-10-01\n"
    dag = folder.dag(pacific)
    assert dag.timetable == daily("US/Pacific")
    assert dag.start_date == dt.datetime(2026, 10, 1, tzinfo=ZoneInfo("US/Pacific"))
    assert not folder.dag(pacific + "schedule: null").timetable.can_be_scheduled
    cron = folder.dag(pacific + "schedule: {cron: 0 0 * * MON, timezone: America/Los_Angeles}")
    assert (cron.timetable.expression, str(cron.timetable.timezone)) == ("0 0 * * MON", "America/Los_Angeles")
    assert cron.start_date == dt.datetime(2026, 10, 1, tzinfo=ZoneInfo("America/Los_Angeles"))
    every = folder.dag(FOLLOWED + "schedule: {every: 15 minutes, timezone: America/Los_Angeles}")
    assert (every.timetable.expression, every.timetable.timezone) == ("*/15 * * * *", "America/Los_Angeles")
    problem = folder.wrong(pacific + "schedule: {cron: 0 6 * * MON, timezone: Europe/Paris}")
    assert "the source's days begin at midnight in US/Pacific. Set schedule=daily('US/Pacific')" in problem[0]


def test_airflow_finds_the_dags_of_a_call_alone(folder: Folder) -> None:
    folder.write("one", ORDERS)
    folder.write("two", ORDERS.replace("orders", "customers"))
    file = folder.path / "all.py"
    file.write_text(
        "from airflow_provider_connect.pipelines import dags_from\nglobals().update(dags_from('pipelines/*.yaml'))"
    )
    for text in (file.read_text(), file.read_text().replace("globals().update", "")):
        file.write_text(text)
        bag = DagBag(dag_folder=file)
        assert (sorted(bag.dags), bag.import_errors) == (["customers", "orders"], {})
        assert {dag.fileloc for dag in bag.dags.values()} == {str(file)}


def test_everything_that_is_wrong_in_all_files_is_one_import_error(folder: Folder) -> None:
    folder.write("good", ORDERS)
    folder.write("twin", ORDERS)
    folder.write(
        "wrong",
        """\
name: mixpanel events
source:
  mixpanel:
    conn_id: mixpanel_default
    streem: export
sink: {deltaa: {path: /x}}
schedule: {daily: US/Pacifik}
start_date: soon
ready_after: two hours
on_empty: fall
lookback_days: -1
max_active_run: 4
outlets: [x]
shrink_percent: 100
""",
    )
    file = folder.path / "all.py"
    file.write_text("from airflow_provider_connect.pipelines import dags_from\ndags_from('pipelines/*.yaml')")
    bag = DagBag(dag_folder=file)
    assert bag.dags == {}
    (message,) = bag.import_errors.values()
    said = [line for line in message.splitlines() if line.startswith("pipelines/")]
    assert "2 of 3 pipelines are wrong, and none is loaded:" in message
    starts = [
        "twin.yaml:1: name: pipelines/good.yaml has the same name 'orders'",
        "wrong.yaml:1: name: String should match pattern",
        "wrong.yaml:5: source.mixpanel.streem: unknown option; did you mean 'stream'?",
        "wrong.yaml:6: sink.deltaa: no sink is called 'deltaa'; did you mean 'delta'?",
        "wrong.yaml:7: schedule.daily: unknown time zone 'US/Pacifik': did you mean 'US/Pacific'",
        "wrong.yaml:8: start_date: must be a day or an instant, such as 2026-11-01",
        "wrong.yaml:9: ready_after: Input should be a valid timedelta",
        "wrong.yaml:10: on_empty: Input should be 'fail', 'accept' or 'never'",
        "wrong.yaml:11: lookback_days: must be a whole number of days, 0 or more, or 'measured', not -1",
        "wrong.yaml:12: max_active_run: unknown option; did you mean 'max_active_runs'?",
        "wrong.yaml:13: outlets: cannot be given in a file. Write the DAG in Python",
        "wrong.yaml:14: shrink_percent: must be a number of percent from 0 to below 100, not 100.0",
    ]
    unsaid = [start for start in starts if not any(line.startswith(f"pipelines/{start}") for line in said)]
    assert (unsaid, len(said)) == ([], len(starts))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", " must be a mapping of options"),
        ("- 1", " must be a mapping of options"),
        ("name: a\nsource: [", "2: is not valid YAML: "),
        ("{a: " * 5000, " is nested too deeply"),
        (ORDERS + "sink: {}\n", "5: sink: is a duplicate of line 3"),
        (ORDERS + "conf: {a: 1, a: 2}\n", "5: conf.a: is a duplicate of line 5"),
        (ORDERS + "? [a]\n: 1\n", "5: a name must be text"),
        (ORDERS + "tags: !!python/tuple []\n", "5: tags: the tag 'tag:yaml.org,2002:python/tuple' is not supported"),
        (ORDERS + "tags: &a [*a]\n", "5: is not valid YAML: anchors are not supported. Write out the values"),
        (ORDERS + "row_bounds:\n  percen: 5\n", "6: row_bounds.percen: unknown option; did you mean 'percent'?"),
        (ORDERS + "row_bounds: {over_days: 0}\n", "5: row_bounds.over_days: Input should be greater than"),
        (ORDERS + "schedule: 0 0 * * *\n", "5: schedule: must be daily, {daily: US/Pacific}"),
        (ORDERS + "schedule: {every: 7 minutes}\n", "5: schedule.every: must be a number of minutes that divides"),
        (ORDERS + "schedule: {cron: often}\n", "5: schedule.cron: is not a cron expression such as '0 0 * * MON'"),
        (ORDERS.replace("table: orders, ", ""), "2: source.sql: table: set one of table, tables and query"),
        (ORDERS + "  path: /x\n", "3: sink: must be a mapping with only the sink's name"),
        (ORDERS.replace("{path: /data/orders}", "/x"), "4: sink.delta: must be a mapping of options"),
        (ORDERS.replace("path:", "self:"), "4: sink.delta: self: unknown option"),
        ("name: a\n", "1: sink: required"),
        (ORDERS.replace("/data/orders", "'/data/{{ ds }}'"), "1: sink: '/data/{{ ds }}' is a template, so its asset"),
        (ORDERS + "task_id: a b\n", "1: "),
    ],
    ids=lambda value: value[-30:].replace("\n", " ") if isinstance(value, str) else "",
)  # fmt: skip
def test_a_problem_is_reported_with_its_line(folder: Folder, text: str, said: str) -> None:
    found = folder.wrong(text)
    assert any(line.startswith(said) for line in found), found


def test_bytes_that_are_not_text_are_refused(folder: Folder) -> None:
    (folder.path / "pipelines" / "bad.yaml").write_bytes(b"name: \xff")
    with pytest.raises(ConfigError, match=r"pipelines/bad.yaml: cannot be read: it is not text in UTF-8"):
        folder.dags()


@pytest.mark.parametrize("pattern", ["pipeline/*.yaml", "/nowhere/*.yaml"])
def test_a_pattern_that_finds_nothing_is_an_error(folder: Folder, pattern: str) -> None:
    with pytest.raises(ConfigError, match=f"'{pattern[:8]}.*{folder.path}"):
        folder.dags(pattern)


def test_no_value_stands_in_a_message(folder: Folder) -> None:
    found = folder.wrong(ORDERS.replace("table: orders", "table: 5, retry_budget_seconds: hunter2"))
    assert found
    assert "hunter2" not in "".join(found)


def test_templates_of_options_wait_for_the_run(folder: Folder) -> None:
    dag = folder.dag(ORDERS.replace("table: orders", "table: '{{ params.t }}'") + "params: {t: orders}\n")
    assert dag.tasks[0].source.table == "{{ params.t }}"


def test_a_dag_s_words_are_airflow_s_own() -> None:
    DAG(dag_id="d", **dict.fromkeys(DagOptions.model_fields.keys() - {"name", "tags", "params", "max_active_runs"}))
    assert {"catchup", "max_active_runs"} <= DagOptions.model_fields.keys()


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (
            "name: orders\nsource:\n  sql:\n  conn_id: shop\n  table: orders\nsink: {delta: {path: /data}}\n",
            ["2: source: conn_id, table stand beside sql. Indent them under sql"],
        ),
        (
            "name: orders\nsource: sql\nsink: {delta: {path: /data}}\n",
            ["2: source: must hold the source's options: {sql: {…}}"],
        ),
        (
            "name: orders\nsource: {type: sql, table: orders}\nsink: {delta: {path: /data}}\n",
            ["2: source: must be a mapping with only the source's name, which holds its options: {sql: {…}}"],
        ),
        (
            "name: orders\nsource:\n\tsql: {}\n",
            ["3: is not valid YAML: found character '\\t' that cannot start any token"],
        ),
        ("- name: orders\n", [" must be a mapping of options"]),
        (ORDERS + "start_date: 1.11.2026\n", ["5: start_date: must be a day or an instant, such as 2026-11-01"]),
    ],
    ids=["beside", "flat", "type", "tab", "list", "date"],
)  # fmt: skip
def test_one_mistake_is_one_problem(folder: Folder, text: str, problems: list[str]) -> None:
    found = folder.wrong(text)
    assert len(found) == len(problems), found
    assert all(line.startswith(problem) for line, problem in zip(found, problems, strict=True)), found


def test_shapes_are_named_in_lower_case(folder: Folder) -> None:
    operator = folder.dag(ORDERS + "shape: [{drop: {columns: [email]}}]\n").tasks[0]
    assert operator.shape == [Drop(columns=("email",))]
    assert folder.wrong(ORDERS + "shape:\n  - drop: {columns: [a]}\n  - dropp: {}\n  - drop: {colums: [a]}\n") == [
        "7: shape.1.dropp: no shape is called 'dropp'; did you mean 'drop'?",
        "8: shape.2.drop.colums: unknown option; did you mean 'columns'?",
    ]
