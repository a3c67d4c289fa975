"""Base class of hooks for the connection types of sources."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.sdk import BaseHook

from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.hooks.variables import VariableStore
from airflow_provider_connect.polling.findings import InspectsConnection
from airflow_provider_connect.registry import source_class


class SourceHook(BaseHook):
    """Hook that reads and tests a connection through the source of its type."""

    conn_name_attr: ClassVar[str]
    source_name: ClassVar[str]

    def __init__(self, conn_id: str) -> None:
        super().__init__()
        self.conn_id = conn_id
        setattr(self, self.conn_name_attr, conn_id)

    def get_conn(self) -> Any:
        """Return address and credentials.

        :raises ConfigError: with every problem of the connection.
        """
        return self._source().access(credentials.resolve_connection(self.conn_id))

    def test_connection(self) -> tuple[bool, str]:
        """Send a small request to the vendor. Returns whether it works, and a text."""
        try:
            return self._source().inspect_connection(credentials.resolve_connection(self.conn_id), VariableStore())
        except ConnectError as error:
            return False, str(error)

    def _source(self) -> type[InspectsConnection]:
        source = source_class(self.source_name)
        if not issubclass(source, InspectsConnection):
            raise ConfigError(
                f"source {self.source_name!r} cannot test a connection: derive it from InspectsConnection"
            )
        return source
