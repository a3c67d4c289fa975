"""Reads and writes Airflow Variables, in a task or a plain script."""

from __future__ import annotations

import sys
from typing import Any

from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

_DESCRIPTION = "Part of the count of a vendor's requests. The key holds all data."


def read(key: str) -> str | None:
    """Return a Variable's text. None if it does not exist."""
    if not runs_in_task():
        return _variables().get(key, default_var=None)  # type: ignore[no-any-return]
    try:
        return Variable.get(key)  # type: ignore[no-any-return]
    except AirflowRuntimeError as error:
        if error.error.error == ErrorType.VARIABLE_NOT_FOUND:
            return None
        raise


def write(key: str, text: str, description: str) -> None:
    """Set a Variable."""
    _variables().set(key, text, description=description)


def delete(key: str) -> None:
    """Delete a Variable if it exists."""
    _variables().delete(key)


def _variables() -> Any:
    if runs_in_task():
        return Variable
    from airflow.models.variable import Variable as Stored  # noqa: PLC0415  # a task must not load the database

    return Stored


def keys(prefix: str) -> list[str]:
    """Return the sorted keys with this prefix, except those of secrets backends, which Airflow cannot list."""
    if runs_in_task():
        return sorted(Variable.keys(prefix=prefix))
    from airflow.utils.session import create_session  # noqa: PLC0415
    from sqlalchemy import select  # noqa: PLC0415

    key_column = _variables().key
    with create_session() as session:
        stored_keys = session.scalars(select(key_column).where(key_column.startswith(prefix, autoescape=True)))
        return sorted(stored_keys)


class VariableStore:
    """Store of the keys of :mod:`.polling.quota.turns` as Airflow Variables."""

    def add(self, key: str) -> None:
        """Create a Variable. Its key holds all data."""
        write(key, _DESCRIPTION, _DESCRIPTION)

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin with ``prefix``."""
        return keys(prefix)

    def delete(self, key: str) -> None:
        """Delete a Variable if it exists."""
        delete(key)


def runs_in_task() -> bool:
    """Return True in a task's process."""
    # Airflow's own models use the same test.
    return hasattr(sys.modules.get("airflow.sdk.execution_time.task_runner"), "SUPERVISOR_COMMS")
