"""What an exception of Spark's means for a transform, told without a text that may hold a row's value."""

from __future__ import annotations

import re
from typing import Any

from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, Failure, RetriableError

_MOST_CHARACTERS = 500
_BAD_VALUE = ("22", "21", "23")
_WRONG = ("42", "0A", "07", "3D", "3F", "46")
_PLACE = re.compile(r"[;,]?\s*\(?line \d+,? pos \d+\)?")


def error_of_check(label: str, error: Exception) -> ConnectError:
    """Return our error for one that came when a transform was tried without a row: no text holds a value of one.

    :param what: the transform, for people.
    """
    if isinstance(error, ConnectError):
        return error
    if _is_spark_s(error):
        return ConfigError(f"transform={label}: Spark does not take it: {_first_line(error)}")
    return ConfigError(
        f"transform={label}: the function failed on a day without rows: {_without_text(error)}; it is tried so before "
        "the source is asked, to learn the columns of its result"
    )


def error_of_run(label: str, error: Exception) -> ConnectError:
    """Return our error for one that came while rows were transformed: only its kind is told."""
    if isinstance(error, ConnectError):
        return error
    if _is_spark_s(error):
        return _of_spark(label, error)
    return DataError(f"transform={label}: the function failed: {_without_text(error)}")


def _of_spark(what: str, error: Exception) -> ConnectError:
    name, state = _condition(error), _state(error)
    told = f"{name or type(error).__name__}{f', SQLSTATE {state}' if state else ''}"
    if type(error).__name__ == "PythonException":
        return DataError(f"transform={what}: a Python function in it failed on some row ({_python_type(error)})")
    if type(error).__name__ in ("AnalysisException", "ParseException"):
        return ConfigError(f"transform={what}: Spark does not take it: {_first_line(error)}")
    if state.startswith(_BAD_VALUE):
        return DataError(f"transform={what}: a value of some row cannot be computed ({told}): see try_cast, try_divide")
    if state.startswith(_WRONG):
        return ConfigError(f"transform={what}: Spark does not take it ({told})")
    return RetriableError(f"transform={what}: Spark could not compute it ({told})")


def _is_spark_s(error: Exception) -> bool:
    return any(kind.__module__.startswith(("pyspark.errors", "py4j.")) for kind in type(error).__mro__)


def _condition(error: Any) -> str:
    return str(_asked(error, "getCondition") or "")


def _state(error: Any) -> str:
    return str(_asked(error, "getSqlState") or "")


def _asked(error: Any, name: str) -> Any:
    """Ask an exception of Spark's; it asks the JVM, which may be gone."""
    try:
        return getattr(error, name)()
    except Exception:  # noqa: BLE001  # then nothing is known
        return None


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _PLACE.sub("", lines[0] if lines else type(error).__name__)[:_MOST_CHARACTERS].rstrip(" ;")


def _without_text(error: Exception) -> str:
    return Failure.from_error(error).message.removeprefix("unexpected ")


def _python_type(error: Exception) -> str:
    """Return the class at the end of a Python traceback; its text is left out."""
    found = re.findall(r"^\s*((?:\w+\.)*\w*(?:Error|Exception|Warning|Exit))\b", str(error), re.MULTILINE)
    return found[-1] if found else "no traceback"
