"""Records of the Kafka ledger, and the rule that selects one of several records of a day.

A key is a JSON array without spaces: ``[connector, stream, topic, day, kind]``, with the sink's option as topic:

* ``"day"``: newest published state of the day. For a day's later spans of increments, followed by the span's number.
* ``"part"`` and a staged file's number: newest published state of the file, with ``atomicity="partition"``.
* ``"claim"``: the last run that began to publish the day, committed or not.
* ``"claim"`` with connector and stream ``""`` and a number: a place in a topic's queue, or its heartbeat.
* ``"claim"`` with connector ``/in_force/<connector>`` and day ``0001-01-01``: the definition in force.
* ``"claim"`` with connector ``/<kind>/<connector>``, day ``0001-01-01`` and an id: a note of the stream.
* ``"erased"`` with connector and stream ``""`` and day ``0001-01-01``: the topic's erase list.

The newest record of a key counts. Without transactions the first of two concurrent records counts, and the losing run
writes it again as the last one.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeVar, get_args

from pydantic import Field, ValidationError

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.ledger import DefinitionInForce, LedgerRow, task_of
from airflow_provider_connect.stage.definition import digest_of
from airflow_provider_connect.stage.notes import NoteKind
from airflow_provider_connect.wire import Wire

StreamKind = Literal["in_force", NoteKind]
"""Kinds of records without a day."""
KeyKind = Literal["day", "part", "claim", "erased", StreamKind]
NO_DAY = dt.date.min
KEY_KINDS: tuple[KeyKind, ...] = get_args(KeyKind)
STREAM_KINDS: tuple[StreamKind, ...] = get_args(StreamKind)
_WRITTEN_KINDS = ("day", "part", "claim", "erased")
"""Values of a key's fifth element."""
_MAX_COVERED = 50

W = TypeVar("W", bound=Wire)


class LedgerKey(NamedTuple):
    """Key of a ledger record. Records without a day have :data:`NO_DAY`.

    :param part: number of the staged file or span, or a note's id as a number. None for a whole day or its first span.
    """

    connector: str
    stream: str
    topic: str
    day: dt.date
    kind: KeyKind = "day"
    part: int | None = None

    @property
    def name_fields(self) -> list[str]:
        connector = f"/{self.kind}/{self.connector}" if self.kind in STREAM_KINDS else self.connector
        return [connector, self.stream, self.topic]

    def encode(self) -> bytes:
        fields = [*self.name_fields, str(self.day), "claim" if self.kind in STREAM_KINDS else self.kind]
        return json.dumps(fields if self.part is None else [*fields, self.part], separators=(",", ":")).encode()

    @classmethod
    def parse(cls, key: bytes | None) -> LedgerKey:
        """Parse a record's key.

        :raises ValueError: another key.
        """
        connector, stream, topic, day, kind_text, *part = json.loads(key or b"null")
        texts = all(isinstance(text, str) for text in (connector, stream, topic, day))
        if not texts or kind_text not in _WRITTEN_KINDS or not all(isinstance(number, int) for number in part):
            raise ValueError("no key of this ledger")
        _, stream_kind, own_connector = (*connector.split("/", 2), "", "")[:3]
        if kind_text == "claim" and connector.startswith("/") and stream_kind in STREAM_KINDS:
            connector, kind_text = own_connector, stream_kind
        return cls(connector, stream, topic, dt.date.fromisoformat(day), kind_text, *part)


def erase_list_key(topic: str) -> LedgerKey:
    return LedgerKey("", "", topic, NO_DAY, "erased")


class CoveredGeneration(Wire):
    """An earlier generation and its intent."""

    token: str
    generation: int
    rows: int


