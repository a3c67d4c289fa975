"""The Mixpanel connection: where a project is and who may read it. Its form's Test button checks it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Literal

from airflow.sdk import BaseHook

from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.hooks.variables import VariableStore
from airflow_provider_connect.sources._mixpanel.access import Access

if TYPE_CHECKING:
    from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions, StreamName
    from airflow_provider_connect.sources._mixpanel.preflight.check import Report
    from airflow_provider_connect.sources._mixpanel.propose import Proposal


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

    def check(self, what: MixpanelOptions | StreamName | None = None) -> Report:
        """Check the connection, and how a source reads it; print the report, or look at its ``findings``.

        It sends one request to the stream's API, which counts to the project's hour, and is counted with those of the
        tasks. If the region does not know the credentials, each other region is asked too.

        :param what: the source that will use the connection, or the name of its stream; without it the export is
            asked, and the project's zone is not compared.
        :raises ConfigError: if the connection is missing, the source names another one, or there is no such stream.
        """
        from airflow_provider_connect.sources._mixpanel.preflight.check import check  # noqa: PLC0415  # too heavy to list connection types

        conn_id = getattr(what, "conn_id", self.mixpanel_conn_id)
        if conn_id != self.mixpanel_conn_id:
            raise ConfigError(
                f"the source reads connection {conn_id!r}, not {self.mixpanel_conn_id!r}: check that one with "
                f"MixpanelHook({conn_id!r})"
            )
        return check(credentials.resolve(self.mixpanel_conn_id), what, store=VariableStore())

    def test_connection(self) -> tuple[bool, str]:
        """Check the connection as far as the export goes, for the Test button of Airflow's form."""
        try:
            report = self.check()
        except ConnectError as error:
            return False, str(error)
        return report.passed, str(report)

    def propose_promote(
        self,
        stream: Literal["export", "engage"] = "export",
        day: dt.date | None = None,
        *,
        records: int = 1000,
        columns: int = 50,
    ) -> Proposal:
        """Propose the option ``promote`` from a sample; print what comes back, read it, and set it in a DAG file.

        This is one of the 60 queries that a project has in an hour: of the export's, or for ``engage`` of the Query
        API's. It is counted with those of the tasks; if the hour has no room, nothing is asked.

        :param day: whose events to look at; yesterday in UTC by default. A snapshot of profiles is taken now.
        :param records: how many records to look at: up to 100,000 events.
        :param columns: how many columns to propose at most.
        :raises ConnectError: as a poll does; :class:`.QuotaError` if the hour has no room.
        """
        from airflow_provider_connect.sources._mixpanel.propose import proposed  # noqa: PLC0415  # too heavy for a form

        connection = credentials.resolve(self.mixpanel_conn_id)
        return proposed(connection, stream, day, records, columns, store=VariableStore())
