"""What the records of a Kafka ledger are: their keys, what they say, and which of two of the same day counts."""

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
"""Records of a stream that no day has, and that earlier versions of this package ignore."""
KeyKind = Literal["day", "part", "claim", "erased", StreamKind]
NO_DAY = dt.date.min
KEY_KINDS: tuple[KeyKind, ...] = get_args(KeyKind)
STREAM_KINDS: tuple[StreamKind, ...] = get_args(StreamKind)
_WRITTEN_WHATS = ("day", "part", "claim", "erased")
"""What a key may end in, number aside."""
_MOST_COVERED = 50
"""Of how many earlier generations a day's record keeps the intents: clears and reloads of one day, newest first."""

W = TypeVar("W", bound=Wire)


class LedgerKey(NamedTuple):
    """What a ledger record is about.

    Of a stream's own records and of an erase list the day is :data:`NO_DAY`. A list names no stream but a topic
    (:func:`erase_list_key`); an earlier version of this package knows lists of streams alone. A version that knows no
    :data:`StreamKind` takes its key for a claim, with a number, of a stream that nobody has.

    :param part: the staged file's number in its day, None for a whole day; of a note its id as a number.
    """

    connector: str
    stream: str
    topic: str
    day: dt.date
    kind: KeyKind = "day"
    part: int | None = None

    @property
    def name_fields(self) -> list[str]:
        """Connector, stream and topic, as the record's key has them."""
        connector = f"/{self.kind}/{self.connector}" if self.kind in STREAM_KINDS else self.connector
        return [connector, self.stream, self.topic]

    def encode(self) -> bytes:
        """Return the record's key: a JSON array."""
        fields = [*self.name_fields, str(self.day), "claim" if self.kind in STREAM_KINDS else self.kind]
        return json.dumps(fields if self.part is None else [*fields, self.part], separators=(",", ":")).encode()

    @classmethod
    def parse(cls, key: bytes | None) -> LedgerKey:
        """Read a record's key.

        :raises ValueError: :meth:`encode` makes no such key.
        """
        connector, stream, topic, day, what, *part = json.loads(key or b"null")
        texts = all(isinstance(text, str) for text in (connector, stream, topic, day))
        if not texts or what not in _WRITTEN_WHATS or not all(isinstance(number, int) for number in part):
            raise ValueError("no key of this ledger")
        _, kind, own_connector = (*connector.split("/", 2), "", "")[:3]
        if what == "claim" and connector.startswith("/") and kind in STREAM_KINDS:
            connector, what = own_connector, kind
        return cls(connector, stream, topic, dt.date.fromisoformat(day), what, *part)


def erase_list_key(topic: str) -> LedgerKey:
    """Return what the record of a topic's erase list is about: the topic, whichever stream writes into it."""
    return LedgerKey("", "", topic, NO_DAY, "erased")


class CoveredGeneration(Wire):
    """What an earlier generation of a day was published for, so that a late retry of it finds its own."""

    token: str
    generation: int
    rows: int


