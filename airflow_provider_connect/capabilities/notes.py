"""Keeping notes beside a stream's days."""

from abc import ABC, abstractmethod

from airflow_provider_connect.stage.notes import LedgerNote


class KeepsNotes(ABC):
    """A publisher whose ledger returns notes: definitions of the stream, alarms and their answers."""

    @abstractmethod
    def note(self, note: LedgerNote) -> None:
        """Keep a note, which :meth:`.Ledger.notes` returns from then on. Driver and command line, after ``preflight``.

        Safe to repeat: a note that exists is not changed.

        :raises RetriableError: the sink is away.
        """
