"""Converts this package's errors to Airflow's, and decides when Airflow tries again."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from airflow.sdk import RetryDecision, RetryPolicy
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, Failure

if TYPE_CHECKING:
    from airflow.sdk import Context


class TryAgainError(AirflowException):
    """The task failed, and a later try may succeed.

    :param retry_after_seconds: wait that the source or sink asked for, or None.
    """

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


def to_airflow_error(error: ConnectError) -> AirflowException:
    """Convert an error to Airflow's: wrong options and bad data are not retried, other errors are."""
    failure = Failure.from_error(error)
    text = f"{failure.type}: {failure.message}"  # the type is what the page "At 3 a.m." lists
    if isinstance(error, (ConfigError, DataError)):
        return AirflowFailException(text)
    return TryAgainError(text, retry_after_seconds=failure.retry_after_seconds)


class ConnectRetryPolicy(RetryPolicy):
    """Policy that waits as long as the source or sink asked for, else for ``retry_delay``."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Decide when to repeat a failed try."""
        if not isinstance(exception, TryAgainError) or exception.retry_after_seconds is None:
            return RetryDecision.default()
        seconds = max(0.0, exception.retry_after_seconds)
        return RetryDecision.retry(
            dt.timedelta(seconds=seconds), reason=f"the other system asked to wait {seconds:.0f} s"
        )


CONNECT_RETRY_POLICY = ConnectRetryPolicy()
