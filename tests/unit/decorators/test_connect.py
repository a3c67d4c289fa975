from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, AssetAlias, task
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_connect.decorators.connect import connect_task
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.retry import ConnectRetryPolicy
from airflow_provider_connect.shapes import Constant, Drop
from tests.equipment.airflow.connectors import TinyLedger, TinySink, TinySource
from tests.unit.operators.conftest import (  # noqa: F401  # fixtures
    DONE,
    SparkSubmit,
    Supervisor,
    dag_run,
    ledger,
    spark_submit,
    supervisor,
    task_instance,
)
from tests.unit.operators.test_outlets import known_to_airflow

OWN = Asset("x-own://events")


class Decorated:
    """One decorated task in one DAG, and its context."""

    def __init__(self, function: Any, *args: Any, **options: Any) -> None:
        self.make = lambda: connect_task(**options)(function)
        self.args = args
        self.context: Any = {"dag_run": dag_run(), "ti": task_instance(), "outlet_events": OutletEventAccessors()}
        self.fresh()

    def fresh(self) -> None:
        """Read the DAG file once more, as each process does."""
        with DAG("dag", schedule=None, start_date=dt.datetime(2026, 10, 5, tzinfo=dt.UTC)) as dag:
            self.operator: Any = self.make()(*self.args).operator
        self.context["dag"] = dag

    def run(self) -> Any:
        self.operator.render_template_fields(self.context)
        return self.operator.execute(self.context)


def pair(ledger: TinyLedger, **options: Any) -> Any:  # noqa: F811
    return TinySource(conn_id="tiny_default", **options), TinySink(table=str(ledger.path))


@pytest.fixture(autouse=True)
def _worker(supervisor: Supervisor, spark_submit: SparkSubmit) -> None:  # noqa: F811
    spark_submit.does(DONE)


@pytest.mark.parametrize("argument", ["{{ ds }}", "{{ ds_nodash }}", "{{ ts }}"])
def test_a_function_that_names_the_day_gives_the_same_definition_each_day(
    ledger: TinyLedger,  # noqa: F811
    spark_submit: SparkSubmit,  # noqa: F811
    argument: str,
) -> None:
    """Else each day would be told as loaded otherwise, and runs at once would refuse each other's days."""

    def load(day: str, country: str = "AT") -> Any:
        return pair(ledger, where=f"country = '{country}' AND at < '{day}'")

    definitions = []
    for day, country in (("2026-10-05", "AT"), ("2026-10-06", "AT"), ("2026-10-06", "DE")):
        made = Decorated(load, argument, country, asset=OWN, days="2026-10-05")
        moment = dt.datetime.fromisoformat(f"{day}T00:00:00+00:00")
        made.context |= {"ds": day, "ds_nodash": day.replace("-", ""), "ts": moment.isoformat()}
        made.run()
        definitions.append(spark_submit.seen["job"]["definition"])
    first, second, other = definitions
    assert first == second
    assert first["narrowing"] != other["narrowing"]


def test_airflow_knows_the_decorator() -> None:
    assert task.connect is connect_task


def test_the_function_s_pair_is_moved(ledger: TinyLedger, spark_submit: SparkSubmit) -> None:  # noqa: F811
    def load(where: str, ti: Any) -> Any:
        """What it loads."""
        assert ti.task_id == "events"
        return pair(ledger, where=where)

    made = Decorated(load, "{{ ti.task_id }} {{ '{{' }}", asset=OWN, days="{{ '2026-10-05' }}", conf={"a.b": "c"})
    summary = made.run()
    assert [day["status"] for day in summary["days"]] == ["published"]
    job = spark_submit.seen["job"]
    assert (job["source"]["where"], job["days"][0]["date"]) == ("events {{", "2026-10-05")
    assert "a.b=c" in spark_submit.seen["argv"]
    event = made.context["outlet_events"][OWN]
    assert event.extra == summary
    operator = made.operator
    assert (operator.task_id, operator.doc_md, operator.retries) == ("load", "What it loads.", 3)
    assert operator.source["where"] == "events {{"
    assert operator.days == "2026-10-05"


def test_a_dict_has_more_of_the_operator_s_arguments(ledger: TinyLedger, spark_submit: SparkSubmit) -> None:  # noqa: F811
    def load() -> dict[str, Any]:
        source, sink = pair(ledger)
        return {"source": source, "sink": sink, "days": "2026-10-05", "on_empty": "accept"}

    made = Decorated(load)
    made.context["dag_run"] = dag_run(data_interval_start=None, data_interval_end=None, logical_date=None)
    assert made.run()["days"]
    assert spark_submit.seen["job"]["on_empty"] == "accept"
    assert made.operator.outlets == []


def test_shapes_are_given_to_either_and_may_be_templates(
    ledger: TinyLedger,  # noqa: F811
    spark_submit: SparkSubmit,  # noqa: F811
) -> None:
    def load() -> Any:
        return pair(ledger)

    Decorated(load, shape=[Constant(column="run", value="{{ dag_run.run_id }}"), Drop(columns=["ip"])]).run()
    shaped = [{"constant": {"column": "run", "value": "scheduled__2026-10-06"}}, {"drop": {"columns": ["ip"]}}]
    assert spark_submit.seen["job"]["shape"] == shaped

    def shapes() -> Any:
        source, sink = pair(ledger)
        return {"source": source, "sink": sink, "shape": [Drop(columns=["email"])]}

    Decorated(shapes).run()
    assert spark_submit.seen["job"]["shape"] == [{"drop": {"columns": ["email"]}}]


