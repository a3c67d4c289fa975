"""Checks a Delta table (owner, features, columns, permissions), and creates a missing one."""

from __future__ import annotations

import getpass
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.patience import FROM_NONE, Patience
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks._delta.log import delta_errors, open_table
from airflow_provider_connect.sinks._delta.safe_columns import ILLEGAL_IN_NAMES
from airflow_provider_connect.sinks._delta.wider_types import is_wider, type_name
from airflow_provider_connect.stage.manifest import CONTROL_FOLDER
from airflow_provider_connect.stage.soft_deletes import with_mark_columns
from airflow_provider_connect.stage.storage import Folder, storage_error

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake import Field as DeltaField


OWNER_PROPERTY = "connect.stream"
TEMPLATE_PROPERTY = "connect.tables"
"""Property of a template's tables: the template of their names."""
_SAFE_FEATURES = {"appendOnly", "invariants", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "variantType"}
# Each read of the ledger reads the commits since the last checkpoint, one request each. So checkpoints come as often
# as Spark's, not after delta-rs's 100 commits.
_CHECKPOINT_INTERVAL = "10"


def ownership_problems(table: DeltaTable, key: StreamKey, path: str, template: str | None = None) -> list[str]:
    """Return why this stream may not write this table, or [].

    :param template: the table's template. None for a single table.
    """
    metadata = table.metadata()
    owner = metadata.configuration.get(OWNER_PROPERTY)
    if owner is not None and owner != str(key):
        return [f"table {path} belongs to stream {owner}. Give {key} a path of its own"]
    problems = []
    if owner is not None and (table_template := metadata.configuration.get(TEMPLATE_PROPERTY)) != template:
        owner_name, path_name = (
            f"the tables {name!r}" if name else "no template" for name in (table_template, template)
        )
        return [f"table {path} belongs to {owner_name}, and path= to {path_name}. Choose another path"]
    if owner is None:
        problems.append(
            f"table {path} does not belong to {key}. Choose another path, or make the table with the property "
            f"'{OWNER_PROPERTY}' = '{key}'"
        )
    if metadata.partition_columns != ["day"]:
        problems.append(f"table {path} is partitioned by {metadata.partition_columns}, not by ['day']")
    elif (kind := str(next(f.type.type for f in table.schema().fields if f.name == "day"))) != "date":
        problems.append(f"table {path}: partition column 'day' is {kind}, not date")
    return problems + _property_problems(metadata.configuration, path) + _feature_problems(table, path)


