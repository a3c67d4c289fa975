"""Numbers the fields of a message. A registered field keeps its number.

A name has one number in all versions of a subject (https://protobuf.dev/programming-guides/proto3/, 2026-11).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.values.protobuf import schema as protobuf
from airflow_provider_connect.values.protobuf import text as source

_RESERVED_BY_PROTOBUF = range(19_000, 20_000)
_SMALL = _RESERVED_BY_PROTOBUF.start


def renumber(own_source: str, versions: Iterable[str]) -> str:
    """Return our schema's source text with the field numbers of a subject's registered versions.

    :param own_source: our schema, numbered as if it were the subject's first version.
    :param versions: registered texts, newest first, read as far as needed. Skips unreadable ones.
    """
    readable_versions: list[Any] = []
    for text in versions:
        try:
            version = protobuf.parse_registered(text)
        except DataError:
            continue
        readable_versions.append(version)
        file = _parse_own(own_source)
        _renumber(_Message.first(file), [_Message.namesake(version, file)])
        if _layout(_Message.first(file)) == _layout(_Message.namesake(version, file)):
            return source.source_text(file)  # registered already, though perhaps not the newest
    file = _parse_own(own_source)
    _renumber(_Message.first(file), [_Message.namesake(version, file) for version in readable_versions])
    return source.source_text(file)


def _parse_own(text: str) -> Any:
    file = source.parse_source(text)
    file.dependency.append(protobuf.IMPORTED)
    return file


class _Message:
    def __init__(self, message: Any, messages: dict[str, Any]) -> None:
        self.message = message
        self.messages = messages
        self.fields = {field.name: field for field in message.field}

    @classmethod
    def first(cls, file: Any) -> _Message:
        return cls(file.message_type[0], protobuf.messages_by_name(file))

    @classmethod
    def namesake(cls, file: Any, own_file: Any) -> _Message:
        _, message = protobuf.find_namesake(file, own_file)
        return cls(message, protobuf.messages_by_name(file))

    def inside(self, name: str) -> _Message | None:
        field = self.fields.get(name)
        inner = self.messages.get(field.type_name) if field is not None else None
        return None if inner is None else _Message(inner, self.messages)

    @property
    def used(self) -> set[int]:
        reserved = (range(reserved_range.start, reserved_range.end) for reserved_range in self.message.reserved_range)
        return {field.number for field in self.message.field}.union(*reserved)


def _renumber(own_message: _Message, versions: list[_Message]) -> None:
    used_numbers = set().union(*(message.used for message in versions))
    for field in own_message.message.field:
        registered_field = next(
            (message.fields[field.name] for message in versions if field.name in message.fields), None
        )
        field.number = _next_number(used_numbers) if registered_field is None else registered_field.number
        used_numbers.add(field.number)
        if (inner := own_message.inside(field.name)) is not None:
            _renumber(
                inner,
                [inner_message for message in versions if (inner_message := message.inside(field.name)) is not None],
            )


def _next_number(used_numbers: set[int]) -> int:
    number = max((number for number in used_numbers if number < _SMALL), default=0) + 1
    while number in used_numbers or number in _RESERVED_BY_PROTOBUF:
        number += 1
    return number


def _layout(message: _Message) -> dict[str, Any]:
    return {
        name: (
            field.number,
            field.type,
            protobuf.is_repeated(field),
            (inner := message.inside(name)) and _layout(inner),
        )
        for name, field in message.fields.items()
    }
