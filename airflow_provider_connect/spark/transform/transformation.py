"""A transform over DataFrames: each in a session of its own, since the names of views belong to a session.

A function that ``transform=`` names is imported here.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.spark.capabilities.frame_polling import configure_session
from airflow_provider_connect.spark.transform import columns, error_mapping
from airflow_provider_connect.stage.transform import POLLED_VIEW, Transform
from airflow_provider_connect.window import Day


class Transformation:
    """A transform that the driver has loaded, and tried on a day without rows.

    :ivar schema: how its result is staged.
    :raises ConfigError: it cannot be loaded, Spark does not take it, or its result cannot be staged.
    """

    def __init__(self, transform: Transform, source: pa.Schema, session: Any, day: Day) -> None:
        self.label = str(transform)
        self.digest = transform.digest
        self._sql = transform.sql
        self._function = load_function(transform)
        self._session = session
        self._type = columns.spark_struct(source)
        try:
            result = self._result_of(self._own_session().createDataFrame([], self._type), day)
            self.schema = columns.result_schema(result.schema, source)
        except Exception as error:  # noqa: BLE001  # a function may raise anything
            raise error_mapping.error_of_check(self.label, error) from None

    def compute(self, urls: list[str], day: Day) -> Any:
        """Return the result over staged files as a DataFrame; only a function's own actions read something yet.

        :raises ConnectError: it cannot be computed.
        """
        session = self._own_session()
        try:
            frame = session.read.schema(self._type).parquet(*urls) if urls else session.createDataFrame([], self._type)
            return self._result_of(frame, day)
        except Exception as error:  # noqa: BLE001  # a function may raise anything
            raise error_mapping.error_of_run(self.label, error) from None

    def _own_session(self) -> Any:
        return configure_session(self._session.newSession())

    def _result_of(self, frame: Any, day: Day) -> Any:
        if self._function is None:
            frame.createOrReplaceTempView(POLLED_VIEW)
            # Inside another query, nothing but a query is taken: a statement that changes something is refused.
            text = "\n".join(("SELECT * FROM (", str(self._sql).strip().rstrip(";"), ")"))
            return frame.sparkSession.sql(text, args={"day": day.date, "start": day.start, "end": day.end})
        made = self._function(frame, day.date) if takes_day(self._function) else self._function(frame)
        if not hasattr(made, "mapInArrow"):
            raise ConfigError(f"transform={self.label} returned a {type(made).__name__}: it is to return a DataFrame")
        return made


Function = Callable[..., Any]
"""Takes the day as a DataFrame, and the day's date if it has a second parameter; returns a DataFrame."""


def load_function(transform: Transform) -> Function | None:
    """Return a transform's function; None for SQL.

    :raises ConfigError: the driver does not find it.
    """
    return None if transform.reference is None else _imported(transform.reference.strip())


def takes_day(function: Function) -> bool:
    """Tell whether a function has a second parameter, for the day's date."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters) > 1


def _imported(reference: str) -> Function:
    module, _, name = reference.partition(":")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise ConfigError(
            f"transform={reference!r}: the driver cannot import {error.name or module!r}: install it where Spark's "
            "driver runs, or give the operator py_files="
        ) from None
    if not callable(found):
        raise ConfigError(f"transform={reference!r}: module {module} has no function {name!r}")
    return found  # type: ignore[no-any-return]
