"""Databases as fixtures: one server of each kind for the run, and a new database for each test. Missing servers fail.

Other workers' tests use the same servers concurrently. A test that kills or reconfigures a server uses ``lone``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_connect.clients.sql.database import Database, Query, SessionLimits, Table, ValueChoices
from airflow_provider_connect.clients.sql.opening import open_database
from airflow_provider_connect.connection import Connection
from tests.equipment.sql.mysql_files import WITHOUT, is_left_out
from tests.equipment.sql.servers import DatabaseServer, MariaDBServer, MySQLServer, PostgreSQLServer
from tests.equipment.sql.sharing import shared

if TYPE_CHECKING:
    import pyarrow as pa


NEEDS_MYSQL = pytest.mark.skipif(is_left_out(), reason=f"{WITHOUT}=1")
"""Mark of a test that starts MySQL by itself; the fixtures look by themselves."""


@dataclass
class OwnDatabase:
    """A test's own database."""

    server: DatabaseServer
    name: str
    opened: list[Database] = field(default_factory=list)

    def connection(self, **changes: Any) -> Connection:
        """Return a reader's connection to the database."""
        return self.server.connection(self.name, **changes)

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements as the administrator."""
        return self.server.run(*statements, database=self.name)

    def series(self, last: int) -> str:
        """Return a query of the whole numbers from 1 to ``last``, in a column ``n``."""
        return self.server.series(last)

    def open(self, limits: SessionLimits | None = None, **changes: Any) -> Database:
        """Open a reader's session. It is closed after the test."""
        self.opened.append(open_database(self.connection(**changes), application_name="tests", limits=limits))
        return self.opened[-1]

    def table(self, what: str | Table | Query, choices: ValueChoices | None = None, **how: Any) -> pa.Table:
        """Return all rows of a table or query, read in a separate session."""
        import pyarrow as pa

        what = Table(what) if isinstance(what, str) else what
        with open_database(self.connection(), application_name="tests") as database:
            columns = database.read_columns(database.describe(what), choices or ValueChoices())
            batches = list(database.read(columns, database.relation(what), **how))
        return pa.Table.from_batches(batches, pa.schema([column.field for column in columns]))

    def rows(self, what: str | Table | Query, choices: ValueChoices | None = None, **how: Any) -> list[dict[str, Any]]:
        """Return all rows of a table or query as Python values."""
        rows: list[dict[str, Any]] = self.table(what, choices, **how).to_pylist()
        return rows


@contextmanager
def own_database(server: DatabaseServer) -> Iterator[OwnDatabase]:
    """Create a database, and drop it at the end of the block."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with server.database(name):
        own = OwnDatabase(server, name)
        try:
            yield own
        finally:
            for database in own.opened:
                database.close()


_versions = pytest.StashKey[set[str]]()


def _started(config: pytest.Config, server: DatabaseServer) -> DatabaseServer:
    """Return a server, and record its version."""
    ((version,),) = server.run("SELECT version()")
    version = version if version.startswith(server.kind) else f"{server.kind} {version}"
    config.stash.setdefault(_versions, set()).add(version.split(" (")[0])
    return server


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the versions of servers that a worker of pytest-xdist has started."""
    node.config.stash.setdefault(_versions, set()).update(getattr(node, "workeroutput", {}).get("databases", []))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the version of each kind of server once."""
    for version in sorted(config.stash.get(_versions, set())):
        terminalreporter.write_line(f"tested on {version}")


def tell_versions(config: pytest.Config) -> None:
    """Send the versions of this worker's servers to pytest-xdist's controller."""
    if hasattr(config, "workeroutput"):
        config.workeroutput["databases"] = sorted(config.stash.get(_versions, set()))


@pytest.fixture(scope="session")
def run_folder(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """The folder of all of pytest-xdist's workers; None without workers."""
    return tmp_path_factory.getbasetemp().parent if hasattr(pytestconfig, "workerinput") else None


@pytest.fixture(scope="session")
def postgresql_server(pytestconfig: pytest.Config, run_folder: Path | None) -> Iterator[DatabaseServer]:
    """One running PostgreSQL for the whole run."""
    with shared(PostgreSQLServer, run_folder) as server:
        yield _started(pytestconfig, server)


@pytest.fixture(scope="session")
def mariadb_server(pytestconfig: pytest.Config, run_folder: Path | None) -> Iterator[DatabaseServer]:
    """One running MariaDB for the whole run."""
    with shared(MariaDBServer, run_folder) as server:
        yield _started(pytestconfig, server)


@pytest.fixture(scope="session")
def mysql_server(pytestconfig: pytest.Config, run_folder: Path | None) -> Iterator[DatabaseServer]:
    """One running MySQL for the whole run, unless the environment leaves it out."""
    if is_left_out():
        pytest.skip(f"{WITHOUT}=1")
    with shared(MySQLServer, run_folder) as server:
        yield _started(pytestconfig, server)


@pytest.fixture
def postgresql(postgresql_server: DatabaseServer) -> Iterator[OwnDatabase]:
    """An empty database of PostgreSQL."""
    with own_database(postgresql_server) as own:
        yield own


@pytest.fixture
def mariadb(mariadb_server: DatabaseServer) -> Iterator[OwnDatabase]:
    """An empty database of MariaDB."""
    with own_database(mariadb_server) as own:
        yield own


@pytest.fixture
def mysql(mysql_server: DatabaseServer) -> Iterator[OwnDatabase]:
    """An empty database of MySQL."""
    with own_database(mysql_server) as own:
        yield own


@pytest.fixture(params=["postgresql", "mariadb"])
def either(request: pytest.FixtureRequest) -> OwnDatabase:
    """An empty database of PostgreSQL, and one of the two that speak MySQL's protocol."""
    own: OwnDatabase = request.getfixturevalue(request.param)
    return own


@pytest.fixture(scope="module", params=[PostgreSQLServer, MariaDBServer], ids=["postgresql", "mariadb"])
def lone_server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """A running server that only the tests of one file use."""
    with request.param() as server:
        yield server


@pytest.fixture
def lone(lone_server: DatabaseServer) -> Iterator[OwnDatabase]:
    """An empty database of a server that the test may kill."""
    with own_database(lone_server) as own:
        yield own


@pytest.fixture(params=["mariadb", "mysql"])
def mysql_like(request: pytest.FixtureRequest) -> OwnDatabase:
    """An empty database of each kind that speaks MySQL's protocol."""
    own: OwnDatabase = request.getfixturevalue(request.param)
    return own


@pytest.fixture(params=["postgresql", "mariadb", "mysql"])
def every(request: pytest.FixtureRequest) -> OwnDatabase:
    """An empty database of each kind, one after the other: for values, keys, cursors, chunks and errors."""
    own: OwnDatabase = request.getfixturevalue(request.param)
    return own
