"""What a sink requires of a Delta table: owner, features and columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.stage.deleted import with_marks

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake import Field as DeltaField

OWNER = "connect.stream"
TEMPLATE = "connect.tables"
"""The property that names the template of a table that is one of several."""
_ILLEGAL_IN_NAMES = re.compile(r"[ ,;{}()\n\t=]")
_SAFE_FEATURES = {"appendOnly", "invariants", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "variantType"}


def ownership_problems(table: DeltaTable, key: StreamKey, path: str, template: str | None = None) -> list[str]:
    """Return why this stream may not write this table; [] if it may.

    :param template: of the tables that this one has to belong to; None for a table by itself.
    """
    metadata = table.metadata()
    owner = metadata.configuration.get(OWNER)
    if owner is not None and owner != str(key):
        return [f"table {path} belongs to stream {owner}: give {key} a path of its own"]
    problems = []
    if owner is not None and (found := metadata.configuration.get(TEMPLATE)) != template:
        whose, mine = (f"the tables {each!r}" if each else "no template" for each in (found, template))
        return [f"table {path} belongs to {whose}, and path= to {mine}: choose another path"]
    if owner is None:
        problems.append(
            f"table {path} does not belong to {key}: choose another path, or make the table with the property "
            f"'{OWNER}' = '{key}'"
        )
    if metadata.partition_columns != ["day"]:
        problems.append(f"table {path} is partitioned by {metadata.partition_columns}, not by ['day']")
    elif (kind := str(next(f.type.type for f in table.schema().fields if f.name == "day"))) != "date":
        problems.append(f"table {path}: partition column 'day' is {kind}, not date")
    return problems + _property_problems(metadata.configuration, path) + _feature_problems(table, path)


def _property_problems(properties: dict[str, str], path: str) -> list[str]:
    refused = {
        "delta.appendOnly": (
            properties.get("delta.appendOnly", "false").strip().lower() != "false",  # Delta's writers know no case
            "a reloaded day replaces the old one",
        ),
        "delta.columnMapping.mode": (
            properties.get("delta.columnMapping.mode", "none") != "none",
            "staged files carry the columns' own names",
        ),
        "delta.setTransactionRetentionDuration": (
            "delta.setTransactionRetentionDuration" in properties,
            "it would delete the ledger, which is kept in transactions",
        ),
    }
    return [
        f"table {path}: property {name!r} is set, but {why}: unset it, or choose another path"
        for name, (is_set, why) in refused.items()
        if is_set
    ]


def _feature_problems(table: DeltaTable, path: str) -> list[str]:
    protocol = table.protocol()
    features = set(protocol.writer_features or []) | set(protocol.reader_features or [])
    if unknown := sorted(features - _SAFE_FEATURES):
        return [f"table {path} uses Delta features that this sink does not support: {', '.join(unknown)}"]
    if 2 < protocol.min_writer_version < 7:
        return [f"table {path} has Delta writer version {protocol.min_writer_version}: only 2 and 7 are supported"]
    return []


def day_column() -> DeltaField:
    """Return the partition column."""
    from deltalake import Field
    from deltalake.schema import PrimitiveType

    return Field("day", PrimitiveType("date"), nullable=True)


def delta_columns(schema: pa.Schema) -> dict[str, DeltaField]:
    """Return a schema's columns as Delta's, without ``day``; all nullable, since a source may drop them later.

    :raises ConfigError: naming every column that Delta cannot hold.
    """
    import pyarrow as pa
    from deltalake import Field, Schema

    columns: dict[str, DeltaField] = {}
    problems = []
    seen = {"day"}
    for field in schema:
        if field.name == "day":
            continue
        if not field.name or _ILLEGAL_IN_NAMES.search(field.name):
            problems.append(f"column {field.name!r}: Delta allows neither spaces nor ,;{{}}()= in names: rename it")
        elif field.name.lower() in seen:
            problems.append(f"column {field.name!r} differs from another only in case: rename it")
        seen.add(field.name.lower())
        problem = f"column {field.name!r}: Delta has no type for Arrow's {field.type}: cast it in the source"
        if pa.types.is_null(field.type) or pa.types.is_unsigned_integer(field.type):
            problems.append(problem)
            continue
        try:
            column = Schema.from_arrow(pa.schema([field])).fields[0]
        except Exception:  # noqa: BLE001  # delta-rs raises a bare Exception
            problems.append(problem)
            continue
        if "timestamp_nanos" in str(column.type):
            problems.append(problem)
        columns[field.name] = Field(field.name, column.type, nullable=True, metadata=column.metadata)
    if problems:
        raise ConfigError("; ".join(problems))
    return columns


def merged(
    table: DeltaTable,
    columns: dict[str, DeltaField],
    contract: Literal["evolve", "freeze"],
    path: str,
    own: Mapping[str, DeltaField] = MappingProxyType({}),
) -> list[DeltaField]:
    """Return the table's columns, followed by those of ``columns`` and ``own`` that it lacks.

    A delta-rs commit *replaces* the table's schema, so a shorter one would drop columns.

    :param own: columns that the sink itself adds, whatever the contract.
    :raises DataError: naming every column whose type changed, or that is new while the contract is ``freeze``.
    """
    fields = list(table.schema().fields)
    by_lower = {field.name.lower(): field for field in fields}
    problems = []
    for name, column in {**columns, **own}.items():
        old = by_lower.get(name.lower())
        if old is None and contract == "freeze" and name not in own:
            problems.append(f"column {name!r} is new; schema_contract='freeze' does not add it")
        elif old is None:
            fields.append(column)
        elif old.name != name:
            problems.append(f"column {name!r} is called {old.name!r} in the table; Delta ignores case: rename it")
        elif old.type != column.type:
            problems.append(
                f"column {name!r} is {_plain(old)} in the table and {_plain(column)} now: cast it in the source "
                "under another name, or load into a new table"
            )
    problems += [
        f"column {field.name!r} is NOT NULL in the table: drop that constraint"
        for field in fields
        if not field.nullable
    ]
    if problems:
        raise DataError(f"table {path}: " + "; ".join(problems))
    return fields


def soft_columns() -> dict[str, DeltaField]:
    """Return the two columns of soft deletes."""
    import pyarrow as pa

    return delta_columns(with_marks(pa.schema([])))


def allow_local_times(table: DeltaTable, fields: list[DeltaField]) -> bool:
    """Add the table feature that timestamps without a time zone need; tell whether it was missing.

    delta-rs would commit such a column without the feature, and then nobody could open the table. Afterwards ``table``
    is at a newer version.
    """
    from deltalake import TableFeatures

    needed = any("timestamp_ntz" in str(field.type) for field in fields)
    if not needed or "timestampNtz" in (table.protocol().writer_features or []):
        return False
    table.alter.add_feature(TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True)
    return True


def _plain(field: DeltaField) -> str:
    return str(getattr(field.type, "type", field.type))
