"""What an exception of the JVM means, told by its class and the database's codes: its text may hold anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, DeadlineError, RetriableError
from airflow_provider_connect.secrets import Secrets, redact_tokens

_SQL = "java.sql.SQLException"
_MOST_CAUSES = 20
_MOST_CHARACTERS = 300
_NO_DRIVER = "No suitable driver"
_DRIVER = (
    "Spark has no JDBC driver for it: name the driver's jar in the operator's conf, as spark.jars, and its class in "
    "the connection's extra, as driver_class"
)
_LATE = ("HYT00", "HYT01", "57014", "XCL52")
_REFUSED = ("08004", "28", "04501")
_REFUSED_CODES = (1017, 28000, 18456)
"""Of Oracle and SQL Server, whose SQLSTATE does not say it. A login that is tried again and again is locked."""
_WRONG = ("42", "0A", "07", "2A", "3D", "3F", "37", "S0002")
_BAD_VALUE = ("22", "21")


class JvmException:
    """One exception of a chain, as far as it may be told."""

    def __init__(self, java: Any) -> None:
        self.class_names = list(_class_names(java))
        self.is_sql = _SQL in self.class_names
        self.text = str(java.getMessage() or "")
        self.state = str(java.getSQLState() or "") if self.is_sql else ""
        self.code = java.getErrorCode() if self.is_sql else 0

    def has_class(self, *names: str) -> bool:
        """Whether it is one of some classes, given without their packages."""
        return any(name.rpartition(".")[2] in names for name in self.class_names)

    def __str__(self) -> str:
        kind = self.class_names[0].rpartition(".")[2]
        return f"{kind}, SQLSTATE {self.state or 'none'}, code {self.code}" if self.is_sql else kind


def _class_names(java: Any) -> Iterator[str]:
    found = java.getClass()
    while found is not None:
        yield str(found.getName())
        found = found.getSuperclass()


def jvm_exceptions(error: Exception) -> list[JvmException]:
    """Return the exceptions of the JVM behind one of Python's, outermost first; [] if there is none."""
    # Py4J has it under one name, PySpark's own exceptions under the other.
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    found: list[JvmException] = []
    while java is not None and len(found) < _MOST_CAUSES:
        found.append(JvmException(java))
        java = java.getCause()
    return found


def error_for_exceptions(
    subject: str, exceptions: list[JvmException], *, secrets: Secrets | None = None
) -> ConnectError:
    """Return our error for exceptions of the JVM.

    :param secrets: what the text may not show. Given where no row is read: then a text about the SQL is told.
    """
    if any(cause.has_class("ClassNotFoundException", "NoClassDefFoundError") for cause in exceptions):
        return ConfigError(f"{subject}: {_DRIVER}")
    cause = next((cause for cause in exceptions if cause.is_sql), None)
    if cause is None:
        if any(cause.has_class("ArithmeticException", "DateTimeException") for cause in exceptions):
            return DataError(f"{subject}: a value cannot be read ({exceptions[-1]})")
        return RetriableError(
            f"{subject}: Spark could not read it ({exceptions[-1] if exceptions else 'the JVM is gone'})"
        )
    return _of_sql(subject, cause, secrets)


def _is_refused(cause: JvmException) -> bool:
    return cause.state.startswith(_REFUSED) or cause.code in _REFUSED_CODES


def _of_sql(about: str, cause: JvmException, secrets: Secrets | None) -> ConnectError:  # a line for each kind
    told = f"({cause})"
    if cause.text.startswith(_NO_DRIVER):
        return ConfigError(f"{about}: {_DRIVER}")
    if cause.has_class("SQLTimeoutException") or cause.state in _LATE:
        return DeadlineError(f"{about}: the statement took longer than it may {told}")
    if cause.has_class("SQLInvalidAuthorizationSpecException") or _is_refused(cause):
        return ConfigError(f"{about}: the database refuses login, password or rights {told}")
    if cause.has_class("SQLSyntaxErrorException", "SQLFeatureNotSupportedException") or cause.state.startswith(_WRONG):
        text = f": {redact_tokens(secrets.redact(cause.text))[:_MOST_CHARACTERS]}" if secrets is not None else ""
        return ConfigError(f"{about}: the database does not take the SQL, or a name in it {told}{text}")
    if cause.has_class("SQLDataException") or cause.state.startswith(_BAD_VALUE):
        return DataError(f"{about}: the database cannot compute a value {told}")
    return RetriableError(f"{about}: the database is away or in trouble {told}")
