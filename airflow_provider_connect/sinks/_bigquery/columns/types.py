"""Maps Arrow's types to BigQuery: target column, staging column, and the SQL from staging to target.

Types that Storage Write accepts: https://cloud.google.com/bigquery/docs/supported-data-types (2026-11); limits of
the types: https://cloud.google.com/bigquery/docs/reference/standard-sql/data-types (2026-11).
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
"""A column as BigQuery's REST API has it: ``name``, ``type``, ``mode``, ``description``, ``fields``."""

MAX_DESCRIPTION = 1024
ITEMS_FIELD = "items"
"""Field that holds an inner list: BigQuery has no list of lists."""

_SYNONYMS = {
    "INT64": "INTEGER",
    "FLOAT64": "FLOAT",
    "BOOL": "BOOLEAN",
    "STRUCT": "RECORD",
    "DECIMAL": "NUMERIC",
    "BIGDECIMAL": "BIGNUMERIC",
}
_FITS_INTO = {"INTEGER": ("NUMERIC", "BIGNUMERIC"), "NUMERIC": ("BIGNUMERIC",)}
SQL_NAMES = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL"}


@dataclass(frozen=True)
class TargetColumn:
    """One column of the target.

    :param source: the Arrow field's name.
    :param name: the column's name in the target.
    :param target: the target's field; with nested fields that only the table has, in the table's order.
    :param staging: the staging table's field; never REQUIRED, with ASCII names at every level.
    :param arrow: the Arrow type sent to the staging table.
    :param expression: SQL for the target's value, over a staged row.
    :param json: ``checked`` or ``unchecked`` where the source holds JSON documents, else None.
    """

    source: str
    name: str
    target: Field
    staging: Field
    arrow: pa.DataType
    expression: str
    json: str | None = None


def make_columns(schema: pa.Schema, existing: Sequence[Field] = ()) -> list[TargetColumn]:
    """Return the columns of a schema, in its order; a struct without fields gives none.

    Top level columns are REQUIRED if Arrow says that they hold no NULL; nested fields are always NULLABLE.

    :param existing: the target's fields, if it exists: names keep their columns, nested fields their order, and numbers
        the table's wider type. The expression casts to it: BigQuery itself does so only outside arrays and structs.
    :raises DataError: naming every column that BigQuery has no type for.
    """
    problems: list[str] = []
    old = {field["name"]: field for field in existing}
    names = legal_names(schema.names, old)
    found = []
    for field in schema:
        name = names[field.name]
        kind = _kind(field.type, old.get(name, {}), f"column {field.name!r}", problems)
        if kind is not None:
            found.append(_column(field, name, kind))
    if problems:
        raise DataError("; ".join(problems))
    if not found:
        raise DataError("the source has no column that BigQuery can hold")
    return found


def rest_type(field: Field) -> str:
    """Return a field's type by the name that the REST API uses."""
    name = str(field["type"]).upper()
    return _SYNONYMS.get(name, name)


def sql_type(field: Field) -> str:
    """Return a field's type as SQL has it, such as ``ARRAY<STRUCT<`key` STRING, `value` INT64>>``."""
    name: str = field["type"]
    if name == "RECORD":
        inner = ", ".join(f"`{part['name']}` {sql_type(part)}" for part in field["fields"])
        name = f"STRUCT<{inner}>"
    name = SQL_NAMES.get(name, name)
    return f"ARRAY<{name}>" if field.get("mode") == "REPEATED" else name


@dataclass(frozen=True)
class _Kind:
    """An Arrow type mapped to BigQuery.

    :param wide: the table's type, if it is wider.
    :param inner: staging fields of a RECORD.
    :param merged: the same fields, plus those that only the target has, in the target's order.
    """

    type: str
    arrow: pa.DataType
    mode: Literal["NULLABLE", "REPEATED"] = "NULLABLE"
    wide: str | None = None
    inner: list[Field] = attribute(default_factory=list)
    merged: list[Field] = attribute(default_factory=list)


def _column(source: pa.Field, name: str, kind: _Kind) -> TargetColumn:
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


def _staging(name: str, kind: _Kind) -> Field:
    nested = {"fields": kind.inner} if kind.type == "RECORD" else {}
    return {"name": staged_name(name), "type": kind.type, "mode": kind.mode, **nested}


def _target(name: str, kind: _Kind) -> Field:
    nested = {"fields": kind.merged} if kind.type == "RECORD" else {}
    return {"name": name, "type": kind.wide or kind.type, "mode": kind.mode, **nested}


def _description(source: pa.Field, name: str) -> Field:
    """Return the field's comment as a description, with the source's name if the column's differs."""
    text = (source.metadata or {}).get(b"comment", b"").decode()
    renamed = f" Source name: {source.name[:MAX_NAME]!r}." if name != source.name else ""
    if len(text) + len(renamed) > MAX_DESCRIPTION:
        text = f"{text[: MAX_DESCRIPTION - len(renamed) - 1]}…"
    text = f"{text}{renamed}".strip()
    return {"description": text} if text else {}


