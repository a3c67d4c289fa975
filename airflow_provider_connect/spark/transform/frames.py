"""A transform over DataFrames: each in a session of its own, since the names of views belong to a session."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.spark.capabilities.frames import settled
from airflow_provider_connect.spark.transform import blame, columns, loading
from airflow_provider_connect.stage.transform import VIEW, Transform
from airflow_provider_connect.window import Day


class Transformation:
    """A transform that the driver has loaded, and tried on a day without rows.

    :ivar schema: how its result is staged.
    :raises ConfigError: it cannot be loaded, Spark does not take it, or its result cannot be staged.
    """

    def __init__(self, transform: Transform, source: pa.Schema, session: Any, day: Day) -> None:
        self.what = str(transform)
        self.digest = transform.digest
        self._sql = transform.sql
        self._function = loading.function_of(transform)
        self._session = session
        self._type = columns.read_as(source)
        try:
            result = self._result_of(self._own_session().createDataFrame([], self._type), day)
            self.schema = columns.staged_as(result.schema, source)
        except Exception as error:  # noqa: BLE001  # a function may raise anything
            raise blame.of_check(self.what, error) from None

    def over(self, urls: list[str], day: Day) -> Any:
        """Return the result over staged files as a DataFrame; only a function's own actions read something yet.

        :raises ConnectError: it cannot be computed.
        """
        session = self._own_session()
        try:
            frame = session.read.schema(self._type).parquet(*urls) if urls else session.createDataFrame([], self._type)
            return self._result_of(frame, day)
        except Exception as error:  # noqa: BLE001  # a function may raise anything
            raise blame.of_run(self.what, error) from None

    def _own_session(self) -> Any:
        return settled(self._session.newSession())

    def _result_of(self, frame: Any, day: Day) -> Any:
        if self._function is None:
            frame.createOrReplaceTempView(VIEW)
            # Inside another query, nothing but a query is taken: a statement that changes something is refused.
            text = "\n".join(("SELECT * FROM (", str(self._sql).strip().rstrip(";"), ")"))
            return frame.sparkSession.sql(text, args={"day": day.date, "start": day.start, "end": day.end})
        made = self._function(frame, day.date) if loading.takes_day(self._function) else self._function(frame)
        if not hasattr(made, "mapInArrow"):
            raise ConfigError(f"transform={self.what} returned a {type(made).__name__}: it is to return a DataFrame")
        return made
