"""Maps Arrow types to BigQuery's.

Types of Storage Write: https://cloud.google.com/bigquery/docs/supported-data-types (2026-11). Limits of the types:
https://cloud.google.com/bigquery/docs/reference/standard-sql/data-types (2026-11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sinks._bigquery.aliases import ALIASES, ELEMENT, OFFSET, STAGED
from airflow_provider_connect.sinks._bigquery.columns.json import parse_json_sql as json_expression
from airflow_provider_connect.sinks._bigquery.names import MAX_NAME, legal_names, staged_name
from airflow_provider_connect.values.arrow import TypeGroup, is_list, json_mark, type_group

if TYPE_CHECKING:
    import pyarrow as pa

Field = dict[str, Any]
"""Column in the form of BigQuery's REST API."""

MAX_DESCRIPTION = 1024
ITEMS_FIELD = "items"
"""RECORD field that holds an inner list, because BigQuery has no list of lists."""

_SYNONYMS = {
    "INT64": "INTEGER",
    "FLOAT64": "FLOAT",
    "BOOL": "BOOLEAN",
    "STRUCT": "RECORD",
    "DECIMAL": "NUMERIC",
    "BIGDECIMAL": "BIGNUMERIC",
}
FITS_INTO = {"INTEGER": ("NUMERIC", "BIGNUMERIC"), "NUMERIC": ("BIGNUMERIC",)}
"""Types of numbers, and the wider types that hold all their values exactly."""
SQL_NAMES = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL"}


@dataclass(frozen=True)
class TargetColumn:
    """Column of the target, with its source column and its staging column.

    :param target: field of the target.
    :param staging: field of the staging table. Never REQUIRED, with ASCII names at every level.
    :param expression: SQL of a staged row's value.
    :param json: ``checked`` or ``unchecked`` for a source column of JSON documents.
    """

    source: str
    name: str
    target: Field
    staging: Field
    arrow: pa.DataType
    expression: str
    json: str | None = None


def make_columns(schema: pa.Schema, existing: Sequence[Field] = ()) -> list[TargetColumn]:
    """Return the target's columns for a source's schema, in its order.

    Top-level columns are REQUIRED if their Arrow field is not nullable.

    :param existing: the target's fields. Columns keep their names, nested fields their order, and numbers the wider
        type.
    :raises DataError: BigQuery has no type for columns.
    """
    problems: list[str] = []
    old = {field["name"]: field for field in existing}
    names = legal_names(schema.names, old)
    result = []
    for field in schema:
        name = names[field.name]
        kind = _map_type(field.type, old.get(name, {}), f"column {field.name!r}", problems)
        if kind is not None:
            result.append(_column(field, name, kind))
    if problems:
        raise DataError("; ".join(problems))
    if not result:
        raise DataError("the source has no column that BigQuery can hold")
    return result


def rest_type(field: Field) -> str:
    """Return a field's type by its REST name, such as ``INTEGER`` for ``INT64``."""
    name = str(field["type"]).upper()
    return _SYNONYMS.get(name, name)


def sql_type(field: Field) -> str:
    """Return a field's type in SQL, such as ``ARRAY<STRUCT<`key` STRING, `value` INT64>>``."""
    name: str = field["type"]
    if name == "RECORD":
        inner = ", ".join(f"`{part['name']}` {sql_type(part)}" for part in field["fields"])
        name = f"STRUCT<{inner}>"
    name = SQL_NAMES.get(name, name)
    return f"ARRAY<{name}>" if field.get("mode") == "REPEATED" else name


@dataclass(frozen=True)
class _MappedType:
    """BigQuery type for an Arrow type.

    :param wide: the table's type, if it is wider.
    """

    type: str
    arrow: pa.DataType
    mode: Literal["NULLABLE", "REPEATED"] = "NULLABLE"
    wide: str | None = None
    inner: list[Field] = attribute(default_factory=list)
    merged: list[Field] = attribute(default_factory=list)


def _column(source: pa.Field, name: str, kind: _MappedType) -> TargetColumn:
    json = json_mark(source)
    staging = _staging(name, kind)
    target = _target(name, kind) | _description(source, name)
    if not source.nullable and kind.mode == "NULLABLE":
        target["mode"] = "REQUIRED"
    expression = f"{STAGED}.`{staging['name']}`"
    if json and kind.type == "STRING" and kind.mode == "NULLABLE":
        target["type"] = "JSON"
        expression = json_expression(expression)
    else:
        json = None
        expression = _expression(expression, staging, target)
    return TargetColumn(source.name, name, target, staging, kind.arrow, expression, json)


def _staging(name: str, kind: _MappedType) -> Field:
    nested = {"fields": kind.inner} if kind.type == "RECORD" else {}
    return {"name": staged_name(name), "type": kind.type, "mode": kind.mode, **nested}


def _target(name: str, kind: _MappedType) -> Field:
    nested = {"fields": kind.merged} if kind.type == "RECORD" else {}
    return {"name": name, "type": kind.wide or kind.type, "mode": kind.mode, **nested}


def _description(source: pa.Field, name: str) -> Field:
    text = (source.metadata or {}).get(b"comment", b"").decode()
    renamed = f" Source name: {source.name[:MAX_NAME]!r}." if name != source.name else ""
    if len(text) + len(renamed) > MAX_DESCRIPTION:
        text = f"{text[: MAX_DESCRIPTION - len(renamed) - 1]}…"
    text = f"{text}{renamed}".strip()
    return {"description": text} if text else {}


