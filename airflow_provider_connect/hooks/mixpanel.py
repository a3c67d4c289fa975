"""The Mixpanel connection: where a project is and who may read it. Its form's Test button checks it."""

from __future__ import annotations

from typing import Any, NoReturn

from airflow.sdk import BaseHook

from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.hooks.variables import VariableStore
from airflow_provider_connect.sources._mixpanel.access import Access


class MixpanelHook(BaseHook):
    """Reads a connection of type ``mixpanel``. Its fields are explained in ``sources/mixpanel.py``.

    :param mixpanel_conn_id: the connection.
    """

    conn_name_attr = "mixpanel_conn_id"
    default_conn_name = "mixpanel_default"
    conn_type = "mixpanel"
    hook_name = "Mixpanel"

    def __init__(self, mixpanel_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.mixpanel_conn_id = mixpanel_conn_id

    def get_conn(self) -> Access:
        """Return which address to ask, and with which credentials.

        :raises ConfigError: if the connection is missing, or with everything that is wrong with it.
        """
        return Access.from_connection(credentials.resolve(self.mixpanel_conn_id))

    def test_connection(self) -> tuple[bool, str]:
        """Check the connection as far as the export goes, for the Test button of Airflow's form."""
        from airflow_provider_connect.sources._mixpanel.preflight.check import check  # noqa: PLC0415  # too heavy to list connection types

        try:
            report = check(credentials.resolve(self.mixpanel_conn_id), store=VariableStore())
        except ConnectError as error:
            return False, str(error)
        return report.passed, str(report)

    def check(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse, and name what replaces it.

        :raises ConfigError: always.
        """
        raise ConfigError(
            "MixpanelHook.check() is removed. Run: airflow connect check --source mixpanel --options "
            f'\'{{"conn_id": "{self.mixpanel_conn_id}", "stream": "export"}}\''
        )

    def propose_promote(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse, and name what replaces it.

        :raises ConfigError: always.
        """
        raise ConfigError(
            "MixpanelHook.propose_promote() is removed. Run: airflow connect propose mixpanel --conn-id "
            f"{self.mixpanel_conn_id}"
        )
