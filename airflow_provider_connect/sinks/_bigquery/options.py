"""Options of the BigQuery sink."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Literal, Self
from urllib.parse import quote

from pydantic import Field, field_validator, model_validator

from airflow_provider_connect.clients.bigquery.sql import MAX_TARGET_BYTES, TableRef, project_in_name
from airflow_provider_connect.config import Options
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.merging import (
    DELETE_WHERE_HELP,
    KEY_HELP,
    NEWEST_BY_HELP,
    merge_problem,
    order_of_increments,
)
from airflow_provider_connect.stage.soft_deletes import DELETES_HELP, Deletes, soft_kind_problems
from airflow_provider_connect.stage.stream_names import names_streams
from airflow_provider_connect.stage.tables import HEAD_FOLDER, TableTemplate, template_problem
from airflow_provider_connect.window import SourceKind

NONE, INGESTION_TIME, RANGE = "none", "ingestion_time", "range"
"""Values of ``partition_by`` that are not columns, and the value of ``partition_type`` that is no unit of time."""

MAX_TABLES = 98
"""A transaction changes at most 100 tables, including ledger and rejects
(https://cloud.google.com/bigquery/docs/transactions#limitations, 2026-11).
"""
SIBLING_SUFFIXES = ("__ledger", "__rejects", "__erased", "__notes", "__positions", "__tombstones", "__stage_")
"""Suffixes of the sink's tables next to a target, whose own name never ends with one."""
_HEAD_CHARS = 200


def template_of(table: str) -> tuple[str, str]:
    """Return dataset and template of a table name with a column, such as ``analytics.{event}``, else empty texts."""
    prefix, brace, suffix = table.partition("{")
    if not brace:
        return "", ""
    dataset, _, start = prefix.rpartition(".")
    return dataset, f"{start}{{{suffix}"


def head_name(template: str) -> str:
    """Return the name of a template's head (the empty table that owns the ledger). No other table can have it."""
    from airflow_provider_connect.values.hashed_names import name_hash, name_with_hash  # noqa: PLC0415

    return name_with_hash(f"{HEAD_FOLDER}_{re.sub('[{}]', '', template)}", name_hash(template), max_chars=_HEAD_CHARS)


def head_of(table: str) -> str:
    """Return the table that owns the ledger, see :attr:`BigQueryOptions.head`."""
    dataset, template = template_of(table)
    return f"{dataset}.{head_name(template)}" if template else table


def _require_table(table: str) -> None:
    """Refuse a text that is no table's name. Raises ValueError."""
    _, template = template_of(table)
    if template and (problem := template_problem(template)):
        raise ValueError(problem)
    if "." in template.rpartition("}")[2]:
        raise ValueError(
            f"{table!r}: a column may stand in the table's name, not in project or dataset, such as "
            "'analytics.{event}'"
        )
    try:
        table_ref = TableRef.parse(head_of(table), "the-connections-own")
    except ConfigError as error:
        raise ValueError(str(error)) from None
    if len(table_ref.table.encode()) > MAX_TARGET_BYTES:
        raise ValueError(
            f"the table's name has {len(table_ref.table.encode())} bytes of UTF-8, but at most "
            f"{MAX_TARGET_BYTES} are allowed, because the names of the ledger and of staging tables add a "
            "suffix"
        )


def _soft_conflict(conflicts: Sequence[str]) -> str:
    return (
        "deletes='soft' is for one table that shows the newest snapshot, and cannot be combined with "
        f"{' and '.join(conflicts)}. Leave one of them out"
    )


class BigQueryOptions(Options):
    """Options of the BigQuery sink."""

    name: ClassVar[str] = "bigquery"
    stream_option: ClassVar[str] = "table"
    connection_types: ClassVar[dict[str, tuple[str, ...]]] = {"conn_id": ("google_cloud_platform", "gcpbigquery")}

    conn_id: str = Field(
        default="google_cloud_default", description="Airflow connection that holds the project and the credentials."
    )
    table: str = Field(
        description="'dataset.table', or 'project.dataset.table' for another project than the connection's. "
        "With a source column in the table's name, such as 'analytics.{event}', each event gets "
        "its own table. For a source of many tables, {schema} and {table} name a table each.",
        examples=["analytics.mixpanel_events"],
    )
    write_mode: Literal["replace", "merge", "append"] = Field(
        default="replace",
        description="'replace' replaces a day by its new rows, 'merge' updates rows by key, 'append' adds rows.",
    )
    key: tuple[str, ...] = Field(default=(), description=KEY_HELP)
    newest_by: str | None = Field(default=None, description=NEWEST_BY_HELP)
    delete_where: str | None = Field(default=None, description=DELETE_WHERE_HELP)
    on_published_day: Literal["refuse", "append"] = Field(
        default="refuse",
        description="Effect of write_mode='append' on a day that is already published: 'refuse' fails the day, "
        "'append' doubles it.",
    )
    snapshot: Literal["replace", "daily"] = Field(
        default="replace",
        description="Effect of a source that polls all rows at once: 'replace' shows the newest snapshot alone "
        "(with write_mode='merge', rows whose key vanished are deleted). 'daily' treats the "
        "snapshot of each day as a day's rows. write_mode='append' accepts only 'daily'.",
    )
    deletes: Deletes = Field(default="hard", description=DELETES_HELP)
    load_method: Literal["auto", "storage_write", "load_job"] = Field(
        default="auto",
        description="How rows reach the staging table. 'auto' uses load jobs if the stage is on gs://, else "
        "the Storage Write API.",
    )
    create_disposition: Literal["if_needed", "never"] = Field(
        default="if_needed", description="Whether a missing table is created."
    )
    partition_by: str = Field(
        default="day",
        description="Partitions of a new table: 'day', a DATE or TIMESTAMP source column, 'ingestion_time' "
        "(when rows arrive) or 'none'. For an existing table, its actual partition column.",
    )
    partition_type: Literal["hour", "day", "month", "year", "range"] = Field(
        default="day",
        description="Size of a new table's partitions. 'hour' needs a TIMESTAMP column or 'ingestion_time'. "
        "'range' is for an existing table that is partitioned by ranges of an INTEGER column.",
    )
    partition_expiration_days: int | None = Field(
        default=None, ge=1, description="Age at which BigQuery deletes a new table's partitions."
    )
    cluster_by: tuple[str, ...] = Field(
        default=(), max_length=4, description="Up to four source columns that a new table is clustered by."
    )
    labels: dict[str, str] = Field(
        default_factory=dict, description="Labels of new tables, and of every job in addition to dag, task and run."
    )
    kms_key: str | None = Field(default=None, description="Cloud KMS key for new tables: 'projects/…/cryptoKeys/…'.")
    schema_contract: Literal["evolve", "freeze", "discard_columns"] = Field(
        default="evolve",
        description="Treatment of a column that the table lacks: 'evolve' adds it, 'freeze' fails the day, "
        "'discard_columns' leaves it out.",
    )
    errors_tolerance: Literal["none", "all"] = Field(
        default="none",
        description="Treatment of a row that BigQuery cannot hold: 'none' fails the day, 'all' sets the row "
        "aside in '<table>__rejects'.",
    )
    max_rejects: int = Field(default=1000, ge=0, description="How many rows may be set aside before the day fails.")
    staging_dataset: str | None = Field(
        default=None,
        description="Dataset for staging tables, 'dataset' or 'project.dataset', in the same location as the table's "
        "dataset, which is the default.",
    )
    differences: Literal["counts", "off"] = Field(
        default="counts",
        description="'counts' counts the rows that a reload adds, changes and removes, by a billed query. 'off' counts "
        "none. For write_mode='replace'.",
    )
    maximum_bytes_billed: int | None = Field(
        default=None,
        ge=10_000_000,
        description="Most bytes that one statement may be billed for. A statement that would read more fails the day.",
    )
    max_tables: int = Field(
        default=MAX_TABLES,
        ge=1,
        le=MAX_TABLES,
        description="How many tables a table name with a column may create. A day that needs more fails.",
    )
    retry_budget_seconds: float = Field(
        default=90.0,
        ge=0,
        description="How long a call is tried again after retriable errors before Airflow's own retry takes over.",
    )

    @property
    def tables(self) -> TableTemplate | None:
        """Template that assigns rows to tables. None for a plain table name."""
        _, template = template_of(self.table)
        return TableTemplate(template=template, most=self.max_tables, kept_apart=SIBLING_SUFFIXES) if template else None

    @property
    def head(self) -> str:
        """Table that owns the ledger: the table itself, or a template's empty head."""
        return head_of(self.table)

    @field_validator("table")
    @classmethod
    def _is_table(cls, table: str) -> str:
        # With a stream's names, the table is validated when they are known.
        if not names_streams(table):
            _require_table(table)
        return table

    @field_validator("staging_dataset")
    @classmethod
    def _is_dataset(cls, dataset: str) -> str:
        try:
            TableRef.parse(f"{dataset}.x", project="the-connections-own")
        except ConfigError:
            raise ValueError(f"{dataset!r} is not a dataset. Write 'dataset' or 'project.dataset'") from None
        return dataset

    @model_validator(mode="after")
    def _modes(self) -> Self:
        merge_options = {"key": self.key, "newest_by": self.newest_by, "delete_where": self.delete_where}
        if problem := merge_problem(self.write_mode, merge_options):
            raise ValueError(problem)
        if self.write_mode != "append" and self.on_published_day != "refuse":
            raise ValueError("on_published_day: only with write_mode='append'")
        if self.write_mode != "replace" and self.differences != "counts":
            raise ValueError("differences: only with write_mode='replace'. The other modes count none")
        if problem := self._partition_problem() or self._soft_delete_problem():
            raise ValueError(problem)
        if not names_streams(self.table) and (problem := self._template_problem()):
            raise ValueError(problem)
        return self

    def _template_problem(self) -> str | None:  # noqa: PLR0911  # a line for each option
        if self.tables is None:
            if self.max_tables != MAX_TABLES:
                return "max_tables belongs to a table with a column in its name, such as 'analytics.{event}'"
            return None
        if self.deletes == "soft":
            return _soft_conflict(["a table with a column in its name"])
        if self.write_mode != "replace":
            return f"table={self.table!r}: a table for each value needs write_mode='replace'"
        if self.load_method == "load_job":
            return f"table={self.table!r}: load jobs cannot split files into tables. Leave load_method out"
        if self.partition_type == RANGE:
            return f"table={self.table!r}: partition_type='range' is for one table, made by hand"
        return None

    def _soft_delete_problem(self) -> str | None:
        conflicting_options = {
            "snapshot='daily'": self.snapshot == "daily",
            "write_mode='append'": self.write_mode == "append",
            "delete_where, which deletes rows whole": self.delete_where is not None,
        }
        if self.deletes == "soft" and (
            conflicts := [option for option, is_set in conflicting_options.items() if is_set]
        ):
            return _soft_conflict(conflicts)
        return None

    def _partition_problem(self) -> str | None:
        column, size = self.partition_by, self.partition_type
        if column == NONE:
            set_options = {"partition_type": size != "day", "partition_expiration_days": self.partition_expiration_days}
            problems = [
                f"{name} needs partitions, but partition_by='none'" for name in set_options if set_options[name]
            ]
            return "; ".join(problems) or None
        if size == RANGE and column in ("day", INGESTION_TIME):
            return "partition_type='range' needs partition_by=, an INTEGER column"
        if size == RANGE and self.partition_expiration_days is not None:
            return "partition_expiration_days: partitions by ranges never expire"
        if size == "hour" and column == "day":
            return "partition_type='hour' needs partition_by=, a TIMESTAMP column"
        return None

    @property
    def target(self) -> str:
        """``bigquery://`` and the table, with the connection's id if there is no project."""
        return f"bigquery://{self._full_name}"

    @property
    def asset_uri(self) -> str:
        """``bigquery://project/dataset/table``, as in the Google provider's assets.

        Without a project, the connection's id stands for it.
        """
        dataset, template = template_of(self._full_name)
        table = quote(template)
        if not template:
            dataset, _, table = self._full_name.rpartition(".")
        project, _, dataset = dataset.rpartition(".")  # a domain-scoped project id has dots, too
        return f"bigquery://{project}/{dataset}/{table}"

    @property
    def _full_name(self) -> str:
        return self.table if project_in_name(self.head) else f"{self.conn_id}.{self.table}"

    def replaces(self, kind: SourceKind) -> bool:
        """Return True if an empty answer deletes rows of a day or of the whole table."""
        return self.write_mode == "replace" or self.replaces_whole(kind)

    def replaces_whole(self, kind: SourceKind) -> bool:
        """Return True if a publish replaces the rows of all days."""
        return kind == "snapshot" and self.snapshot == "replace" and self.write_mode != "append"

    def ordered_by(self, columns: tuple[str, ...]) -> Self:
        """Return the options with ``newest_by`` if a merge of increments does not name it."""
        if self.write_mode != "merge" or self.newest_by is not None:
            return self
        column = order_of_increments(tuple(self.key), columns)
        return self if column is None else self.model_copy(update={"newest_by": column})

    def kind_problems(self, kind: SourceKind) -> list[str]:
        """Return the problems of options that do not fit this kind of source."""
        problems = soft_kind_problems(self.deletes, kind)
        if names_streams(self.table) and (problem := self._column_problem() or self._template_problem()):
            problems.append(problem)  # the source has one stream, so {table} is its column
        return problems

    def _column_problem(self) -> str | None:
        try:
            _require_table(self.table)
        except ValueError as error:
            return str(error)
        return None

    def deletes_softly(self, kind: SourceKind) -> bool:
        """Return True if a publish marks vanished rows as deleted."""
        return self.deletes == "soft" and self.replaces_whole(kind)

    def identifies_by_key(self, kind: SourceKind) -> bool:
        """Return True if rows are merged or soft-deleted by key."""
        return self.write_mode == "merge" or self.deletes_softly(kind)

    @property
    def keeps_spans(self) -> bool:
        """True if each publish continues the one before it in one table."""
        return self.write_mode != "append" and self.tables is None

    @property
    def reloads(self) -> bool:
        """True if a day may be published again."""
        return self.write_mode != "append"
