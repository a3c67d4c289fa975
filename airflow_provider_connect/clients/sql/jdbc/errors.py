"""Converts JVM exceptions by class and database codes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_provider_connect.errors import (
    ConfigError,
    ConnectError,
    DataError,
    DeadlineError,
    RetriableError,
    SetupError,
)
from airflow_provider_connect.secrets import Secrets, redact_tokens

_SQL_EXCEPTION = "java.sql.SQLException"
_MAX_EXCEPTIONS = 20
_MAX_CHARACTERS = 300
_NO_DRIVER = "No suitable driver"
_DRIVER_ADVICE = (
    "Spark has no JDBC driver for this URL. Set spark.jars in the operator's conf to the driver's jar, and "
    "driver_class in the connection's extra to its class"
)
_TIMEOUT_STATES = ("HYT00", "HYT01", "57014", "XCL52")
_LOGIN_STATES = ("08004", "28", "04501")
_LOGIN_CODES = (1017, 28000, 18456)
"""Codes of Oracle and SQL Server for a refused login, whose retries would lock it."""
_SQL_STATES = ("42", "0A", "07", "2A", "3D", "3F", "37", "S0002")
_VALUE_STATES = ("22", "21")


class JvmException:
    """Class names, text, SQLSTATE and code of a Java exception."""

    def __init__(self, java: Any) -> None:
        self.class_names = list(_class_names(java))
        self.is_sql = _SQL_EXCEPTION in self.class_names
        self.text = str(java.getMessage() or "")
        self.state = str(java.getSQLState() or "") if self.is_sql else ""
        self.code = java.getErrorCode() if self.is_sql else 0

    def has_class(self, *names: str) -> bool:
        """Return whether the exception is of one of these classes, named without package."""
        return any(name.rpartition(".")[2] in names for name in self.class_names)

    def __str__(self) -> str:
        kind = self.class_names[0].rpartition(".")[2]
        return f"{kind}, SQLSTATE {self.state or 'none'}, code {self.code}" if self.is_sql else kind


def _class_names(java: Any) -> Iterator[str]:
    java_class = java.getClass()
    while java_class is not None:
        yield str(java_class.getName())
        java_class = java_class.getSuperclass()


def jvm_exceptions(error: Exception) -> list[JvmException]:
    """Return the Java exceptions behind a Python exception, outermost first."""
    # Py4J uses the first name, PySpark's own exceptions the second.
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    exceptions: list[JvmException] = []
    while java is not None and len(exceptions) < _MAX_EXCEPTIONS:
        exceptions.append(JvmException(java))
        java = java.getCause()
    return exceptions


def error_for_exceptions(
    subject: str, exceptions: list[JvmException], *, secrets: Secrets | None = None
) -> ConnectError:
    """Return this package's error for Java exceptions.

    :param secrets: removed from texts about the SQL. None hides these texts, as while rows are read.
    """
    if any(cause.has_class("ClassNotFoundException", "NoClassDefFoundError") for cause in exceptions):
        return ConfigError(f"{subject}: {_DRIVER_ADVICE}")
    if any(cause.has_class("UnknownHostException") for cause in exceptions):
        return SetupError(f"{subject}: the database's host is unknown to the name service. Check the URL")
    cause = next((cause for cause in exceptions if cause.is_sql), None)
    if cause is None:
        if any(cause.has_class("ArithmeticException", "DateTimeException") for cause in exceptions):
            return DataError(f"{subject}: a value cannot be read ({exceptions[-1]})")
        return RetriableError(
            f"{subject}: Spark could not read the rows ({exceptions[-1] if exceptions else 'the JVM is gone'})"
        )
    return _sql_error(subject, cause, secrets)


def _is_login_error(cause: JvmException) -> bool:
    return cause.state.startswith(_LOGIN_STATES) or cause.code in _LOGIN_CODES


def _sql_error(subject: str, cause: JvmException, secrets: Secrets | None) -> ConnectError:  # a line for each kind
    codes = f"({cause})"
    if cause.text.startswith(_NO_DRIVER):
        return ConfigError(f"{subject}: {_DRIVER_ADVICE}")
    if cause.has_class("SQLTimeoutException") or cause.state in _TIMEOUT_STATES:
        return DeadlineError(f"{subject}: the statement exceeded its time limit {codes}")
    if cause.has_class("SQLInvalidAuthorizationSpecException") or _is_login_error(cause):
        return ConfigError(f"{subject}: the database refuses login, password or rights {codes}")
    if cause.has_class("SQLSyntaxErrorException", "SQLFeatureNotSupportedException") or cause.state.startswith(
        _SQL_STATES
    ):
        text = f": {redact_tokens(secrets.redact(cause.text))[:_MAX_CHARACTERS]}" if secrets is not None else ""
        return ConfigError(f"{subject}: the database refuses the SQL or a name in it {codes}{text}")
    if cause.has_class("SQLDataException") or cause.state.startswith(_VALUE_STATES):
        return DataError(f"{subject}: the database cannot compute a value {codes}")
    return RetriableError(f"{subject}: the database is unreachable or in trouble {codes}")
