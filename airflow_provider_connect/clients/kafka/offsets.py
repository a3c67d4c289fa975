"""Where topics end, before and after a transaction wrote to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.kafka.errors import Heard, UnknownTopicError, classify
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.patience import Patience

if TYPE_CHECKING:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

_AGAIN_SECONDS = 0.1
LISTED_SECONDS = 2.0
"""How long a new topic may be unknown: the brokers hear of it one after the other."""
_ADVICE = "see who deletes it; a new run makes it again with create_disposition='if_needed'"

Ends = dict[str, dict[int, int]]


def ends(
    admin: AdminClient,
    topics: Iterable[str],
    timeout_seconds: float,
    heard: Heard | None = None,
    *,
    committed: bool = False,
) -> Ends:
    """Return the offset after the last record of each partition, records of open transactions included.

    :param committed: return the offsets instead that readers of committed records can get to.
    :raises UnknownTopicError: a topic is not there.
    :raises RetriableError: the broker is away.
    """
    from confluent_kafka import KafkaException

    names = list(topics)
    patience = Patience(timeout_seconds, (_AGAIN_SECONDS,))
    while True:
        try:
            found = _asked(admin, names, max(1.0, patience.left_seconds), committed=committed)
        except (KafkaException, UnknownTopicError) as error:
            failure = classify(error, "asking for the topics' ends", heard)
            if patience.is_over or not _may_pass(failure, patience.spent_seconds):
                raise failure from None
        else:
            # confluent-kafka 2.16 answers a call that broke with an offset below zero, and without an error.
            if all(end >= 0 for partitions in found.values() for end in partitions.values()):
                return found
        if not patience.look_again():
            raise RetriableError(f"no broker told within {timeout_seconds:.0f} s where the topics end")


def _may_pass(failure: Exception, waited_seconds: float) -> bool:
    """Say whether to ask again: also about a topic that one of the brokers does not know yet, for a little while."""
    if isinstance(failure, UnknownTopicError):
        return waited_seconds <= LISTED_SECONDS
    return isinstance(failure, RetriableError)


def _asked(admin: AdminClient, topics: Iterable[str], timeout_seconds: float, *, committed: bool) -> Ends:
    from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # where its documentation has it

    latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    found: Ends = {topic: dict.fromkeys(_partitions(admin, topic, timeout_seconds), -1) for topic in topics}
    places = {TopicPartition(topic, number): latest for topic, numbers in found.items() for number in numbers}
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    for place, answer in admin.list_offsets(places, isolation_level=level, request_timeout=timeout_seconds).items():
        try:
            found[place.topic][place.partition] = answer.result().offset
        except KafkaException as error:
            raise _named(error, place.topic) from None
    return found


def _partitions(admin: AdminClient, topic: str, timeout_seconds: float) -> list[int]:
    """Return the numbers of a topic's partitions."""
    from confluent_kafka import KafkaException

    told = admin.list_topics(topic, timeout=timeout_seconds).topics[topic]
    if told.error is not None:
        raise _named(KafkaException(told.error), topic)
    if not told.partitions:
        raise _gone(topic)
    return list(told.partitions)


def _named(error: KafkaException, topic: str) -> Exception:
    """Return an error that names the topic if it does not exist any more."""
    failure = classify(error, f"asking where topic {topic!r} ends")
    if isinstance(failure, UnknownTopicError):
        return _gone(topic)
    return error


def _gone(topic: str) -> UnknownTopicError:
    return UnknownTopicError(f"topic {topic!r} was there when the publish began, and is gone: {_ADVICE}")


def written(before: Ends, after: Ends) -> dict[str, dict[int, tuple[int, int]]]:
    """Return the span of each partition that grew: its first new offset, and the one after the last."""
    spans = {
        topic: {
            partition: (before.get(topic, {}).get(partition, 0), end)
            for partition, end in sorted(partitions.items())
            if end > before.get(topic, {}).get(partition, 0)
        }
        for topic, partitions in sorted(after.items())
    }
    return {topic: partitions for topic, partitions in spans.items() if partitions}
