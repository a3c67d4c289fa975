"""Loads a transform, SQL or a function, and applies it to DataFrames.

Each day gets its own session, since view names belong to a session.
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
    """A transform that the driver has loaded and tried on a day without rows.

    :raises ConfigError: the transform cannot be loaded, Spark refuses it, or its result cannot be staged.
    """

    def __init__(self, transform: Transform, source: pa.Schema, session: Any, day: Day) -> None:
        self.label = str(transform)
        self.digest = transform.digest
        self._sql = transform.sql
        self._function = load_function(transform)
        self._session = session
        self._type = columns.spark_struct(source)
        try:
            result = self._apply(self._own_session().createDataFrame([], self._type), day)
            self.schema = columns.result_schema(result.schema, source)
        except Exception as error:  # noqa: BLE001  # a function may raise anything
            raise error_mapping.error_of_check(self.label, error) from None

    def compute(self, urls: list[str], day: Day) -> Any:
        """Return the result for staged files as a DataFrame. Lazy unless a function runs its own actions.

        :raises ConnectError: the result cannot be computed.
        """
        session = self._own_session()
        try:
            frame = session.read.schema(self._type).parquet(*urls) if urls else session.createDataFrame([], self._type)
            return self._apply(frame, day)
        except Exception as error:  # noqa: BLE001  # a function may raise anything
            raise error_mapping.error_of_run(self.label, error) from None

    def _own_session(self) -> Any:
        return configure_session(self._session.newSession())

    def _apply(self, frame: Any, day: Day) -> Any:
        if self._function is None:
            frame.createOrReplaceTempView(POLLED_VIEW)
            # Inside another query, nothing but a query is taken: a statement that changes something is refused.
            text = "\n".join(("SELECT * FROM (", str(self._sql).strip().rstrip(";"), ")"))
            return frame.sparkSession.sql(text, args={"day": day.date, "start": day.start, "end": day.end})
        result = self._function(frame, day.date) if takes_day(self._function) else self._function(frame)
        if not hasattr(result, "mapInArrow"):
            raise ConfigError(f"transform={self.label} returned a {type(result).__name__}. It must return a DataFrame")
        return result


Function = Callable[..., Any]
"""Takes the day as a DataFrame and, if it has a second parameter, the day's date. Returns a DataFrame."""


def load_function(transform: Transform) -> Function | None:
    """Return a transform's function, or None for SQL.

    :raises ConfigError: the driver cannot import it.
    """
    return None if transform.reference is None else _import_function(transform.reference.strip())


def takes_day(function: Function) -> bool:
    """Return whether a function has a second parameter, for the date."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return (
        sum(parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) for parameter in parameters)
        > 1
    )


def _import_function(reference: str) -> Function:
    module, _, name = reference.partition(":")
    try:
        function = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise ConfigError(
            f"transform={reference!r}: the driver cannot import {error.name or module!r}. Install it where Spark's "
            "driver runs, or set py_files= on the operator"
        ) from None
    if not callable(function):
        raise ConfigError(f"transform={reference!r}: module {module} has no function {name!r}")
    return function  # type: ignore[no-any-return]
