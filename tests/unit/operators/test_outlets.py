from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from airflow.dag_processing.collection import _get_dag_assets
from airflow.sdk import DAG, Asset, task
from airflow.serialization.definitions.assets import SerializedAsset
from airflow.serialization.serialized_objects import DagSerialization, LazyDeserializedDAG

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.connect import ConnectOperator
from tests.equipment.airflow.connectors import TinySink, TinySource

SOURCE = TinySource(conn_id="c")
A, B = TinySink(table="a"), TinySink(table="b")
OTHER = Asset(name="other", uri="x-other://thing")


def uris(operator: Any) -> list[str]:
    return [outlet.uri for outlet in operator.outlets]


def uri(*sinks: TinySink) -> list[str]:
    return [Asset(uri=sink.asset_uri).uri for sink in sinks]


@pytest.fixture
def dag() -> Any:
    with DAG("d", schedule=None, start_date=dt.datetime(2026, 10, 1, tzinfo=dt.UTC)) as dag:
        yield dag


def known_to_airflow(dag: DAG) -> list[str]:
    """Return what Airflow's DAG processor makes the outlets of a DAG in its database."""
    lazy = LazyDeserializedDAG(data=json.loads(json.dumps(DagSerialization.to_dict(dag))))
    return [asset.uri for _, asset in _get_dag_assets(lazy, SerializedAsset, inlets=False, outlets=True)]


def test_every_mapped_sink_has_its_asset(dag: DAG) -> None:
    mapped: Any = ConnectOperator.partial(task_id="many", source=SOURCE).expand(sink=[A, B], days=["2026-10-05"])
    assert uris(mapped) == known_to_airflow(dag) == uri(A, B)
    assert [uris(mapped.unmap({"sink": sink, "days": "2026-10-05"})) for sink in (A, B)] == [uri(A), uri(B)]


def test_a_part_of_a_dag_keeps_what_its_mapped_sinks_write(dag: DAG) -> None:
    ConnectOperator.partial(task_id="many", source=SOURCE).expand(sink=[A, B])
    mapped: Any = dag.partial_subset("many").get_task("many")
    assert uris(mapped) == uri(A, B)
    assert uris(mapped.unmap({"sink": B})) == uri(B)


def test_every_sink_of_expand_kwargs_has_its_asset(dag: DAG) -> None:
    own = Asset(name="own", uri="x-own://b")
    kwargs = [{"sink": A}, {"sink": B, "asset": own}, {"sink": A, "days": "2026-10-05"}]
    mapped: Any = ConnectOperator.partial(task_id="many", source=SOURCE, outlets=OTHER).expand_kwargs(kwargs)
    assert uris(mapped) == known_to_airflow(dag) == [OTHER.uri, *uri(A), own.uri]
    assert [uris(mapped.unmap(each)) for each in kwargs] == [
        [OTHER.uri, *uri(A)],
        [OTHER.uri, own.uri],
        [OTHER.uri, *uri(A)],
    ]


def test_an_outlet_of_the_user_s_own_takes_the_place_of_a_mapped_sink_s(dag: DAG) -> None:
    own = Asset(name="events", uri=uri(B)[0])
    mapped: Any = ConnectOperator.partial(task_id="many", source=SOURCE, outlets=[own]).expand(sink=[A, B])
    assert {outlet.name for outlet in mapped.outlets} == {"events", "tiny://a"}
    assert mapped.unmap({"sink": B}).outlets == [own]
    assert uris(mapped.unmap({"sink": A})) == uri(A)


def test_one_asset_stands_for_sinks_that_another_task_names(dag: DAG) -> None:
    @task
    def names() -> list[dict[str, Any]]:
        return []

    mapped: Any = ConnectOperator.partial(task_id="many", source=SOURCE, asset=OTHER).expand_kwargs(names())
    assert uris(mapped) == [OTHER.uri]
    assert uris(mapped.unmap({"sink": A})) == [OTHER.uri]


