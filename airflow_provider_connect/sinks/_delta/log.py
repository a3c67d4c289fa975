"""Opens a Delta table's log, knows when it is not the one that was written, and brings it to the disk.

A log may be lost, or set back to an older state, under data files that stay. A new table in its place would take loaded
days for missing ones, and a sweep would delete their files. So every publish notes which version it made, beside the
log: ``_connect/log/<version>-<table id>``. Whoever opens the table lists the notes first, and refuses a log that is
older than a note, that is another table's, or that is not there while notes, attempts or data files of ours are.

delta-rs leaves commits in the memory of the machine, from where a power cut takes them. A commit that is lost below one
that is not makes the table unreadable, so whoever has committed brings every commit to the disk that is not noted yet,
also those of writers that were killed before they could. A version is noted only after that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote

from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from airflow_provider_connect.patience import Patience
from airflow_provider_connect.stage.manifest import CONTROL, DATA_FILE
from airflow_provider_connect.stage.storage import Folder, storage_error

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG = "_delta_log"
NOTES = f"{CONTROL}/log"
_LOOKS = 5
_LOOK_AGAIN_SECONDS = 0.2
_NOTE = re.compile(rf"{NOTES}/(?P<version>\d{{20}})-(?P<table>.+)")
_PART_OF_A_LOG = re.compile(rf"{LOG}/(\d{{20}}\..*(json|parquet)|_last_checkpoint)")
_HINT_NAME = f"{LOG}/_last_checkpoint"
_HINT = re.compile(rb'"version"\s*:\s*(\d+)')
# How delta-rs 1.6 says that commits are missing from the log, at its beginning or between two others.
_GAP = re.compile(r"No table metadata or protocol found|Expected contiguous commit files")
_MEND = "restore {path}/_delta_log as it was; or, for a new table, delete {path} whole, data and _connect included"


def delta_errors() -> tuple[type[Exception], ...]:
    """Return the classes of what ``deltalake`` raises when a log cannot be read or a commit fails."""
    from deltalake.exceptions import DeltaError

    return (DeltaError, OSError)


@contextmanager
def log_errors(table: DeltaTable) -> Iterator[None]:
    """Turn what delta-rs raises while it reads the log of an open table into one of ours, which names the table."""
    try:
        yield
    except delta_errors() as error:
        raise storage_error(unquote(table.table_uri.removeprefix("file://")).rstrip("/"), error) from error


def lost_race(error: Exception) -> bool:
    """Tell whether a commit failed because another was faster, and not because of the storage below."""
    from deltalake.exceptions import CommitFailedError

    return isinstance(error, CommitFailedError) and "os error" not in str(error)


def open_table(path: str) -> DeltaTable | None:
    """Return the newest version of the table, None if there is no table and never was one.

    :raises RetriableError: if there is one that cannot be read now.
    :raises ConfigError: if this user may not read it; if its log was lost or set back.
    """
    folder = Folder(path)
    patience = Patience(pauses=(_LOOK_AGAIN_SECONDS,), tries=_LOOKS)
    while isinstance(opened := _look(folder), ConnectError):
        # Another process may have made the table, or cleaned its log, between the two looks.
        if not patience.again():
            raise opened
    return opened


def _look(folder: Folder) -> DeltaTable | ConfigError | RetriableError | None:
    """Open the table; return, and do not raise, what another look may find otherwise."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    # The notes before the log: a version is in the log before it is noted.
    notes = _notes(folder)
    try:
        table = DeltaTable(folder.url)
    except TableNotFoundError as error:
        return _no_table(folder, error)
    except delta_errors() as error:
        if folder.local and folder.is_file():
            raise ConfigError(f"path={folder.url!r} is a file: name a folder, or a path that is free") from error
        if not _GAP.search(str(error)):
            raise storage_error(folder.url, error) from error
        return ConfigError(f"the log of table {folder.url} has lost commits: {_MEND.format(path=folder.url)}")
    version, table_id = max(notes, default=(0, _id(table)))
    if version > table.version():
        what = f"stands at version {table.version()}, but version {version} was there: it was set back"
    elif table_id != _id(table):
        what = "is not the one that its data files were published in"
    else:
        return table
    return ConfigError(
        f"the log of table {folder.url} {what}, so what it says of loaded days is not true: "
        f"{_MEND.format(path=folder.url)}; or, to go on from this older state, delete {folder.url}/{NOTES}"
    )


def _no_table(folder: Folder, error: Exception) -> ConfigError | RetriableError | None:
    """Judge delta-rs's "not found", which it says for a log that it cannot read too; None if nothing is there."""
    names = [file.name for file in folder.files()]
    if any(_PART_OF_A_LOG.fullmatch(name) for name in names):
        return storage_error(folder.url, error)
    ours = (f"{CONTROL}/attempts/", f"{NOTES}/")
    left = next((name for name in names if name.startswith(ours) or DATA_FILE.fullmatch(name)), None)
    if left is None:
        return None
    return ConfigError(
        f"the log of table {folder.url} is gone, but files of a table are there ({left}): "
        f"{_MEND.format(path=folder.url)}"
    )


def _notes(folder: Folder) -> list[tuple[int, str]]:
    """Return version and table of every note."""
    matches = (_NOTE.fullmatch(file.name) for file in folder.files(NOTES))
    return [(int(match["version"]), match["table"]) for match in matches if match]


def secure(folder: Folder, table: DeltaTable) -> None:
    """Bring the table up to this version to the disk, then note the version and forget older notes.

    What was noted before is on the disk already, so this costs little when nothing is new.
    """
    new = (table.version(), _id(table))
    notes = _notes(folder)
    newest = max(notes, default=None)
    _sync_log(folder, table.version(), noted=-1 if newest is None else newest[0])
    if newest is not None and new < newest:
        return
    if new not in notes:
        folder.write(_name(*new), b"{}")
    for note in notes:
        if note != new:
            folder.delete(_name(*note))


def _sync_log(folder: Folder, version: int, noted: int) -> None:
    """Bring the commits after version ``noted`` up to ``version`` to the disk, and the checkpoints readers start from.

    A checkpoint is written after its commit, and may come after its note; readers use it whoever made it.
    """
    if not folder.local:
        return
    hinted = hinted_checkpoint(folder)
    # One whose writer was killed has no hint, and readers find it behind the hinted one all the same.
    names = [checkpoint_name(each) for each in range(hinted or 0, max(version, hinted or 0) + 1)]
    if hinted is not None:
        names.append(_HINT_NAME)
    while version > noted and folder.exists(commit := commit_name(version)):
        names.append(commit)
        version -= 1
    folder.sync(names)
    if noted < 0:  # nobody has seen to the table's own folder yet; one this user may not open is left to its owner
        with suppress(ConfigError):
            Folder(folder.url.rpartition("/")[0] or "/").sync([""])


def hinted_checkpoint(folder: Folder) -> int | None:
    """Return the version of the checkpoint that the log's hint names; None if there is no hint."""
    try:
        found = _HINT.search(folder.read(_HINT_NAME))
    except FileNotFoundError:
        return None
    return int(found[1]) if found else None


def checkpoint_name(version: int) -> str:
    """Return the name of a version's checkpoint under the table's root, if it is one of a single file."""
    return f"{LOG}/{version:020d}.checkpoint.parquet"


def commit_name(version: int) -> str:
    """Return the name of a version's commit under the table's root."""
    return f"{LOG}/{version:020d}.json"


def _id(table: DeltaTable) -> str:
    return str(table.metadata().id)


def _name(version: int, table_id: str) -> str:
    return f"{NOTES}/{version:020d}-{table_id}"
