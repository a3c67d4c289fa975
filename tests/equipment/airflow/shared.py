"""The Airflow of the system tests: users with roles, and a PostgreSQL of its own.

Several processes write at the same time. SQLite lets one of them, and on a busy machine the others give up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from tests.demo.local_airflow import ROLES
from tests.equipment.airflow.roles import AirflowWithRoles
from tests.equipment.sql.servers import ADMIN_PASSWORD, PostgreSQLServer

# As a server has them that nobody set otherwise, which Airflow expects.
SESSIONS = {"timezone": "UTC", "datestyle": "ISO", "intervalstyle": "postgres", "bytea_output": "hex"}


@contextmanager
def shared_airflow(home: Path, dags: Path, settings: dict[str, str]) -> Iterator[AirflowWithRoles]:
    """Start it with all of its processes; stop it at the end, and its database after it."""
    with PostgreSQLServer() as server:
        changes = (f"ALTER DATABASE airflow SET {name} = '{value}'" for name, value in SESSIONS.items())
        server.run("CREATE DATABASE airflow", *changes)
        database = f"postgresql+psycopg://admin:{quote(ADMIN_PASSWORD)}@127.0.0.1:{server.port}/airflow"
        airflow = AirflowWithRoles(
            home, dags, parallelism=16, settings=settings, roles=(*ROLES, "triggerer"), database=database
        )
        try:
            airflow.start()
            yield airflow
        finally:
            airflow.stop()
