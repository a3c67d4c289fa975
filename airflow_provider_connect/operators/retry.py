"""How our errors become Airflow's: which of them retry, and when."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from airflow.sdk import RetryDecision, RetryPolicy
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError

if TYPE_CHECKING:
    from airflow.sdk import Context


class TryAgainError(AirflowException):
    """The task failed and may succeed later.

    :param retry_after_seconds: how long the other side asked to be left alone; None if it did not say.
    """

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


def to_airflow_error(error: ConnectError) -> AirflowException:
    """Return Airflow's error for ours: no retry for a wrong option or bad data, a retry for everything else."""
    if isinstance(error, (ConfigError, DataError)):
        return AirflowFailException(str(error))
    retry_after = error.retry_after_seconds if isinstance(error, RetriableError) else None
    return TryAgainError(str(error), retry_after_seconds=retry_after)


class ConnectRetryPolicy(RetryPolicy):
    """Retry after the time that the other side asked for, else after the task's own ``retry_delay``."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Decide about one failed try; ``retries`` still limits their number."""
        if not isinstance(exception, TryAgainError) or exception.retry_after_seconds is None:
            return RetryDecision.default()
        seconds = max(0.0, exception.retry_after_seconds)
        return RetryDecision.retry(dt.timedelta(seconds=seconds), reason=f"asked to wait {seconds:.0f} s")


CONNECT_RETRY_POLICY = ConnectRetryPolicy()
