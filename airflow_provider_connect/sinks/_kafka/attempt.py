"""One attempt to publish a day: its plan, what the ledger says about it, and the record that will say it is done."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from airflow_provider_connect.clients.kafka.errors import FencedError
from airflow_provider_connect.clients.kafka.outbox import Outbox
from airflow_provider_connect.clients.kafka.partitions import Ends, written
from airflow_provider_connect.clients.kafka.transaction import Transaction, transactional_id
from airflow_provider_connect.publishing import confirmed, next_generation, require_definition, row_of
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._kafka.claims import Claims
from airflow_provider_connect.sinks._kafka.cluster import Cluster
from airflow_provider_connect.sinks._kafka.dead_letters import DeadLetters
from airflow_provider_connect.sinks._kafka.ledger.days import KafkaLedger
from airflow_provider_connect.sinks._kafka.ledger.records import NO_DAY, Claim, Entry, InForce, LedgerKey, parsed
from airflow_provider_connect.sinks._kafka.put import Sender, Sent
from airflow_provider_connect.sinks._kafka.records import Plan
from airflow_provider_connect.sinks._kafka.snapshot import Snapshot
from airflow_provider_connect.sinks._kafka.topic_rules import DEFAULT_MAX_MESSAGE_BYTES
from airflow_provider_connect.stage.deleted import SOFT_DELETED
from airflow_provider_connect.stage.manifest import Seen, StagedFile
from airflow_provider_connect.wire import Wire

_MAX_BATCH_BYTES = 1_000_000


def _name(plan: Plan) -> str:
    """Return what has one transactional id: a day, or all days of which each builds on the one before."""
    if plan.publish.kind == "increment":
        return "increment"
    return "snapshot" if plan.content == "changes" else str(plan.publish.day)


class Attempt(ABC):
    """Publishes one day, in the way that its subclass stands for. The driver makes one, and so does each ``put``.

    :param ledger: what an executor reads on from, in place of the cluster's own.
    """

    tries: ClassVar[int] = 1
    """How often a share is sent whose outcome is unknown, that lost its turn, or whose topics' limits have changed."""

    def __init__(self, cluster: Cluster, plan: Plan, ledger: KafkaLedger | None = None) -> None:
        self.cluster = cluster
        self.options = cluster.options
        self.plan = plan
        self.publish = plan.publish
        self.topics = sorted(set(plan.routes.values()))
        self.ledger = ledger or cluster.ledger
        self.key = self.ledger.about(self.publish.day.date)
        self.names = (*self.key[:3], _name(plan))
        self.id = transactional_id(*self.names)
        self.claims = Claims(self.options, self.ledger, plan)

    @abstractmethod
    def begin(self, standing: Entry | None) -> Plan:
        """Claim the day in the ledger; return the plan for every ``put``. Driver.

        :param standing: the day's newest publish.
        :raises OvertakenError: somebody else has published the day since this attempt looked.
        """

    @abstractmethod
    def put(self, files: tuple[StagedFile, ...]) -> Sent:
        """Send a share of the day. Executor."""

    @abstractmethod
    def commit(self, receipts: list[Sent]) -> LedgerRow:
        """Publish the day, where no transaction of a share has done so already. Driver."""

    def confirm(self) -> LedgerRow:
        """Write the day's record once more, with one check more. Driver.

        :raises UndecidedError: whether it was committed is not known.
        :raises OvertakenError: somebody else has published or confirmed the day since this attempt looked.
        """
        return self.confirm_in_transaction()

    def confirm_in_transaction(self, fenced: Callable[[], None] | None = None) -> LedgerRow:
        """Confirm the day as the only one who may write its record.

        Whoever is sending it is fenced, and finds out that its answer may be the older one.

        :param fenced: called when the day's id is taken.
        """
        transaction = self.transaction()
        try:
            with transaction:
                if fenced is not None:
                    fenced()
                standing = self.standing()
                if (own := self.own(standing)) is not None:
                    return own
                entry = self.confirmed(standing, in_transaction=True)
                transaction.begin()
                self.write(transaction, entry)
                transaction.flush()
                transaction.commit()
        except FencedError as error:
            raise FencedError(self.claims.who_fenced(transaction, str(error))) from None
        return entry.row

    def abort(self) -> None:  # noqa: B027  # without a transaction nothing is left open
        """End what executors left open that died, so that nobody waits for it. Driver."""

    def transaction(self, part: int | None = None) -> Transaction:
        """Return a producer with the transactional id of the day, or of a part of it."""
        name = self.id if part is None else transactional_id(*self.names, part)
        return self.cluster.transaction(name, self.producer_settings(), what=self.claims.where)

    def producer_settings(self) -> dict[str, Any]:
        """Return the producer's settings."""
        # A batch larger than its topic takes is refused with every record in it; a large record is a batch alone.
        sizes = [limits.max_message_bytes for limits in self.plan.limits.values()]
        return {
            "message.max.bytes": max([DEFAULT_MAX_MESSAGE_BYTES, *sizes]),
            "batch.size": min([_MAX_BATCH_BYTES, *sizes]),
        }

    def send(
        self, sender: Sender, before: Ends, snapshot: Snapshot | None = None, *, with_source_rejects: bool = False
    ) -> Sent:
        """Send a share, and wait until the broker has all of it; say where it lies.

        :param before: where the topics ended before.
        :raises DataError: rows cannot become records, and are not tolerated.
        :raises RetriableError: the broker is away, or the client took another number of records.
        """
        started = time.monotonic()
        sent = sender.send(snapshot)
        aside = self.send_source_rejects(sender.outbox) if with_source_rejects else 0
        sender.outbox.flush()
        sent.require_all(sender.files, sender.outbox, aside)
        offsets = written(before, self.cluster.ends(self.topics))
        seconds = time.monotonic() - started
        return replace(sent, rejected=sent.rejected + aside, offsets=offsets, seconds=seconds)

    def standing(self) -> Entry | None:
        """Read the day's newest publish; wait for open transactions that hide it."""
        return self.ledger.entries(self.key).get(self.key)

    def own(self, standing: Entry | None) -> LedgerRow | None:
        """Return what this attempt's intent has published already; None if nothing."""
        return standing.published(self.publish.intent.token) if standing else None

    def settled(self, standing: Entry | None) -> LedgerRow | None:
        """Return what this intent has published already; None if it has published nothing, and still may.

        :raises OvertakenError: somebody else has published the day since this attempt looked.
        """
        if (own := self.own(standing)) is None:
            self.next_generation(standing.row if standing else None)
        return own

    def next_generation(self, newest: LedgerRow | None, used: int = 0) -> int:
        """Return the generation to publish: see :func:`.publishing.next_generation`. The ledger was just read.

        :raises OvertakenError: somebody else has published since, or brought another definition into force.
        """
        require_definition(self.publish, self.ledger.known_definition())
        return next_generation(self.publish, newest, used, erased=self.ledger.known_erased().version)

    def free_generation(self, newest: LedgerRow | None, claim: Claim | None) -> int:
        """Return a generation that no other intent, and no other try with other files, has sent records of.

        :param newest: the day's newest publish: what counts is published; a claim alone stands in nobody's way.
        :raises OvertakenError: as for :meth:`next_generation`.
        """
        free = self.next_generation(newest, claim.highest if claim else 0)
        return claim.generation if claim and claim.generation and self.claims.is_same_try(claim) else free

    def entry(self, generation: int, sent: Sent, standing: Entry | None = None, built_on: Seen | None = None) -> Entry:
        """Return the ledger's record of what was sent.

        :param standing: what it follows: the day's newest generation.
        :param built_on: what it was decided on, where no transaction decided; see :class:`.Entry`.
        """
        counts = self.publish.manifest.polled.all_counts | {
            "rejected": sent.rejected,
            "tombstones": sent.tombstones,
            "unchanged": sent.unchanged,
            "vanished": sent.vanished,
            **({SOFT_DELETED: sent.soft_deleted} if self.options.deletes == "soft" else {}),
            "publish_ms": int(sent.seconds * 1000),
        }
        row = row_of(self.publish, generation, rows=sent.rows, counts=counts, reference=self.id)
        covered = standing.now_covered() if standing else ()
        columns = {field.name: str(field.type) for field in self.publish.schema}
        return Entry(
            row=row,
            offsets=sent.offsets,
            columns=columns,
            covered=covered,
            built_on=built_on.generation if built_on else None,
            built_on_checks=built_on.checks if built_on else 0,
        )

    def confirmed(self, standing: Entry | None, *, in_transaction: bool) -> Entry:
        """Return the ledger's record of a day that is unchanged.

        :param standing: the day's newest.
        :raises OvertakenError: somebody else has published or confirmed the day since this attempt looked.
        """
        require_definition(self.publish, self.ledger.known_definition())
        row = confirmed(self.publish, standing.row if standing else None, self.ledger.known_erased().version)
        assert standing is not None
        return standing.confirmed(row, in_transaction=in_transaction)

    def write(self, outbox: Outbox, record: Wire, key: LedgerKey | None = None) -> None:
        """Hand a record of the ledger to a producer; that of the day by default."""
        outbox.send(self.options.ledger_topic, (key or self.key).encoded(), record.model_dump_json().encode(), [])

    def write_definition(self, outbox: Outbox) -> None:
        """Hand the publish's definition to a producer, where another one, or another task's, is in force.

        Days that do not take turns with each other may change it at the same time. Each looks again when its record is
        in the ledger: the first record counts.

        :raises OvertakenError: somebody else has brought another definition into force.
        """
        publish, ledger = self.publish, self.ledger
        read_to = dict(ledger.view.positions)  # before the next look, as other threads read on as well
        known = ledger.known_definition()
        require_definition(publish, known)
        if publish.definition is None or known == (publish.definition, publish.intent.task_digest):
            return
        self.write_in_force(outbox, InForce(definition=publish.definition, run=publish.intent.run))
        first, *_ = ledger.written_since(ledger.about(NO_DAY, "in_force"), read_to)
        self.require_first(outbox, parsed(InForce, first, ledger.name))

    def write_in_force(self, outbox: Outbox, record: InForce) -> None:
        """Write the definition in force, and wait until the ledger has the record."""
        self.write(outbox, record, self.ledger.about(NO_DAY, "in_force"))
        outbox.flush()

    def require_first(self, outbox: Outbox, first: InForce) -> None:
        """Require that no other definition was written before this publish's.

        :raises OvertakenError: another definition was written first.
        """
        require_definition(self.publish, first.in_force)

    def send_source_rejects(self, outbox: Outbox) -> int:
        """Send what the source set aside to the dead letters; return how many."""
        return DeadLetters(self.plan, outbox, self.options.topic).send_source_rejects()

    def require_tolerated(self, receipts: list[Sent]) -> None:
        """Refuse a day whose shares together have set too many rows aside, though none alone did.

        :raises DataError: there are too many.
        """
        rejected = sum(sent.rejected for sent in receipts)
        self.options.tolerance.require(rejected, f"{self.claims.where}: {rejected:,} rows are no records")
