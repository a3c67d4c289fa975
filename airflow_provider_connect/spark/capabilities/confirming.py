"""Days of the lookback whose answer is the published one: the sink notes that, and publishes nothing."""

from __future__ import annotations

from airflow_provider_connect.capabilities.publisher import Confirms
from airflow_provider_connect.publishing import is_unchanged
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.spark.context import Context
from airflow_provider_connect.stage.manifest import Manifest


def confirms(context: Context, publish: Publish, newest: LedgerRow | None) -> bool:
    """Whether to confirm a day instead of publishing it. A clear and a backfill load it whatever it holds."""
    is_free = publish.day in context.job.lookback and isinstance(context.outlet.publisher, Confirms)
    return is_free and context.outlet.sink.reloads and is_unchanged(publish, newest)


def confirm(context: Context, publish: Publish) -> LedgerRow:
    """Have the sink note that the published answer was given once more.

    :raises ConnectError: as a commit.
    """
    assert isinstance(context.outlet.publisher, Confirms)
    return context.outlet.publisher.confirm(publish)


def is_confirmed(row: LedgerRow, manifest: Manifest) -> bool:
    """Whether a ledger row is the one that this attempt has confirmed."""
    return (row.generation, row.checks) == (manifest.seen.generation, manifest.seen.checks + 1)
