"""Hook of the connection type ``x``, whose Test button requests the month's usage."""

from __future__ import annotations

from airflow_provider_connect.hooks.source import SourceHook


class XHook(SourceHook):
    """Reads a connection of type ``x``. ``sources/x_search.py`` documents its fields."""

    conn_name_attr = "x_conn_id"
    default_conn_name = "x_default"
    conn_type = "x"
    hook_name = "X"
    source_name = "x_search"

    def __init__(self, x_conn_id: str = default_conn_name) -> None:
        super().__init__(x_conn_id)
