"""Where a job's stage lies: where the sink wants it, else where the operator says, but in no Delta table."""

from __future__ import annotations

import os

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.job import JobConfig
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.tables import HEAD


def stage_root(own: str | None, job: JobConfig) -> Folder:
    """Return where days are staged.

    :param own: the sink's own stage, if it has one.
    :raises ConfigError: there is no staging option, or it names a place in a Delta table.
    """
    if own is not None:
        return Folder(own)
    if job.staging is None:
        raise ConfigError(f"sink {job.sink_name!r} needs a place for the stage: give the operator staging=")
    root = Folder(job.staging)
    if (table := _table_around(root.url)) is not None:
        raise ConfigError(
            f"staging={job.staging!r} lies in the Delta table {table}, whose files a sweep of the stage would delete, "
            "and whose vacuum would delete the stage: name another place"
        )
    return root


def _table_around(url: str) -> str | None:
    """Return the Delta table, or the root of several, that a folder is or lies in, at any depth; None if none."""
    scheme, separator, named = url.rpartition("://")
    places = [named.split("/"), *([] if scheme else [os.path.realpath(named).split("/")])]  # a link may lead into one
    above = ["/".join(place[:depth]) for place in places for depth in range(len(place), 0, -1)]
    for path in dict.fromkeys(filter(None, above)):
        folder = Folder(f"{scheme}{separator}{path}")
        try:
            if folder.exists("_delta_log") or folder.exists(f"{HEAD}/_delta_log"):
                return folder.url
        except (ConfigError, RetriableError):
            # This user may have no right to look above the folder; stores report that in many ways.
            if folder.url == url:
                raise
    return None
