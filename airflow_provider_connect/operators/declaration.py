"""Checks the operator while Airflow reads a DAG file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.bases.operator import BaseOperatorMeta

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.schedule import require_day_schedule

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from airflow_provider_connect.source import Source


class OperatorMeta(BaseOperatorMeta):
    """Metaclass of the operator: a ConfigError names the task, from one frame."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make an operator. See :func:`.errors.raise_from_one_frame`."""
        try:
            operator = super().__call__(*args, **kwargs)
            operator.require_schedule()
        except ConfigError as error:
            raise _name_task(self.__name__, kwargs.get("task_id"), error) from None
        return operator


class DeclaredOperator(SparkSubmitOperator, metaclass=OperatorMeta):
    """Base of the operator that checks its DAG's schedule, also if its DAG is set later."""

    source: Source
    days: str | None

    @property
    def dag(self) -> DAG:
        """DAG of the task."""
        dag: DAG = super().dag
        return dag

    @dag.setter
    def dag(self, dag: DAG | None) -> None:
        self._dag = dag  # which Airflow converts: it adds the task to the DAG
        if "source" in vars(self):  # else the constructor is at work
            self.require_schedule()

    def require_schedule(self) -> None:
        """Refuse a DAG whose runs name no day of the source.

        :raises ConfigError: with the remedy.
        """
        is_from_mapped = getattr(self, "_BaseOperator__from_mapped", False)
        if self._dag is not None and not is_from_mapped:
            require_day_schedule(self._dag, self.days, self.source)


def _name_task(operator: str, task_id: object, error: ConfigError) -> ConfigError:
    text = str(error).removeprefix(f"{operator}: ")
    return ConfigError(f"{operator} {task_id!r}: {text}" if isinstance(task_id, str) else f"{operator}: {text}")
