"""The executor's half of a publish, for sinks that send staged files themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from airflow_provider_connect import registry
from airflow_provider_connect.capabilities.staging import StagesByExecutors
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.errors import Failure, worst
from airflow_provider_connect.sink import Connections, Sink, StreamKey
from airflow_provider_connect.spark.progress import say
from airflow_provider_connect.stage.manifest import StagedFile


def run(
    shares: Iterable[tuple[StagedFile, ...]],
    *,
    sink_name: str,
    sink: dict[str, Any],
    key: StreamKey,
    token: Any,
    stage: str,
    connections: Connections,
) -> Iterator[tuple[Any, Failure | None]]:
    """Send shares of a day, for ``mapPartitions``; yield a receipt or a failure for each."""
    target: Sink = registry.sink_class(sink_name).of(sink)
    for share in shares:
        try:
            with closing_quietly(target.open(key, connections), say) as publisher:
                assert isinstance(publisher, StagesByExecutors)
                receipt = publisher.put(token, stage, share)
        except Exception as error:  # noqa: BLE001  # every error returns as data, with its type
            yield None, Failure.of(error)
        else:
            yield receipt, None


def receipts(outcomes: list[tuple[Any, Failure | None]]) -> list[Any]:
    """Return the receipts of all shares.

    :raises ConnectError: the worst failure, with its own type. An OvertakenError goes before a RetriableError: the day
        must be polled again, and no retry of a share helps.
    """
    failures = [failure for _, failure in outcomes if failure is not None]
    if (found := worst(failures)) is not None:
        overtaken = [failure for failure in failures if failure.type == "OvertakenError"]
        raise (overtaken[0] if overtaken and found.type == "RetriableError" else found).error()
    return [receipt for receipt, _ in outcomes]
