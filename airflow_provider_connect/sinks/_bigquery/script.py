"""Renders the script, one transaction, that publishes a staged day with its ledger row.

Vendor facts: https://cloud.google.com/bigquery/docs/transactions, …/quotas (2026-11).
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.sql import any_partition, column_list, literal, quoted, string_array
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError
from airflow_provider_connect.publishing import overtaken_error, require_definition, superseded_error
from airflow_provider_connect.sink import DefinitionInForce, Intent, LedgerRow, Publish, StreamKey
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER, NEWEST_DAY, NEWEST_SPAN, SPAN, STAGED, TARGET
from airflow_provider_connect.sinks._bigquery.decision import (
    definition_statements,
    followed_rows_condition,
    list_changed_condition,
    missing_fence_error,
    newest_row_of,
    overtaken_cases,
    own_rows_condition,
    redefined_cases,
    transaction_script,
)
from airflow_provider_connect.sinks._bigquery.ledger import append_refused_error, foreign_rows_error
from airflow_provider_connect.sinks._bigquery.ledger_rows import ledger_row, ledger_values
from airflow_provider_connect.sinks._bigquery.merge.statements import keyless_staged_sql, merge_statements
from airflow_provider_connect.sinks._bigquery.names import TABLE_COLUMN
from airflow_provider_connect.sinks._bigquery.plan import PublishPlan
from airflow_provider_connect.sinks._bigquery.snapshot import (
    IS_DELETED,
    SOFT_COUNTS,
    delete_vanished_statements,
    keyless_published_error,
    keyless_published_sql,
    newest_day_sql,
    protected_rows_error,
    protected_rows_sql,
    purge_soft_deleted_statement,
    soft_delete_statements,
)
from airflow_provider_connect.sinks._bigquery.spans import (
    SPAN_DECLARATIONS,
    SUBTRACT_OTHER_SPANS,
    delete_span_statements,
    span_lookups,
)
from airflow_provider_connect.stage.manifest import Manifest, PollResult
from airflow_provider_connect.stage.soft_deletes import DELETED
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sinks._bigquery.staging import TableChange

MAX_SCRIPT_BYTES = 1_000_000
"""BigQuery takes a query of at most 1 MB (https://cloud.google.com/bigquery/quotas#query_jobs)."""

RESERVED_BYTES = 64_000
"""Bytes for values that only the publish has: counts, digest, names of the run and of streams."""

MAX_STREAM_NAMES = 10
"""Most write streams that the ledger names."""

MIN_BILLED_BYTES_PER_TABLE = 10 * 1024 * 1024
"""Minimum that BigQuery bills for each table that a statement names:
https://cloud.google.com/bigquery/pricing#on_demand_pricing (2026-11).
"""

MAX_TABLES_PER_STATEMENT = 3
"""Most tables that one statement names: ledger, staging table and staged rejects, or the three of a merge."""

_DECLARED = f"""DECLARE day_rows INT64;
DECLARE {NEWEST_DAY} DATE;
DECLARE kept_rows, vanished, restored, soft_deleted, keyless INT64 DEFAULT 0;
"""

ANSWER_COLUMNS = (
    "outcome, seen.staged_rows AS staged_rows, seen.staged_rejects AS staged_rejects,\n"
    "  seen.keyless_rows + keyless AS keyless_rows, kept_rows, seen.definition AS in_force"
)
"""Columns of the script's last SELECT, besides the ledger row."""


class IncompleteError(RetriableError):
    """The staging table lacks rows. All rows of the day must be sent again."""


def sample_publish(key: StreamKey, schema: pa.Schema, kind: SourceKind = "day") -> Publish:
    """Return a made-up day for :func:`rehearse_script`."""
    day = Day(date=dt.date(1970, 1, 1))
    span = Span(number=1, to="") if kind == "increment" else None
    manifest = Manifest(day=day, attempt="", fingerprint="", polled=PollResult(), span=span)
    intent = Intent(token="", run="")
    return Publish(key=key, day=day, intent=intent, manifest=manifest, schema=schema, stage="", kind=kind)


def publish_script(plan: PublishPlan) -> str:
    """Return the publish script.

    :raises ConfigError: the script is too long.
    """
    rejects: list[str] = []
    if plan.rejects is not None:
        keep_old = plan.write_mode == "append"
        rejects = plan.rejects.statements(plan.key, plan.row.day, generation=_generation_sql(plan), keep_old=keep_old)
    fence = f"{own_rows_condition(plan)} AND {LEDGER}.day IS NULL"
    newest = f"{followed_rows_condition(plan)} AND {LEDGER}.generation = {LEDGER}.newest"
    script = transaction_script(
        plan,
        "published",
        outcome_cases=_outcome_cases(plan),
        changes=[*_data_statements(plan), *rejects, *definition_statements(plan), _ledger_statement(plan)],
        seen_columns={
            "day_rows": ("INT64", f"MAX(IF({newest}, {LEDGER}.row_count, NULL))"),
            "strangers": ("INT64", f"COUNTIF(NOT ({own_rows_condition(plan)}) AND {LEDGER}.day IS NOT NULL)"),
            "staged_rows": ("INT64", f"(SELECT COUNT(*) FROM {plan.staging.sql})"),
            "staged_rejects": ("INT64", plan.rejects.staged_count_sql if plan.rejects else "0"),
            "keyless_rows": ("INT64", keyless_staged_sql(plan, plan.merge) if plan.merge else "0"),
            "definition": ("STRING", f"MAX(IF({fence}, {LEDGER}.definition, NULL))"),
            "task": ("STRING", f"MAX(IF({fence}, {LEDGER}.run, NULL))"),
        },
        declarations=_DECLARED if plan.span_number is None else f"{_DECLARED}{SPAN_DECLARATIONS}",
        lookups=_lookup_statements(plan),
        answer_columns=ANSWER_COLUMNS,
    )
    _check_length(plan, script, MAX_SCRIPT_BYTES)
    return script


def rehearse_script(plan: PublishPlan, maximum_bytes_billed: int | None = None) -> None:
    """Check the length and the minimum bill of a made-up day's script.

    :param plan: with the day of :func:`sample_publish`.
    :raises ConfigError: the script is too long or too expensive.
    """
    script = publish_script(plan)
    _check_length(plan, script, MAX_SCRIPT_BYTES - RESERVED_BYTES)
    check_budget(plan.target, maximum_bytes_billed)


def check_budget(target: TableRef, maximum_bytes_billed: int | None) -> None:
    """Refuse a ``maximum_bytes_billed`` that is too small for any publish.

    :raises ConfigError: with the least sufficient value.
    """
    least = MAX_TABLES_PER_STATEMENT * MIN_BILLED_BYTES_PER_TABLE
    if maximum_bytes_billed is not None and maximum_bytes_billed < least:
        raise ConfigError(
            f"maximum_bytes_billed={maximum_bytes_billed:,} is too small for any publish into {target.id}: a "
            f"statement names {MAX_TABLES_PER_STATEMENT} tables, and BigQuery bills 10 MiB for each. Set at least "
            f"{least:,}, and more if the table itself is read"
        )


def _check_length(plan: PublishPlan, script: str, limit: int) -> None:
    if len(script.encode()) > limit:
        of_tables = f" of {len(plan.layout.table_changes):,} tables" if plan.layout.table_changes else ""
        raise ConfigError(
            f"publishing {plan.target.id} takes a query of {len(script.encode()):,} bytes, but BigQuery accepts 1 "
            f"MB: the {len(plan.layout.columns)} columns{of_tables} are too many or their names too long. Select fewer "
            "in the source"
        )


def published_row(plan: PublishPlan, answer: dict[str, Any]) -> LedgerRow:
    """Return the ledger row from the result of :func:`publish_script`.

    :raises SupersededError: a later snapshot is published.
    :raises OvertakenError: the ledger changed since the poll.
    :raises IncompleteError: the staging table lacks rows.
    :raises RetriableError: the stream's fence row is lost.
    :raises ConfigError: append mode and the day is published, or foreign rows would be deleted.
    :raises DataError: merge mode, and a row has NULL in the key.
    """
    outcome = answer["outcome"]
    if outcome in ("published", "already"):
        return ledger_row(answer)
    newest = newest_row_of(answer)
    if outcome == "superseded" and newest is not None:
        raise superseded_error(plan.publish, newest)
    if outcome == "redefined":
        require_definition(plan.publish, DefinitionInForce(answer["in_force"], task=""))
    publish_text = f"{plan.key} {plan.row.day} into {plan.target.id}"
    errors: dict[str, ConnectError] = {
        "overtaken": overtaken_error(plan.publish, newest, int(answer["erased"] or 0)),
        "incomplete": IncompleteError(
            f"{publish_text}: {plan.row.rows:,} rows and {plan.rejects.rows if plan.rejects else 0:,} rejects were "
            f"sent, but {answer['staged_rows']:,} and {answer['staged_rejects']:,} are in the staging table. "
            "Nothing was changed"
        ),
        "unfenced": missing_fence_error(plan),
        "keyless": DataError(
            f"{publish_text}: {answer['keyless_rows']:,} rows have NULL in the key "
            f"({', '.join(plan.merge.key) if plan.merge else ''}). Nothing was changed. Correct the source, or "
            "choose a key that is never NULL"
        ),
        "refused": append_refused_error(plan.key, plan.row.day, plan.target, answer["newest"]),
        "kept": protected_rows_error(plan.target, answer["kept_rows"], newest.day if newest else None),
        "uncomparable": keyless_published_error(plan.target, answer["keyless_rows"]),
        "stranger": foreign_rows_error(plan.key, plan.target, plan.ledger),
    }
    raise errors[outcome]


def _lookup_statements(plan: PublishPlan) -> str:
    if not plan.follows_stream:
        return ""
    lookups = {NEWEST_DAY: newest_day_sql(plan)}
    if plan.span_number is not None:
        lookups |= span_lookups(plan)
    if plan.publish.kind != "increment":
        lookups["kept_rows"] = protected_rows_sql(plan.target, plan.write_mode, plan.layout.filter_column)
        if plan.deletes_softly:
            lookups["keyless"] = keyless_published_sql(plan)
    return "".join(f"SET {name} = {sql};\n" for name, sql in lookups.items())


def _outcome_cases(plan: PublishPlan) -> list[tuple[str, str]]:
    rejects = plan.rejects.rows if plan.rejects else 0
    comparison_cases = overtaken_cases(plan)
    if plan.write_mode == "append":  # append refuses any published day
        refused = [("seen.newest IS NOT NULL", "refused")] if plan.on_published_day == "refuse" else []
        comparison_cases = [(list_changed_condition(plan.publish.manifest.seen), "overtaken"), *refused]
    cases = [
        *comparison_cases,
        *redefined_cases(plan.publish),
        (f"seen.staged_rows != {plan.row.rows} OR seen.staged_rejects != {rejects}", "incomplete"),
    ]
    if plan.write_mode == "replace" or plan.replaces_whole:
        cases.append(("seen.strangers > 0", "stranger"))
    if plan.replaces_whole:
        cases.append(("kept_rows > 0", "kept"))
    if plan.deletes_softly and not plan.merge:
        cases.append(("keyless > 0", "uncomparable"))
    if plan.merge:
        cases.append(("seen.keyless_rows > 0", "keyless"))
    return cases


def _data_statements(plan: PublishPlan) -> list[str]:
    if plan.layout.table_changes is not None:
        changes = [
            statement for part in plan.layout.table_changes for statement in _table_change_statements(plan, part)
        ]
        return [*changes, "SET day_rows = seen.staged_rows"]
    this_day = _day_condition(plan, plan.layout.filter_column)
    if plan.replaces_whole:
        this_day = any_partition(plan.layout.filter_column, TARGET)
    if plan.deletes_softly:
        this_day += f" AND NOT {IS_DELETED}"
    if plan.merge:
        vanished_statements = []
        if plan.deletes_softly:
            vanished_statements = soft_delete_statements(plan)
        elif plan.replaces_whole:
            # Otherwise a soft-deleted row whose key comes back would stay deleted.
            vanished_statements = [
                *([purge_soft_deleted_statement(plan)] if plan.layout.has_delete_marks else []),
                *delete_vanished_statements(plan),
            ]
        return [
            *vanished_statements,
            *merge_statements(plan, plan.merge),
            f"SET day_rows = (SELECT COUNT(*) FROM {plan.target.sql} AS {TARGET} WHERE {this_day})",
            *([] if plan.span_number is None else [SUBTRACT_OTHER_SPANS]),
        ]
    insert = _insert_statement(plan, plan.target)
    if plan.write_mode == "append":
        return [insert, "SET day_rows = seen.staged_rows + COALESCE(seen.day_rows, 0)"]
    if plan.deletes_softly:
        return [*soft_delete_statements(plan), insert, "SET day_rows = seen.staged_rows"]
    if plan.marks_spans:
        return [*delete_span_statements(plan, this_day), insert, "SET day_rows = seen.staged_rows"]
    # Checked first, because even a DELETE without rows conflicts with other changes of the table.
    delete = (
        f"IF EXISTS (SELECT 1 FROM {plan.target.sql} AS {TARGET} WHERE {this_day}) THEN\n"
        f"    DELETE FROM {plan.target.sql} AS {TARGET} WHERE {this_day};\n  END IF"
    )
    return [delete, insert, "SET day_rows = seen.staged_rows"]


def _table_change_statements(plan: PublishPlan, change: TableChange) -> list[str]:
    table_ref, changes = plan.target.sibling(change.name), []
    if change.had_rows:
        changes.append(f"DELETE FROM {table_ref.sql} AS {TARGET} WHERE {_day_condition(plan, change.filter_column)}")
    if change.has_rows:
        changes.append(
            f"{_insert_statement(plan, table_ref)}\n  WHERE {STAGED}.{quoted(TABLE_COLUMN)} = {literal(change.name)}"
        )
    return changes


def _day_condition(plan: PublishPlan, filter_column: str | None) -> str:
    this_day = f"{TARGET}.`day` = {literal(plan.row.day)}"
    return this_day if filter_column in (None, "day") else f"{this_day} AND {any_partition(filter_column, TARGET)}"


def _insert_statement(plan: PublishPlan, table_ref: TableRef) -> str:
    marks = {DELETED: "FALSE"} if plan.deletes_softly else {}
    if plan.marks_spans:
        marks[SPAN] = literal(plan.span_number)
    column_names = column_list([*(column.name for column in plan.layout.columns), "day", *marks])
    values_sql = ", ".join(
        [*(column.expression for column in plan.layout.columns), literal(plan.row.day), *marks.values()]
    )
    return f"INSERT INTO {table_ref.sql} ({column_names})\n  SELECT {values_sql} FROM {plan.staging.sql} AS {STAGED}"


def _ledger_statement(plan: PublishPlan) -> str:
    tables = {}
    if plan.layout.table_changes is not None:
        tables["tables"] = string_array(part.name for part in plan.layout.table_changes if part.has_rows)
    values = ledger_values(
        plan.target,
        plan.key,
        plan.row,
        generation=_generation_sql(plan),
        row_count="day_rows",
        counts=_counts_sql(plan),
        load_method=literal(plan.layout.load_method),
        stream_count=literal(plan.stream_count),
        streams=string_array(plan.streams[:MAX_STREAM_NAMES]),
        **tables,
    )
    values_sql = ", ".join(values.values())
    return f"INSERT INTO {plan.ledger.sql} ({', '.join(map(quoted, values))})\n  SELECT {values_sql}"


def _generation_sql(plan: PublishPlan) -> str:
    newest = "seen.newest"
    if plan.span_number is not None:
        newest = f"IF({NEWEST_SPAN} = {plan.span_number}, seen.newest, 0)"
    elif plan.follows_stream:
        newest = f"IF({NEWEST_DAY} = {literal(plan.row.day)}, seen.newest, 0)"
    return f"COALESCE({newest}, 0) + 1"


def _counts_sql(plan: PublishPlan) -> str:
    counts = json.dumps(plan.row.counts)
    if not plan.deletes_softly and not (plan.merge and plan.replaces_whole):
        return f"PARSE_JSON({literal(counts)})"
    count_variables = SOFT_COUNTS if plan.deletes_softly else {"vanished": "vanished"}
    parts, begin = [], counts[:-1] + (", " if plan.row.counts else "")
    for name, variable in count_variables.items():
        parts += [literal(f'{begin}"{name}": '), f"CAST({variable} AS STRING)"]
        begin = ", "
    return f"PARSE_JSON(CONCAT({', '.join(parts)}, '}}'))"
