"""A Delta table's log: opens it, detects a lost or restored log, commits, flushes, and reads transactions.

**Lost logs.** If a log is lost or restored while its data files stay, loaded days seem missing, and a sweep would
delete their files. So every publish notes its version in ``_connect/log/<version>-<table id>``. Opening refuses a log
that is older than a note or of another table, and a missing log beside notes, attempts or data files.

**Power cuts.** delta-rs does not flush commits, and a table that has lost a commit below a later one is unreadable. So
after a commit, all commits above the noted version are flushed, even other writers'. Only then is the version noted.

**Transactions.** ``deltalake`` reads the end of the log for each id, and a ledger has several ids a day. So this module
reads the log once, by Delta's protocol: the newest checkpoint's transactions, then every later commit's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from airflow_provider_connect.patience import Patience
from airflow_provider_connect.stage.manifest import CONTROL_FOLDER, DATA_FILE_PATTERN, StagedFile
from airflow_provider_connect.stage.storage import Folder, StoredFile, storage_error, translate_errors
from airflow_provider_connect.stage.together import call_together

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    from deltalake import DeltaTable
    from deltalake import Field as DeltaField
    from deltalake.transaction import AddAction, RemoveAction


LOG_FOLDER = "_delta_log"
VERSION_NOTES_FOLDER = f"{CONTROL_FOLDER}/log"
_OPEN_TRIES = 5
_OPEN_AGAIN_SECONDS = 0.2
_NOTE = re.compile(rf"{VERSION_NOTES_FOLDER}/(?P<version>\d{{20}})-(?P<table>.+)")
_PART_OF_A_LOG = re.compile(rf"{LOG_FOLDER}/(\d{{20}}\..*(json|parquet)|_last_checkpoint)")
_HINT_NAME = f"{LOG_FOLDER}/_last_checkpoint"
_HINT = re.compile(rb'"version"\s*:\s*(\d+)')
# How delta-rs 1.6 reports commits missing from the log, at its beginning or between two others.
_GAP = re.compile(r"No table metadata or protocol found|Expected contiguous commit files")
_MEND = (
    "Restore {path}/_delta_log as it was. Or, for a new table, delete the whole folder {path}, "
    "data and _connect included"
)
# A checkpoint in one file, in one file under a UUID, or in parts.
_CHECKPOINT = re.compile(
    rf"{LOG_FOLDER}/(?P<version>\d{{20}})\.checkpoint\."
    r"([0-9a-f-]{36}\.|\d{10}\.(?P<parts>\d{10})\.)?(parquet|json)"
)


def delta_errors() -> tuple[type[Exception], ...]:
    """Return ``deltalake``'s exception classes for an unreadable log and a failed commit."""
    from deltalake.exceptions import DeltaError

    return (DeltaError, OSError)


@contextmanager
def translate_log_errors(table: DeltaTable) -> Iterator[None]:
    """Translate delta-rs' errors within the block into errors that name the table."""
    try:
        yield
    except delta_errors() as error:
        raise storage_error(unquote(table.table_uri.removeprefix("file://")).rstrip("/"), error) from error


def is_lost_race(error: Exception) -> bool:
    """Return whether a commit failed because another one came first, not because of the storage."""
    from deltalake.exceptions import CommitFailedError

    return isinstance(error, CommitFailedError) and "os error" not in str(error)


def open_table(path: str, *, may_hold_staged_files: bool = False) -> DeltaTable | None:
    """Return the newest version of the table, or None if there was never one.

    :param may_hold_staged_files: staged files without a log are no error.
    :raises RetriableError: the table cannot be read now.
    :raises ConfigError: a permission is missing, or the log was lost or set back.
    """
    folder = Folder(path)
    patience = Patience(pauses=(_OPEN_AGAIN_SECONDS,), tries=_OPEN_TRIES)
    while isinstance(opened := _try_to_open(folder, may_hold_staged=may_hold_staged_files), ConnectError):
        # Another process may have made the table, or cleaned its log, just now.
        if not patience.wait_and_retry():
            raise opened
    return opened


