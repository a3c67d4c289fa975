"""Creates Protobuf descriptors from Arrow schemas, and compares them with registered ones."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.values.arrow import plain_type, type_group
from airflow_provider_connect.values.converters import DAY, differing_type, missing_field, required_field
from airflow_provider_connect.values.names import legal_name, split_name
from airflow_provider_connect.values.protobuf import text as source

if TYPE_CHECKING:
    import datetime as dt

    import pyarrow as pa

IMPORTED = "google/protobuf/timestamp.proto"
TIMESTAMP = ".google.protobuf.Timestamp"
LIST_FIELD = "items"
"""Field of the message that wraps an inner list."""


def descriptor(schema: pa.Schema, record_name: str, day: dt.date | None) -> Any:
    """Return the descriptor of a file with a record's message: ``day`` if given, then the columns."""
    from google.protobuf import descriptor_pb2

    namespace, name = split_name(record_name)
    file = descriptor_pb2.FileDescriptorProto(name=f"{record_name}.proto", package=namespace, syntax="proto3")
    file.dependency.append(IMPORTED)
    message = file.message_type.add(name=name)
    if day is not None:
        message.field.add(name=DAY, number=1, type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING, label=1)
    for field in schema:
        _add(message, f".{record_name}", field.name, field.type)
    return file


def problems(schema: pa.Schema, record_name: str, day: dt.date | None) -> list[str]:
    """Return reasons why a schema has no valid descriptor, such as names that collide in Protobuf's JSON."""
    from google.protobuf import descriptor_pool, timestamp_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    try:
        pool.AddSerializedFile(descriptor(schema, record_name, day).SerializeToString())
    except TypeError as error:
        return [f"Protobuf refuses the descriptor of these columns: {error}. Rename them in the source"]
    return []


def parse_registered(text: str) -> Any:
    """Return the descriptor of a registered schema: source text, or a descriptor in base64.

    :raises DataError: the text is neither.
    """
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError):
        return source.parse_source(text)


def find_message(file: Any, record_name: str) -> tuple[int, Any]:
    """Return index and descriptor of the message with this name, or of the file's first message."""
    _, name = split_name(record_name)
    matches = [(index, message) for index, message in enumerate(file.message_type) if message.name == name]
    return matches[0] if matches else (0, file.message_type[0])


def messages_by_name(file: Any) -> dict[str, Any]:
    """Return a file's messages by their full names, with a leading dot."""
    messages_by_path: dict[str, Any] = {}

    def collect(messages: Any, prefix: str) -> None:
        for message in messages:
            messages_by_path[f"{prefix}.{message.name}"] = message
            collect(message.nested_type, f"{prefix}.{message.name}")

    collect(file.message_type, f".{file.package}" if file.package else "")
    return messages_by_path


def misfits(own: str, registered: str) -> list[str]:
    """Return the fields of our schema that a registered schema refuses."""
    mine = parse_registered(own)
    theirs = parse_registered(registered)
    _, registered_message = find_namesake(theirs, mine)
    return list(
        _misfits(mine.message_type[0], registered_message, (messages_by_name(mine), messages_by_name(theirs)), "field ")
    )


def find_namesake(file: Any, own_file: Any) -> tuple[int, Any]:
    """Call :func:`find_message` with the name of another file's first message."""
    package = f"{own_file.package}." if own_file.package else ""
    return find_message(file, f"{package}{own_file.message_type[0].name}")


def is_repeated(field: Any) -> bool:
    """Return True if a field's descriptor describes a list or a map."""
    return bool(field.label == field.LABEL_REPEATED)


def needs_message(kind: pa.DataType) -> bool:
    """Return True for lists and maps: inside a list, they need a message around them."""
    return type_group(kind) in ("list", "map")


