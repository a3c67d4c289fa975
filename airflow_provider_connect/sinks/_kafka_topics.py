"""Topics of the cluster: found, made, and looked at before the first record."""

from __future__ import annotations

import datetime as dt
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sinks._kafka_connection import admin
from airflow_provider_connect.sinks._kafka_errors import (
    DeniedError,
    ExistsError,
    Heard,
    UnknownTopicError,
    classify,
)
from airflow_provider_connect.sinks._kafka_offsets import LISTED_SECONDS
from airflow_provider_connect.sinks._kafka_topic_rules import (
    FoundTopic,
    Limits,
    Timestamps,
    TopicPlan,
    TopicRules,
    Writing,
    dead_letter_plan,
    ledger_plan,
    ledger_problems,
    topic_problems,
)

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_AT_ONCE = 200  # topics in one request
_ANSWER_SECONDS = 1.0
_AGAIN_SECONDS = 0.05


@dataclass
class Topics:
    """Topics as one admin client sees them.

    :param timeout_seconds: for each question to the cluster.
    :param heard: the client's, for the reason behind a timeout.
    """

    client: AdminClient
    rules: TopicRules
    timeout_seconds: float = 60.0
    heard: Heard = field(default_factory=Heard)
    _known: dict[str, FoundTopic] = field(default_factory=dict)

    @classmethod
    def open(cls, connection: Connection, rules: TopicRules, timeout_seconds: float) -> Topics:
        """Make a client for these topics.

        :raises ConfigError: librdkafka refuses a setting of the connection.
        """
        heard = Heard()
        return cls(admin(connection, heard), rules, timeout_seconds, heard)

    def reach(self) -> int:
        """Wait until the cluster answers; return how many brokers it has.

        :raises ConfigError: it refuses the sign-in, TLS fails; known at the first refusal.
        :raises RetriableError: nobody answers.
        """
        deadline = time.monotonic() + self.timeout_seconds
        while True:
            left = deadline - time.monotonic()
            try:
                return len(self._brokers(max(min(left, _ANSWER_SECONDS), 0.1)))
            except RetriableError:
                if left <= _ANSWER_SECONDS:
                    raise

    def ensure(self, names: Sequence[str]) -> list[str]:
        """Make the topics that are missing and wait until the cluster lists them; return what could not be made."""
        return self._ensure([self.rules.plan(name) for name in dict.fromkeys(names)])

    def ensure_plain(self, name: str) -> list[str]:
        """Make a topic for dead letters if it is missing; say what is wrong with one that is there."""
        wrong = self._ensure([dead_letter_plan(name, self.rules.replication_factor)])
        return wrong or self._wrong(name, Writing(compacted=False, keyed=False))

    def ensure_ledger(self, name: str) -> list[str]:
        """Make the ledger's topic if it is missing; say why one that is there cannot be the ledger."""
        wrong = self._ensure([ledger_plan(name, self.rules.replication_factor)])
        return wrong or ledger_problems(self._known[name])

    def rehearse(self, names: Sequence[str]) -> list[str]:
        """Say why topics of such names could not be made; nothing is made.

        For topics whose names only the day's rows tell: ``names`` are examples.
        """
        plans = [self.rules.plan(name) for name in names]
        return self._create(plans, "rehearse") if self.rules.create_disposition == "if_needed" else []

    def problems(
        self, names: Sequence[str], *, keyed: bool, timestamps: Timestamps = "now", oldest: dt.datetime | None = None
    ) -> list[str]:
        """Say what is wrong with those of the topics that are there; an empty list if nothing.

        :param keyed: every record has a key.
        :param timestamps: whether records carry the time of their event.
        :param oldest: start of the oldest day, for ``timestamps="event"``.
        """
        self._find([name for name in names if name not in self._known])
        return [
            text
            for name in names
            if name in self._known
            for text in self._wrong(name, Writing(self.rules.plan(name).compacted, keyed, timestamps, oldest))
        ]

    def there(self, names: Sequence[str]) -> list[str]:
        """Return which topics are there; wait a little for one that a broker does not know yet."""
        until = time.monotonic() + LISTED_SECONDS
        while len(found := self._find(names)) < len(names) and time.monotonic() < until:
            time.sleep(_AGAIN_SECONDS)
        return found

    def limits(self, name: str) -> Limits:
        """Return what a topic accepts; wait a little for one that a broker does not know yet.

        :raises UnknownTopicError: it is not there.
        """
        until = time.monotonic() + LISTED_SECONDS
        while name not in self._known and not self._find([name]):
            if time.monotonic() > until:
                raise UnknownTopicError(f"no such topic: {name!r}; create it, or correct its name")
            time.sleep(_AGAIN_SECONDS)
        return self._known[name].limits()

    def max_transaction_timeout_ms(self) -> int | None:
        """Return the brokers' ``transaction.max.timeout.ms``; None where an ACL forbids to read it."""
        configs = self._configs("BROKER", self._brokers(self.timeout_seconds))
        found = [config.get("transaction.max.timeout.ms") for config in configs.values()]
        return min((int(value) for value in found if value), default=None)

    def _brokers(self, timeout_seconds: float) -> list[str]:
        asked = self.client.describe_cluster(request_timeout=timeout_seconds)
        return [node.id_string for node in self._answer(asked, "connecting to the cluster").nodes]

    def _wrong(self, name: str, writing: Writing) -> list[str]:
        return topic_problems(self._known[name], writing, dt.datetime.now(dt.UTC))

    def _find(self, names: Sequence[str]) -> list[str]:
        """Look at topics anew, with their settings; return the names of those that are there.

        :raises DeniedError: an ACL hides one of them.
        """
        from confluent_kafka import TopicCollection

        found: dict[str, FoundTopic] = {}
        for some in _portions(names):
            asked = self.client.describe_topics(TopicCollection(some), request_timeout=self.timeout_seconds)
            for name, future in asked.items():
                try:
                    described = self._answer(future, f"looking at topic {name!r}")
                except UnknownTopicError:
                    continue
                replicas = min(len(partition.replicas) for partition in described.partitions)
                found[name] = FoundTopic(name, len(described.partitions), replicas)
        configs = self._configs("TOPIC", list(found))
        self._known |= {name: replace(topic, config=configs[name]) for name, topic in found.items()}
        return list(found)

    def _ensure(self, plans: Sequence[TopicPlan]) -> list[str]:
        there = self._find([plan.name for plan in plans])
        missing = [plan for plan in plans if plan.name not in there]
        if missing and self.rules.create_disposition == "never":
            return [
                f"topic {plan.name!r} is missing, and create_disposition is 'never': {_command(plan)}"
                for plan in missing
            ]
        wrong = self._create(missing, "make")
        if not wrong:
            self._wait_for([plan.name for plan in missing])
        return wrong

    def _create(self, plans: Sequence[TopicPlan], mode: Literal["make", "rehearse"]) -> list[str]:
        from confluent_kafka.cimpl import NewTopic

        wrong: list[str] = []
        for some in _portions(plans):
            wanted = [
                NewTopic(plan.name, plan.partitions or -1, plan.replication_factor or -1, config=plan.config)
                for plan in some
            ]
            seconds = {"request_timeout": self.timeout_seconds, "operation_timeout": self.timeout_seconds}
            for name, future in self.client.create_topics(wanted, validate_only=mode == "rehearse", **seconds).items():
                try:
                    self._answer(future, f"creating topic {name!r}")
                except ExistsError:
                    continue  # another run was faster
                except ConfigError as error:
                    wrong.append(str(error))
        return wrong

    def _wait_for(self, names: Sequence[str]) -> None:
        """Wait for new topics: the answer to their making comes before the brokers know them."""
        deadline = time.monotonic() + self.timeout_seconds
        missing = set(names)
        while missing := missing - set(self._find(sorted(missing))):
            if time.monotonic() > deadline:
                shown = ", ".join(sorted(repr(name) for name in missing))
                raise RetriableError(f"made, but not listed within {self.timeout_seconds:.0f} s: {shown}")
            time.sleep(_AGAIN_SECONDS)

    def _configs(self, kind: Literal["TOPIC", "BROKER"], names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the settings of topics or brokers; none where they may not be read."""
        from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]  # public all the same

        result: dict[str, dict[str, str]] = {}
        # librdkafka takes any number of topics in a request, and of brokers one (_CONFLICT).
        for some in _portions(names) if kind == "TOPIC" else ([name] for name in names):
            wanted = [ConfigResource(ResourceType[kind], name) for name in some]
            asked = self.client.describe_configs(wanted, request_timeout=self.timeout_seconds)
            for resource, future in asked.items():
                try:
                    entries = self._answer(future, f"reading the settings of {kind.lower()} {resource.name!r}")
                except DeniedError:
                    entries = {}
                result[resource.name] = {
                    name: entry.value for name, entry in entries.items() if entry.value is not None
                }
        return result

    def _answer(self, future: Any, doing: str) -> Any:
        from confluent_kafka import KafkaException

        try:
            # The client's own timeout comes first; this one is for a client that says nothing at all.
            return future.result(timeout=self.timeout_seconds + 10)
        except (KafkaException, TimeoutError) as error:
            self.heard.listen(self.client)
            raise classify(error, doing, self.heard) from None


def _command(plan: TopicPlan) -> str:
    """Return how a person makes the topic."""
    settings = " ".join(f"--config {shlex.quote(f'{name}={value}')}" for name, value in plan.config.items())
    numbers = f"--partitions {plan.partitions} " if plan.partitions else ""
    return f"kafka-topics.sh --create --topic {plan.name} {numbers}{settings}"


def _portions(items: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), _AT_ONCE):
        yield list(items[start : start + _AT_ONCE])