@pytest.mark.parametrize(
    "expand",
    [
        lambda partial, names: partial.expand(sink=names),
        lambda partial, names: partial.expand_kwargs(names),
        lambda partial, names: partial.expand_kwargs([{"sink": A}, names]),
        lambda partial, names: partial.expand_kwargs([{"sink": A, "asset": names}]),
    ],
    ids=["expand", "expand_kwargs", "one of expand_kwargs", "an asset"],
)
def test_sinks_that_only_another_task_knows_need_an_asset(dag: DAG, expand: Any) -> None:
    @task
    def names() -> list[Any]:
        return []

    partial = ConnectOperator.partial(task_id="many", source=SOURCE)
    with pytest.raises(ConfigError, match=r"of mapped task 'many' is not in the DAG file.*pass asset="):
        expand(partial, names())


def test_a_mapped_sink_whose_name_is_a_template_needs_an_asset(dag: DAG) -> None:
    with pytest.raises(ConfigError, match=r"'\{\{ ds \}\}' is a template.*Pass asset="):
        ConnectOperator.partial(task_id="many", source=SOURCE).expand(sink=[A, TinySink(table="{{ ds }}")])


def test_a_sink_that_takes_another_s_place_must_have_been_known(dag: DAG) -> None:
    @task
    def names() -> list[dict[str, Any]]:
        return []

    mapped: Any = ConnectOperator.partial(task_id="many", source=SOURCE, sink=A).expand_kwargs(names(), strict=False)
    assert uris(mapped.unmap({"days": "2026-10-05"})) == uri(A)
    with pytest.raises(ConfigError, match=r"was unknown when Airflow read its DAG\. Pass asset="):
        mapped.unmap({"sink": B})


def test_wrong_arguments_of_a_mapped_task_are_refused_when_the_dag_file_is_read(dag: DAG) -> None:
    with pytest.raises(ConfigError, match="progress_second: unknown argument; did you mean 'progress_seconds'"):
        ConnectOperator.partial(task_id="many", source=SOURCE, progress_second=1)
    with pytest.raises(ConfigError, match="asset_events: cannot be 'days'; did you mean 'day'"):
        ConnectOperator.partial(task_id="many", source=SOURCE, asset_events="days")
    partial = ConnectOperator.partial(task_id="many", source=SOURCE)
    with pytest.raises(ConfigError, match="sink: must be a Sink"):
        partial.expand(sink=[A, SOURCE])
    partial = ConnectOperator.partial(task_id="many", source=SOURCE, sink=A)
    with pytest.raises(ConfigError, match="on_empty: cannot be 'fall'; did you mean 'fail'"):
        partial.expand(on_empty=["accept", "fall"])
    partial = ConnectOperator.partial(task_id="many", source=SOURCE)
    with pytest.raises(ConfigError, match="sink of mapped task 'many' is not in the DAG file"):
        partial.expand(days=["2026-10-05"])
    partial = ConnectOperator.partial(task_id="many", source=SOURCE)
    with pytest.raises(ConfigError, match="sinks: unknown argument; did you mean 'sink'"):
        partial.expand(sinks=[A, B])
    partial = ConnectOperator.partial(task_id="many", source=SOURCE)
    with pytest.raises(ConfigError, match="stagin: unknown argument; did you mean 'staging'"):
        partial.expand_kwargs([{"sink": A, "stagin": "/x"}])


def test_an_asset_of_the_user_s_own_stands_for_the_sink(dag: DAG) -> None:
    operator = ConnectOperator(task_id="a", source=SOURCE, sink=A, asset=OTHER, outlets=[Asset("more")])
    assert uris(operator) == [Asset("more").uri, OTHER.uri]


def test_outlets_of_the_dag_s_default_args_are_kept() -> None:
    with DAG("d", schedule=None, default_args={"outlets": [OTHER]}):
        plain = ConnectOperator(task_id="a", source=SOURCE, sink=A)
        mapped: Any = ConnectOperator.partial(task_id="b", source=SOURCE).expand(sink=[A, B])
    assert uris(plain) == uris(mapped.unmap({"sink": A})) == [OTHER.uri, *uri(A)]
    assert uris(mapped) == [OTHER.uri, *uri(A, B)]