def _try_to_open(folder: Folder, *, may_hold_staged: bool) -> DeltaTable | ConfigError | RetriableError | None:
    """Open the table. Returns errors that the next try may not meet, and raises others."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    # Read the notes before the log: a version is in the log before it is noted.
    notes = _version_notes(folder)
    try:
        table = DeltaTable(folder.url)
    except TableNotFoundError as error:
        return _no_table(folder, error, may_hold_staged=may_hold_staged)
    except delta_errors() as error:
        if folder.is_local and folder.is_file():
            raise ConfigError(f"path={folder.url!r} is a file. Name a folder, or an unused path") from error
        if not _GAP.search(str(error)):
            raise storage_error(folder.url, error) from error
        return ConfigError(f"the log of table {folder.url} has lost commits. {_MEND.format(path=folder.url)}")
    version, table_id = max(notes, default=(0, _table_id(table)))
    if version > table.version():
        state = f"is at version {table.version()}, but version {version} was published: it was set back"
    elif table_id != _table_id(table):
        state = "is not the log that its data files were published in"
    else:
        return table
    return ConfigError(
        f"the log of table {folder.url} {state}, so its list of loaded days is wrong. "
        f"{_MEND.format(path=folder.url)}. Or, to continue from this older state, "
        f"delete {folder.url}/{VERSION_NOTES_FOLDER}"
    )


def _no_table(folder: Folder, error: Exception, *, may_hold_staged: bool) -> ConfigError | RetriableError | None:
    """Interpret "not found", which delta-rs also says of an unreadable log. Returns None if there is no table."""
    names = [file.name for file in folder.files()]
    if any(_PART_OF_A_LOG.fullmatch(name) for name in names):
        return storage_error(folder.url, error)
    control_prefixes = (f"{CONTROL_FOLDER}/attempts/", f"{VERSION_NOTES_FOLDER}/")
    if may_hold_staged:
        names = [name for name in names if not DATA_FILE_PATTERN.fullmatch(name)]
    leftover = next(
        (name for name in names if name.startswith(control_prefixes) or DATA_FILE_PATTERN.fullmatch(name)), None
    )
    if leftover is None:
        return None
    return ConfigError(
        f"the log of table {folder.url} is gone, but the table's files exist ({leftover}). "
        f"{_MEND.format(path=folder.url)}"
    )


def _version_notes(folder: Folder) -> list[tuple[int, str]]:
    matches = (_NOTE.fullmatch(file.name) for file in folder.files(VERSION_NOTES_FOLDER))
    return [(int(match["version"]), match["table"]) for match in matches if match]


def add_action(file: StagedFile, day: dt.date, entry: StoredFile) -> AddAction:
    """Return the action that adds a file to a day.

    :param entry: the file as the storage has it.
    """
    from deltalake.transaction import AddAction

    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values={"day": str(day)},
        modification_time=int(entry.modified.timestamp() * 1000),
        data_change=True,
        stats=json.dumps({**file.stats, "numRecords": file.rows}),
    )


def commit(
    table: DeltaTable,
    app_transactions: Mapping[str, int],
    metadata: dict[str, str],
    *,
    files: Sequence[AddAction | RemoveAction] = (),
    columns: Sequence[DeltaField] | None = None,
    mode: Literal["append", "overwrite"] = "append",
    day: dt.date | None = None,
    retries: int = 100,
) -> None:
    """Commit on exactly this version of a table.

    :param app_transactions: id to version. Delta refuses the commit if another one has since written one of these ids.
    :param columns: the table's new columns. None keeps them.
    :param day: the day whose files ``overwrite`` removes. None removes all files.
    :param retries: how often delta-rs may rebase the commit on others that wrote no id of ``app_transactions``.
    """
    from deltalake import CommitProperties, Schema, Transaction

    table.create_write_transaction(
        [*files],
        mode=mode,
        schema=table.schema() if columns is None else Schema([*columns]),
        partition_by=["day"],
        partition_filters=None if day is None else [("day", "=", str(day))],
        commit_properties=CommitProperties(
            custom_metadata=metadata,
            max_commit_retries=retries,
            app_transactions=[Transaction(app, version) for app, version in app_transactions.items()],
        ),
    )


def make_durable(folder: Folder, table: DeltaTable) -> None:
    """Flush the log up to this version to the disk, note the version and delete older notes."""
    version_note = (table.version(), _table_id(table))
    notes = _version_notes(folder)
    newest = max(notes, default=None)
    _sync_log(folder, table.version(), noted_version=-1 if newest is None else newest[0])
    if newest is not None and version_note < newest:
        return
    if version_note not in notes:
        folder.write(_note_name(*version_note), b"{}")
    for note in notes:
        if note != version_note:
            folder.delete(_note_name(*note))


def _sync_log(folder: Folder, version: int, noted_version: int) -> None:
    """Flush the commits above ``noted_version`` up to ``version``, and all checkpoints that readers may start from.

    Any writer may write an old checkpoint late.
    """
    if not folder.is_local:
        return
    hint = hinted_checkpoint(folder)
    # A checkpoint of a killed writer has no hint, but readers find it after the hinted one.
    names = [checkpoint_name(number) for number in range(hint or 0, max(version, hint or 0) + 1)]
    if hint is not None:
        names.append(_HINT_NAME)
    while version > noted_version and folder.exists(commit := commit_name(version)):
        names.append(commit)
        version -= 1
    folder.sync(names)
    if (
        noted_version < 0
    ):  # first publish: flush the table's entry in its parent folder, unless only others may open that one
        with suppress(ConfigError):
            Folder(folder.url.rpartition("/")[0] or "/").sync([""])


def hinted_checkpoint(folder: Folder) -> int | None:
    """Return the version in ``_last_checkpoint``, or None without the file."""
    try:
        match = _HINT.search(folder.read(_HINT_NAME))
    except FileNotFoundError:
        return None
    return int(match[1]) if match else None


def checkpoint_name(version: int) -> str:
    """Return the path of a version's single-file checkpoint."""
    return f"{LOG_FOLDER}/{version:020d}.checkpoint.parquet"


