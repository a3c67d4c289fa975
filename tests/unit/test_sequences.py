"""A text where several values are meant: its characters are not taken for the values, in any public function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, refuse_text
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.operators.erase import erase
from airflow_provider_connect.readers.kafka import records
from airflow_provider_connect.secrets import Secrets
from airflow_provider_connect.shapes import Chain
from airflow_provider_connect.sinks._bigquery.erasing.eraser import TableEraser
from airflow_provider_connect.sinks._kafka.eraser import KafkaEraser
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.testing import Bench, Target
from airflow_provider_connect.testing.bench import MONDAY

SOURCE = MixpanelSource(conn_id="mixpanel_default")
SINK = DeltaSink(path="/lake/events")


def operator(**arguments: Any) -> ConnectOperator:
    return ConnectOperator(task_id="t", source=SOURCE, sink=SINK, **arguments)


def bench(text: Any) -> Any:
    return Bench(Target(SINK, list), SINK.open(None, {}), Path()).stage(MONDAY, text, 1)  # type: ignore[arg-type]


CALLS: dict[str, Any] = {
    "erase(values)": lambda text: erase(SOURCE, SINK, text, connections={}),
    "erase(shape)": lambda text: erase(SOURCE, SINK, ["u"], shape=text, connections={}),
    "BigQuery's TableEraser.found": lambda text: TableEraser(None, None, None, "id").count_rows(text),  # type: ignore[arg-type]
    "KafkaEraser": lambda text: KafkaEraser(None, "id")._find_live_keys(text, {}),  # type: ignore[arg-type]
    "EraseList.with_values": lambda text: EraseList().with_values("id", text),
    "Chain.of": Chain.of,
    "ConnectOperator(shape)": lambda text: operator(shape=text),
    "ConnectOperator(outlets)": lambda text: operator(outlets=text),
    "readers.records": lambda text: next(records({}, text)),
    "Secrets": Secrets,
    "Bench.stage": bench,
}


@pytest.mark.parametrize("text", ["17", b"17"], ids=repr)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_text_is_no_sequence_of_values(call: Any, text: Any) -> None:
    with pytest.raises(ConfigError) as told:
        call(text)
    assert "17" not in str(told.value)


def test_the_message_names_the_argument() -> None:
    with pytest.raises(ConfigError, match="values: give a list, also of one value, not a str"):
        refuse_text("values", "17")
    for values in (["17"], ("17",), {"17"}, iter(["17"]), {"17": 1}):
        refuse_text("values", values)
