"""A closed session raises an error. Reads from a real server: tests/integration/sql."""

from __future__ import annotations

import pyarrow as pa
import pymysql
import pytest

from airflow_provider_connect.clients.sql.database import ReadColumn
from airflow_provider_connect.clients.sql.mysql.session import MySQL
from airflow_provider_connect.errors import RetriableError


def test_a_read_of_a_closed_session_is_a_retriable_error() -> None:
    session = MySQL(lambda: pymysql.Connection(defer_connect=True), "db", "")
    column = ReadColumn("n", "int", "n", pa.int64(), pa.int64())
    with pytest.raises(RetriableError, match="db: reading rows: the session is closed"):
        next(session.read([column], "t"))
