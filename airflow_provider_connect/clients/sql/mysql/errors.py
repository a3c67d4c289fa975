"""Converts MySQL's and MariaDB's errors by number.

Numbers: https://dev.mysql.com/doc/mysql-errors/8.4/en/ and https://mariadb.com/docs/server/reference/error-codes
(2026-11).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import (
    ConfigError,
    ConnectError,
    DataError,
    DeadlineError,
    RetriableError,
    SetupError,
)
from airflow_provider_connect.secrets import Secrets, redact_tokens

if TYPE_CHECKING:
    import pymysql

_RIGHTS_ERRORS = {1044, 1045, 1130, 1142, 1143, 1227, 1370, 1449, 1698, 1820, 1862, 3118, 3955, 4151}
_NAME_ERRORS = {1046, 1049, 1051, 1052, 1054, 1056, 1060, 1103, 1109, 1146, 1176, 1247, 1305, 1356}
_SQL_ERRORS = {1055, 1064, 1111, 1140, 1149, 1193, 1222, 1235, 1241, 1242, 1248, 1267, 1271, 1290, 1295, 1791, 1792}
# MySQL 8 and later, not MariaDB: dates in a statement's text, JSON paths, WITH queries and windows, an endless
# recursion, regular expressions.
_SQL_ERRORS |= {1525, 3143, 3149, 3153, 3636, *range(3573, 3603), *range(3685, 3701)}
_LOGIN_ERRORS = {1251, 1275, 1524, 2026, 2054, 2059, 2061, 3159}
_SYNTAX_ERROR = 1064
_TIMEOUT_ERRORS = {1969, 3024}
_INTERRUPTED_ERRORS = {1317, 1927}
_VALUE_ERRORS = {1264, 1292, 1301, 1365, 1366, 1411, 1441, 1690, 1918, 3140, 3141}
_ADVICE = {
    1040: "the server has no free connection: read fewer days or chunks concurrently, or try later",
    1203: "the user has no free connection: read fewer days or chunks concurrently, or try later",
    1205: "another session holds a lock on the table, such as ALTER TABLE: try again when it has ended",
    1213: "two sessions waited for each other, and the server ended this one: try again",
    1226: "the user has reached its limit for this hour",
    1412: "the table was altered since the snapshot began",
    1792: "the SQL writes, but this session is read-only",
    2013: "the server waits net_write_timeout for a reader of rows, and wait_timeout between statements",
}
_UNKNOWN_HOST = re.compile(r"\[Errno -[25]\]")  # EAI_NONAME, EAI_NODATA
_SHOWN_ERRORS = _RIGHTS_ERRORS | _NAME_ERRORS


def error_number(error: pymysql.MySQLError) -> int:
    """Return an error's number, or 0."""
    number = error.args[0] if error.args else 0
    return number if isinstance(number, int) else 0


def connecting_error(error: pymysql.MySQLError | OSError, label: str, secrets: Secrets) -> ConnectError:
    """Return the error for a failed connection, with the server's text but no password."""
    import pymysql

    number = error_number(error) if isinstance(error, pymysql.MySQLError) else 0
    server_text = " ".join(secrets.redact(str(error.args[-1] if error.args else error)).split())
    message = f"{label}: the MySQL server refuses the connection (error {number}): {server_text}"
    if number in _RIGHTS_ERRORS | _NAME_ERRORS | _LOGIN_ERRORS or "CERTIFICATE_VERIFY_FAILED" in server_text:
        return ConfigError(f"{message}: correct the connection")
    if _UNKNOWN_HOST.search(server_text):
        return SetupError(f"{message}: check the host")
    return RetriableError(message)


def sql_error(
    error: pymysql.MySQLError, action: str, *, is_cancelled: bool = False, quotes_sql: bool = False
) -> ConnectError:
    """Return the error for a failed statement.

    :param quotes_sql: True if a syntax error may quote the SQL.
    """
    import pymysql

    number = error_number(error)
    if isinstance(error, pymysql.InterfaceError):
        return RetriableError(f"{action}: the session is closed")
    if number in _TIMEOUT_ERRORS:
        return DeadlineError(
            f"{action}: the MySQL server ended the statement at its time limit (error {number}). Find the session "
            "that locks the table, read fewer rows per statement, or raise statement_timeout_seconds"
        )
    if number in _INTERRUPTED_ERRORS and is_cancelled:
        return RetriableError(f"{action}: cancelled")
    kind: type[ConnectError] = RetriableError
    if number in _RIGHTS_ERRORS | _NAME_ERRORS | _SQL_ERRORS or isinstance(
        error, (pymysql.ProgrammingError, pymysql.NotSupportedError)
    ):
        kind = ConfigError
    elif number in _VALUE_ERRORS or isinstance(error, pymysql.DataError):
        kind = DataError
    shows_text = number in _SHOWN_ERRORS or (quotes_sql and number == _SYNTAX_ERROR)
    server_text = f": {redact_tokens(str(error.args[-1]))}" if shows_text else ""
    advice = f": {_ADVICE[number]}" if number in _ADVICE else ""
    return kind(f"{action}: the MySQL server reports error {number} ({type(error).__name__}){server_text}{advice}")
