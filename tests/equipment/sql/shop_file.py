"""A shop's database in a file of SQLite, with a connection ``shop_db`` in the environment."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest


class ShopFile:
    """The file. Its tables have the columns ``id`` and ``amount``."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.path = path
        patch.setenv("AIRFLOW_CONN_SHOP_DB", json.dumps({"conn_type": "sqlite", "host": str(path)}))
        patch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))

    def run(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.path)) as database, database:
            for statement in statements:
                database.execute(statement)

    def make(self, *names: str, rows: int = 3) -> None:
        """Create tables with numbered rows."""
        for name in names:
            self.run(
                f'CREATE TABLE "{name}" (id INTEGER PRIMARY KEY, amount INTEGER)',
                f"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {rows}) "
                f'INSERT INTO "{name}" SELECT x, 10 * x FROM n',
            )
