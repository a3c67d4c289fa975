"""Reads all application transactions of one version of a Delta table at once.

``deltalake`` looks up one application id at a time, and reads the end of the log each time. A ledger has several ids
for each day, so here the log is read once, as Delta's protocol defines it: the transactions of the newest checkpoint,
then those of every commit after it.

Only checkpoints of one Parquet file are read, since it holds all transactions. For any other log (checkpoints in parts
or named by a UUID, a file just deleted or unreadable) the answer is None, and the caller asks delta-rs.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

from airflow_provider_connect.sinks._delta.log import LOG, checkpoint_name, commit_name, hinted_checkpoint
from airflow_provider_connect.stage.storage import Folder, named_errors

_READERS = 8
_CHECKPOINT = re.compile(rf"{LOG}/(?P<version>\d{{20}})\.checkpoint\.(.+\.)?(parquet|json)")


def recorded_transactions(folder: Folder, version: int, prefix: str) -> dict[str, int] | None:
    """Return application id to version for each id that begins with ``prefix``, as version ``version`` has them.

    :return: None if this log cannot be read here.
    """
    from pyarrow import ArrowInvalid

    try:
        checkpoint = _newest_checkpoint(folder, version)
        if checkpoint is None:
            return committed_transactions(folder, 0, version, prefix)
        at, name = checkpoint
        if name != checkpoint_name(at):
            return None
        commits = committed_transactions(folder, at + 1, version, prefix)
        return None if commits is None else _checkpoint_transactions(folder, name, prefix) | commits
    except (FileNotFoundError, ArrowInvalid):
        return None  # just cleaned up, or damaged: delta-rs finds another way, or says what is wrong


def committed_transactions(folder: Folder, first: int, last: int, prefix: str) -> dict[str, int] | None:
    """Return the transactions of the commits ``first`` to ``last``; None if one is gone or unreadable."""
    names = [commit_name(version) for version in range(first, last + 1)]
    if not names:
        return {}
    if not folder.exists(names[0]):  # a clean-up removes the oldest first
        return None
    found: dict[str, int] = {}
    try:
        with ThreadPoolExecutor(_READERS) as pool:
            for commit in pool.map(folder.read, names):
                # Most lines are long and describe files: parse only those that may be transactions.
                actions = (json.loads(line) for line in commit.splitlines() if b'"txn"' in line)
                found |= {txn["appId"]: txn["version"] for action in actions if (txn := action.get("txn"))}
    except (FileNotFoundError, ValueError):
        return None
    return {app: version for app, version in found.items() if app.startswith(prefix)}


def _newest_checkpoint(folder: Folder, version: int) -> tuple[int, str] | None:
    """Return version and name of the newest checkpoint up to ``version``; None if there is none."""
    hinted = hinted_checkpoint(folder)
    if hinted is not None and hinted <= version and folder.exists(name := checkpoint_name(hinted)):
        return hinted, name
    matches = (_CHECKPOINT.fullmatch(file.name) for file in folder.files(LOG))
    found = [(int(match["version"]), match[0]) for match in matches if match]
    # If a version has several, max() takes the single file: ".checkpoint.parquet" sorts after digits and UUIDs.
    return max((each for each in found if each[0] <= version), default=None)


def _checkpoint_transactions(folder: Folder, name: str, prefix: str) -> dict[str, int]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with named_errors(f"{folder.url}/{name}"), folder.filesystem.open_input_file(folder.path(name)) as file:
        table = pq.ParquetFile(file).read(["txn"])
    if "txn" not in table.column_names:
        return {}
    apps, versions = (pc.struct_field(table["txn"], field) for field in ("appId", "version"))
    ours = pc.fill_null(pc.starts_with(apps, prefix), fill_value=False)
    return dict(zip(apps.filter(ours).to_pylist(), versions.filter(ours).to_pylist(), strict=True))
