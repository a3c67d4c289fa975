"""All application transactions of one version of a Delta table, read at once.

``deltalake`` answers for one application id at a time, and reads the end of the log anew for each. A ledger has several
ids for each day, so what the log says is read here once, as Delta's protocol lays it down: the transactions of the
newest checkpoint, then those of every commit after it.

A checkpoint of one Parquet file is read, whose transactions are all in that file. For a log that is laid out otherwise
(checkpoints in parts, or named by a UUID), lost a file meanwhile, or cannot be read here, there is no answer, and
whoever wants one asks delta-rs.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

from airflow_provider_connect.sinks._delta.log import LOG, checkpoint_name, commit_name, hinted_checkpoint
from airflow_provider_connect.stage.storage import Folder, named_errors

_READERS = 8
_CHECKPOINT = re.compile(rf"{LOG}/(?P<version>\d{{20}})\.checkpoint\.(.+\.)?(parquet|json)")


def recorded(folder: Folder, version: int, prefix: str) -> dict[str, int] | None:
    """Return application id to version for each id that begins with ``prefix``, as version ``version`` has them.

    :return: None if this log is not one that is read here.
    """
    from pyarrow import ArrowInvalid

    try:
        checkpoint = _newest_checkpoint(folder, version)
        if checkpoint is None:
            return of_commits(folder, 0, version, prefix)
        at, name = checkpoint
        if name != checkpoint_name(at):
            return None
        commits = of_commits(folder, at + 1, version, prefix)
        return None if commits is None else _of_checkpoint(folder, name, prefix) | commits
    except (FileNotFoundError, ArrowInvalid):
        return None  # cleaned up since it was listed, or damaged: delta-rs knows another way, or says what is wrong


def of_commits(folder: Folder, first: int, last: int, prefix: str) -> dict[str, int] | None:
    """Return what the commits of versions ``first`` to ``last`` recorded; None if one is gone, or cannot be read."""
    names = [commit_name(version) for version in range(first, last + 1)]
    if not names:
        return {}
    if not folder.exists(names[0]):  # of a cleaned log it is the first that is gone
        return None
    found: dict[str, int] = {}
    try:
        with ThreadPoolExecutor(_READERS) as pool:
            for commit in pool.map(folder.read, names):
                # Few lines are transactions, and lines of files are long.
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
    # Of several of one version, one file's name is the last: ".checkpoint.parquet" follows digits and UUIDs.
    return max((each for each in found if each[0] <= version), default=None)


def _of_checkpoint(folder: Folder, name: str, prefix: str) -> dict[str, int]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with named_errors(f"{folder.url}/{name}"), folder.filesystem.open_input_file(folder.path(name)) as file:
        table = pq.ParquetFile(file).read(["txn"])
    if "txn" not in table.column_names:
        return {}
    apps, versions = (pc.struct_field(table["txn"], field) for field in ("appId", "version"))
    ours = pc.fill_null(pc.starts_with(apps, prefix), fill_value=False)
    return dict(zip(apps.filter(ours).to_pylist(), versions.filter(ours).to_pylist(), strict=True))
