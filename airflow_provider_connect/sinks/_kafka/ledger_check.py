"""Compares the ledger with the topics, to detect records lost on either side."""

from __future__ import annotations

import re
from collections.abc import Sequence

from airflow_provider_connect.clients.kafka.errors import translate_kafka_errors
from airflow_provider_connect.clients.kafka.topic_reader import open_topic
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks._kafka.cluster import Cluster
from airflow_provider_connect.sinks._kafka.ledger.kafka_ledger import KafkaLedger
from airflow_provider_connect.sinks._kafka.ledger.records import STREAM_KINDS, DayEntry, LedgerKey, parse_record
from airflow_provider_connect.sinks._kafka.record_encoder import is_written_by
from airflow_provider_connect.sinks._kafka.topic_names import template_column, topic_name_pattern
from airflow_provider_connect.sinks._kafka.topics import TopicAdmin

_LAST_OFFSETS = 1000
_NEWEST_DAYS = 30
_MAX_TEMPLATE_TOPICS = 5


class LedgerCheck:
    """Comparison of one stream's ledger and topics, before a data topic is created."""

    def __init__(self, cluster: Cluster, topics: TopicAdmin) -> None:
        self.cluster = cluster
        self.options = cluster.options
        self.ledger = cluster.ledger
        self.topics = topics

    def problems(self) -> list[str]:
        """Return messages about lost records. Ignores records that an open transaction hides."""
        self.topics.wait_until_reachable()  # gives the best message for a wrong connection
        newest = self.ledger.newest_entries(_NEWEST_DAYS, "ignore")
        return self._lost_records(newest) if newest else self._lost_ledger()

    def _lost_records(self, newest: Sequence[DayEntry]) -> list[str]:
        known_ends: dict[str, dict[int, int]] = {}
        for entry in newest:
            for topic, partitions in entry.offsets.items():
                highest = known_ends.setdefault(topic, {})
                highest |= {number: max(end, highest.get(number, 0)) for number, (_, end) in partitions.items()}
        existing = self.topics.existing_topics(list(known_ends))
        ledger = f"ledger topic {self.options.ledger_topic!r}"
        complaints = [
            f"topic {name!r} is missing, but {ledger} has days of it. Restore it, publish into another topic, or "
            "forget those days (see 'Ledger' in 'airflow connect docs kafka --page')"
            for name in sorted(set(known_ends) - set(existing))
        ]
        current_ends = self.cluster.end_offsets(existing) if existing else {}
        for name in sorted(existing):
            short_partitions = [
                number for number, end in known_ends[name].items() if current_ends[name].get(number, 0) < end
            ]
            complaints += [
                f"topic {name!r}, partition {number} ends at offset {current_ends[name].get(number, 0):,}, but "
                f"{ledger} has "
                f"records up to {known_ends[name][number]:,}. The topic was created again, or has lost records. "
                "Restore it, publish into another topic, or forget those days (see 'Ledger' in "
                "'airflow connect docs kafka --page')"
                for number in sorted(short_partitions)[:1]
            ]
        return complaints

    def _lost_ledger(self) -> list[str]:
        if self.ledger.has_claims():
            return []  # a stream whose first day failed has a claim
        stream_key = self.ledger.key if self.options.headers else None
        other_targets = topics_of_other_targets(self.ledger)
        candidates = self._candidate_topics()
        if self.options.route_column is None:
            if self.options.topic in other_targets:
                return [mixed_topic_message(self.ledger, self.options.topic, other_targets[self.options.topic])]
        else:  # the pattern also matches foreign names. Each day's own topics are checked by `Planner.plan`
            candidates = [name for name in candidates if name not in other_targets]
        for name in candidates[:_MAX_TEMPLATE_TOPICS]:
            if missing_rights := self.topics.missing_rights({name: ("READ",)}):
                return [
                    f"{text}. The first publish searches the topic for records of a lost ledger"
                    for text in missing_rights
                ]
            # A concurrent run may have begun and ended between the two reads.
            if (
                holds_records(self.cluster.connection, name, stream_key, self.options.timeout_seconds)
                and not self.ledger.has_claims()
            ):
                return [self._lost_ledger_message(name)]
        return []

    def _lost_ledger_message(self, name: str) -> str:
        ledger = f"but ledger topic {self.options.ledger_topic!r} has no day of it"
        if not self.options.headers:
            return (
                f"topic {name!r} holds records, and with headers=False they may belong to "
                f"{self.ledger.key}, {ledger}. If they do, restore the ledger, name it in ledger_topic, or publish "
                "into another topic. If other programs wrote them, publish the first day with headers=True"
            )
        return (
            f"topic {name!r} holds records of {self.ledger.key}, {ledger}. The ledger was deleted, or ledger_topic "
            "names another one. Restore it, name it in ledger_topic, or publish into another topic"
        )

    def _candidate_topics(self) -> list[str]:
        if self.options.route_column is None:
            return [self.options.topic]
        with translate_kafka_errors("listing the topics"):
            cluster_topics = self.topics.client.list_topics(timeout=self.options.timeout_seconds).topics
        pattern = re.compile(topic_name_pattern(self.options.topic))
        reserved = (self.options.ledger_topic, self.options.effective_dead_letter_topic)
        return [name for name in sorted(cluster_topics) if pattern.fullmatch(name) and name not in reserved]


def topics_of_other_targets(ledger: KafkaLedger) -> dict[str, str]:
    """Return this stream's topics under another ``topic=``, with that option's value."""
    key, own_target = ledger.key, ledger.target

    def is_other_target(ledger_key: LedgerKey) -> bool:
        is_same_stream = (ledger_key.connector, ledger_key.stream) == (
            key.connector,
            key.stream,
        ) and ledger_key.topic != own_target
        return is_same_stream and ledger_key.kind not in STREAM_KINDS  # whose records do not prove records in the topic

    records = ledger.read_records(
        is_other_target, "ignore", skipped_prefix=ledger.key_prefix()
    ) | ledger.undecided_records(is_other_target)
    topics = {ledger_key.topic: ledger_key.topic for ledger_key in records if template_column(ledger_key.topic) is None}
    for ledger_key, value in records.items():
        if template_column(ledger_key.topic) is not None and ledger_key.kind != "claim":
            topics |= dict.fromkeys(parse_record(DayEntry, value, ledger.ledger_topic).offsets, ledger_key.topic)
    return topics


def mixed_topic_message(ledger: KafkaLedger, topic: str, other_target: str) -> str:
    """Return the message about a topic that would hold one stream twice."""
    return (
        f"topic {topic!r} already holds {ledger.key}, published with topic={other_target!r}. With {ledger.target!r} "
        "readers would find two first generations of a day. Publish into another topic"
    )


def holds_records(connection: Connection, topic: str, stream_key: StreamKey | None, timeout_seconds: float) -> bool:
    """Return True if one of the topic's last records is the stream's."""
    with open_topic(connection, topic, timeout_seconds) as reader:
        return any(
            stream_key is None or is_written_by(message.headers(), stream_key)
            for records in reader.read_all(_LAST_OFFSETS)
            for message in records
        )
