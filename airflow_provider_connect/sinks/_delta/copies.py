"""The places besides a Delta table's newest version that may hold rows of erased people.

Every file that this package writes under a root belongs to the newest version or to one of these places: older
versions, unpublished staged days, days polled for a transform, rejects and manifests.
"""

from __future__ import annotations

import datetime as dt

from airflow_provider_connect.sinks._delta.sweep import Sweeper
from airflow_provider_connect.stage.manifest import CONTROL, MANIFEST
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.temporary import polled_copies


def copies_of(root: Folder, tables: str, sweeper: Sweeper) -> list[str]:
    """Return the places that hold files now, each with the way to clear it.

    :param root: root folder of table and stage.
    :param tables: the table's path, or the template of several paths.
    :param sweeper: the sweeper of the root.
    """
    sweep_after, sweeper.silent = sweeper.silent, dt.timedelta(0)
    unpublished = sweeper.listed()
    attempts = [entry.name for entry in root.files(f"{CONTROL}/attempts")]
    rejects = sum("/rejects-" in name for name in attempts)
    manifests = sum(name.endswith(f"/{MANIFEST}") for name in attempts)
    places = []
    if rejects:
        places.append(
            f"rejects ({rejects:,} times {root.url}/{CONTROL}/attempts/*/rejects-*.parquet): no column "
            "says whose a rejected record is. Delete those of the erased by hand"
        )
    if unpublished:
        places.append(
            f"days that are staged and not published ({len(unpublished):,} files under {root.url}): no "
            "load publishes them. 'airflow connect sweep' deletes them "
            f"{sweep_after / dt.timedelta(hours=1):g} hours after their attempt's last sign of life"
        )
    places += polled_copies(root)
    if manifests:
        places.append(
            f"manifests ({manifests:,} times {root.url}/{CONTROL}/attempts/*/{MANIFEST}), which hold each file's "
            "smallest and largest number: where ids are numbers, delete those of published days by hand"
        )
    places.append(
        f"older versions of {tables}, and the log, which has the smallest and largest number of each file: VACUUM "
        "deletes the files after the table's retention time, and Delta deletes log entries after 30 days"
    )
    return places
