"""Airflow Variables, alike in a task (through the API server) and in a plain script (from the database)."""

from __future__ import annotations

import sys
from typing import Any

from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

_DESCRIPTION = "Part of the count of a vendor's requests; all that it says is in its key."


def read(key: str) -> str | None:
    """Return a Variable's text; None if there is no such Variable."""
    if not runs_in_task():
        return _variables().get(key, default_var=None)  # type: ignore[no-any-return]
    try:
        return Variable.get(key)  # type: ignore[no-any-return]
    except AirflowRuntimeError as error:
        if error.error.error == ErrorType.VARIABLE_NOT_FOUND:
            return None
        raise


def write(key: str, text: str, description: str) -> None:
    """Set a Variable to a text."""
    _variables().set(key, text, description=description)


def delete(key: str) -> None:
    """Delete a Variable, if there is one."""
    _variables().delete(key)


def _variables() -> Any:
    if runs_in_task():
        return Variable
    from airflow.models.variable import Variable as Stored  # noqa: PLC0415  # a task must not load the database

    return Stored


def keys(prefix: str) -> list[str]:
    """Return the keys that start with ``prefix``, sorted, without those of secrets backends: Airflow lists none."""
    if runs_in_task():
        return sorted(Variable.keys(prefix=prefix))
    from airflow.utils.session import create_session  # noqa: PLC0415
    from sqlalchemy import select  # noqa: PLC0415

    key_column = _variables().key
    with create_session() as session:
        stored_keys = session.scalars(select(key_column).where(key_column.startswith(prefix, autoescape=True)))
        return sorted(stored_keys)


class VariableStore:
    """Variables of which the key says all: a store of :mod:`.polling.quota.turns`, in a task and in the triggerer."""

    def add(self, key: str) -> None:
        """Add a Variable."""
        write(key, _DESCRIPTION, _DESCRIPTION)

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that start with ``prefix``."""
        return keys(prefix)

    def delete(self, key: str) -> None:
        """Delete a Variable, if it is there."""
        delete(key)


def runs_in_task() -> bool:
    """Tell whether this is a task's process, which reaches Airflow through its supervisor alone."""
    # Airflow's own models tell a task's process in the same way.
    return hasattr(sys.modules.get("airflow.sdk.execution_time.task_runner"), "SUPERVISOR_COMMS")
