"""Keeping notes beside a stream's days."""

from abc import ABC, abstractmethod

from airflow_provider_connect.stage.notes import LedgerNote


class KeepsNotes(ABC):
    """A publisher whose ledger returns notes: definitions of the stream, alarms and their answers."""

    @abstractmethod
    def note(self, note: LedgerNote) -> None:
        """Keep a note, for :meth:`.Ledger.notes`; one that exists is not changed. After ``preflight``, repeatable."""
