"""Decides how a table's schema must change for the source's columns. New columns are added at the end, as NULLABLE.

A REQUIRED column becomes NULLABLE if the source may leave it NULL. A column grows where BigQuery lets it: INTEGER to
NUMERIC to BIGNUMERIC, and to a type without limits. Any other difference of type fails.

Vendor facts: https://cloud.google.com/bigquery/docs/managing-table-schemas (2026-11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sinks._bigquery.columns.types import FITS_INTO, SQL_NAMES, rest_type
from airflow_provider_connect.sinks._bigquery.names import DAY

if TYPE_CHECKING:
    from airflow_provider_connect.sinks._bigquery.columns.types import Field, TargetColumn

SchemaContract = Literal["evolve", "freeze", "discard_columns"]


def sink_fields(*rows: tuple[str, str, str]) -> list[Field]:
    """Return NULLABLE fields for the sink's own columns, from name, type and description."""
    return [{"name": name, "type": kind, "mode": "NULLABLE", "description": text} for name, kind, text in rows]


(DAY_FIELD,) = sink_fields((DAY, "DATE", "The day whose data the row came with, in the source's time zone."))
_LIMITS = ("precision", "scale", "maxLength")


@dataclass(frozen=True)
class SchemaChange:
    """Schema change that makes a table fit the source's columns.

    :param written_columns: without the discarded ones, REQUIRED as in the table.
    :param fields: all fields after the change, except new types.
    :param new_types: columns that grow, and their new types in SQL.
    """

    written_columns: list[TargetColumn]
    added_names: tuple[str, ...]
    fields: list[Field]
    changed: bool
    discarded_sources: tuple[str, ...] = ()
    new_types: tuple[tuple[str, str], ...] = ()


def new_fields(columns: Sequence[TargetColumn]) -> list[Field]:
    """Return the fields of a new table: the source's columns, then the day."""
    return [*(column.target for column in columns), DAY_FIELD]


def fits_columns(existing: Sequence[Field], columns: Sequence[TargetColumn]) -> bool:
    """Return True if a table still has the fields that ``columns`` were made for, and perhaps others."""
    shapes = {field["name"].lower(): _shape(field) for field in existing}
    return all(shapes.get(column.name.lower()) == _shape(column.target) for column in columns)


def _shape(field: Field) -> Any:
    """Return everything of a field that SQL depends on."""
    repeated = field.get("mode") == "REPEATED"
    return field["name"].lower(), rest_type(field), repeated, [_shape(inner) for inner in field.get("fields", ())]


def compare_schema(
    table: str, existing: Sequence[Field], columns: Sequence[TargetColumn], contract: SchemaContract
) -> SchemaChange:
    """Decide how a table's fields must change for ``columns``.

    :raises DataError: columns do not fit.
    """
    problems: list[str] = []
    old_by_name = {field["name"].lower(): field for field in existing}
    discarded = [
        column for column in columns if contract == "discard_columns" and column.name.lower() not in old_by_name
    ]
    kept_columns = [column for column in columns if column not in discarded]
    new_by_name = {field["name"].lower(): field for field in (*(column.target for column in kept_columns), DAY_FIELD)}
    comparison = _Comparison(contract, problems)
    fields = [comparison.field(field, new_by_name.get(field["name"].lower()), "") for field in existing]
    added = [field for name, field in new_by_name.items() if name not in old_by_name]
    for field in added:
        comparison.check_new(field, "")
    if problems:
        raise DataError(f"table {table}: " + "; ".join(problems))
    fields += [_as_added(field) for field in added]
    modes = {field["name"].lower(): field.get("mode", "NULLABLE") for field in fields}
    return SchemaChange(
        written_columns=[
            replace(column, target={**column.target, "mode": modes[column.name.lower()]}) for column in kept_columns
        ],
        added_names=tuple(field["name"] for field in added),
        fields=fields,
        changed=bool(added) or comparison.changed,
        discarded_sources=tuple(column.source for column in discarded),
        new_types=tuple(comparison.new_types),
    )