class DayEntry(Wire):
    """Value of a ``day`` or ``part`` record: the ledger row, and offsets for readers.

    :param offsets: the transaction's first offset and the one after its last, by topic and partition.
    :param columns: the source's columns and their Arrow types.
    :param covered: the day's newest 50 earlier publishes and confirmations, newest first.
    :param built_on: generation on which the publish was decided. None if a transaction decided.
    :param built_on_checks: number of confirmations of that generation.
    :param beaten: attempts that lost to this record.
    """

    row: LedgerRow
    offsets: dict[str, dict[int, tuple[int, int]]] = Field(default_factory=dict)
    columns: dict[str, str] = Field(default_factory=dict)
    covered: tuple[CoveredGeneration, ...] = ()
    built_on: int | None = None
    built_on_checks: int = 0
    beaten: tuple[str, ...] = ()

    def row_for_intent(self, token: str) -> LedgerRow | None:
        """Return the ledger row that an intent has published, perhaps as an earlier generation."""
        if self.row.token == token:
            return self.row
        for earlier in self.covered:
            if earlier.token == token:
                return LedgerRow(
                    day=self.row.day, generation=earlier.generation, token=earlier.token, rows=earlier.rows
                )
        return None

    def covered_generations(self) -> tuple[CoveredGeneration, ...]:
        """Return ``covered`` for the day's next record."""
        own_generation = CoveredGeneration(token=self.row.token, generation=self.row.generation, rows=self.row.rows)
        return (own_generation, *self.covered)[:_MAX_COVERED]

    def confirmation(self, row: LedgerRow, *, in_transaction: bool) -> DayEntry:
        """Return this record with the row of a confirmation (:func:`.publishing.confirmed_row`)."""
        decided_row = None if in_transaction and self.built_on is None else self.row
        return self.model_copy(
            update={
                "row": row,
                "covered": self.covered_generations(),
                "built_on": decided_row.generation if decided_row else None,
                "built_on_checks": decided_row.checks if decided_row else 0,
                "beaten": (),
            }
        )

    def counts_instead_of(self, earlier_entry: DayEntry) -> bool:
        """Return True if this later record counts instead of an earlier one: always, if written in a transaction.

        Of two other records decided on the same generation, the first counts.
        """
        if self.built_on is None or self.is_same_attempt(earlier_entry):
            return True
        decided_on = (self.built_on, self.built_on_checks)
        return (
            decided_on >= (earlier_entry.row.generation, earlier_entry.row.checks)
            or earlier_entry.attempt_name in self.beaten
        )

    @property
    def attempt_name(self) -> str:
        """Name of the attempt, for a confirmation by intent, generation and check number."""
        row = self.row
        return f"{row.token}/{row.generation}/{row.checks}" if row.checks else row.attempt or ""

    def is_same_attempt(self, other: DayEntry) -> bool:
        """Return True if one record is a copy of the other: same intent, files and check."""
        own_row, other_row = self.row, other.row
        return (own_row.token, own_row.attempt, own_row.checks) == (
            other_row.token,
            other_row.attempt,
            other_row.checks,
        )

    def rewritten_over(self, loser: DayEntry) -> DayEntry:
        """Return a copy to write after the losing record."""
        built_on = self.built_on if self.built_on is not None else self.row.generation - 1
        beaten = (*self.beaten, loser.attempt_name)[-_MAX_COVERED:]
        return self.model_copy(update={"built_on": built_on, "beaten": beaten})


class Claim(Wire):
    """Value of a ``claim`` record: a run that began to publish a day.

    :param generation: reserved generation. None if the transaction chooses it.
    :param used: highest generation for which an earlier claim may have sent records.
    :param parts: number of staged files with their own transaction.
    :param begun: id of the ``begin`` that wrote the claim.
    """

    token: str
    run: str
    attempt: str
    generation: int | None = None
    used: int = 0
    parts: int = 0
    begun: str = ""
    at: dt.datetime

    @property
    def highest_generation(self) -> int:
        """Highest generation for which this or an earlier claim may have sent records."""
        return max(self.used, self.generation or 0)


class DefinitionRecord(Wire):
    """Value of an ``in_force`` record: the definition of the stream's newest publish, and its run.

    :param definition: digest of the :class:`.StreamDefinition`.
    :param run: of the task's first such publish.
    """

    definition: str
    run: str

    @property
    def as_definition(self) -> DefinitionInForce:
        return DefinitionInForce(self.definition, digest_of(task_of(self.run)))


def parse_record(record_type: type[W], value: bytes, topic: str) -> W:
    """Parse a record's value.

    :raises ConfigError: an unknown record.
    """
    try:
        return record_type.model_validate_json(value)
    except ValidationError:
        raise ConfigError(
            f"ledger topic {topic!r} holds a record that cannot be read: another version of this package, or another "
            "program, wrote it. Use the version that wrote it, or another ledger_topic"
        ) from None


def select_counting_value(values: Iterable[bytes], topic: str) -> bytes:
    """Return the one of a day's records, all in order, that counts."""
    first_value, *later = values
    if not later:
        return first_value
    counting_value, counting_entry = first_value, parse_record(DayEntry, first_value, topic)
    for value in later:
        later_entry = parse_record(DayEntry, value, topic)
        if later_entry.counts_instead_of(counting_entry):
            counting_value, counting_entry = value, later_entry
    return counting_value
