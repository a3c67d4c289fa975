"""TLS with real databases: an untrusted server is refused before a password is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.clients.sql.opening import open_database
from airflow_provider_connect.errors import ConfigError
from tests.equipment.http.authority import Authority
from tests.equipment.sql.fixtures import NEEDS_MYSQL
from tests.equipment.sql.servers import DatabaseServer, MariaDBServer, MySQLServer, PostgreSQLServer

pytestmark = pytest.mark.slow

ENCRYPTED = {
    "postgres": "SELECT 'Ssl', version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl",
    "mysql": "SHOW STATUS LIKE 'Ssl_version'",
}


def extra(conn_type: str, authority: Path) -> dict[str, Any]:
    if conn_type == "postgres":
        return {"sslmode": "verify-full", "sslrootcert": str(authority)}
    return {"ssl": {"ca": str(authority)}}


@pytest.mark.parametrize("kind", [PostgreSQLServer, MariaDBServer, pytest.param(MySQLServer, marks=NEEDS_MYSQL)])
def test_only_a_trusted_server_is_read(kind: type[DatabaseServer], tmp_path: Path) -> None:
    ours, others = Authority("ours"), Authority("others")
    for name, authority in (("ours", ours), ("others", others)):
        (tmp_path / name).write_text(authority.pem)
    ours.server(tmp_path)
    with kind(tls=tmp_path / "127.0.0.1-1.pem") as server, server.database("shop"):
        for authority, host in (("others", "127.0.0.1"), ("ours", "localhost")):
            with pytest.raises(ConfigError, match=r"certificate|CERTIFICATE"):
                open_database(
                    server.connection("shop", host=host, extra=extra(server.conn_type, tmp_path / authority)),
                    application_name="tests",
                )
        trusted = server.connection("shop", extra=extra(server.conn_type, tmp_path / "ours"))
        with open_database(trusted, application_name="tests") as database:
            assert database.one_row(ENCRYPTED[server.conn_type])[1].startswith("TLSv1.")
