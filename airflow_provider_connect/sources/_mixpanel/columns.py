"""Columns of the export's rows, and the option ``promote``."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from airflow_provider_connect.polling.columns import RowColumn, arrow_field
from airflow_provider_connect.values.json.typed import MAX_DIGITS, decimal_digits

if TYPE_CHECKING:
    import pyarrow as pa

SIMPLE_TYPES = ("string", "double", "bigint", "boolean", "timestamp", "date")

TYPES_TEXT = f"{', '.join(SIMPLE_TYPES)}, decimal(p,s) with p from 1 to {MAX_DIGITS} and s from 0 to p"

_ILLEGAL_IN_COLUMNS = re.compile(r"[ ,;{}()=.]")
_ESCAPED_IN_JSON = re.compile('["\\\\\x00-\x1f\ud800-\udfff]')


class PromotedProperty(NamedTuple):
    """A property with the name and type of its column."""

    property: str
    column: str
    type: str


def normalize_promote(value: Any) -> Any:
    """Return ``promote`` as a dict, and other input unchanged.

    :raises ValueError: with every invalid property.
    """
    if value == "auto":
        raise ValueError(
            "'auto' is refused, because column types must not depend on a day's data. Run 'airflow connect propose "
            "mixpanel --conn-id <conn_id>' and set the dict that it prints"
        )
    problems: list[str] = []
    if isinstance(value, list | tuple):
        names = [name for name in value if isinstance(name, str)]
        if len(names) < len(value):
            raise ValueError("a list contains names of properties, which become strings. Set a dict for other types")
        problems += [
            f"property {quote_name(name)} is listed twice" for name in dict.fromkeys(names) if names.count(name) > 1
        ]
        value = dict.fromkeys(names, "string")
    if not isinstance(value, Mapping):
        return value
    entries: dict[Any, Any] = {}
    for name, entry in value.items():
        try:
            entries[name] = _entry(name, entry)
        except ValueError as error:
            problems.append(f"property {quote_name(name)} {error}")
    if problems:
        raise ValueError("; ".join(problems))
    return entries


def can_be_promoted(name: str) -> bool:
    """Return True if JSON escapes no character of the name."""
    return _ESCAPED_IN_JSON.search(name) is None


def _entry(name: Any, entry: Any) -> str | tuple[str, str]:
    if not isinstance(name, str):
        raise ValueError("is not text")  # not a TypeError: pydantic reports no other
    if not can_be_promoted(name):
        raise ValueError("cannot be a column: its name has quotes, backslashes or control characters")
    if isinstance(entry, str):
        if not name:
            raise ValueError("has no name to use as a column: " + alias_advice(name))
        return _type(entry)
    if not isinstance(entry, list | tuple) or len(entry) != 2 or not all(isinstance(part, str) for part in entry):
        raise ValueError(f"takes a type or (column, type): {alias_advice(name)}")
    column, kind = entry
    if not column or column != column_name(column) or not can_be_promoted(column):
        raise ValueError("has a column name with characters that sinks refuse. Use letters, digits and _")
    return column, _type(kind)


def _type(kind: str) -> str:
    digits = decimal_digits(kind)
    if digits is not None:
        return "decimal({},{})".format(*digits)
    if kind not in SIMPLE_TYPES:
        raise ValueError(f"has an unknown type. Known types: {TYPES_TEXT}")
    return kind


def column_name(name: str) -> str:
    """Return a property's default column: ``_`` replaces characters that sinks refuse."""
    return _ILLEGAL_IN_COLUMNS.sub("_", name)


def promoted_columns(promote: Mapping[str, str | tuple[str, str]]) -> tuple[PromotedProperty, ...]:
    return tuple(
        PromotedProperty(name, column_name(name), entry) if isinstance(entry, str) else PromotedProperty(name, *entry)
        for name, entry in promote.items()
    )


def column_collisions(promoted: Iterable[PromotedProperty], fixed: Iterable[str]) -> list[str]:
    """Return a message for each promoted column that another property or a ``fixed`` column uses."""
    problems = []
    owners = {fold_name(name): "a column of every row" for name in fixed}
    for name, column, _ in promoted:
        owner = owners.setdefault(fold_name(column), f"the column of property {quote_name(name)}")
        if owner != f"the column of property {quote_name(name)}":
            problems.append(
                f"promote: property {quote_name(name)} would become column {quote_name(column)}, which is {owner} "
                f"(sinks ignore case and Unicode form): {alias_advice(name)}"
            )
    return problems


def fold_name(column: str) -> str:
    """Remove differences of case and Unicode form, which sinks may ignore."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", column).casefold())


def alias_advice(name: str) -> str:
    """Return advice to name another column, with an example."""
    return f"give it another column, such as {{{quote_name(name)}: ('my_column', 'string')}}"


def quote_name(name: Any) -> str:
    """Quote a name for a message, with unusual Unicode forms in ASCII."""
    return repr(name) if isinstance(name, str) and unicodedata.is_normalized("NFKC", name) else ascii(name)


Regime = Literal["utc", "project_local"]

COLUMNS: dict[str, RowColumn] = {
    "event": RowColumn("string", "Name of the event.", required=True, few_values=True),
    "distinct_id": RowColumn("string", "User of the event. A number keeps its JSON text. Null if missing."),
    "insert_id": RowColumn("string", "The $insert_id of client or server. Null if missing."),
    "time": RowColumn("timestamp", "Time of the event (UTC). Null if unreadable."),
    "time_local": RowColumn(
        "wall",
        "Time of the event on the project's clock, as exported. Null unless timestamps is project_local.",
    ),
    "properties": RowColumn("json", "All properties as exported: JSON text, byte for byte.", required=True),
    "processing_time": RowColumn(
        "timestamp", "Time at which Mixpanel received the event (UTC, from mp_processing_time_ms)."
    ),
    "record_key": RowColumn("string", "Key of the event, 32 hex digits. See key_origin.", required=True),
    "key_origin": RowColumn(
        "string",
        "vendor: the key is made from event, distinct_id, time and $insert_id. fallback: one of them is missing, "
        "and the key is made from event and all properties.",
        required=True,
        few_values=True,
    ),
}


def schema(
    promoted_properties: tuple[PromotedProperty, ...] = (), columns: Mapping[str, RowColumn] = COLUMNS
) -> pa.Schema:
    """Return the Arrow schema of a stream: its columns, then promoted properties."""
    import pyarrow as pa

    fields = [arrow_field(name, column) for name, column in columns.items()]
    for name, promoted, kind in promoted_properties:
        column = RowColumn(kind, f"Property {name!r} where it is a {kind}.", few_values=kind == "string")
        fields.append(arrow_field(promoted, column))
    return pa.schema(fields)
