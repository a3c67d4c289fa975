"""Maps Spark's exceptions in a transform to our errors, without texts that may contain a row's value."""

from __future__ import annotations

import re
from typing import Any

from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, Failure, RetriableError

_MAX_CHARACTERS = 500
_VALUE_STATES = ("22", "21", "23")
_QUERY_STATES = ("42", "0A", "07", "3D", "3F", "46")
_POSITION = re.compile(r"[;,]?\s*\(?line \d+,? pos \d+\)?")


def error_of_check(label: str, error: Exception) -> ConnectError:
    """Return our error for an exception of the check without rows."""
    if isinstance(error, ConnectError):
        return error
    if _is_spark_error(error):
        return ConfigError(f"transform={label}: Spark refuses it: {_first_line(error)}")
    return ConfigError(
        f"transform={label}: the function failed on a day without rows: {_without_text(error)}. It runs without rows "
        "first, to determine the columns of its result"
    )


def error_of_run(label: str, error: Exception) -> ConnectError:
    """Return our error for an exception while rows were transformed, with only the exception's kind."""
    if isinstance(error, ConnectError):
        return error
    if _is_spark_error(error):
        return _of_spark(label, error)
    return DataError(f"transform={label}: the function failed: {_without_text(error)}")


def _of_spark(label: str, error: Exception) -> ConnectError:
    name, state = _condition(error), _state(error)
    condition = f"{name or type(error).__name__}{f', SQLSTATE {state}' if state else ''}"
    if type(error).__name__ == "PythonException":
        return DataError(f"transform={label}: a Python function in it failed on some row ({_python_type(error)})")
    if type(error).__name__ in ("AnalysisException", "ParseException"):
        return ConfigError(f"transform={label}: Spark refuses it: {_first_line(error)}")
    if state.startswith(_VALUE_STATES):
        return DataError(
            f"transform={label}: a value of some row cannot be computed ({condition}). See try_cast and try_divide"
        )
    if state.startswith(_QUERY_STATES):
        return ConfigError(f"transform={label}: Spark refuses it ({condition})")
    return RetriableError(f"transform={label}: Spark could not compute it ({condition})")


def _is_spark_error(error: Exception) -> bool:
    return any(kind.__module__.startswith(("pyspark.errors", "py4j.")) for kind in type(error).__mro__)


def _condition(error: Any) -> str:
    return str(_call_quietly(error, "getCondition") or "")


def _state(error: Any) -> str:
    return str(_call_quietly(error, "getSqlState") or "")


def _call_quietly(error: Any, name: str) -> Any:
    try:
        return getattr(error, name)()
    except Exception:  # noqa: BLE001  # then nothing is known
        return None


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _POSITION.sub("", lines[0] if lines else type(error).__name__)[:_MAX_CHARACTERS].rstrip(" ;")


def _without_text(error: Exception) -> str:
    return Failure.from_error(error).message.removeprefix("unexpected ")


def _python_type(error: Exception) -> str:
    classes = re.findall(r"^\s*((?:\w+\.)*\w*(?:Error|Exception|Warning|Exit))\b", str(error), re.MULTILINE)
    return classes[-1] if classes else "no traceback"
