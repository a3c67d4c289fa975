"""Translates a stream's JSON Schema, keys and added fields to columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_NAMES = ("document", "record_key", "day")
_TYPES = {
    "string": "string", "integer": "bigint", "number": "double", "boolean": "boolean", "object": "json",
    "array": "json",
}  # fmt: skip
_MAX_COLUMNS = 1_000


def pointer(steps: Iterable[str]) -> str:
    """Return the path of a field. Several names become a JSON Pointer."""
    names = list(steps)
    if len(names) == 1 and names[0] and not names[0].startswith("/"):
        return names[0]
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)


class Columns:
    """Columns by name. Each name differs from the others in more than case."""

    def __init__(self) -> None:
        self._columns: dict[str, dict[str, Any]] = {}
        self._names: dict[tuple[str, ...], str] = {}
        self._computed: set[tuple[str, ...]] = set()

    def __contains__(self, name: str) -> bool:
        return name.lower() in (known.lower() for known in self._columns)

    def add(self, steps: tuple[str, ...], kind: str, **settings: Any) -> str:
        """Add the column of a field, or replace its type. Returns its name."""
        name = self._names.get(steps)
        if name is None:
            name = self._free_name("_".join(steps))
            self._names[steps] = name
            self._columns[name] = {} if steps == (name,) else {"at": pointer(steps)}
        at = {"at": self._columns[name]["at"]} if "at" in self._columns[name] else {}
        self._columns[name] = {"type": kind} | at | settings
        return name

    def require(self, steps: tuple[str, ...], kind: str) -> str:
        """Return the name of a field's column, which is added if there is none."""
        return self._names.get(steps) or self.add(steps, kind)

    def is_computed(self, steps: tuple[str, ...]) -> bool:
        """Return True for a field that the manifest computes, so that no record has it."""
        return steps in self._computed

    def mark_computed(self, steps: tuple[str, ...]) -> None:
        """Remove the column of a field that the manifest computes."""
        self.drop(steps)
        self._computed.add(steps)

    def drop(self, steps: tuple[str, ...]) -> None:
        """Remove a field's column."""
        if (name := self._names.pop(steps, None)) is not None:
            del self._columns[name]

    def move(self, steps: tuple[str, ...], at: tuple[str, ...]) -> None:
        """Let a field's column read another place of the record."""
        kind = self.kind_of(steps) or "string"
        name = self.require(steps, kind)
        self._columns[name] = {"type": kind, "at": pointer(at)}

    def kind_of(self, steps: tuple[str, ...]) -> str | None:
        """Return the type of a field's column."""
        name = self._names.get(steps)
        return None if name is None else str(self._columns[name]["type"])

    def names(self) -> dict[tuple[str, ...], str]:
        """Return the columns' names by field."""
        return dict(self._names)

    def as_options(self) -> dict[str, Any]:
        """Return the columns as an option. A type alone is a text."""
        return {name: column["type"] if set(column) == {"type"} else column for name, column in self._columns.items()}

    def _free_name(self, text: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", text) or "field"
        plain = plain if _NAME.fullmatch(plain) else f"_{plain}"
        taken = {*_RESERVED_NAMES, *(name.lower() for name in self._columns)}
        name, number = plain, 2
        while name.lower() in taken:
            name, number = f"{plain}_{number}", number + 1
        return name


def columns_of_schema(schema: Any) -> Columns:
    """Return a column for each property of a JSON Schema."""
    columns = Columns()
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    for name, field in list(properties.items())[:_MAX_COLUMNS] if isinstance(properties, Mapping) else ():
        columns.add((str(name),), column_type(field))
    return columns


def column_type(schema: Any) -> str:
    """Return the type of a column that holds every value of a schema."""
    if not isinstance(schema, Mapping):
        return "json"
    types = _declared_types(schema)
    kinds = {_TYPES.get(name, "json") for name in types}
    if kinds == {"bigint", "double"}:
        return "double"
    if not kinds or "json" in kinds:
        return "json"
    if len(kinds) > 1:
        return "string"
    kind = kinds.pop()
    if kind == "string":
        return {"date-time": "timestamp", "date": "date"}.get(str(schema.get("format")), "string")
    return kind


def _declared_types(schema: Mapping[str, Any]) -> set[str]:
    declared = schema.get("type")
    names = (
        {declared} if isinstance(declared, str) else set(map(str, declared)) if isinstance(declared, list) else set()
    )
    for variants in (schema.get("anyOf"), schema.get("oneOf")):
        for variant in variants if isinstance(variants, list) else ():
            names |= _declared_types(variant) if isinstance(variant, Mapping) else {"object"}
    return names - {"null"}
