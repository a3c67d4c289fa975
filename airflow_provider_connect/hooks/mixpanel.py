"""Hook of the connection type ``mixpanel``, with the form's Test button."""

from __future__ import annotations

from typing import Any, NoReturn

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.hooks.source import SourceHook


class MixpanelHook(SourceHook):
    """Reads a connection of type ``mixpanel``. ``sources/mixpanel.py`` documents its fields."""

    conn_name_attr = "mixpanel_conn_id"
    default_conn_name = "mixpanel_default"
    conn_type = "mixpanel"
    hook_name = "Mixpanel"
    source_name = "mixpanel"

    def __init__(self, mixpanel_conn_id: str = default_conn_name) -> None:
        super().__init__(mixpanel_conn_id)

    def check(self, *_: Any, **__: Any) -> NoReturn:
        """Raise a ConfigError that names the command to use instead."""
        raise ConfigError(
            "MixpanelHook.check() is removed. Run: airflow connect check --source mixpanel --options "
            f'\'{{"conn_id": "{self.conn_id}", "stream": "export"}}\''
        )

    def propose_promote(self, *_: Any, **__: Any) -> NoReturn:
        """Raise a ConfigError that names the command to use instead."""
        raise ConfigError(
            f"MixpanelHook.propose_promote() is removed. Run: airflow connect propose mixpanel --conn-id {self.conn_id}"
        )
