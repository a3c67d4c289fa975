"""Confirms a day of a Delta table: a commit with application transactions and no file."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.publishing import confirmed
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._delta.commit import Commit, secured
from airflow_provider_connect.sinks._delta.erase_list import erase_version
from airflow_provider_connect.sinks._delta.ledger import LedgerView, confirming_details, confirming_transactions
from airflow_provider_connect.sinks._delta.sweep import discard
from airflow_provider_connect.stage.storage import Folder

if TYPE_CHECKING:
    from deltalake import DeltaTable


@dataclass(frozen=True)
class Confirmation(Commit):
    """Notes in one commit to the log that a day's answer was given once more, and that its attempt is never published.

    It writes the day's application transaction again. So Delta refuses it if another commit has published or confirmed
    the day since the version that it builds on, and refuses such a commit after it; then a new version decides.
    """

    def _try(self) -> LedgerRow | None:
        """Confirm, or return the ledger row if this intent has published or confirmed already."""
        table, folder, day = self._table(), Folder(self.path), self.publish.day.date
        view = LedgerView(folder, table, self.publish.key)
        found = view.published(day, self.publish.intent.token)
        row = found or confirmed(self.publish, self._newest(view, day), erase_version(table))
        if found is None:
            self._write(table, row)
        secured(folder, table)
        if found is None:
            with suppress(ConnectError):  # a sweep finds them
                discard(folder, self.publish)
        return row

    def _write(self, table: DeltaTable, row: LedgerRow) -> None:
        from deltalake import CommitProperties, Transaction

        attempt = self.publish.manifest.attempt
        recorded = confirming_transactions(row, self.publish.key, attempt)
        table.create_write_transaction(
            [],
            mode="append",
            schema=table.schema(),
            partition_by=["day"],
            commit_properties=CommitProperties(
                custom_metadata=confirming_details(row, self.publish),
                max_commit_retries=100,
                app_transactions=[Transaction(app_id, version) for app_id, version in recorded.items()],
            ),
        )
