"""Decides which offsets an increment reads. Pure: the cluster's answers come in, ranges and a position go out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources._kafka.positions import Position, digest_of, has_topic_id, is_same_name
from airflow_provider_connect.sources._kafka.ranges import OffsetRange

Start = Literal["earliest", "latest"]
OnLost = Literal["fail", "warn"]


class PartitionBounds(NamedTuple):
    """Offsets of a partition now.

    :param first: the oldest offset that still exists.
    :param stable_end: the offset after the last one of a finished transaction.
    :param log_end: the offset after the last record, also of an open transaction.
    """

    first: int
    stable_end: int
    log_end: int


class TopicState(NamedTuple):
    """A topic that the options select.

    :param bounds: of each partition.
    """

    name: str
    identity: str
    bounds: dict[int, PartitionBounds]


@dataclass(frozen=True)
class Increment:
    """The records of one run.

    :param end: the position after them.
    :param warnings: sentences for the log.
    """

    ranges: Sequence[OffsetRange]
    end: Position
    warnings: Sequence[str] = field(default=())


def next_increment(topics: Sequence[TopicState], after: Position | None, start: Start, on_lost: OnLost) -> Increment:
    """Return the increment from a position to the topics' stable ends.

    A partition that the position lacks is new, and is read from its beginning. Without a position, ``start`` decides.
    Topics of the position that the options do not select any more keep their offsets.

    :param after: None for the first increment.
    :raises ConfigError: records were deleted before they were read, or a partition ends before the position.
    """
    ranges: list[OffsetRange] = []
    warnings: list[str] = []
    new_begins: list[tuple[str, int, int]] = []
    ends = {} if after is None else {identity: dict(offsets) for identity, offsets in after.topics.items()}
    if nameless := [topic.name for topic in topics if not has_topic_id(topic.identity)]:
        warnings.append(
            f"the brokers give topic {nameless[0]!r} and {len(nameless) - 1} more no id: a topic that is deleted and "
            "made again is not recognised, and records at offsets that were read in the former topic are lost"
        )
    for topic in topics:
        losses = [_made_again(topic)] if after is not None and _drop_former(topic, ends) else []
        for number, bounds in sorted(topic.bounds.items()):
            known_offset = None if after is None else after.next_offset(topic.identity, number)
            begin, loss = _begin(topic, number, bounds, known_offset, is_first=after is None, start=start)
            losses += [loss] if loss else []
            if bounds.log_end > bounds.stable_end:
                warnings.append(
                    f"topic {topic.name!r} partition {number}: a transaction is open at offset {bounds.stable_end:,}. "
                    f"Up to {bounds.log_end - bounds.stable_end:,} records are left to the next run"
                )
            end = max(begin, bounds.stable_end)
            ranges.append(OffsetRange(topic.name, topic.identity, number, begin, end))
            if known_offset is None and begin < end:
                new_begins.append((topic.identity, number, begin))
            ends.setdefault(topic.identity, {})[number] = end
        if losses and on_lost == "fail":
            raise ConfigError(f"{'; '.join(losses)}. Set on_lost='warn' for one run, to go on without these records")
        warnings += [f"{loss}. on_lost='warn': this run goes on without these records" for loss in losses]
    return Increment(ranges, Position(ends, digest_of(new_begins)), warnings)


def _drop_former(topic: TopicState, ends: dict[str, dict[int, int]]) -> bool:
    """Remove the offsets of a former topic of the same name. Returns True if there were any."""
    former = [identity for identity in ends if identity != topic.identity and is_same_name(identity, topic.identity)]
    for identity in former:
        del ends[identity]
    return bool(former)


def _made_again(topic: TopicState) -> str:
    return (
        f"topic {topic.name!r} has another id than at the last run: it was deleted and made again, or the connection "
        "names another cluster. Records of the former topic that were not read are lost, and this one is read from its "
        "beginning"
    )


def same_increment(topics: Sequence[TopicState], after: Position | None, to: Position, start: Start) -> Increment:
    """Return the increment between two positions, which an earlier run has read.

    :raises ConfigError: a topic of the increment does not exist any more, or its records were deleted.
    """
    by_id = {topic.identity: topic for topic in topics}
    ranges = []
    new_begins: list[tuple[str, int, int]] = []
    for identity, ends in to.topics.items():
        for number, end in sorted(ends.items()):
            known_begin = None if after is None else after.next_offset(identity, number)
            if known_begin == end:
                continue
            topic = by_id.get(identity)
            if topic is None or number not in topic.bounds:
                raise ConfigError(
                    f"partition {number} of a topic of this increment cannot be read again: the topic was deleted, or "
                    "the options do not select it any more. The published rows stay"
                )
            bounds = topic.bounds[number]
            if known_begin is None:
                begin = end if after is None and start == "latest" else min(bounds.first, end)
                new_begins += [(identity, number, begin)] if begin < end else []
            elif known_begin < bounds.first:
                raise ConfigError(
                    f"topic {topic.name!r} partition {number}: the records from offset {known_begin:,} to "
                    f"{min(bounds.first, end) - 1:,} were deleted, so the increment cannot be read again. "
                    "The published rows stay"
                )
            else:
                begin = known_begin
            if end > bounds.log_end:
                raise ConfigError(
                    f"topic {topic.name!r} partition {number} ends at offset {bounds.log_end:,}, and the increment "
                    f"reached {end:,}: a broker has lost records. The published rows stay"
                )
            ranges.append(OffsetRange(topic.name, identity, number, begin, end))
    if digest_of(new_begins) != to.begins:
        raise ConfigError(
            "the oldest records of this increment were deleted, by a topic's retention or a person, so the increment "
            "cannot be read again. The published rows stay"
        )
    return Increment(ranges, to)


def _begin(
    topic: TopicState, number: int, bounds: PartitionBounds, known_offset: int | None, *, is_first: bool, start: Start
) -> tuple[int, str]:
    """Return the first offset to read, and a description of lost records or ""."""
    if known_offset is None:
        return (bounds.stable_end if is_first and start == "latest" else bounds.first), ""
    subject = f"topic {topic.name!r} partition {number}"
    if known_offset < bounds.first:
        return bounds.first, (
            f"{subject}: the records from offset {known_offset:,} to {bounds.first - 1:,} were deleted before they "
            "were read, by the topic's retention or a person"
        )
    if known_offset > bounds.log_end:
        return bounds.log_end, (
            f"{subject} ends at offset {bounds.log_end:,}, and {known_offset:,} was read: a broker has lost records, "
            "and new ones may have taken their offsets"
        )
    return known_offset, ""
