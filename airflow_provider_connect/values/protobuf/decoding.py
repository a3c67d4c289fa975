"""Reads Protobuf messages of any schema as plain values.

https://protobuf.dev/programming-guides/encoding/ (2026-11)
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.values.protobuf.text import parse_file

_SHIPPED_FILE = re.compile(r"(google/(?:protobuf|type)|confluent(?:/type)?)/([a-z_]+)\.proto")
_MAX_VARINT_BITS = 70
_CONFLUENT = "confluent_kafka.schema_registry"


class MessageIndexError(ValueError):
    """The schema has no message at an index."""


class MessageTypes:
    """The message types of a schema's file, with the files that it imports.

    :param text: a descriptor in base64, or source text.
    :param find_import: returns the text of an imported file, or None for those of Google and Confluent.
    :raises DataError: the schema, or a file that it imports, cannot be read.
    """

    def __init__(self, text: str, find_import: Callable[[str], str | None]) -> None:
        from google.protobuf import descriptor_pool

        self._pool = descriptor_pool.DescriptorPool()
        self._known: set[str] = set()
        self._find_import = find_import
        self._classes: dict[tuple[int, ...], Any] = {}
        try:
            self._file = self._add("registered.proto", text)
        except (TypeError, KeyError) as error:  # the pool's, which name types of the schema
            raise DataError(f"the registered Protobuf schema is not complete: {error}") from None

    def _add(self, name: str, text: str) -> Any:
        file = _descriptor(text)
        file.name = name
        self._add_imports(file.dependency)
        self._pool.AddSerializedFile(file.SerializeToString())
        return self._pool.FindFileByName(name)

    def _add_imports(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self._known:
                continue
            self._known.add(name)
            if (text := self._find_import(name)) is not None:
                self._add(name, text)
            else:
                shipped = _shipped_file(name)
                self._add_imports([imported.name for imported in shipped.dependencies])
                self._pool.AddSerializedFile(shipped.serialized_pb)

    def parse(self, index: tuple[int, ...], data: bytes) -> Any:
        """Return a message.

        :param index: of the message type in the file, and of those inside it.
        :raises MessageIndexError: the file has no such type.
        :raises DecodeError: the bytes are no such message.
        """
        if index not in self._classes:
            self._classes[index] = self._message_class(index)
        return self._classes[index].FromString(data)

    def _message_class(self, index: tuple[int, ...]) -> Any:
        from google.protobuf import descriptor_pb2, message_factory

        file = descriptor_pb2.FileDescriptorProto()
        self._file.CopyToProto(file)
        messages, names = file.message_type, [file.package] if file.package else []
        for number in index:
            if not 0 <= number < len(messages):
                raise MessageIndexError
            names.append(messages[number].name)
            messages = messages[number].nested_type
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(".".join(names)))


def read_message_index(data: bytes) -> tuple[tuple[int, ...], int]:
    """Return the index of a message's type, and its length in bytes.

    https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
    (2026-11)

    :param data: the record after the schema's id.
    :raises IndexError: the index is not complete.
    :raises ValueError: the index has a negative length, or a number of more than ten bytes.
    """
    count, position = _zigzag(data, 0)
    if count == 0:
        return (0,), position
    if count < 0:
        raise ValueError("the index has a negative length")
    numbers = []
    for _ in range(count):
        number, position = _zigzag(data, position)
        numbers.append(number)
    return tuple(numbers), position


def message_values(message: Any) -> Any:
    """Return a message as plain values: a dict, or the value of a well-known type.

    Times are ISO 8601 text, enums names, bytes base64. A field without a value is None if the schema can tell it from
    its default.
    """
    kind = message.DESCRIPTOR.full_name
    if kind in _WELL_KNOWN:
        return _WELL_KNOWN[kind](message)
    if kind in _JSON_TYPES:
        from google.protobuf import json_format

        return json_format.MessageToDict(message)
    return {field.name: _field_value(message, field) for field in message.DESCRIPTOR.fields}


def _field_value(message: Any, field: Any) -> Any:
    if field.is_repeated:
        values = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value_field = field.message_type.fields_by_name["value"]
            return {_key_text(key): _single(values[key], value_field) for key in values}
        return [_single(value, field) for value in values]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _single(getattr(message, field.name), field)


def _single(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        return message_values(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return float(repr32(value)) if field.cpp_type == field.CPPTYPE_FLOAT else value


def repr32(value: float) -> str:
    """Return the shortest text of a number of 32 bits."""
    import numpy as np

    return str(np.float32(value))


def _key_text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _decimal(message: Any) -> Decimal:
    unscaled = int.from_bytes(message.value, "big", signed=True)
    return Decimal(f"{unscaled}E{-message.scale}")  # scaleb rounds to 28 digits


def _date(message: Any) -> str | None:
    return f"{message.year:04}-{message.month:02}-{message.day:02}" if message.year and message.day else None


def _time(message: Any) -> str:
    return dt.time(message.hours % 24, message.minutes, message.seconds, message.nanos // 1000).isoformat()


def _wrapped(message: Any) -> Any:
    return _single(message.value, message.DESCRIPTOR.fields_by_name["value"])


_WRAPPERS = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
_WELL_KNOWN: Mapping[str, Callable[[Any], Any]] = {
    "google.protobuf.Timestamp": lambda message: message.ToJsonString(),
    "google.protobuf.Duration": lambda message: message.ToJsonString(),
    "google.type.Date": _date,
    "google.type.TimeOfDay": _time,
    "confluent.type.Decimal": _decimal,
    **{f"google.protobuf.{name}Value": _wrapped for name in _WRAPPERS},
}
_JSON_TYPES = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue", "FieldMask"))


def _descriptor(text: str) -> Any:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        return parse_file(text)


def _shipped_file(name: str) -> Any:
    """Return the descriptor of a file that Google's or Confluent's package has.

    :raises DataError: it is none of them.
    """
    match = _SHIPPED_FILE.fullmatch(name)
    if match is None:
        raise DataError(f"the registered Protobuf schema imports {name!r}, which is none of its references")
    folder = match[1].replace("/", ".")
    package = folder if folder.startswith("google") else f"{_CONFLUENT}.{folder}"
    try:
        return importlib.import_module(f"{package}.{match[2]}_pb2").DESCRIPTOR
    except ModuleNotFoundError:
        raise DataError(
            f"the registered Protobuf schema imports {name!r}, which no installed package has. Run: pip install "
            "'airflow-provider-connect[registry]'"
        ) from None


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > _MAX_VARINT_BITS:
            raise ValueError("the index has a number of more than ten bytes")
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
