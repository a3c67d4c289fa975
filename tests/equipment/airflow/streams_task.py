"""A task of many tables outside of Airflow: its operator, its Variables and its tries."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.api.datamodels._generated import DagRun
from airflow.sdk.exceptions import ErrorType
from airflow.sdk.execution_time import comms, task_runner
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sink import Sink
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.spark import application, watchdog
from airflow_provider_connect.spark import job as driver
from tests.equipment.spark.here import SparkHere

START = dt.datetime(2026, 10, 5, tzinfo=dt.UTC)


def set_connection(patch: pytest.MonkeyPatch, connection: Connection, conn_id: str) -> None:
    """Set a connection in the environment, where Airflow reads it."""
    login, password = (secret and secret.get_secret_value() for secret in (connection.login, connection.password))
    fields = {
        "conn_type": connection.conn_type,
        "host": connection.host,
        "port": connection.port,
        "schema": connection.path,
        "login": login,
        "password": password,
        "extra": dict(connection.extra),
    }
    patch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))


class Variables:
    """Answers a task's messages to its supervisor: Variables, and no connection but those of the environment."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def send(self, msg: Any) -> Any:
        match msg:
            case comms.GetVariable():
                if msg.key in self.values:
                    return comms.VariableResult(key=msg.key, value=self.values[msg.key])
                return comms.ErrorResponse(error=ErrorType.VARIABLE_NOT_FOUND)
            case comms.PutVariable():
                self.values[msg.key] = msg.value or ""
            case comms.DeleteVariable():
                self.values.pop(msg.key, None)
            case comms.GetVariableKeys():
                found = sorted(key for key in self.values if key.startswith(msg.prefix or ""))
                page = found[msg.offset : msg.offset + msg.limit]
                return comms.VariableKeysResult(keys=page, total_entries=len(found))
            case comms.GetConnection():
                return comms.ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND)
        return comms.OKResponse(ok=True)


class StreamsTask:
    """Tasks of one DAG that load tables of one database. They share their Variables.

    :ivar pushed: XComs that failed tasks have pushed.
    """

    def __init__(self, folder: Path, *, with_spark: bool = False) -> None:
        self.folder, self.with_spark = folder, with_spark
        self.variables = Variables()
        self.pushed: list[tuple[str, Any]] = []
        self.events = OutletEventAccessors()

    def operator(self, tables: Any, path: str = "{table}", sink: Sink | None = None, **options: Any) -> ConnectOperator:
        """Build the operator of a task. ``tables`` is the source's option, or a table's name."""
        names = {"table": tables} if isinstance(tables, str) else {"tables": tables}
        read = {"snapshot": "replace"} if not options.keys() & {"day_column", "mode"} else {}
        fields = SqlSource.model_fields.keys()
        source = SqlSource(
            conn_id="shop_db", **names, **read, **{name: value for name, value in options.items() if name in fields}
        )
        with DAG("shop", schedule=None, start_date=START):
            return ConnectOperator(
                task_id="load",
                source=source,
                sink=sink or DeltaSink(path=f"{self.folder}/{path}"),
                **{name: value for name, value in options.items() if name not in fields},
            )

    def run(self, operator: ConnectOperator, day: int = 5, *, run_id: str | None = None, try_number: int = 1) -> Any:
        """Run a try of the task. Returns its XCom."""
        with self.supervised(operator):
            return operator.execute(self.context(operator, day, run_id=run_id, try_number=try_number))

    def context(
        self, operator: ConnectOperator, day: int = 5, *, run_id: str | None = None, try_number: int = 1
    ) -> Any:
        """Return the context of a try."""
        date = START.replace(day=day)
        run = DagRun(
            dag_id="shop",
            run_id=run_id or f"scheduled__{date:%Y-%m-%d}",
            logical_date=date,
            data_interval_start=date,
            data_interval_end=date + dt.timedelta(days=1),
            run_after=date + dt.timedelta(days=1),
            start_date=date + dt.timedelta(days=1, seconds=1),
            end_date=None,
            clear_number=0,
            run_type="scheduled",
            state="running",
            consumed_asset_events=[],
            partition_key=None,
        )
        task = SimpleNamespace(
            dag_id="shop",
            run_id=run.run_id,
            task_id="load",
            map_index=-1,
            try_number=try_number,
            xcom_push=lambda key, value: self.pushed.append((key, value)),
        )
        self.events = OutletEventAccessors()
        return {"dag": operator.dag, "dag_run": run, "ti": task, "outlet_events": self.events}

    def event_uris(self, operator: ConnectOperator) -> list[str]:
        """Return the URIs of the assets with an event of the last run."""
        return sorted(event.dest_asset_key.uri for event in self.events[operator.asset].asset_alias_events)

    def offsets(self) -> dict[str, list[Any]]:
        """Return the settled days of each stream."""
        return {(offset := json.loads(text))["stream"]: offset["days"] for text in self.variables.values.values()}

    @contextlib.contextmanager
    def supervised(self, operator: ConnectOperator) -> Iterator[None]:
        """Let this process be the task's, with its Variables."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(task_runner, "SUPERVISOR_COMMS", self.variables, raising=False)
            if not self.with_spark:
                patch.setattr(application, "start_context", lambda polls=1: SparkHere)
                patch.setattr(watchdog, "is_task_alive", lambda: True)
                patch.setattr(watchdog, "start", lambda lock: None)
                patch.setattr(
                    ConnectOperator,
                    "_submit",
                    lambda self, submission, context: driver.main(["job.py", *submission.application_args]) and None,
                )
            yield