def _misfits(
    own_message: Any, registered: Any, messages: tuple[dict[str, Any], dict[str, Any]], prefix: str
) -> Iterator[str]:
    registered_fields = {field.name: field for field in registered.field}
    for field in own_message.field:
        name, registered_field = f"{prefix}{field.name}", registered_fields.pop(field.name, None)
        if registered_field is None:
            yield missing_field(name)
        elif (field.type, is_repeated(field)) != (registered_field.type, is_repeated(registered_field)):
            yield differing_type(name, _type_name(field), _type_name(registered_field))
        elif field.type == field.TYPE_MESSAGE and TIMESTAMP in (field.type_name, registered_field.type_name):
            if field.type_name != registered_field.type_name:
                yield differing_type(name, field.type_name, registered_field.type_name)
        elif field.type == field.TYPE_MESSAGE:
            inner = messages[0][field.type_name], messages[1].get(registered_field.type_name)
            if inner[1] is None:
                yield f"{name}: its type {registered_field.type_name} is not in the registered file"
            else:
                yield from _misfits(*inner, messages, f"{name}.")
    for name, field in registered_fields.items():
        if field.label == field.LABEL_REQUIRED:
            yield required_field(f"{prefix}{name}")


def _type_name(field: Any) -> str:
    name = field.Type.Name(field.type).removeprefix("TYPE_").lower()
    return f"repeated {name}" if is_repeated(field) else name


def _add(message: Any, path: str, name: str, kind: pa.DataType) -> Any:
    kind = plain_type(kind)
    field = message.field.add(name=legal_name(name), number=len(message.field) + 1)
    if needs_message(kind):
        field.label = field.LABEL_REPEATED
        _set_repeated(field, message, path, kind)
    else:
        field.label = field.LABEL_OPTIONAL
        _set_type(field, message, path, kind)
        if field.type != field.TYPE_MESSAGE:
            _make_optional(field, message)
    return field


def _make_optional(field: Any, message: Any) -> None:
    field.proto3_optional = True
    field.oneof_index = len(message.oneof_decl)
    message.oneof_decl.add(name=f"_{field.name}")


def _set_repeated(field: Any, message: Any, path: str, kind: pa.DataType) -> None:
    from pyarrow import types

    if types.is_map(kind):
        inner = _nest(field, message, path, "Entry")
        _add(inner, field.type_name, "key", kind.key_type)
        _add(inner, field.type_name, "value", kind.item_type)
    elif needs_message(kind.value_type):
        inner = _nest(field, message, path, "List")
        _add(inner, field.type_name, LIST_FIELD, kind.value_type)
    else:
        _set_type(field, message, path, kind.value_type)


def _nest(field: Any, message: Any, path: str, suffix: str) -> Any:
    name = f"{_camel(field.name)}{suffix}"
    field.type, field.type_name = field.TYPE_MESSAGE, f"{path}.{name}"
    return message.nested_type.add(name=name)


def _camel(name: str) -> str:
    return "".join(f"{word[:1].upper()}{word[1:]}" for word in name.split("_"))


def _set_type(field: Any, message: Any, path: str, kind: pa.DataType) -> None:
    from pyarrow import types

    kind = plain_type(kind)
    if types.is_struct(kind):
        inner = _nest(field, message, path, "Record")
        for part in kind:
            _add(inner, field.type_name, part.name, part.type)
    elif types.is_timestamp(kind) and kind.tz:
        field.type, field.type_name = field.TYPE_MESSAGE, TIMESTAMP
    else:
        field.type = field.Type.Value(f"TYPE_{_scalar(kind).upper()}")


def _scalar(kind: pa.DataType) -> str:
    from pyarrow import types

    shape = type_group(kind)
    if shape == "integer":
        return f"{'' if types.is_signed_integer(kind) else 'u'}int{max(32, kind.bit_width)}"
    if shape == "float":
        return "double" if kind.bit_width == 64 else "float"
    return {"boolean": "bool", "binary": "bytes"}.get(shape or "", "string")