def commit_name(version: int) -> str:
    """Return the path of a version's commit."""
    return f"{LOG_FOLDER}/{version:020d}.json"


def _table_id(table: DeltaTable) -> str:
    return str(table.metadata().id)


def _note_name(version: int, table_id: str) -> str:
    return f"{VERSION_NOTES_FOLDER}/{version:020d}-{table_id}"


def read_transactions(folder: Folder, version: int, prefix: str) -> dict[str, int]:
    """Return a version's transactions with ids that begin with ``prefix``.

    :raises RetriableError: a file of the log was just cleaned up, or is damaged.
    """
    merged: dict[str, int] = {}
    try:
        checkpoint, names = _newest_checkpoint(folder, version)
        names += [commit_name(number) for number in range(checkpoint + 1, version + 1)]
        for transactions in call_together(folder, partial(_transactions_in, folder), names):
            merged |= transactions
    except (FileNotFoundError, ValueError) as error:
        raise RetriableError(
            f"the log of table {folder.url} cannot be read up to version {version} ({type(error).__name__}). Another "
            f"process may have just cleaned it up. If the error stays, restore {folder.url}/{LOG_FOLDER}"
        ) from error
    return {app: checkpoint for app, checkpoint in merged.items() if app.startswith(prefix)}


def _newest_checkpoint(folder: Folder, version: int) -> tuple[int, list[str]]:
    """Return version and paths of the newest whole checkpoint, or -1 and []."""
    hinted = hinted_checkpoint(folder)
    if hinted is not None and hinted <= version and folder.exists(name := checkpoint_name(hinted)):
        return hinted, [name]
    checkpoints: dict[tuple[int, int], list[str]] = {}
    for file in folder.files(LOG_FOLDER):
        match = _CHECKPOINT.fullmatch(file.name)
        if match and int(match["version"]) <= version:
            checkpoints.setdefault((int(match["version"]), int(match["parts"] or 1)), []).append(file.name)
    # Without parts, each file is a whole checkpoint.
    return max(
        (
            (checkpoint_version, names[:parts])
            for (checkpoint_version, parts), names in checkpoints.items()
            if len(names) >= parts
        ),
        default=(-1, []),
    )


def _transactions_in(folder: Folder, name: str) -> dict[str, int]:
    if name.endswith(".json"):
        # Most lines are long and describe files: parse only those that may be transactions.
        actions = (json.loads(line) for line in folder.read(name).splitlines() if b'"txn"' in line)
        return {txn["appId"]: txn["version"] for action in actions if (txn := action.get("txn"))}
    import pyarrow.parquet as pq

    with (
        translate_errors(f"{folder.url}/{name}"),
        folder.filesystem.open_input_file(folder.path_in_filesystem(name)) as file,
    ):
        table = pq.ParquetFile(file).read(["txn"])
    if "txn" not in table.column_names:
        return {}
    app_ids, versions = (table["txn"].drop_null().combine_chunks().field(name) for name in ("appId", "version"))
    return dict(zip(app_ids.to_pylist(), versions.to_pylist(), strict=True))
