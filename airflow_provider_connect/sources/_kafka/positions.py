"""The position of a followed set of topics: the next offset of each partition, as short text.

A topic stands under a digest of its name and its id, which a topic that is made again under the same name does not
share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.spans import MAX_KEPT_CHARACTERS

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NO_OFFSET = "-"
_BEFORE_ID = "."
_ZERO_ID = "A" * 22
"""128 zero bits in base64: https://cwiki.apache.org/confluence/display/KAFKA/KIP-516%3A+Topic+Identifiers (2026-11)."""
_BEFORE_BEGINS = "^"
TopicOffsets = Mapping[int, int]
"""The next offset to read of each partition."""


def identity_of(name: str, topic_id: str) -> str:
    """Return the identity of a topic: a digest of its name, and the id that the cluster gave it."""
    digest = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "big")
    return f"{_to_base_36(digest)}{_BEFORE_ID}{topic_id}"


def has_topic_id(identity: str) -> bool:
    """Return False if the cluster gives topics no ids, as brokers did before Kafka 2.8."""
    return not identity.endswith(f"{_BEFORE_ID}{_ZERO_ID}")


def digest_of(begins: Iterable[tuple[str, int, int]]) -> str:
    """Return a digest of the first offsets of partitions, or "" without partitions.

    :param begins: identity, partition and offset.
    """
    lines = sorted(f"{identity} {number} {offset}" for identity, number, offset in begins)
    digest = hashlib.blake2b("\n".join(lines).encode(), digest_size=6).digest()
    return _to_base_36(int.from_bytes(digest, "big")) if lines else ""


def is_same_name(identity: str, other: str) -> bool:
    """Return True if two identities are of topics with one name."""
    return identity.split(_BEFORE_ID, maxsplit=1)[0] == other.split(_BEFORE_ID, maxsplit=1)[0]


class Position(NamedTuple):
    """The next offset of each partition of each topic.

    :param topics: by identity (:func:`identity_of`).
    :param begins: digest of the oldest offsets of the partitions that were new to the increment (:func:`digest_of`).
    """

    topics: Mapping[str, TopicOffsets]
    begins: str = ""

    @classmethod
    def parse(cls, text: str) -> Position:
        """Read :meth:`text`.

        :raises ConfigError: the text has another form.
        """
        try:
            topics_text, _, begins = text.partition(_BEFORE_BEGINS)
            entries = [entry.split("=", 1) for entry in topics_text.split(" ") if entry]
            return cls({identity: _offsets(offsets) for identity, offsets in entries}, begins)
        except ValueError:
            raise ConfigError(
                "the ledger's position is not one of Kafka offsets: the target was loaded from another source. "
                "Load the stream into its own target"
            ) from None

    def text(self) -> str:
        """Return ``<identity>=<offset>,<offset>,…`` for each topic, with offsets to the base 36, and ``^<begins>``.

        :raises ConfigError: the text is too long for a ledger.
        """
        text = " ".join(f"{identity}={_offsets_text(self.topics[identity])}" for identity in sorted(self.topics))
        text += f"{_BEFORE_BEGINS}{self.begins}" if self.begins else ""
        if len(text) > MAX_KEPT_CHARACTERS:
            partitions = sum(map(len, self.topics.values()))
            raise ConfigError(
                f"{len(self.topics)} topics with {partitions} partitions are too many for one stream: their offsets "
                f"take {len(text)} characters, and a ledger keeps {MAX_KEPT_CHARACTERS}. Share the topics out over "
                "several tasks"
            )
        return text

    def next_offset(self, identity: str, partition: int) -> int | None:
        """Return a partition's next offset, or None if the position does not have the partition."""
        return self.topics.get(identity, {}).get(partition)


def _offsets(text: str) -> dict[int, int]:
    return {number: int(offset, 36) for number, offset in enumerate(text.split(",")) if offset != _NO_OFFSET}


def _offsets_text(offsets: TopicOffsets) -> str:
    numbers: Iterable[int] = range(max(offsets, default=-1) + 1)
    return ",".join(_to_base_36(offsets[number]) if number in offsets else _NO_OFFSET for number in numbers)


def _to_base_36(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"
