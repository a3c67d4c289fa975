"""Makes a stream's Delta table, and tries whether anything can be written there."""

from __future__ import annotations

import getpass
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.patience import FROM_NONE, Patience
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks._delta.log import delta_errors, open_table
from airflow_provider_connect.sinks._delta.table import OWNER, TEMPLATE, day_column, delta_columns
from airflow_provider_connect.stage.manifest import CONTROL
from airflow_provider_connect.stage.storage import Folder, storage_error

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

# Each look into the ledger reads the commits since the last checkpoint, one request each. So checkpoints come as often
# as Spark's, not after delta-rs's 100 commits.
_CHECKPOINT_INTERVAL = "10"


def create(path: str, key: StreamKey, schema: pa.Schema, template: str | None = None) -> DeltaTable:
    """Make a stream's table; return it, or the one that another process just made.

    :param template: of the tables that it is one of; None for a table by itself.
    """
    from deltalake import CommitProperties, DeltaTable, Schema

    properties = {OWNER: str(key), "delta.checkpointInterval": _CHECKPOINT_INTERVAL}
    if template is not None:
        properties[TEMPLATE] = template
    patience = Patience(pauses=(0.1,), jitter=FROM_NONE, tries=20)
    while True:
        try:
            DeltaTable.create(
                path,
                Schema([*delta_columns(schema).values(), day_column()]),
                partition_by=["day"],
                configuration=properties,
                raise_if_key_not_exists=False,
                # Tried again, delta-rs 1.6 makes the table once more, above the one that won, with another id.
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except delta_errors() as error:
            failure = storage_error(path, error)
        if (table := open_table(path, may_hold_staged=template is not None)) is not None:
            return table
        if not patience.again():
            raise failure


def probe(path: str) -> None:
    """Write and delete a small file under a root.

    :raises ConfigError: it cannot be written, or its parent folder does not exist.
    """
    require_parent(path)
    folder = Folder(path)
    probe = f"{CONTROL}/probe-{uuid.uuid4().hex}"
    folder.write(probe, b"\0" * 65536)
    folder.delete(probe)


def require_parent(path: str) -> None:
    """Refuse a local root whose parent folder does not exist.

    :raises ConfigError: it does not.
    """
    parent = Folder(path.rpartition("/")[0] or "/")
    if Folder(path).local and not parent.exists():
        raise ConfigError(f"{parent.url} does not exist: make it, or correct path={path!r}")


def require_writable(path: str) -> None:
    """Refuse a local root in which this user could make nothing, without trying it. A store tells it only when tried.

    :raises ConfigError: so it is, or its parent folder does not exist.
    """
    require_parent(path)
    folder = Folder(path)
    if not folder.local:
        return
    there = Path(folder.path(""))
    there = there if there.exists() else there.parent
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{there} cannot be written by user {getpass.getuser()!r}, which this command runs as: give the user that "
            "tasks run as the right, or choose another path"
        )
