"""Imports the function that ``transform=`` names."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.transform import Transform

Function = Callable[..., Any]
"""Takes the day as a DataFrame, and the day's date if it has a second parameter; returns a DataFrame."""


def function_of(transform: Transform) -> Function | None:
    """Return a transform's function; None for SQL.

    :raises ConfigError: the driver does not find it.
    """
    return None if transform.reference is None else _imported(transform.reference.strip())


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
