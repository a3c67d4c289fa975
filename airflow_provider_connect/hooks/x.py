"""The X connection: where X is and with which token. Its form's Test button asks how much of the month is used up."""

from __future__ import annotations

from airflow_provider_connect.hooks.source import SourceHook


class XHook(SourceHook):
    """Reads a connection of type ``x``. Its fields are explained in ``sources/x_search.py``.

    :param x_conn_id: the connection.
    """

    conn_name_attr = "x_conn_id"
    default_conn_name = "x_default"
    conn_type = "x"
    hook_name = "X"
    source_name = "x_search"

    def __init__(self, x_conn_id: str = default_conn_name) -> None:
        super().__init__(x_conn_id)
