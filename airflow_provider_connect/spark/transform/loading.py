"""Makes a callable of what the task has sent."""

from __future__ import annotations

import base64
import importlib
import inspect
import sys

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.transform import Function, PickledFunction, Transform


def function_of(transform: Transform) -> Function | None:
    """Return a transform's function; None for SQL.

    :raises ConfigError: the driver does not find it, or cannot read it.
    """
    if transform.reference is not None:
        return _imported(transform.reference.strip())
    return None if transform.function is None else _unpickled(transform.function)


def takes_day(function: Function) -> bool:
    """Tell whether a function has a second parameter, for the day's date."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters) > 1


def _imported(reference: str) -> Function:
    module, _, name = reference.partition(":")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise ConfigError(
            f"transform={reference!r}: the driver cannot import {error.name or module!r}: install it where Spark's "
            "driver runs, or give the operator py_files="
        ) from None
    if not callable(found):
        raise ConfigError(f"transform={reference!r}: module {module} has no function {name!r}")
    return found  # type: ignore[no-any-return]


def _unpickled(sent: PickledFunction) -> Function:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if here != sent.python:
        raise ConfigError(
            f"transform={sent.name}: the task runs Python {sent.python} and Spark's driver {here}, which does not read "
            "its bytecode: use one version, or put the function into a module that the driver can import, and name "
            "it: transform='package.module:function'"
        )
    from pyspark import cloudpickle  # noqa: PLC0415

    try:
        found: Function = cloudpickle.loads(base64.b64decode(sent.pickle))
    except ImportError as error:
        raise ConfigError(
            f"transform={sent.name}: the function needs {error.name!r}, which Spark's driver cannot import: install it "
            "there, or give the operator py_files="
        ) from None
    return found
