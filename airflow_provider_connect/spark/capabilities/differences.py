"""Counts what a reload changes, where the sink can tell: beside what the poll counted."""

from __future__ import annotations

import dataclasses

from airflow_provider_connect.capabilities.publisher import TellsDifferences
from airflow_provider_connect.errors import Failure
from airflow_provider_connect.sink import Publish, Publisher
from airflow_provider_connect.spark.progress import say


def with_differences(publisher: Publisher, publish: Publish) -> Publish:
    """Return the publish of a day with the counts ``added``, ``changed`` and ``vanished``; without, if nobody can tell.

    A day that is published for the first time is not looked at. These counts are for people, so no error fails the day.
    """
    manifest = publish.manifest
    if not isinstance(publisher, TellsDifferences) or manifest.seen.day != publish.day.date:
        return publish
    try:
        found = publisher.differences(publish)
    except Exception as error:  # noqa: BLE001  # the day is worth more than its counts
        say(f"day {publish.day}: its changed rows could not be counted: {Failure.of(error).message}")
        return publish
    if found is None:
        return publish
    polled = manifest.polled.model_copy(update={"counts": manifest.polled.counts | found.model_dump()})
    return dataclasses.replace(publish, manifest=manifest.model_copy(update={"polled": polled}))
