"""A stream's erase list: a file beside the log, which the table names in a property.

A commit that changes a property makes Delta refuse every other that builds on a version before it. So what was decided
under an older list is decided again.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.stage.manifest import CONTROL_FOLDER

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from airflow_provider_connect.stage.storage import Folder

_PROPERTY = "connect.erase_list"
_FOLDER = f"{CONTROL_FOLDER}/erased"


def erase_version(table: DeltaTable | None) -> int:
    """Return the version of a table's erase list."""
    return int(_named(table).partition("-")[0] or 0)


def read_erase_list(folder: Folder, table: DeltaTable | None) -> EraseList:
    """Return a table's erase list.

    :raises ConfigError: it is gone, or is another one than the table names.
    """
    if not (named := _named(table)):
        return EraseList()
    name = f"{_FOLDER}/{named}"
    try:
        found = EraseList.model_validate_json(text := folder.read(name))
    except (FileNotFoundError, ValueError):
        found, text = EraseList(), b""
    if _file(found.version, text) != named:
        raise ConfigError(
            f"table {folder.url} names the erase list {name}, which is gone or was changed: restore it; without it "
            "rows that were erased would come back"
        )
    return found


def write_erase_list(folder: Folder, table: DeltaTable, erased: EraseList) -> None:
    """Write a list, and let the table name it, on top of exactly this version of the table."""
    from deltalake import CommitProperties

    text = erased.model_dump_json(exclude_defaults=True).encode()
    file = _file(erased.version, text)
    folder.write(f"{_FOLDER}/{file}", text, durable=True)
    details = {"connect.erase_list": str(erased.version)}
    table.alter.set_table_properties(
        {_PROPERTY: file},
        raise_if_not_exists=False,
        commit_properties=CommitProperties(custom_metadata=details, max_commit_retries=0),
    )


def _named(table: DeltaTable | None) -> str:
    return table.metadata().configuration.get(_PROPERTY, "") if table is not None else ""


def _file(version: int, text: bytes) -> str:
    return f"{version:010d}-{hashlib.sha256(text).hexdigest()[:32]}.json"
