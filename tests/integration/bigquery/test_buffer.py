"""A target into which others have just streamed rows: BigQuery changes none of them in a transaction for a while."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.errors import RetriableError
from tests.equipment.bigquery.bench import SinkBench, bench_of
from tests.equipment.bigquery.fixtures import Target, connection_to
from tests.equipment.bigquery.proxy import BigQueryProxy, Change, Refuse
from tests.equipment.frozen import MONDAY, TUESDAY, events

pytestmark = pytest.mark.slow

TARGET = "GET /projects/[^/]+/datasets/[^/]+/tables/events$"
SAYS = "UPDATE or DELETE statement over table p.d.t would affect rows in the streaming buffer, which is not supported"


@pytest.fixture
def sink(bigquery_target: Target, tmp_path: Path, proxy: BigQueryProxy) -> SinkBench:
    direct = bench_of(bigquery_target, tmp_path)
    return SinkBench(direct.sink, connection_to(proxy), direct.reader, direct.root)


def streamed(table: Any) -> Any:
    return table | {"streamingBuffer": {"estimatedRows": "1200", "oldestEntryTime": "1793613600000"}}


def test_streamed_rows_delay_the_reload_of_a_day_before_its_poll(sink: SinkBench, proxy: BigQueryProxy) -> None:
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, events("a")))
    proxy.breaks(TARGET, Change(streamed))
    with pytest.raises(RetriableError, match=r"about 1,200 rows in BigQuery's streaming buffer, the oldest") as caught:
        sink.preflight(MONDAY, TUESDAY)
    assert caught.value.retry_after_seconds == 1800
    assert sink.preflight(TUESDAY) == []  # nothing of this day has to be deleted
    assert sink.having(write_mode="append").preflight(MONDAY) == []
    with pytest.raises(RetriableError, match="streaming buffer"):
        sink.having(write_mode="merge", key=("event",)).preflight(TUESDAY)


def test_a_publish_that_meets_streamed_rows_is_retriable(sink: SinkBench, proxy: BigQueryProxy) -> None:
    assert sink.preflight() == []
    staged = sink.stage(MONDAY, events("a"))
    proxy.breaks("POST /projects/[^/]+/jobs$", Refuse(400, "invalidQuery", SAYS))
    with pytest.raises(RetriableError, match="30 to 90 minutes") as caught:
        sink.publish(staged)
    assert caught.value.retry_after_seconds == 1800
    proxy.heal()
    assert sink.publish(staged).generation == 1
