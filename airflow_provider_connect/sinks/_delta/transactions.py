"""Reads all application transactions of one version of a Delta table at once.

``deltalake`` looks up one application id at a time, and reads the end of the log each time. A ledger has several ids
for each day, so here the log is read once, as Delta's protocol defines it: the transactions of the newest checkpoint,
then those of every commit after it.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sinks._delta.log import LOG, checkpoint_name, commit_name, hinted_checkpoint
from airflow_provider_connect.stage.storage import Folder, named_errors

_READERS = 8
# In one file, in one file under a UUID, or in parts.
_CHECKPOINT = re.compile(
    rf"{LOG}/(?P<version>\d{{20}})\.checkpoint\.([0-9a-f-]{{36}}\.|\d{{10}}\.(?P<parts>\d{{10}})\.)?(parquet|json)"
)


def recorded_transactions(folder: Folder, version: int, prefix: str) -> dict[str, int]:
    """Return application id to version for each id that begins with ``prefix``, as version ``version`` has them.

    :raises RetriableError: a file of the log was just cleaned up, or is damaged.
    """
    found: dict[str, int] = {}
    try:
        at, names = _newest_checkpoint(folder, version)
        names += [commit_name(each) for each in range(at + 1, version + 1)]
        with ThreadPoolExecutor(_READERS) as pool:
            for transactions in pool.map(partial(_transactions, folder), names):
                found |= transactions
    except (FileNotFoundError, ValueError) as error:
        raise RetriableError(
            f"the log of table {folder.url} cannot be read up to version {version} ({type(error).__name__}): somebody "
            f"may have cleaned it up just now; if it stays, restore {folder.url}/{LOG}"
        ) from error
    return {app: at for app, at in found.items() if app.startswith(prefix)}


def _newest_checkpoint(folder: Folder, version: int) -> tuple[int, list[str]]:
    """Return version and files of the newest whole checkpoint up to ``version``; -1 and [] if there is none."""
    hinted = hinted_checkpoint(folder)
    if hinted is not None and hinted <= version and folder.exists(name := checkpoint_name(hinted)):
        return hinted, [name]
    found: dict[tuple[int, int], list[str]] = {}
    for file in folder.files(LOG):
        match = _CHECKPOINT.fullmatch(file.name)
        if match and int(match["version"]) <= version:
            found.setdefault((int(match["version"]), int(match["parts"] or 1)), []).append(file.name)
    # Without parts, each file of a version holds all.
    return max(((at, names[:parts]) for (at, parts), names in found.items() if len(names) >= parts), default=(-1, []))


def _transactions(folder: Folder, name: str) -> dict[str, int]:
    """Return the transactions of one file of the log."""
    if name.endswith(".json"):
        # Most lines are long and describe files: parse only those that may be transactions.
        actions = (json.loads(line) for line in folder.read(name).splitlines() if b'"txn"' in line)
        return {txn["appId"]: txn["version"] for action in actions if (txn := action.get("txn"))}
    import pyarrow.parquet as pq

    with named_errors(f"{folder.url}/{name}"), folder.filesystem.open_input_file(folder.path(name)) as file:
        table = pq.ParquetFile(file).read(["txn"])
    rows = table["txn"].drop_null().to_pylist() if "txn" in table.column_names else []
    return {txn["appId"]: txn["version"] for txn in rows}
