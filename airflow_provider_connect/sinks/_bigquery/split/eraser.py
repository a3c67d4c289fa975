"""Takes people's rows out of all tables of a template, each day in one transaction over its tables.

The erase list is the head's, and so is the ledger: a publish of the template compares the list's version like any
other. A day is rewritten in all of its tables at once, like a publish, so a kill leaves it as it was, or erased. Days
take turns where one transaction cannot have all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.sinks._bigquery.erasing.eraser import TableEraser
from airflow_provider_connect.sinks._bigquery.split.ledger import TablesLedger
from airflow_provider_connect.sinks._bigquery.split.targets import PartTables
from airflow_provider_connect.sinks._bigquery.target import Ready

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.place import Place


@dataclass(frozen=True)
class TablesEraser(TableEraser):
    """Erases from one stream's tables, by one column."""

    ledger: TablesLedger

    def _holding(self, target: Any) -> Mapping[Place, Any]:
        """Return every table that ever had rows.

        :raises ConfigError: one is gone, and could be restored with rows of theirs; or it is somebody else's.
        """
        known = frozenset(self.ledger.tables())
        return PartTables(self.api, self.tables, Ready([], None, (), target), known).found(known)