def _expression(value: str, staging: Field, target: Field, depth: int = 0) -> str:
    if _shape(staging) == _shape(target):
        return value
    repeated = staging["mode"] == "REPEATED"
    row, offset = f"{ELEMENT}{depth}", f"{OFFSET}{depth}"
    rows = f"UNNEST({value}) AS {row} WITH OFFSET AS {offset} ORDER BY {offset}"
    row = row if repeated else value
    if staging["type"] != "RECORD":
        cast = f"CAST({row} AS {target['type']})"
        return f"ARRAY(SELECT {cast} FROM {rows})" if repeated else cast  # noqa: S608  # names are legal ones
    staging_fields = {part["name"]: part for part in staging["fields"]}
    parts = []
    for part in target["fields"]:
        name = staged_name(part["name"])
        inner = (
            _expression(f"{row}.`{name}`", staging_fields[name], part, depth + 1)
            if name in staging_fields
            else _empty_value(part)
        )
        parts.append(f"{inner} AS `{part['name']}`")
    struct = ", ".join(parts)
    if repeated:
        return f"ARRAY(SELECT AS STRUCT {struct} FROM {rows})"  # noqa: S608  # names are legal ones
    return f"IF({value} IS NULL, NULL, STRUCT({struct}))"


def _shape(field: Field) -> Any:
    return field["type"], [(inner["name"], _shape(inner)) for inner in field.get("fields", ())]


def _empty_value(field: Field) -> str:
    kind = sql_type(field)
    return f"{kind}[]" if field.get("mode") == "REPEATED" else f"CAST(NULL AS {kind})"


def _map_type(kind: pa.DataType, old: Field, owner: str, problems: list[str]) -> _MappedType | None:
    """Map an Arrow type."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return _map_type(kind.value_type, old, owner, problems)
    if types.is_struct(kind):
        return _map_record(list(kind), old, owner, problems)
    if types.is_map(kind) or is_list(kind):
        return _as_repeated(_map_element(kind, old, owner, problems))
    leaf = _map_leaf(kind)
    if leaf is None:
        problems.append(f"{owner}: BigQuery has no type for Arrow's {kind}: cast it in the source")
        return None
    wide = rest_type(old) if old and rest_type(old) in FITS_INTO.get(leaf[0], ()) else None
    return _MappedType(*leaf, wide=wide)


def _map_element(kind: pa.DataType, old: Field, owner: str, problems: list[str]) -> _MappedType | None:
    import pyarrow as pa
    from pyarrow import types

    if types.is_map(kind):
        pair = [pa.field("key", kind.key_type), pa.field("value", kind.item_type)]
        return _map_record(pair, old, owner, problems)
    value = kind.value_type
    if types.is_map(value) or is_list(value):
        return _map_record([pa.field(ITEMS_FIELD, value)], old, owner, problems)
    return _map_type(value, old, owner, problems)


def has_leaf_fields(kind: pa.DataType) -> bool:
    """Return True if a type can hold values. Structs without fields, and lists of them, cannot."""
    from pyarrow import types

    if types.is_struct(kind):
        return any(has_leaf_fields(field.type) for field in kind)
    return has_leaf_fields(kind.value_type) if is_list(kind) else True


def _as_repeated(inner: _MappedType | None) -> _MappedType | None:
    import pyarrow as pa

    if inner is None:
        return None
    return replace(inner, arrow=pa.list_(inner.arrow), mode="REPEATED")


def _map_record(sources: list[pa.Field], existing: Field, owner: str, problems: list[str]) -> _MappedType | None:
    import pyarrow as pa

    old = {f["name"]: f for f in existing.get("fields", ())}
    names = legal_names([source.name for source in sources], old, reserved=ALIASES)
    staging, own_fields, arrow = [], {}, []
    for source in sources:
        name = names[source.name]
        inner = _map_type(source.type, old.get(name, {}), f"{owner}, field {source.name!r}", problems)
        if inner is not None:
            staging.append(_staging(name, inner))
            own_fields[name] = _target(name, inner) | _description(source, name)
            arrow.append(pa.field(staged_name(name), inner.arrow))
    merged = [own_fields.get(name, f) for name, f in old.items()] + [
        f for name, f in own_fields.items() if name not in old
    ]
    return _MappedType("RECORD", pa.struct(arrow), inner=staging, merged=merged) if staging else None


def _map_leaf(kind: pa.DataType) -> tuple[str, pa.DataType] | None:
    import pyarrow as pa
    from pyarrow import types

    if types.is_decimal(kind):
        return _map_decimal(kind)
    if types.is_timestamp(kind):
        return ("TIMESTAMP", pa.timestamp("us", "UTC")) if kind.tz else ("DATETIME", pa.timestamp("us"))
    if types.is_uint64(kind):
        return "NUMERIC", pa.decimal128(38, 9)
    kinds: dict[TypeGroup | None, tuple[str, pa.DataType]] = {
        "boolean": ("BOOLEAN", pa.bool_()),
        "integer": ("INTEGER", pa.int64()),
        "float": ("FLOAT", pa.float64()),
        "null": ("STRING", pa.string()),
        "text": ("STRING", pa.string()),
        "binary": ("BYTES", pa.binary()),
        "date": ("DATE", pa.date32()),
        "time": ("TIME", pa.time64("us")),
    }
    return kinds.get(type_group(kind))


def _map_decimal(kind: pa.DataType) -> tuple[str, pa.DataType] | None:
    import pyarrow as pa

    integer_digits, scale = kind.precision - kind.scale, kind.scale
    if integer_digits <= 29 and scale <= 9:
        return "NUMERIC", pa.decimal128(38, 9)
    if integer_digits <= 38 and scale <= 38:
        return "BIGNUMERIC", pa.decimal256(76, 38)
    return None
