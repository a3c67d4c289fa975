"""Finds, checks and creates the cluster's topics before the first record."""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.clients.kafka.errors import (
    ClientErrors,
    DeniedError,
    ExistsError,
    UnknownTopicError,
    classify,
)
from airflow_provider_connect.clients.kafka.listeners import find_protocol_mismatch
from airflow_provider_connect.clients.kafka.topic_reader import TOPIC_LISTING_SECONDS
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.patience import Patience
from airflow_provider_connect.sinks._kafka.topic_rules import (
    IntendedWrites,
    NewTopicSettings,
    TopicLimits,
    TopicRules,
    TopicState,
    dead_letter_topic_settings,
    ledger_problems,
    ledger_topic_settings,
    new_topic_problems,
    topic_problems,
)

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_GRANT_ADVICE = "grant it (see 'Rights' in 'airflow connect docs kafka --page')"
_TOPICS_PER_REQUEST = 200
_ANSWER_SECONDS = 1.0
_UNRESOLVED_SECONDS = 10.0
"""Time for a name service that forgets a host for a moment."""
_RETRY_SECONDS = 0.05


@dataclass
class TopicAdmin:
    """Admin client that reads, checks and creates topics. Caches the topics that it has read."""

    client: AdminClient
    rules: TopicRules
    timeout_seconds: float = 60.0
    client_errors: ClientErrors = field(default_factory=ClientErrors)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    _states: dict[str, TopicState] = field(default_factory=dict)

    def wait_until_reachable(self, max_seconds: float | None = None) -> int:
        """Wait until the cluster answers. Returns the number of its brokers.

        :raises ConfigError: sign-in refused, TLS fails, or wrong protocol. Raised immediately.
        :raises RetriableError: no answer. After ten seconds for an unknown host.
        """
        patience = Patience(min(self.timeout_seconds, max_seconds or self.timeout_seconds))
        port_tested = False
        while True:
            seconds_left = patience.left_seconds
            try:
                return len(self._list_brokers(max(min(seconds_left, _ANSWER_SECONDS), 0.1)))
            except RetriableError:
                if not port_tested and (mismatch := find_protocol_mismatch(self.settings)):
                    raise ConfigError(f"connecting to the cluster: {mismatch}") from None
                port_tested = True
                if patience.spent_seconds > _UNRESOLVED_SECONDS and (
                    error := self.client_errors.unresolved_error("connecting to the cluster")
                ):
                    raise error from None
                if seconds_left <= _ANSWER_SECONDS:
                    raise

    def problems_if_created(self, names: Sequence[str], writing: IntendedWrites) -> list[str]:
        """Return problems that missing topics would have. Creates nothing."""
        return self._check_creation([self.rules.settings_for(name) for name in dict.fromkeys(names)], writing)

    def example_problems_if_created(self, name: str, writing: IntendedWrites) -> list[str]:
        """Return problems of a template's example topic that no topic group would avoid."""
        problem_lists = [self._check_creation([plan], writing) for plan in self.rules.possible_settings_for(name)]
        return problem_lists[0] if all(problem_lists) else []

    def dead_letter_problems_if_created(self, name: str) -> list[str]:
        return self._check_creation(
            [dead_letter_topic_settings(name, self.rules.replication_factor)], IntendedWrites(has_keys=False)
        )

    def ledger_problems_if_created(self, name: str) -> list[str]:
        return self._check_creation(
            [ledger_topic_settings(name, self.rules.replication_factor)], IntendedWrites(has_keys=True)
        )

    def create_missing(self, names: Sequence[str]) -> list[str]:
        """Create missing topics and wait until the cluster lists them. Returns the failures."""
        return self._create_missing([self.rules.settings_for(name) for name in dict.fromkeys(names)])

    def ensure_dead_letter_topic(self, name: str) -> list[str]:
        """Create the dead letter topic if missing. Returns problems of an existing topic."""
        creation_problems = self._create_missing([dead_letter_topic_settings(name, self.rules.replication_factor)])
        return creation_problems or self._state_problems(name, IntendedWrites(has_keys=False))

    def ensure_ledger_topic(self, name: str) -> list[str]:
        """Create the ledger topic if missing. Returns problems of an existing topic."""
        creation_problems = self._create_missing([ledger_topic_settings(name, self.rules.replication_factor)])
        return creation_problems or ledger_problems(self._states[name])

    def missing_rights(self, needed_rights: Mapping[str, Collection[str]]) -> list[str]:
        """Return a message for each operation on an existing topic that the user may not perform.

        :param needed_rights: by topic, such as ``READ``.
        """
        _, hidden = self._describe([name for name in needed_rights if name not in self._states])
        complaints = []
        for name, operations in needed_rights.items():
            allowed = self._states[name].authorized_operations if name in self._states else None
            missing = (
                {*operations, "DESCRIBE"}
                if name in hidden
                else set(operations) - allowed
                if allowed is not None
                else set()
            )
            if missing:
                rights = f" (it has {', '.join(sorted(allowed))})" if allowed else ""
                complaints.append(
                    f"{self.user} lacks {' and '.join(sorted(missing))} on topic {name!r}{rights}: {_GRANT_ADVICE}"
                )
        return complaints

    @property
    def user(self) -> str:
        name = self.settings.get("sasl.username")
        return f"user {name!r}" if name else "the connection's user"

    def problems(self, names: Sequence[str], writing: IntendedWrites) -> list[str]:
        self._read_existing([name for name in names if name not in self._states])
        return [
            text
            for name in names
            if name in self._states
            for text in self._state_problems(
                name, replace(writing, keeps_newest_only=self.rules.settings_for(name).is_compacted)
            )
        ]

    def existing_topics(self, names: Sequence[str]) -> list[str]:
        """Return the existing ones of these topics. Waits briefly for topics that a broker does not know yet."""
        return self._wait_until_listed(names, TOPIC_LISTING_SECONDS)

    def limits(self, name: str) -> TopicLimits:
        """Return a topic's limits. Waits as :meth:`existing_topics`.

        :raises UnknownTopicError: there is none.
        """
        if name not in self._states and not self.existing_topics([name]):
            raise UnknownTopicError(f"no such topic: {name!r}. Create it, or correct its name")
        return self._states[name].limits()

    def max_transaction_timeout_ms(self) -> int | None:
        """Return the brokers' ``transaction.max.timeout.ms``. None if an ACL hides it."""
        configs = self._read_configs("BROKER", self._list_brokers(self.timeout_seconds))
        timeouts = [config.get("transaction.max.timeout.ms") for config in configs.values()]
        return min((int(value) for value in timeouts if value), default=None)

    def _list_brokers(self, timeout_seconds: float) -> list[str]:
        description = self.client.describe_cluster(request_timeout=timeout_seconds)
        return [node.id_string for node in self._wait_for(description, "connecting to the cluster").nodes]

    def _state_problems(self, name: str, writing: IntendedWrites) -> list[str]:
        return topic_problems(self._states[name], writing, dt.datetime.now(dt.UTC))

    def _check_creation(self, plans: Sequence[NewTopicSettings], writing: IntendedWrites) -> list[str]:
        self._read_existing([plan.name for plan in plans if plan.name not in self._states])
        missing = [plan for plan in plans if plan.name not in self._states]
        current_time = dt.datetime.now(dt.UTC)
        complaints = [
            text
            for plan in missing
            for text in new_topic_problems(
                plan, self._inherited_settings, replace(writing, keeps_newest_only=plan.is_compacted), current_time
            )
        ]
        if complaints or self.rules.create_disposition == "never":
            return complaints
        return self._create(missing, "rehearse")

    @cached_property
    def _inherited_settings(self) -> dict[str, str]:
        [broker] = self._list_brokers(self.timeout_seconds)[:1]
        return self._read_configs("BROKER", [broker])[broker]

    def _read_existing(self, names: Sequence[str]) -> list[str]:
        existing, hidden = self._describe(names)
        if hidden:
            names_text = ", ".join(repr(name) for name in hidden)
            raise DeniedError(f"{self.user} lacks DESCRIBE on topic {names_text}: {_GRANT_ADVICE}")
        return existing

    def _describe(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        from confluent_kafka import TopicCollection

        states: dict[str, TopicState] = {}
        hidden: list[str] = []
        for portion in _split(names):
            collection = TopicCollection(portion)
            seconds = {"request_timeout": self.timeout_seconds}
            futures = self.client.describe_topics(collection, include_authorized_operations=True, **seconds)
            for name, future in futures.items():
                try:
                    description = self._wait_for(future, f"looking at topic {name!r}")
                except UnknownTopicError:
                    continue
                except DeniedError:
                    hidden.append(name)
                    continue
                replicas = min(len(partition.replicas) for partition in description.partitions)
                allowed = authorized_operations(description.authorized_operations)
                states[name] = TopicState(name, len(description.partitions), replicas, authorized_operations=allowed)
        configs = self._read_configs("TOPIC", list(states))
        self._states |= {name: replace(topic, settings=configs[name]) for name, topic in states.items()}
        return list(states), hidden

    def _create_missing(self, plans: Sequence[NewTopicSettings]) -> list[str]:
        existing = self._read_existing([plan.name for plan in plans])
        missing = [plan for plan in plans if plan.name not in existing]
        if missing and self.rules.create_disposition == "never":
            return [
                f"topic {plan.name!r} is missing, and create_disposition is 'never': {_create_command(plan)}"
                for plan in missing
            ]
        if complaints := self._create(missing, "make"):
            return complaints
        # The response to the creation comes before all brokers list the topics.
        created_names = [plan.name for plan in missing]
        if unlisted_names := set(created_names) - set(self._wait_until_listed(created_names, self.timeout_seconds)):
            names_text = ", ".join(sorted(repr(name) for name in unlisted_names))
            raise RetriableError(f"created, but not listed within {self.timeout_seconds:.0f} s: {names_text}")
        return []

    def _wait_until_listed(self, names: Sequence[str], seconds: float) -> list[str]:
        patience = Patience(seconds, (_RETRY_SECONDS,))
        while len(listed_names := self._read_existing(names)) < len(names) and patience.wait_and_poll():
            pass
        return listed_names

    def _create(self, plans: Sequence[NewTopicSettings], mode: Literal["make", "rehearse"]) -> list[str]:
        from confluent_kafka.cimpl import NewTopic

        complaints: list[str] = []
        for portion in _split(plans):
            new_topics = [
                NewTopic(plan.name, plan.partitions or -1, plan.replication_factor or -1, config=plan.config)
                for plan in portion
            ]
            seconds = {"request_timeout": self.timeout_seconds, "operation_timeout": self.timeout_seconds}
            for name, future in self.client.create_topics(
                new_topics, validate_only=mode == "rehearse", **seconds
            ).items():
                try:
                    self._wait_for(future, f"creating topic {name!r}")
                except ExistsError:
                    continue  # created by another run
                except DeniedError:
                    complaints.append(
                        f"{self.user} lacks CREATE on missing topic {name!r}: {_GRANT_ADVICE}, or create the topic"
                    )
                except ConfigError as error:
                    complaints.append(str(error))
        return complaints

    def _read_configs(self, kind: Literal["TOPIC", "BROKER"], names: Sequence[str]) -> dict[str, dict[str, str]]:
        from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]  # public all the same

        configs: dict[str, dict[str, str]] = {}
        # librdkafka accepts any number of topics in a request, but only one broker (_CONFLICT).
        for portion in _split(names) if kind == "TOPIC" else ([name] for name in names):
            resources = [ConfigResource(ResourceType[kind], name) for name in portion]
            futures = self.client.describe_configs(resources, request_timeout=self.timeout_seconds)
            for resource, future in futures.items():
                try:
                    entries = self._wait_for(future, f"reading the settings of {kind.lower()} {resource.name!r}")
                except DeniedError:
                    entries = {}
                configs[resource.name] = {
                    name: entry.value for name, entry in entries.items() if entry.value is not None
                }
        return configs

    def _wait_for(self, future: Any, action: str) -> Any:
        from confluent_kafka import KafkaException

        try:
            # The client's own timeout expires first. This one covers a client that never responds.
            response = future.result(timeout=self.timeout_seconds + 10)
        except (KafkaException, TimeoutError) as error:
            self.client_errors.poll(self.client)
            raise classify(error, action, self.client_errors) from None
        self.client_errors.note_answer(self.client)
        return response


def authorized_operations(described: Sequence[Any] | None) -> frozenset[str] | None:
    """Return the names of authorized operations, or None if the cluster does not report them."""
    names = frozenset(operation.name for operation in described or ())
    return names if "DESCRIBE" in names else None


def _create_command(plan: NewTopicSettings) -> str:
    settings = " ".join(f"--config {shlex.quote(f'{name}={value}')}" for name, value in plan.config.items())
    numbers = f"--partitions {plan.partitions} " if plan.partitions else ""
    return f"kafka-topics.sh --create --topic {plan.name} {numbers}{settings}"


def _split(items: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), _TOPICS_PER_REQUEST):
        yield list(items[start : start + _TOPICS_PER_REQUEST])
