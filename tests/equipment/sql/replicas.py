"""Servers that replicate another server, or that others replicate."""

from __future__ import annotations

from tests.equipment.programs import program
from tests.equipment.sql.servers import (
    ADMIN_PASSWORD,
    DatabaseServer,
    MariaDBServer,
    MySQLProtocolServer,
    MySQLServer,
    PostgreSQLServer,
)

_FOLLOWER = (
    "CREATE USER replica@'127.0.0.1' IDENTIFIED BY 'replica'",
    "GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'",
)


class StandbyServer(PostgreSQLServer):
    """A hot standby, which first copies a running PostgreSQL."""

    primary: DatabaseServer

    def making(self) -> list[str]:
        copy = program("pg_basebackup", "postgresql")
        place = ["-h", "127.0.0.1", "-p", str(self.primary.port), "-U", "admin", "-D", str(self.folder / "data")]
        return ["env", f"PGPASSWORD={ADMIN_PASSWORD}", copy, *place, "-R", "-c", "fast"]

    def prepare(self) -> None:
        """Do nothing: its users are its primary's."""


class ReplicatedServer(MySQLProtocolServer):
    """A server with a log for replicas. :meth:`follow` makes it a replica."""

    lag_right = ""
    """Right that a user needs to see how far a replica is behind."""

    def flags(self) -> list[str]:
        flags = [flag for flag in super().flags() if flag != "--skip-log-bin"]
        return [*flags, "--log-bin=log", f"--server-id={self.port}"]

    def follow(self, primary: DatabaseServer) -> None:
        """Replicate what another server does from now on."""
        raise NotImplementedError


class ReplicatedMariaDBServer(ReplicatedServer, MariaDBServer):
    """MariaDB."""

    lag_right = "SLAVE MONITOR"

    def follow(self, primary: DatabaseServer) -> None:
        (file, position, *_), *_ = primary.run(*_FOLLOWER, "SHOW MASTER STATUS")
        self.run(
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {primary.port}, MASTER_USER = 'replica', "
            f"MASTER_PASSWORD = 'replica', MASTER_LOG_FILE = '{file}', MASTER_LOG_POS = {position}",
            "START REPLICA",
        )


class ReplicatedMySQLServer(ReplicatedServer, MySQLServer):
    """MySQL."""

    lag_right = "REPLICATION CLIENT"

    def follow(self, primary: DatabaseServer) -> None:
        (file, position, *_), *_ = primary.run(*_FOLLOWER, "SHOW BINARY LOG STATUS")
        self.run(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {primary.port}, "
            "SOURCE_USER = 'replica', SOURCE_PASSWORD = 'replica', GET_SOURCE_PUBLIC_KEY = 1, "
            f"SOURCE_LOG_FILE = '{file}', SOURCE_LOG_POS = {position}",
            "START REPLICA",
        )