def _expression(value: str, staging: Field, target: Field, depth: int = 0) -> str:
    """Return SQL that gives ``value`` the target's types and fields, in their order: structs match by position."""
    if _shape(staging) == _shape(target):
        return value
    repeated = staging["mode"] == "REPEATED"
    row, place = f"{ELEMENT}{depth}", f"{OFFSET}{depth}"
    rows = f"UNNEST({value}) AS {row} WITH OFFSET AS {place} ORDER BY {place}"
    row = row if repeated else value
    if staging["type"] != "RECORD":
        cast = f"CAST({row} AS {target['type']})"
        return f"ARRAY(SELECT {cast} FROM {rows})" if repeated else cast  # noqa: S608  # names are legal ones
    own = {part["name"]: part for part in staging["fields"]}
    parts = []
    for part in target["fields"]:
        name = staged_name(part["name"])
        inner = _expression(f"{row}.`{name}`", own[name], part, depth + 1) if name in own else _nothing(part)
        parts.append(f"{inner} AS `{part['name']}`")
    struct = ", ".join(parts)
    if repeated:
        return f"ARRAY(SELECT AS STRUCT {struct} FROM {rows})"  # noqa: S608  # names are legal ones
    return f"IF({value} IS NULL, NULL, STRUCT({struct}))"


def _shape(field: Field) -> Any:
    """Return a field's type with the names and types of nested fields."""
    return field["type"], [(inner["name"], _shape(inner)) for inner in field.get("fields", ())]


def _nothing(field: Field) -> str:
    kind = sql_type(field)
    return f"{kind}[]" if field.get("mode") == "REPEATED" else f"CAST(NULL AS {kind})"


def _kind(kind: pa.DataType, old: Field, where: str, problems: list[str]) -> _Kind | None:
    """Return what a type becomes; None if it holds nothing, or, with a problem noted, if BigQuery cannot hold it."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return _kind(kind.value_type, old, where, problems)
    if types.is_struct(kind):
        return _record(list(kind), old, where, problems)
    if types.is_map(kind) or is_list(kind):
        return _repeated(_element(kind, old, where, problems))
    leaf = _leaf(kind)
    if leaf is None:
        problems.append(f"{where}: BigQuery has no type for Arrow's {kind}: cast it in the source")
        return None
    wide = rest_type(old) if old and rest_type(old) in _FITS_INTO.get(leaf[0], ()) else None
    return _Kind(*leaf, wide=wide)


def _element(kind: pa.DataType, old: Field, where: str, problems: list[str]) -> _Kind | None:
    """Return what one element of a list or a map becomes."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_map(kind):
        pair = [pa.field("key", kind.key_type), pa.field("value", kind.item_type)]
        return _record(pair, old, where, problems)
    value = kind.value_type
    if types.is_map(value) or is_list(value):
        return _record([pa.field(ITEMS_FIELD, value)], old, where, problems)
    return _kind(value, old, where, problems)


def has_leaf_fields(kind: pa.DataType) -> bool:
    """Tell whether a type holds anything: structs without fields, and lists of them, are dropped."""
    from pyarrow import types

    if types.is_struct(kind):
        return any(has_leaf_fields(field.type) for field in kind)
    return has_leaf_fields(kind.value_type) if is_list(kind) else True


def _repeated(inner: _Kind | None) -> _Kind | None:
    import pyarrow as pa

    if inner is None:
        return None
    return replace(inner, arrow=pa.list_(inner.arrow), mode="REPEATED")


def _record(sources: list[pa.Field], existing: Field, where: str, problems: list[str]) -> _Kind | None:
    import pyarrow as pa

    old = {f["name"]: f for f in existing.get("fields", ())}
    names = legal_names([source.name for source in sources], old, reserved=ALIASES)
    staging, own, arrow = [], {}, []
    for source in sources:
        name = names[source.name]
        inner = _kind(source.type, old.get(name, {}), f"{where}, field {source.name!r}", problems)
        if inner is not None:
            staging.append(_staging(name, inner))
            own[name] = _target(name, inner) | _description(source, name)
            arrow.append(pa.field(staged_name(name), inner.arrow))
    merged = [own.get(name, f) for name, f in old.items()] + [f for name, f in own.items() if name not in old]
    return _Kind("RECORD", pa.struct(arrow), inner=staging, merged=merged) if staging else None


def _leaf(kind: pa.DataType) -> tuple[str, pa.DataType] | None:
    """Return BigQuery's type, and the Arrow type that is sent, of a type without parts."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_decimal(kind):
        return _decimal(kind)
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


def _decimal(kind: pa.DataType) -> tuple[str, pa.DataType] | None:
    """Return the narrower of BigQuery's decimal types that holds all digits, None if neither does."""
    import pyarrow as pa

    before, after = kind.precision - kind.scale, kind.scale
    if before <= 29 and after <= 9:
        return "NUMERIC", pa.decimal128(38, 9)
    if before <= 38 and after <= 38:
        return "BIGNUMERIC", pa.decimal256(76, 38)
    return None