@dataclass
class _Comparison:
    """Comparison of one table's fields."""

    contract: SchemaContract
    problems: list[str]
    changed: bool = False
    new_types: list[tuple[str, str]] = attribute(default_factory=list)

    def field(self, old: Field, new: Field | None, path: str) -> Field:
        name = f"{path}{old['name']}"
        merged = dict(old)
        if old.get("mode") == "REQUIRED" and (new is None or new.get("mode") != "REQUIRED"):
            self._relax(merged, name, lacking=new is None)
        if new is None:
            return merged
        if not path and self._grows(old, new):
            new_type = rest_type(new)
            self.new_types.append((name, SQL_NAMES.get(new_type, new_type)))
        elif self._fits(old, new, name) and rest_type(old) == "RECORD":
            merged["fields"] = self._nested(old, new, f"{name}.")
        if not old.get("description") and new.get("description"):
            merged["description"] = new["description"]
        return merged

    def check_new(self, field: Field, path: str) -> None:
        name = f"{path}{field['name']}"
        if field["name"] == DAY and not path and self.contract != "evolve":
            self.problems.append(
                f"it has no column {DAY!r}, which identifies a row's day: ALTER TABLE … ADD COLUMN {DAY} DATE"
            )
        elif self.contract == "freeze":
            self.problems.append(
                f"column {name!r} is new ({describe_type(field)}), and schema_contract='freeze' does not add it: "
                "leave it out in the source, or add it by hand"
            )
        elif self.contract == "discard_columns":
            self.problems.append(
                f"field {name!r} is new inside a column, and schema_contract='discard_columns' leaves out whole "
                "columns only: leave the column out in the source, or add the field by hand"
            )

    def _relax(self, field: Field, name: str, *, lacking: bool) -> None:
        if self.contract == "evolve":
            field["mode"] = "NULLABLE"
            self.changed = True
        elif lacking:
            self.problems.append(
                f"column {name!r} is REQUIRED in the table and the source lacks it: "
                "ALTER TABLE … ALTER COLUMN … DROP NOT NULL, or use schema_contract='evolve'"
            )

    def _grows(self, old: Field, new: Field) -> bool:
        """Return True if BigQuery can change a column's type in place, without another value."""
        old_type, new_type = rest_type(old), rest_type(new)
        if self.contract != "evolve" or "REPEATED" in (old.get("mode"), new.get("mode")):
            return False
        is_limited = any(old.get(limit) for limit in _LIMITS)
        return new_type in FITS_INTO.get(old_type, ()) or (is_limited and old_type == new_type)

    def _fits(self, old: Field, new: Field, name: str) -> bool:
        old_type, new_type = rest_type(old), rest_type(new)
        repeated = [field.get("mode") == "REPEATED" for field in (old, new)]
        if repeated[0] != repeated[1] or old_type != new_type:
            self.problems.append(
                f"column {name!r} is {describe_type(old)} in the table and {describe_type(new)} now: cast it in the "
                "source, give it another name there, or load into a new table"
            )
            return False
        if any(old.get(limit) for limit in _LIMITS):
            self.problems.append(
                f"column {name!r} is {describe_type(old)} in the table, and a longer value would fail the day: "
                f"ALTER TABLE … ALTER COLUMN … SET DATA TYPE {old_type}"
            )
            return False
        return True

    def _nested(self, old: Field, new: Field, path: str) -> list[Field]:
        inner = {field["name"].lower(): field for field in new.get("fields", ())}
        existing = {field["name"].lower() for field in old["fields"]}
        fields = [self.field(field, inner.get(field["name"].lower()), path) for field in old["fields"]]
        for name, field in inner.items():
            if name not in existing:
                self.check_new(field, path)
                self.changed = True
                fields.append(_as_added(field))
        return fields


def describe_type(field: Field) -> str:
    """Describe a field's type, such as ``NUMERIC(10, 2)`` or ``REPEATED RECORD``."""
    limits = [str(field[limit]) for limit in _LIMITS if field.get(limit)]
    text = rest_type(field) + (f"({', '.join(limits)})" if limits else "")
    return f"REPEATED {text}" if field.get("mode") == "REPEATED" else text


def _as_added(field: Field) -> Field:
    return field if field.get("mode") == "REPEATED" else {**field, "mode": "NULLABLE"}
