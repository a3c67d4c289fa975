"""Names of the files that a commit writes for an attempt, besides the staged ones, and their number in the ledger.

Each try of a commit may find another version of the table and write other files. The ledger keeps the number of the
committed files, so that a sweep can delete those of other tries.
"""

from __future__ import annotations

import re

from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks._delta.app_transactions import attempt_id

_MERGED_FILE = re.compile(r"-merged([0-9a-f]{8})\.parquet$")


def merged_file_id(key: StreamKey, attempt: str) -> str:
    """Return the application id whose version is the number of an attempt's merged files."""
    return f"{attempt_id(key, attempt)}/merged"


def merged_suffix(number: int) -> str:
    """Return the end of a merged file's name, without the extension."""
    return f"merged{number:08x}"


def merged_file_number(path: str) -> int | None:
    """Return the number in a merged file's name, or None if the file is another one."""
    match = _MERGED_FILE.search(path)
    return None if match is None else int(match[1], 16)
