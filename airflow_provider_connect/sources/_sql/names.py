"""Names of tables as users write them. DAG files import this."""

from __future__ import annotations

import re

from airflow_provider_connect.clients.sql.database import Table

_PART = r'"(?:[^"]|"")+"|[^".]+'
_TABLE = re.compile(rf"(?:(?P<schema>{_PART})\.)?(?P<name>{_PART})")
_STREAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def table_of(text: str) -> Table:
    """Read ``orders`` or ``sales.orders``; a part that has a dot or a quote stands in quotes: ``"a.b".orders``.

    Names are taken as they are written: no case is folded.

    :raises ValueError: it is neither.
    """
    found = _TABLE.fullmatch(text)
    if found is None or not text.strip():
        raise ValueError(
            'write it as orders or sales.orders, with a name that has a dot or a quote in quotes: "a.b".orders'
        )
    return Table(_unquoted(found["name"]), _unquoted(found["schema"] or ""))


def is_stream(text: str) -> bool:
    """Tell whether a text can be part of a stream's name."""
    return _STREAM.fullmatch(text) is not None


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part