def _property_problems(properties: dict[str, str], path: str) -> list[str]:
    refused_properties = {
        "delta.appendOnly": (
            properties.get("delta.appendOnly", "false").strip().lower() != "false",  # Delta's writers ignore case
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
        f"table {path}: property {name!r} is set, but {reason}: unset it, or choose another path"
        for name, (is_set, reason) in refused_properties.items()
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
    """Return a schema's columns as Delta's, nullable, without ``day``.

    :raises ConfigError: Delta cannot hold some. The message names them all.
    """
    import pyarrow as pa
    from deltalake import Field, Schema

    columns: dict[str, DeltaField] = {}
    problems = []
    lower_names = {"day"}
    for field in schema:
        if field.name == "day":
            continue
        if not field.name or ILLEGAL_IN_NAMES.search(field.name):
            safe_name = ILLEGAL_IN_NAMES.sub("_", field.name) or "column"
            problems.append(
                f"column {field.name!r}: Delta allows neither spaces nor ,;{{}}()= in names: rename it with "
                f"names='safe', or with shape=[Rename(columns={{{field.name!r}: {safe_name!r}}})]"
            )
        elif field.name.lower() in lower_names:
            problems.append(
                f"column {field.name!r} differs from another only in case: rename it, such as with "
                f"shape=[Rename(columns={{{field.name!r}: '{field.name}_'}})]"
            )
        lower_names.add(field.name.lower())
        is_time = pa.types.is_time(field.type)
        problem = (
            f"column {field.name!r}: Delta has no type for Arrow's {field.type}: cast it in the source, or with "
            f"shape=[Cast(columns={{{field.name!r}: 'STRING'}})]{' or types=' + repr('safe') if is_time else ''}"
        )
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


TypeChange = Literal["none", "wider", "any"]
"""New types that a table's column may get: none, one that holds all values of the old type, or any."""


def merge_columns(
    table: DeltaTable,
    columns: dict[str, DeltaField],
    schema_contract: Literal["evolve", "freeze"],
    path: str,
    sink_columns: Mapping[str, DeltaField] = MappingProxyType({}),
    *,
    type_change: TypeChange = "none",
) -> list[DeltaField]:
    """Return the table's columns and then new ones, since a delta-rs commit replaces the schema.

    :param sink_columns: columns that the sink adds, whatever the contract.
    :param type_change: under ``freeze`` always ``"none"``.
    :raises DataError: columns have unsuitable types, or are new under ``freeze``. The message names them all.
    """
    fields = list(table.schema().fields)
    by_lower_name = {field.name.lower(): field for field in fields}
    problems = []
    for name, column in {**columns, **sink_columns}.items():
        table_column = by_lower_name.get(name.lower())
        if table_column is None and schema_contract == "freeze" and name not in sink_columns:
            problems.append(f"column {name!r} is new; schema_contract='freeze' does not add it")
        elif table_column is None:
            fields.append(column)
        elif table_column.name != name:
            problems.append(
                f"column {name!r} is called {table_column.name!r} in the table; Delta ignores case: rename it"
            )
        elif table_column.type == column.type:
            continue
        elif schema_contract == "evolve" and _may_change(table_column, column, type_change):
            fields[fields.index(table_column)] = column
        else:
            problems.append(
                f"column {name!r} is {type_name(table_column)} in the table and {type_name(column)} now: cast it in "
                "the source under another name, or load into a new table. If no day is published, delete the table's "
                "folder"
            )
    problems += [
        f"column {field.name!r} is NOT NULL in the table: drop that constraint"
        for field in fields
        if not field.nullable
    ]
    if problems:
        raise DataError(f"table {path}: " + "; ".join(problems))
    return fields


def soft_delete_columns() -> dict[str, DeltaField]:
    """Return the two mark columns of soft deletes."""
    import pyarrow as pa

    return delta_columns(with_mark_columns(pa.schema([])))


def add_local_time_feature(table: DeltaTable, fields: list[DeltaField]) -> bool:
    """Add the feature for timestamps without a zone if ``fields`` need it. Returns whether it was added.

    Without it, no reader can open a table with such a column. Adding it is a commit: ``table`` is then at a newer
    version.
    """
    from deltalake import TableFeatures

    needed = any("timestamp_ntz" in str(field.type) for field in fields)
    if not needed or "timestampNtz" in (table.protocol().writer_features or []):
        return False
    table.alter.add_feature(TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True)
    return True


def add_columns(table: DeltaTable, fields: list[DeltaField]) -> bool:
    """Add the fields that the table lacks as columns. Returns whether there were any.

    delta-rs ignores the new columns of a commit that replaces no files. Adding them is a commit, so ``table`` is then
    at a newer version.
    """
    known = {field.name for field in table.schema().fields}
    new_fields = [field for field in fields if field.name not in known]
    if new_fields:
        table.alter.add_columns(new_fields)
    return bool(new_fields)


def _may_change(old: DeltaField, new: DeltaField, type_change: TypeChange) -> bool:
    return type_change == "any" or (type_change == "wider" and is_wider(type_name(old), type_name(new)))


def create_table(path: str, key: StreamKey, schema: pa.Schema, template: str | None = None) -> DeltaTable:
    """Create a stream's table. Returns it, or the one that another process has just created.

    :param template: the table's template. None for a single table.
    """
    from deltalake import CommitProperties, DeltaTable, Schema

    properties = {OWNER_PROPERTY: str(key), "delta.checkpointInterval": _CHECKPOINT_INTERVAL}
    if template is not None:
        properties[TEMPLATE_PROPERTY] = template
    patience = Patience(pauses=(0.1,), jitter=FROM_NONE, tries=20)
    while True:
        try:
            return DeltaTable.create(
                path,
                Schema([*delta_columns(schema).values(), day_column()]),
                partition_by=["day"],
                configuration=properties,
                raise_if_key_not_exists=False,
                # With retries, delta-rs 1.6 makes the table again on top of the winner's, with another id.
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except delta_errors() as error:
            failure = storage_error(path, error)
        if (table := open_table(path, may_hold_staged_files=template is not None)) is not None:
            return table
        if not patience.wait_and_retry():
            raise failure


def probe_root(path: str) -> None:
    """Test that a root can be written, with a small file.

    :raises ConfigError: it cannot, or its parent folder is missing.
    """
    require_parent(path)
    folder = Folder(path)
    probe = f"{CONTROL_FOLDER}/probe-{uuid.uuid4().hex}"
    folder.write(probe, b"\0" * 65536)
    folder.delete(probe)


def require_parent(path: str) -> None:
    """Check that a local root's parent folder exists.

    :raises ConfigError: it does not.
    """
    parent = Folder(path.rpartition("/")[0] or "/")
    if Folder(path).is_local and not parent.exists():
        raise ConfigError(f"{parent.url} does not exist. Create it, or correct path={path!r}")


def require_writable(path: str) -> None:
    """Check a local root's permissions without writing.

    :raises ConfigError: this user cannot write the root, or its parent folder is missing.
    """
    require_parent(path)
    folder = Folder(path)
    if not folder.is_local:
        return
    existing_folder = Path(folder.path_in_filesystem(""))
    existing_folder = existing_folder if existing_folder.exists() else existing_folder.parent
    if not os.access(existing_folder, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{existing_folder} cannot be written by user {getpass.getuser()!r} of this command. "
            "Give the tasks' user the permission, or choose another path"
        )
