"""Real database servers of this session's own: a free port, an own folder, no right but an ordinary user's."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from airflow_provider_connect.connection import Connection
from tests.equipment.programs import program
from tests.equipment.sql.mysql_files import empty_data, mysqld
from tests.equipment.stores.nobody import NOBODY
from tests.standins import server

START_SECONDS = 60
STOP_SECONDS = 20
READER, PASSWORD = "reader", "p:w/ö'r\"d \\@%"
"""Who reads, and may do no more."""
ADMIN_PASSWORD = "admin's own"


def _as_ordinary_user(command: Sequence[str]) -> list[str]:
    """Return a command as root runs it for somebody with fewer rights: neither server runs as root."""
    if os.geteuid() != 0:
        return list(command)
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]


@dataclass
class DatabaseServer(ABC):
    """One server, empty at first."""

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="db-")))
    port: int = field(default_factory=server.free_port)
    process: subprocess.Popen[bytes] | None = None
    tls: Path | None = None
    """A file with certificate and key; without it the server knows no TLS."""

    conn_type = ""
    kind = ""
    """Name of the product."""

    def __enter__(self) -> DatabaseServer:
        if os.geteuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)
        if self.tls:
            self.tls = Path(shutil.copy(self.tls, self.folder / "tls.pem"))
            self.tls.chmod(0o600)
            if os.geteuid() == 0:
                os.chown(self.tls, NOBODY, NOBODY)
        try:
            server.run(_as_ordinary_user(self.making()), f"making {self.kind}'s files")
            self.start()
            self.prepare()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start it; return when it answers."""
        self.process = server.start(
            _as_ordinary_user(self.running()),
            self.answers,
            name=self.kind,
            log=self.folder / "server.log",
            cwd=self.folder,
            seconds=START_SECONDS,
        )

    def stop(self) -> None:
        """End it, if it runs."""
        if self.process is not None:
            server.stop(self.process, STOP_SECONDS)
            self.process = None

    def kill(self) -> None:
        """End it as a loss of power does, with all its processes."""
        assert self.process is not None
        for process in [self.process, *psutil.Process(self.process.pid).children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        self.process = None

    def answers(self) -> bool:
        """Tell whether the administrator gets in."""
        try:
            self.run("SELECT 1")
        except Exception:
            return False
        return True

    def connection(self, database: str, **changes: Any) -> Connection:
        """Return a reader's connection."""
        fields: dict[str, Any] = {
            "conn_id": "sql_default",
            "conn_type": self.conn_type,
            "host": "127.0.0.1",
            "port": self.port,
            "path": database,
            "login": READER,
            "password": PASSWORD,
        }
        return Connection(**fields | changes)

    @abstractmethod
    def making(self) -> list[str]:
        """Return the command that makes the server's files."""

    @abstractmethod
    def running(self) -> list[str]:
        """Return the command that is the server."""

    @abstractmethod
    def prepare(self) -> None:
        """Make the reader, once it runs."""

    @abstractmethod
    def admin(self, database: str = "") -> Any:
        """Return an administrator's connection of the driver, which commits every statement."""

    @abstractmethod
    def series(self, last: int) -> str:
        """Return a query of the whole numbers from 1 to another one, in a column ``n``."""

    def run(self, *statements: str, database: str = "") -> list[tuple[Any, ...]]:
        """Run statements as the administrator; return the rows of the last one."""
        rows: list[tuple[Any, ...]] = []
        with contextlib.closing(self.admin(database)) as opened, contextlib.closing(opened.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall()) if cursor.description else []
        return rows

    @contextlib.contextmanager
    def database(self, name: str) -> Iterator[None]:
        """Make a database, and drop it at the end."""
        self.run(f"CREATE DATABASE {name}")
        try:
            yield
        finally:
            self.run(f"DROP DATABASE {name}{self.dropping}")

    dropping = ""


class PostgreSQLServer(DatabaseServer):
    """PostgreSQL."""

    conn_type = "postgres"
    kind = "PostgreSQL"
    dropping = " WITH (FORCE)"

    def series(self, last: int) -> str:
        return f"SELECT n FROM generate_series(1, {last}) AS s (n)"

    def making(self) -> list[str]:
        password = self.folder / "password"
        password.write_text(ADMIN_PASSWORD)
        password.chmod(0o644)
        return [
            program("initdb", "postgresql"), "-D", str(self.folder / "data"), "-U", "admin", "-A", "scram-sha-256",
            f"--pwfile={password}", "-E", "UTF8", "--no-locale", "--no-sync",
        ]  # fmt: skip

    def running(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "full_page_writes": "off",
            "synchronous_commit": "off",
            "shared_buffers": "32MB",
            "max_connections": "80",
            # What an administrator may have chosen, and a reader must not depend on.
            "timezone": "Asia/Kolkata",
            "datestyle": "SQL, DMY",
            "intervalstyle": "postgres_verbose",
            "extra_float_digits": "0",
            "bytea_output": "escape",
        }
        if self.tls:
            settings |= {"ssl": "on", "ssl_cert_file": str(self.tls), "ssl_key_file": str(self.tls)}
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [program("postgres", "postgresql"), "-D", str(self.folder / "data"), "-p", str(self.port), *flags]

    def prepare(self) -> None:
        from psycopg import sql

        password = sql.Literal(PASSWORD).as_string(None)
        self.run(f"CREATE ROLE {READER} LOGIN PASSWORD {password}", f"GRANT pg_read_all_data TO {READER}")

    def admin(self, database: str = "") -> Any:
        import psycopg

        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="admin",
            password=ADMIN_PASSWORD,
            dbname=database or "postgres",
            autocommit=True,
        )


