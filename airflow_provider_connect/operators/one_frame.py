"""Raises an operator's mistake with the task's name, from one frame (see :func:`.errors.raise_from_one_frame`)."""

from __future__ import annotations

from typing import Any

from airflow.sdk.bases.operator import BaseOperatorMeta

from airflow_provider_connect.errors import ConfigError


class OperatorMeta(BaseOperatorMeta):
    """Metaclass of the operator. A wrong argument is raised from one frame, with the task's name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make an operator.

        :raises ConfigError: an argument is wrong.
        """
        try:
            return super().__call__(*args, **kwargs)
        except ConfigError as error:
            raise name_task(self.__name__, kwargs.get("task_id"), error) from None


def name_task(operator: str, task_id: object, error: ConfigError) -> ConfigError:
    """Return the error with the operator's and the task's name before its text."""
    text = str(error).removeprefix(f"{operator}: ")
    return ConfigError(f"{operator} {task_id!r}: {text}" if isinstance(task_id, str) else f"{operator}: {text}")