class DayEntry(Wire):
    """What a ``day`` or ``part`` record says: the ledger's row and, for readers of the topic, where its records lie.

    A confirmation repeats all that it says of the data (:meth:`confirmation`).

    :param offsets: of each topic and partition the first offset, and the one behind the last, between which the
        transaction's records lie; other days' records may lie between them.
    :param columns: the source's columns and their Arrow types.
    :param covered: earlier generations of the day and earlier intents of this one, the newest first.
    :param built_on: the generation that it was decided on, where no transaction decided; None where one did.
    :param built_on_checks: how often that generation was confirmed then.
    :param beaten: names of records that were decided on the same generation and came later, so they do not count.
    """

    row: LedgerRow
    offsets: dict[str, dict[int, tuple[int, int]]] = Field(default_factory=dict)
    columns: dict[str, str] = Field(default_factory=dict)
    covered: tuple[CoveredGeneration, ...] = ()
    built_on: int | None = None
    built_on_checks: int = 0
    beaten: tuple[str, ...] = ()

    def row_for_intent(self, token: str) -> LedgerRow | None:
        """Return what was published for one intent, also under a generation that a later one has covered."""
        if self.row.token == token:
            return self.row
        for earlier in self.covered:
            if earlier.token == token:
                return LedgerRow(
                    day=self.row.day, generation=earlier.generation, token=earlier.token, rows=earlier.rows
                )
        return None

    def covered_generations(self) -> tuple[CoveredGeneration, ...]:
        """Return what the next generation's record keeps of this one and those before."""
        mine = CoveredGeneration(token=self.row.token, generation=self.row.generation, rows=self.row.rows)
        return (mine, *self.covered)[:_MOST_COVERED]

    def confirmation(self, row: LedgerRow, *, in_transaction: bool) -> DayEntry:
        """Return the record of who found the day unchanged: :func:`.publishing.confirmed_row` made the row.

        :param in_transaction: whether a transaction decides. Records that were sent without one may be there twice, so
            such a day stays marked as decided without.
        """
        known = None if in_transaction and self.built_on is None else self.row
        return self.model_copy(
            update={
                "row": row,
                "covered": self.covered_generations(),
                "built_on": known.generation if known else None,
                "built_on_checks": known.checks if known else 0,
                "beaten": (),
            }
        )

    def counts_instead_of(self, earlier_entry: DayEntry) -> bool:
        """Tell whether this record, which came later, counts instead of one that stands.

        What a transaction wrote was decided in it. Of two that were decided on the same generation without one, the
        first in the ledger counts, and the loser writes that one again: so it is the last of its key, which is what
        compaction keeps.
        """
        if self.built_on is None or self.is_same_attempt(earlier_entry):
            return True
        known = (self.built_on, self.built_on_checks)
        return (
            known >= (earlier_entry.row.generation, earlier_entry.row.checks)
            or earlier_entry.attempt_name in self.beaten
        )

    @property
    def attempt_name(self) -> str:
        """The attempt that published; of a confirmation, which repeats that, the intent and which check it was.

        An intent that lost one may win another in a retry, which polls again.
        """
        row = self.row
        return f"{row.token}/{row.generation}/{row.checks}" if row.checks else row.attempt or ""

    def is_same_attempt(self, other: DayEntry) -> bool:
        """Tell whether two records are of one intent, the same files and the same check: one is the other's copy."""
        mine, others = self.row, other.row
        return (mine.token, mine.attempt, mine.checks) == (others.token, others.attempt, others.checks)

    def rewritten_over(self, loser: DayEntry) -> DayEntry:
        """Return this record to be written once more, behind that of another one, which does not count."""
        built_on = self.built_on if self.built_on is not None else self.row.generation - 1
        beaten = (*self.beaten, loser.attempt_name)[-_MOST_COVERED:]
        return self.model_copy(update={"built_on": built_on, "beaten": beaten})


class Claim(Wire):
    """What a ``claim`` record says.

    :param generation: reserved for the token where no single transaction finds it, else None.
    :param used: the highest generation that a claim before this one may have sent records of.
    :param parts: how many staged files this claim, or one before it, sends in a transaction each.
    :param begun: which ``begin`` of which driver wrote it; two tries may share token and attempt.
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
        """The highest generation that this claim, or one before it, may have sent records of."""
        return max(self.used, self.generation or 0)


class DefinitionRecord(Wire):
    """Value of an ``in_force`` record: the definition of the stream's newest publish, and the run that published it.

    A publish writes such a record with its day's record if definition or task change. The records of days do not show
    the newest publish, since a confirmation writes a day's record again after those of later publishes.

    :param definition: digest of the :class:`.StreamDefinition`.
    :param run: run of the first publish of this definition by its task, as :class:`.Intent` names runs.
    """

    definition: str
    run: str

    @property
    def as_definition(self) -> DefinitionInForce:
        """The same as sinks tell it."""
        return DefinitionInForce(self.definition, digest_of(task_of(self.run)))


def parse_record(record_type: type[W], value: bytes, topic: str) -> W:
    """Read a record's value.

    :raises ConfigError: no Kafka sink of this version wrote it.
    """
    try:
        return record_type.model_validate_json(value)
    except ValidationError:
        raise ConfigError(
            f"ledger topic {topic!r} holds a record that cannot be read: another version of this package, or somebody "
            "else, wrote it. Use the version that wrote it, or another ledger_topic"
        ) from None


def select_counting_value(values: Iterable[bytes], topic: str) -> bytes:
    """Return which of a day's records counts, given all in their order; mostly the newest.

    :raises ConfigError: no Kafka sink of this version wrote one of them.
    """
    first, *later = values
    if not later:
        return first
    counts, entry = first, parse_record(DayEntry, first, topic)
    for value in later:
        other = parse_record(DayEntry, value, topic)
        if other.counts_instead_of(entry):
            counts, entry = value, other
    return counts
