"""SQL of increments: the span that a publish follows, and the rows of a span."""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_connect.clients.bigquery.sql import literal
from airflow_provider_connect.clients.bigquery.tables import fields_of, find_table, retry_if_stale
from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER, NEWEST_SPAN, SPAN, TARGET
from airflow_provider_connect.sinks._bigquery.columns.types import rest_type
from airflow_provider_connect.sinks._bigquery.ledger_rows import SPAN_FIELD, first_span_condition, stream_condition
from airflow_provider_connect.sinks._bigquery.target import patch_schema, schema_change_failure

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sinks._bigquery.plan import PublishPlan

SPAN_DECLARATIONS = f"DECLARE {NEWEST_SPAN}, first_span, other_rows INT64;\n"
SUBTRACT_OTHER_SPANS = "SET day_rows = GREATEST(0, day_rows - other_rows)"
"""Statement of a merge: a span's rows are the day's, without those of the other spans."""


def span_lookups(plan: PublishPlan) -> dict[str, str]:
    """Return the SQL of script variables: the followed span, the day's first span and the rows of its other spans."""
    rows = f"FROM {plan.ledger.sql} AS {LEDGER} WHERE {stream_condition(plan.target, plan.key)}"
    own, day = f"{LEDGER}.span_number = {plan.span_number}", f"{LEDGER}.day = {literal(plan.row.day)}"
    newest_first = f"{LEDGER}.generation DESC, COALESCE({LEDGER}.checks, 0) DESC"
    newest_rows = (
        f"SELECT {LEDGER}.row_count AS row_count {rows} AND {day} AND {LEDGER}.span_number != {plan.span_number}\n"
        f"  QUALIFY ROW_NUMBER() OVER (PARTITION BY {LEDGER}.span_number ORDER BY {newest_first}) = 1"
    )
    return {
        NEWEST_SPAN: f"(SELECT COALESCE(MAX(IF({own}, {LEDGER}.span_number, NULL)), MAX({LEDGER}.span_number)) {rows})",
        "first_span": f"(SELECT MIN({LEDGER}.span_number) {rows} AND {day})",
        "other_rows": f"(SELECT COALESCE(SUM(spans.row_count), 0) FROM ({newest_rows}) AS spans)",
    }


def delete_span_statements(plan: PublishPlan, this_day: str) -> list[str]:
    """Return the statements that delete the rows of a span."""
    own, is_first = f"{TARGET}.`{SPAN}` = {plan.span_number}", first_span_condition(plan.span_number)
    rows_by_case = {is_first: f"({own} OR {TARGET}.`{SPAN}` IS NULL)", f"NOT {is_first}": own}
    # Checked first, because even a DELETE without rows conflicts with other changes of the table.
    return [
        f"IF {case} AND EXISTS (SELECT 1 FROM {plan.target.sql} AS {TARGET} WHERE {this_day} AND {rows}) THEN\n"
        f"    DELETE FROM {plan.target.sql} AS {TARGET} WHERE {this_day} AND {rows};\n  END IF"
        for case, rows in rows_by_case.items()
    ]


def has_span_column(table: object) -> bool:
    return any(field["name"].lower() == SPAN for field in fields_of(table))


def ensure_span_column(api: BigQueryApi, target: TableRef) -> None:
    """Add the column of spans to a target, whatever the schema contract.

    :raises DataError: such a column of another type.
    """

    def compare() -> None:
        table = find_table(api, target)
        existing = {field["name"].lower(): field for field in fields_of(table)} if table is not None else {}
        field = existing.get(SPAN)
        if field is not None and (rest_type(field) != rest_type(SPAN_FIELD) or field.get("mode") == "REPEATED"):
            raise DataError(
                f"table {target.id}: column {SPAN!r} has another type than the sink needs for increments. Rename it"
            )
        if table is not None and field is None:  # a write reports a target that is gone
            patch_schema(api, table, target, [*fields_of(table), SPAN_FIELD], [SPAN])

    retry_if_stale(compare, schema_change_failure(target))


def span_column_problems(target: TableRef, source_columns: list[str]) -> list[str]:
    """Return the problem of a source column that has the name of the column of spans."""
    if SPAN not in {name.lower() for name in source_columns}:
        return []
    return [
        f"table {target.id}: the source has a column {SPAN!r}, whose name the sink needs for increments. Rename it "
        "with query="
    ]
