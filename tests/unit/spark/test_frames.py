"""Rows that Spark itself reads: staged once, read again after what may pass, and no driver's text told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.source import InputPartition, PollContext
from airflow_provider_connect.sources._sql.jdbc import JdbcPoller
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.spark.capabilities import frame_polling
from airflow_provider_connect.spark.poll import PollOutcome, PollTask
from tests.equipment.spark.lab import DAY

ERP = Connection(conn_id="erp", conn_type="jdbc", host="jdbc:derby:shop", login="reader", password="canary")
OPTIONS = {"conn_id": "erp", "table": "T", "snapshot": "replace"}
COLUMNS = [["ID", "bigint", "bigint", False]]
PART = InputPartition(days=(DAY,), params={"columns": COLUMNS, "key": ["ID"], "is_unique": True, "where": ""})
SCHEMA = pa.schema([pa.field("ID", pa.int64(), nullable=False), pa.field("record_key", pa.string(), nullable=False)])


class _Exception:
    """One of the JVM's."""

    def __init__(self, state: str) -> None:
        self.state = state

    def getClass(self) -> Any:  # noqa: N802  # its own name
        return SimpleNamespace(getName=lambda: "java.sql.SQLException", getSuperclass=lambda: None)

    def getMessage(self) -> str:  # noqa: N802
        return "canary and 4711"

    def getSQLState(self) -> str:  # noqa: N802
        return self.state

    def getErrorCode(self) -> int:  # noqa: N802
        return 1

    def getCause(self) -> None:  # noqa: N802
        return None


def read_until(state: str | None) -> Iterator[pa.RecordBatch]:
    """Yield rows, and then fail, as Spark does where a read breaks."""
    yield pa.record_batch({"c0": pa.array([1, 2], pa.int64())})
    if state is not None:
        error = Exception("canary and 4711")
        error.java_exception = _Exception(state)  # type: ignore[attr-defined]
        raise error
    yield pa.record_batch({"c0": pa.array([3], pa.int64())})


class Reads(JdbcPoller):
    """Has reads that end one after the other with a state of SQL, or well."""

    def __init__(self, *states: str | None) -> None:
        super().__init__(SqlSource(**OPTIONS), ERP, PollContext())
        self.states = list(states)

    def frame(self, part: InputPartition) -> Any:
        state = self.states.pop(0)

        def map_in_arrow(freeze: Callable[[Any], Any], schema: str) -> Any:
            def collect() -> list[list[str]]:
                # The worker sees the end of its input where the read breaks; the JVM fails the task then.
                rows: list[pa.RecordBatch] = []
                broken = None
                try:
                    rows.extend(read_until(state))
                except Exception as error:
                    rows, broken = [next(read_until(state))], error
                (outcome,) = freeze(iter(rows))
                if broken is not None:
                    raise broken
                return [[outcome.column(0)[0].as_py()]]

            return SimpleNamespace(collect=collect)

        return SimpleNamespace(mapInArrow=map_in_arrow)


@pytest.fixture
def poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., PollOutcome]:
    monkeypatch.setattr(frame_polling, "RETRY_PAUSES", [0.01] * 9)

    def poll(*states: str | None, seconds: float = 60.0) -> PollOutcome:
        task = PollTask(
            source_name="sql",
            source=OPTIONS | {"retry_budget_seconds": seconds},
            part=PART,
            root=str(tmp_path),
            attempts=("aaaa-1-20261005",),
            progress_seconds=60,
        )
        poller = Reads(*states)
        (text,) = frame_polling.make_frame_poller(poller, SCHEMA, ERP)([task.model_dump_json()])
        assert "canary" not in text
        assert "4711" not in text
        assert not poller.states
        return PollOutcome.model_validate_json(text)

    return poll


def test_a_read_that_breaks_is_made_again_and_what_it_brought_is_left_out(poll: Any, tmp_path: Path) -> None:
    outcome = poll("08006", "40001", None)
    assert len(outcome.retries) == 2
    polled = outcome.polled[DAY.date]
    (file,) = polled.files
    assert pq.read_table(tmp_path / file.path)["ID"].to_pylist() == [1, 2, 3]
    assert (polled.rows_read, polled.rows_written) == (3, 3)


@pytest.mark.parametrize(
    ("state", "kind"), [("42X05", "ConfigError"), ("22012", "DataError"), ("28000", "ConfigError")]
)
def test_what_a_person_must_mend_is_not_read_again(poll: Any, state: str, kind: str) -> None:
    assert poll(state).failure.type == kind


def test_retries_end_with_the_budget(poll: Any) -> None:
    assert poll("08006", seconds=0.0).failure.type == "RetriableError"


def test_a_task_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Connection] = []
    monkeypatch.setattr(
        frame_polling, "_poll_with_retries", lambda *_, connection, **__: seen.append(connection) or PollOutcome()
    )
    frame_polling.make_frame_poller(Reads(), SCHEMA, ERP)(["{}"])
    (given,) = seen
    assert (given.login, given.password, given.extra, given.conn_type) == (None, None, {}, "jdbc")
    assert frame_polling.make_frame_poller(Reads(), SCHEMA, ERP)([]) == []


def test_a_cluster_in_another_zone_is_refused() -> None:
    def cluster(options: str, master: str = "yarn") -> Any:
        zone = SimpleNamespace(setDefault=lambda _: None, getTimeZone=lambda name: name)
        jvm = SimpleNamespace(java=SimpleNamespace(util=SimpleNamespace(TimeZone=zone)))
        return SimpleNamespace(master=master, _jvm=jvm, getConf=lambda: {"spark.executor.extraJavaOptions": options})

    with pytest.raises(ConfigError, match=r"Duser\.timezone=UTC"):
        frame_polling._use_utc(cluster("-Xmx1g"))
    with pytest.raises(ConfigError, match=r"Duser\.timezone=UTC"):  # the JVM takes the last one
        frame_polling._use_utc(cluster("-Duser.timezone=UTC -Duser.timezone=US/Pacific"))
    with pytest.raises(ConfigError, match=r"Duser\.timezone=UTC"):  # its executors are other JVMs
        frame_polling._use_utc(cluster("-Xmx1g", "local-cluster[2,1,1024]"))
    frame_polling._use_utc(cluster("-Xmx1g -Duser.timezone=UTC"))
    frame_polling._use_utc(cluster("-Duser.timezone=US/Pacific -Duser.timezone=UTC"))
    frame_polling._use_utc(cluster("-Xmx1g", "local[2]"))
