"""The columns of Mixpanel's rows: names, types, meanings; and the properties that become some. Light, for DAG files."""

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
    """A property, the column that it becomes, and the column's type."""

    property: str
    column: str
    type: str


def normalize_promote(value: Any) -> Any:
    """Return the option as ``{property: type}`` or ``{property: (column, type)}``; what is neither stays as it is.

    :raises ValueError: naming every property that is wrong.
    """
    if value == "auto":
        raise ValueError(
            "'auto' is refused, because a column's type must not change with what a day holds: let 'airflow "
            "connect propose mixpanel --conn-id <conn_id>' propose a dict from a sample, and set that"
        )
    problems: list[str] = []
    if isinstance(value, list | tuple):
        names = [name for name in value if isinstance(name, str)]
        if len(names) < len(value):
            raise ValueError("a list holds names of properties, which become strings; for other types set a dict")
        problems += [
            f"property {quote_name(name)} stands twice" for name in dict.fromkeys(names) if names.count(name) > 1
        ]
        value = dict.fromkeys(names, "string")
    if not isinstance(value, Mapping):
        return value
    found: dict[Any, Any] = {}
    for name, wanted in value.items():
        try:
            found[name] = _entry(name, wanted)
        except ValueError as error:
            problems.append(f"property {quote_name(name)} {error}")
    if problems:
        raise ValueError("; ".join(problems))
    return found


def can_be_promoted(name: str) -> bool:
    """Tell whether a property's name is one that decoders take: without characters that JSON escapes."""
    return _ESCAPED_IN_JSON.search(name) is None


def _entry(name: Any, wanted: Any) -> str | tuple[str, str]:
    if not isinstance(name, str):
        raise ValueError("is not a text")  # not a TypeError: pydantic reports no other
    if not can_be_promoted(name):
        raise ValueError("cannot be a column: its name has quotes, backslashes or control characters")
    if isinstance(wanted, str):
        if not name:
            raise ValueError("has no name that a column could have: " + alias_advice(name))
        return _type(wanted)
    if not isinstance(wanted, list | tuple) or len(wanted) != 2 or not all(isinstance(one, str) for one in wanted):
        raise ValueError(f"takes a type or (column, type): {alias_advice(name)}")
    column, kind = wanted
    if not column or column != column_name(column) or not can_be_promoted(column):
        raise ValueError("has a column name with characters that sinks refuse: take letters, digits and _")
    return column, _type(kind)


def _type(kind: str) -> str:
    digits = decimal_digits(kind)
    if digits is not None:
        return "decimal({},{})".format(*digits)
    if kind not in SIMPLE_TYPES:
        raise ValueError(f"has a type that is not known; known: {TYPES_TEXT}")
    return kind


def column_name(name: str) -> str:
    """Return the column of a property without an alias: its name, with ``_`` for each space and each of ``,;{}()=.``.

    Sinks refuse these characters.
    """
    return _ILLEGAL_IN_COLUMNS.sub("_", name)


def promoted_columns(promote: Mapping[str, str | tuple[str, str]]) -> tuple[PromotedProperty, ...]:
    """Return the promoted properties in their order."""
    return tuple(
        PromotedProperty(name, column_name(name), wanted)
        if isinstance(wanted, str)
        else PromotedProperty(name, *wanted)
        for name, wanted in promote.items()
    )


def column_collisions(promoted: Iterable[PromotedProperty], fixed: Iterable[str]) -> list[str]:
    """Name the properties whose column is taken, by another property or by a column of every row."""
    found = []
    taken = {fold_name(name): "a column of every row" for name in fixed}
    for name, column, _ in promoted:
        owner = taken.setdefault(fold_name(column), f"the column of property {quote_name(name)}")
        if owner != f"the column of property {quote_name(name)}":
            found.append(
                f"promote: property {quote_name(name)} would become column {quote_name(column)}, which is {owner} (sinks tell "
                f"neither case nor Unicode forms apart): {alias_advice(name)}"
            )
    return found


def fold_name(column: str) -> str:
    """Return what columns have in common that a sink may take for one."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", column).casefold())


def alias_advice(name: str) -> str:
    """Say how a property gets another column."""
    return f"give it a column of its own, such as {{{quote_name(name)}: ('my_column', 'string')}}"


def quote_name(name: Any) -> str:
    """Return a name for a message: one that looks like another when printed, in ASCII."""
    return repr(name) if isinstance(name, str) and unicodedata.is_normalized("NFKC", name) else ascii(name)


Regime = Literal["utc", "project_local"]

COLUMNS: dict[str, RowColumn] = {
    "event": RowColumn("string", "Name of the event.", required=True, few_values=True),
    "distinct_id": RowColumn("string", "Whom the event is about; a number keeps its JSON text; null if missing."),
    "insert_id": RowColumn("string", "The client's or server's $insert_id; null if missing."),
    "time": RowColumn("timestamp", "When the event happened (UTC); null if the record has no usable time."),
    "time_local": RowColumn(
        "wall",
        "What the project's clock showed, as exported; null unless the project's timestamps are project_local.",
    ),
    "properties": RowColumn("json", "All properties: the JSON text as exported, byte for byte.", required=True),
    "processing_time": RowColumn("timestamp", "When the vendor received the event (UTC, from mp_processing_time_ms)."),
    "record_key": RowColumn("string", "Identity of the event, 32 hex digits: see key_origin.", required=True),
    "key_origin": RowColumn(
        "string",
        "vendor: the key is made from event, distinct_id, time and $insert_id; fallback: one of them is missing, "
        "and it is made from the event's name and all properties.",
        required=True,
        few_values=True,
    ),
}
"""Those of the raw export."""


def schema(
    promoted_properties: tuple[PromotedProperty, ...] = (), columns: Mapping[str, RowColumn] = COLUMNS
) -> pa.Schema:
    """Return the schema of all batches, with metadata as :meth:`.Poller.schema` defines it."""
    import pyarrow as pa

    fields = [arrow_field(name, column) for name, column in columns.items()]
    for name, promoted, kind in promoted_properties:
        column = RowColumn(kind, f"Property {name!r} where it is a {kind}.", few_values=kind == "string")
        fields.append(arrow_field(promoted, column))
    return pa.schema(fields)
