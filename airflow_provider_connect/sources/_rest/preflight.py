"""Checks a declaration by a day's first page, and loads nothing."""

from __future__ import annotations

import logging
from contextlib import closing

from airflow_provider_connect.capabilities.source import HasQuota
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.findings import Finding
from airflow_provider_connect.polling.quota.turns import KeyStore, Turns, reserve_request
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._rest.options import RestOptions
from airflow_provider_connect.sources._rest.poller import RestPoller
from airflow_provider_connect.window import Day

_LOG = logging.getLogger(__name__)


def inspect(options: RestOptions, connection: Connection, day: Day, store: KeyStore | None) -> list[Finding]:
    """Return one finding: the number of rows on the day's first page that has any.

    :raises ConnectError: as in a poll. :class:`.QuotaError` if the declared limit has no room. Then nothing was sent.
    """
    quota = options.quota(connection) if isinstance(options, HasQuota) else None
    turns = Turns(store, quota) if store is not None and quota is not None else None
    tally = Tally([day])
    with reserve_request(turns, "check", _warn, tally.sent):
        rows = _first_rows(options, connection, day, tally)
    if rows:
        return [Finding("first page", "ok", f"{rows:,} rows of {day}, as declared")]
    return [Finding("first page", "note", f"{day} has no rows", "check a day with records, by --day")]


def _first_rows(options: RestOptions, connection: Connection, day: Day, tally: Tally) -> int:
    # The last version of a record needs all pages, and a check requests one.
    records = options.records.model_copy(update={"on_duplicate": "first"})
    options = options.model_copy(update={"records": records})
    with RestPoller(options, connection, PollContext(looks_ahead=False)) as poller:
        for part in poller.plan([day]):
            with closing(poller.poll(part, tally)) as batches:  # type: ignore[type-var]  # a generator
                for _, batch in batches:
                    if batch.num_rows:
                        return int(batch.num_rows)
    return 0


def _warn(reason: str) -> None:
    _LOG.warning("The requests of this check do not count against the tasks' quota: %s.", reason)
