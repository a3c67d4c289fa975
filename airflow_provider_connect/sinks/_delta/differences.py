"""Compares what a publish has staged with what the table shows of its day."""

from __future__ import annotations

from airflow_provider_connect.sink import Publish
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.stage.differences import Differences, differences


def from_published(view: LedgerView, publish: Publish, *, softly: bool) -> Differences | None:
    """Return how the staged rows of a day differ from those of this version of the table.

    :param softly: whether deleted rows of the table are left out of it.

    None if it shows another generation than the attempt saw before it polled: the commit refuses that.
    """
    day = publish.day.date
    if (view.transaction(day) or 0) != publish.manifest.seen.generation:
        return None
    before = [path for date, path, _ in view.files if date == day]
    after = [file.path for file in publish.manifest.polled.files]
    return differences(view.folder, before, after, publish.schema, live_only=softly)