class MySQLProtocolServer(DatabaseServer):
    """A server that speaks the protocol of MySQL."""

    conn_type = "mysql"
    sql_mode = "PAD_CHAR_TO_FULL_LENGTH,ANSI_QUOTES"

    def flags(self) -> list[str]:
        """Return the settings that all of them have."""
        return [
            f"--datadir={self.folder / 'data'}", f"--socket={self.socket}", f"--port={self.port}",
            "--bind-address=127.0.0.1", "--skip-name-resolve", f"--pid-file={self.folder / 'pid'}",
            f"--tmpdir={self.folder}", "--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0",
            "--skip-log-bin", "--max-allowed-packet=16M",
            # What an administrator may have chosen, and a reader must not depend on.
            "--default-time-zone=+05:30", f"--sql-mode={self.sql_mode}",
            *([f"--ssl-cert={self.tls}", f"--ssl-key={self.tls}"] if self.tls else []),
        ]  # fmt: skip

    def answers(self) -> bool:
        return self.socket.exists() and super().answers()  # PyMySQL leaves a socket open that finds nobody

    @property
    def socket(self) -> Path:
        return self.folder / "s.sock"

    def start(self) -> None:
        """Start it, also after it was killed, which leaves a socket that nobody listens at."""
        self.socket.unlink(missing_ok=True)
        super().start()

    def prepare(self) -> None:
        import pymysql.converters

        password = pymysql.converters.escape_string(PASSWORD)
        for host in ("127.0.0.1", "localhost"):
            self.run(
                f"CREATE USER {READER}@'{host}' IDENTIFIED BY '{password}'", f"GRANT SELECT ON *.* TO {READER}@'{host}'"
            )

    def admin(self, database: str = "") -> Any:
        import pymysql

        return pymysql.connect(
            unix_socket=str(self.socket),
            user="root",
            database=database or None,
            autocommit=True,
            charset="utf8mb4",
            sql_mode="",  # so that zero dates can be written
        )


class MariaDBServer(MySQLProtocolServer):
    """MariaDB."""

    kind = "MariaDB"
    sql_mode = f"{MySQLProtocolServer.sql_mode},EMPTY_STRING_IS_NULL"

    def series(self, last: int) -> str:
        return f"SELECT seq AS n FROM seq_1_to_{last}"

    def making(self) -> list[str]:
        return [
            program("mariadb-install-db", "mariadb-server"), "--no-defaults", f"--datadir={self.folder / 'data'}",
            f"--tmpdir={self.folder}", "--auth-root-authentication-method=normal", "--skip-test-db",
        ]  # fmt: skip

    def running(self) -> list[str]:
        return [program("mariadbd", "mariadb-server"), "--no-defaults", *self.flags()]


class MySQLServer(MySQLProtocolServer):
    """MySQL itself. It makes a certificate for itself, as it does everywhere."""

    kind = "MySQL"

    def series(self, last: int) -> str:
        numbers = f"SELECT 1 AS n UNION ALL SELECT n + 1 FROM numbers WHERE n < {last}"
        return f"SELECT n FROM (WITH RECURSIVE numbers AS ({numbers}) SELECT n FROM numbers) AS numbers"

    def making(self) -> list[str]:
        return ["cp", "-r", str(empty_data()), str(self.folder / "data")]

    def running(self) -> list[str]:
        small = ["--innodb-redo-log-capacity=8M", "--performance-schema=OFF", "--mysqlx=OFF"]
        return [*mysqld(), *self.flags(), *small, "--cte-max-recursion-depth=100000000"]
