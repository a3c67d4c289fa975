"""The X connection: where X is and with which token. Its form's Test button asks how much of the month is used up."""

from __future__ import annotations

from airflow.sdk import BaseHook

from airflow_provider_connect.clients.http.access import Access
from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.sources._x_search.access import access


class XHook(BaseHook):
    """Reads a connection of type ``x``. Its fields are explained in ``sources/x_search.py``.

    :param x_conn_id: the connection.
    """

    conn_name_attr = "x_conn_id"
    default_conn_name = "x_default"
    conn_type = "x"
    hook_name = "X"

    def __init__(self, x_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.x_conn_id = x_conn_id

    def get_conn(self) -> Access:
        """Return which address to ask, and with which token.

        :raises ConfigError: if the connection is missing, or with everything that is wrong with it.
        """
        return access(credentials.resolve(self.x_conn_id))

    def test_connection(self) -> tuple[bool, str]:
        """Ask X for the app's usage, which reads no post, for the Test button of Airflow's form."""
        from airflow_provider_connect.sources._x_search.usage import usage  # noqa: PLC0415  # too heavy to list connection types

        try:
            return True, usage(credentials.resolve(self.x_conn_id))
        except ConnectError as error:
            return False, str(error)
