"""A stream's erase list (people whose rows the table must not hold): a file beside the log, named in a table property.

Once a commit has changed a property, Delta refuses commits on earlier versions. So publishes decided under an older
list are decided again.
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
    """Return the version of a table's erase list, or 0."""
    return int(_named_file(table).partition("-")[0] or 0)


def read_erase_list(folder: Folder, table: DeltaTable | None) -> EraseList:
    """Return a table's erase list.

    :raises ConfigError: its file is missing or was changed.
    """
    if not (file_name := _named_file(table)):
        return EraseList()
    path = f"{_FOLDER}/{file_name}"
    try:
        erase_list = EraseList.model_validate_json(text := folder.read(path))
    except (FileNotFoundError, ValueError):
        erase_list, text = EraseList(), b""
    if _file_name(erase_list.version, text) != file_name:
        raise ConfigError(
            f"table {folder.url} names the erase list {path}, which is gone or was changed. Restore it. "
            "Without it, erased rows would come back"
        )
    return erase_list


def write_erase_list(folder: Folder, table: DeltaTable, erase_list: EraseList) -> None:
    """Write a list and name it in the table, in a commit on exactly this version."""
    from deltalake import CommitProperties

    text = erase_list.model_dump_json(exclude_defaults=True).encode()
    file_name = _file_name(erase_list.version, text)
    folder.write(f"{_FOLDER}/{file_name}", text, durable=True)
    metadata = {"connect.erase_list": str(erase_list.version)}
    table.alter.set_table_properties(
        {_PROPERTY: file_name},
        raise_if_not_exists=False,
        commit_properties=CommitProperties(custom_metadata=metadata, max_commit_retries=0),
    )


def _named_file(table: DeltaTable | None) -> str:
    return table.metadata().configuration.get(_PROPERTY, "") if table is not None else ""


def _file_name(version: int, text: bytes) -> str:
    return f"{version:010d}-{hashlib.sha256(text).hexdigest()[:32]}.json"
