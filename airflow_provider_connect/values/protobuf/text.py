"""Writes Protobuf source text from a descriptor, and parses it.

https://protobuf.dev/reference/protobuf/proto3-spec/ (2026-11)
"""

from __future__ import annotations

import json
import re
from typing import Any

from airflow_provider_connect.errors import DataError

_TOKEN = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | \s+ | (?P<token> "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | [\w.+-]+ | . )""",
    re.VERBOSE | re.DOTALL,
)
_SCALARS = frozenset({
    "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32",
    "sfixed32", "sfixed64", "sint32", "sint64",
})  # fmt: skip
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_SKIPPED = ("option", "extensions")
_SKIPPED_STATEMENTS = {"option": ";", "service": "}", "extend": "}"}
_MAX_FIELD_NUMBER = 1 << 29


def source_text(file: Any) -> str:
    """Return a descriptor's file as source text, without options, enums and services."""
    lines = [f'syntax = "{file.syntax}";']
    lines += [f"package {file.package};"] if file.package else []
    lines += ["", *(f"import {json.dumps(name)};" for name in file.dependency)]
    for message in file.message_type:
        lines += ["", *_message_lines(message)]
    return "\n".join([*lines, ""])


def parse_source(text: str) -> Any:
    """Return the descriptor of a source text, without options, enums and services.

    :raises DataError: the text cannot be read.
    """
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(syntax="proto2")
    try:
        _Parser(text, file).read()
    except (IndexError, ValueError):
        raise DataError(
            "the registered Protobuf schema cannot be read: it is neither a descriptor nor source text"
        ) from None
    return file


def parse_file(text: str) -> Any:
    """Return the descriptor of a source text for a descriptor pool: with imports, enums and oneofs.

    Names of types stay as they are written, and the pool resolves them.

    :raises DataError: the text cannot be read.
    """
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(syntax="proto2")
    try:
        _FileParser(text, file).read()
    except (IndexError, ValueError):
        raise DataError(
            "the registered Protobuf schema cannot be read: it is neither a descriptor nor source text"
        ) from None
    return file


def _message_lines(message: Any) -> list[str]:
    inner = [f"  {line}" for nested in message.nested_type for line in _message_lines(nested)]
    fields = [f"  {_field_line(field)}" for field in message.field]
    return [f"message {message.name} {{", *inner, *fields, "}"]


def _field_line(field: Any) -> str:
    kind = field.Type.Name(field.type).removeprefix("TYPE_").lower()
    if field.type == field.TYPE_MESSAGE:
        # A message of our own stands inside the one that has the field.
        simple = field.type_name.rpartition(".")[2]
        kind = field.type_name[1:] if field.type_name.startswith(".google.") else simple
    label = "repeated " if field.label == field.LABEL_REPEATED else "optional " if field.proto3_optional else ""
    return f"{label}{kind} {field.name} = {field.number};"


