"""Publishes to sinks that send staged files from the executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from airflow_provider_connect import registry
from airflow_provider_connect.capabilities.publisher import StagesByExecutors
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.errors import Failure, worst_failure
from airflow_provider_connect.sink import Connections, LedgerRow, Publish, Publisher, Sink, StreamKey
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.stage.manifest import StagedFile


def run_put_tasks(
    shares: Iterable[tuple[StagedFile, ...]],
    *,
    sink_name: str,
    sink: dict[str, Any],
    key: StreamKey,
    token: Any,
    stage: str,
    connections: Connections,
) -> Iterator[tuple[Any, Failure | None]]:
    """Send groups of a day's staged files, for ``mapPartitions``. Yields ``(receipt, None)`` or ``(None, failure)``."""
    target: Sink = registry.sink_class(sink_name).from_options(sink)
    for share in shares:
        try:
            with closing_quietly(target.open(key, connections), log_line) as publisher:
                assert isinstance(publisher, StagesByExecutors)
                receipt = publisher.put(token, stage, share)
        except Exception as error:  # noqa: BLE001  # every error returns as data, with its type
            yield None, Failure.from_error(error)
        else:
            yield receipt, None


def collect_receipts(outcomes: list[tuple[Any, Failure | None]]) -> list[Any]:
    """Return the receipts of all shares.

    :raises ConnectError: the worst failure of a share. An OvertakenError outranks a RetriableError, because the day
        must be polled again.
    """
    failures = [failure for _, failure in outcomes if failure is not None]
    if (decisive := worst_failure(failures)) is not None:
        overtaken = [failure for failure in failures if failure.type == "OvertakenError"]
        raise (overtaken[0] if overtaken and decisive.type == "RetriableError" else decisive).error()
    return [receipt for receipt, _ in outcomes]


def begin_publish(publisher: Publisher, publish: Publish) -> Any:
    """Begin a publish. Returns the sink's token for its executors, or None if the sink uses none."""
    return publisher.begin(publish) if isinstance(publisher, StagesByExecutors) else None


def put_and_commit(
    publisher: Publisher, publish: Publish, token: Any, put_shares: Callable[..., list[Any]] | None
) -> LedgerRow:
    """Send a day's shares if the sink uses executors, then commit the day. After a failure, the sink cleans up.

    :param put_shares: runs :func:`run_put_tasks` on the executors, or None to send nothing.
    """
    if not isinstance(publisher, StagesByExecutors):
        return publisher.commit(publish, token, [])
    try:
        shares = publisher.shares(publish.manifest.polled.files)
        return publisher.commit(publish, token, put_shares(token, shares) if put_shares else [])
    except BaseException:
        _abort(publisher, publish, token)
        raise


def _abort(publisher: StagesByExecutors, publish: Publish, token: Any) -> None:
    try:
        publisher.abort(publish, token)
    except Exception as error:  # noqa: BLE001
        log_line(
            f"day {publish.day}: the sink could not clean up after the failed publish: "
            f"{Failure.from_error(error).message}"
        )