def test_the_sink_s_own_asset_comes_through_an_alias(ledger: TinyLedger) -> None:  # noqa: F811
    alias = AssetAlias("loaded")
    made = Decorated(lambda: pair(ledger), outlets=[alias], task_id="load")
    summary = made.run()
    (event,) = made.context["outlet_events"][alias].asset_alias_events
    assert event.dest_asset_key.uri == Asset(uri=pair(ledger)[1].asset_uri).uri
    assert event.extra == summary


def test_without_an_asset_there_is_no_event(ledger: TinyLedger) -> None:  # noqa: F811
    made = Decorated(lambda: pair(ledger), outlets=[OWN], task_id="load")
    made.run()
    assert not made.context["outlet_events"]._dict


def test_each_day_is_an_event_s_partition(ledger: TinyLedger) -> None:  # noqa: F811
    made = Decorated(lambda: pair(ledger), asset=OWN, asset_events="day", task_id="load")
    made.run()
    assert made.context["outlet_events"][OWN].partition_keys == {"2026-10-05"}
    with pytest.raises(ConfigError, match="asset_events='day' needs asset="):
        Decorated(lambda: pair(ledger), asset_events="day", task_id="load")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda source, sink: None, r"load\(\) must return \(source, sink\), or a dict"),
        (lambda source, sink: source, "must return"),
        (lambda source, sink: (sink, source), "returned no source and no sink"),
        (lambda source, sink: {"source": source}, "returned no sink"),
        (lambda source, sink: {"source": source, "sink": sink, "retries": 1}, "returned retries, which Airflow needs"),
        (
            lambda source, sink: {"source": source, "sink": sink, "asset": OWN},
            "returned asset, which .* Pass it to @task",
        ),
        (lambda source, sink: {"source": source, "sink": sink, "dayz": ""}, "dayz: unknown argument; .* 'days'"),
        (lambda source, sink: {"source": source, "sink": sink, "on_empty": "x"}, "on_empty: cannot be 'x'"),
        (lambda source, sink: (TinySource(), sink), "conn_id: required"),
    ],
)
def test_a_wrong_result_of_the_function_fails_for_good(ledger: TinyLedger, given: Any, said: str) -> None:  # noqa: F811
    def load() -> Any:
        return given(*pair(ledger))

    with pytest.raises(AirflowFailException, match=said):
        Decorated(load).run()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"source": TinySource(conn_id="c")}, "source: returned by the function"),
        ({"ready_afte": 1}, "ready_afte: unknown argument; did you mean 'ready_after'"),
        ({"on_empty": "fall"}, "on_empty: cannot be 'fall'"),
        ({"asset": "x"}, "asset: must be an airflow.sdk.Asset"),
        ({"durable": True}, "durable: set by ConnectOperator itself"),
    ],
)
def test_wrong_arguments_are_refused_when_the_dag_file_is_read(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        connect_task(**options)


def test_after_a_wait_the_same_is_moved(ledger: TinyLedger, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    where = ["one"]
    made = Decorated(lambda: pair(ledger, where=where[0]), ready_after=dt.timedelta(days=100_000), task_id="load")
    with pytest.raises(TaskDeferred) as caught:
        made.run()
    wait = caught.value
    assert wait.method_name == "go_on"
    assert made.operator.days == "2026-10-05"  # is no argument: the same object may go on
    json.dumps(wait.kwargs)
    monkeypatch.setattr("airflow_provider_connect.operators.connect.ready_at", lambda *args: None)
    where[0] = "two"
    with pytest.raises(AirflowFailException, match=r"after a wait, <lambda>\(\) returned another source"):
        made.operator.go_on(made.context, {}, **wait.kwargs)
    made.fresh()
    where[0] = "one"
    assert made.operator.go_on(made.context, {}, **wait.kwargs)["days"]


def test_a_mapped_task_has_its_outlets_and_retries(ledger: TinyLedger) -> None:  # noqa: F811
    def load(where: str) -> Any:
        return pair(ledger, where=where)

    with DAG("dag", schedule=None, start_date=dt.datetime(2026, 10, 5, tzinfo=dt.UTC)) as dag:
        connect_task(asset=OWN, days="2026-10-05")(load).expand(where=["a", "b"])
        connect_task(task_id="plain")(load)("c")
    with DAG("own", schedule=None, default_args={"retries": 1}) as own:
        connect_task(load).expand(where=["a"])  # type: ignore[attr-defined]
    mapped: Any = dag.get_task("load")
    assert (mapped.retries, mapped.outlets) == (3, [OWN])
    assert isinstance(mapped.retry_policy, ConnectRetryPolicy)
    assert own.get_task("load").retries == 1
    assert known_to_airflow(dag) == [OWN.uri]
    known = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
    assert known.get_task("plain").has_retry_policy
    made = Decorated(load, "x")
    made.operator = mapped.unmap({"op_kwargs": {"where": "b"}})
    made.context["dag"] = dag
    made.run()
    assert made.operator.source["where"] == "b"
    assert made.context["outlet_events"][OWN].extra["days"]


def test_default_args_are_the_operator_s_too(ledger: TinyLedger, spark_submit: SparkSubmit) -> None:  # noqa: F811
    defaults = {"on_empty": "accept", "conn_id": "nowhere", "where": "x"}
    made = Decorated(lambda: pair(ledger), task_id="load", default_args=defaults, conn_id="spark_default")
    made.run()
    assert spark_submit.seen["job"]["on_empty"] == "accept"


def test_a_killed_task_stops_what_it_started(ledger: TinyLedger, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    made = Decorated(lambda: pair(ledger), task_id="load")
    made.operator.on_kill()  # before the function was called there is nothing to stop
    made.run()
    stopped: list[str] = []
    stop = "airflow_provider_connect.operators.connect.ConnectOperator.on_kill"
    monkeypatch.setattr(stop, lambda self: stopped.append(self.task_id))
    made.operator.on_kill()
    assert stopped == ["load"]
