"""Increments: fixes which rows of a stream a day reads, before it is planned."""

from __future__ import annotations

from functools import partial

from airflow_provider_connect.capabilities.poller import Follows
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.registry import require_capability
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.spark.context import Intake
from airflow_provider_connect.stage.spans import Restart, Span, following
from airflow_provider_connect.window import Day


def span_of(intake: Intake, day: Day, newest: LedgerRow | None, restart: Restart | None) -> Span | None:
    """Return the span of a day: what it has read before, else the rows since the stream's newest; None of other kinds.

    :param restart: position after an alarm.
    :raises ConfigError: the ledger has no position to go on from.
    """
    if intake.source.kind != "increment":
        return None
    follower = require_capability(intake.poller, Follows, "its rows are increments")
    try:
        return following(newest, day.date, partial(follower.follow, day), restart)
    except ValueError as error:
        raise ConfigError(
            f"{intake.source.stream_key} {day}: the publish that this one follows was no increment, and {error}: "
            "load the stream into a target of its own"
        ) from None