class _Parser:
    def __init__(self, text: str, file: Any) -> None:
        self.tokens = [match["token"] for match in _TOKEN.finditer(text) if match["token"]]
        self.position = 0
        self.file = file
        self.enums: set[str] = set()
        self.messages: set[str] = set()
        self.unresolved_fields: list[tuple[Any, str]] = []

    def read(self) -> None:
        while self.position < len(self.tokens):
            word = self._next()
            if word == "syntax":
                self._expect("=")
                self.file.syntax = self._next().strip("\"'")
                self._expect(";")
            elif word == "package":
                self.file.package = self._next()
                self._expect(";")
            elif word == "message":
                self._message(self.file.message_type, f".{self.file.package}" if self.file.package else "")
            elif word == "enum":
                self._enum(self.file, f".{self.file.package}" if self.file.package else "")
            elif word == "import":
                self._import()
            elif word in _SKIPPED_STATEMENTS:
                self._skip(_SKIPPED_STATEMENTS[word])
            elif word != ";":
                raise ValueError(word)
        for field, scope in self.unresolved_fields:
            self._resolve(field, scope)

    def _next(self) -> str:
        self.position += 1
        return self.tokens[self.position - 1]

    def _expect(self, word: str) -> None:
        if self._next() != word:
            raise ValueError(word)

    def _skip(self, last: str) -> None:
        depth, word = 0, ""
        while depth > 0 or word != last:
            word = self._next()
            depth += (word == "{") - (word == "}")

    def _reserved(self, message: Any) -> None:
        """Read reserved numbers and ranges. Ignores reserved names."""
        words = []
        while (word := self._next()) != ";":
            words.append(word)
        for item in " ".join(words).split(","):
            first, _, last = (part.strip() for part in item.partition(" to "))
            if first[:1].isdigit():
                end = _MAX_FIELD_NUMBER if last == "max" else int(last or first, 0) + 1
                message.reserved_range.add(start=int(first, 0), end=end)

    def _message(self, into: Any, scope: str) -> None:
        message = into.add(name=self._next())
        path = f"{scope}.{message.name}"
        self.messages.add(path)
        self._expect("{")
        self._members(message, path)

    def _members(self, message: Any, path: str) -> None:
        while (word := self._next()) != "}":
            if word == ";":
                continue
            if word == "message":
                self._message(message.nested_type, path)
            elif word == "enum":
                self._enum(message, path)
            elif word == "oneof":
                self._oneof(message, path)
            elif word == "reserved":
                self._reserved(message)
            elif word in _SKIPPED:
                self._skip(";")
            elif word == "map" and self.tokens[self.position] == "<":
                self._map(message, path)
            else:
                self._field(message, path, word)

    def _import(self) -> None:
        self._skip(";")

    def _oneof(self, message: Any, path: str) -> None:
        self._next()
        self._expect("{")
        self._members(message, path)

    def _enum(self, parent: Any, scope: str) -> None:
        self.enums.add(f"{scope}.{self._next()}")
        self._skip("}")

    def _field(self, message: Any, path: str, word: str) -> None:
        label = _LABELS.get(word)
        kind = self._next() if label else word
        field = self._add_field(message, label or 1)
        field.proto3_optional = word == "optional" and self.file.syntax == "proto3"
        self._set_type(field, kind, path)

    def _add_field(self, message: Any, label: int) -> Any:
        name = self._next()
        self._expect("=")
        field = message.field.add(name=name, number=int(self._next(), 0), label=label)
        self._skip(";")
        return field

    def _set_type(self, field: Any, kind: str, path: str) -> None:
        if kind in _SCALARS:
            field.type = field.Type.Value(f"TYPE_{kind.upper()}")
        else:
            field.type_name = kind
            self.unresolved_fields.append((field, path))

    def _map(self, message: Any, path: str) -> None:
        self._expect("<")
        key = self._next()
        self._expect(",")
        value = self._next()
        self._expect(">")
        field = self._add_field(message, 3)
        entry = message.nested_type.add(name=f"{field.name}Entry")
        entry.options.map_entry = True
        self.messages.add(f"{path}.{entry.name}")
        field.type, field.type_name = field.TYPE_MESSAGE, f"{path}.{entry.name}"
        self._set_type(entry.field.add(name="key", number=1, label=1), key, path)
        self._set_type(entry.field.add(name="value", number=2, label=1), value, path)

    def _resolve(self, field: Any, scope: str) -> None:
        name = field.type_name
        while not name.startswith("."):
            if f"{scope}.{name}" in self.messages | self.enums or not scope:
                name = f"{scope}.{name}"
            scope = scope.rpartition(".")[0]
        field.type_name = name
        field.type = field.TYPE_ENUM if name in self.enums else field.TYPE_MESSAGE


class _FileParser(_Parser):
    """Keeps what a descriptor pool needs to decode messages."""

    def _import(self) -> None:
        words = []
        while (word := self._next()) != ";":
            words.append(word)
        if words[0] == "public":
            self.file.public_dependency.append(len(self.file.dependency))
        self.file.dependency.append(words[-1].strip("\"'"))

    def _enum(self, parent: Any, scope: str) -> None:
        enum = parent.enum_type.add(name=self._next())
        self._expect("{")
        while (word := self._next()) != "}":
            if word in ("option", "reserved"):
                self._skip(";")
            elif word != ";":
                self._expect("=")
                enum.value.add(name=word, number=int(self._next(), 0))
                self._skip(";")
        if len({value.number for value in enum.value}) < len(enum.value):
            enum.options.allow_alias = True

    def _oneof(self, message: Any, path: str) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._next())
        self._expect("{")
        first = len(message.field)
        self._members(message, path)
        for field in message.field[first:]:
            field.oneof_index = index

    def _message(self, into: Any, scope: str) -> None:
        super()._message(into, scope)
        message = into[-1]
        for field in message.field:  # after the declared ones, as a pool wants them
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _resolve(self, field: Any, scope: str) -> None:
        """Leave the name to the pool, which knows the imported files."""
