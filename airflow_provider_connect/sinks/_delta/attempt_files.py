"""Names of the files that a commit writes besides the staged ones.

Each try of a commit may write other files. The ledger keeps the number of the committed ones, so that a sweep can
delete the others.
"""

from __future__ import annotations

import re

from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks._delta.app_transactions import attempt_id

_MERGED_FILE = re.compile(r"-merged([0-9a-f]{8})\.parquet$")


def merged_file_id(key: StreamKey, attempt: str) -> str:
    """Return the application id of the number of an attempt's merged files."""
    return f"{attempt_id(key, attempt)}/merged"


def merged_suffix(number: int) -> str:
    """Return the end of a merged file's name."""
    return f"merged{number:08x}"


def merged_file_number(path: str) -> int | None:
    """Return the number in a merged file's name, or None for other files."""
    match = _MERGED_FILE.search(path)
    return None if match is None else int(match[1], 16)
