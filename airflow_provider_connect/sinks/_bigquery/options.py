"""The options of the BigQuery sink, the checks between them, and the names that follow from them.

DAG files import this: keep it light.
"""

from __future__ import annotations

import re
from typing import ClassVar, Literal, Self
from urllib.parse import quote

from pydantic import Field, field_validator, model_validator

from airflow_provider_connect.clients.bigquery.sql import MAX_TARGET_BYTES, TableRef, project_in_name
from airflow_provider_connect.config import Options
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.soft_deletes import DELETES_HELP, Deletes, soft_kind_problems
from airflow_provider_connect.stage.tables import HEAD_FOLDER, TableTemplate, template_problem
from airflow_provider_connect.window import SourceKind

NONE, INGESTION_TIME, RANGE = "none", "ingestion_time", "range"
"""Values of ``partition_by`` that are not columns, and of ``partition_type`` that is not a unit of time."""

MAX_TABLES = 98
"""A transaction changes at most 100 tables (https://cloud.google.com/bigquery/docs/transactions#limitations, 2026-11),
and two of these are the ledger and the rejects."""
SIBLING_SUFFIXES = ("__ledger", "__rejects", "__erased", "__notes", "__tombstones", "__stage_")
"""What names of the tables beside a target have that the target's own has not."""
_HEAD_CHARS = 200


def template_of(table: str) -> tuple[str, str]:
    """Return the dataset and the template of the tables' names; of one table's name, "" for both."""
    before, brace, after = table.partition("{")
    if not brace:
        return "", ""
    dataset, _, start = before.rpartition(".")
    return dataset, f"{start}{{{after}"


def head_name(template: str) -> str:
    """Return the name of a template's head; no other template has it, and no table of any template."""
    from airflow_provider_connect.values.hashed_names import name_hash, name_with_hash  # noqa: PLC0415

    return name_with_hash(f"{HEAD_FOLDER}_{re.sub('[{}]', '', template)}", name_hash(template), max_chars=_HEAD_CHARS)


def head_of(table: str) -> str:
    """Return the table that the ledger is about: the table itself, or the one without rows beside a template's."""
    dataset, template = template_of(table)
    return f"{dataset}.{head_name(template)}" if template else table


class BigQueryOptions(Options):
    """What a user may set."""

    name: ClassVar[str] = "bigquery"
    connection_types: ClassVar[dict[str, tuple[str, ...]]] = {"conn_id": ("google_cloud_platform", "gcpbigquery")}

    conn_id: str = Field(
        default="google_cloud_default", description="Airflow connection that holds the project and the credentials."
    )
    table: str = Field(
        description="'dataset.table', or 'project.dataset.table' for another project than the connection's. With one "
        "source column in the table's name, 'analytics.{event}' is a table for each event.",
        examples=["analytics.mixpanel_events"],
    )
    write_mode: Literal["replace", "merge", "append"] = Field(
        default="replace",
        description="'replace' replaces a day by its new rows, 'merge' updates rows by key, 'append' adds rows.",
    )
    key: tuple[str, ...] = Field(
        default=(), description="Source columns that identify a row; only for write_mode='merge'."
    )
    newest_by: str | None = Field(
        default=None,
        description="Source column whose highest value wins among rows with the same key, across days too; without it "
        "the later day wins, and within a day the later row. For write_mode='merge'.",
    )
    delete_where: str | None = Field(
        default=None, description="Boolean source column; where it is true, the key is deleted. For write_mode='merge'."
    )
    on_published_day: Literal["refuse", "append"] = Field(
        default="refuse",
        description="What write_mode='append' does with a day that is already published: 'append' doubles it.",
    )
    snapshot: Literal["replace", "daily"] = Field(
        default="replace",
        description="What a source that polls all rows there are does to the table: 'replace' shows the newest "
        "snapshot alone (with write_mode='merge', rows whose key vanished are deleted), 'daily' treats the snapshot of "
        "each day as a day's rows. write_mode='append' takes 'daily' alone.",
    )
    deletes: Deletes = Field(default="hard", description=DELETES_HELP)
    load_method: Literal["auto", "storage_write", "load_job"] = Field(
        default="auto",
        description="How rows reach the staging table; 'auto' takes load jobs if the stage is on gs://, else the "
        "Storage Write API.",
    )
    create_disposition: Literal["if_needed", "never"] = Field(
        default="if_needed", description="Whether a missing table is created."
    )
    partition_by: str = Field(
        default="day",
        description="What partitions a new table: 'day', a DATE or TIMESTAMP source column, 'ingestion_time' (when "
        "rows arrive) or 'none'. For an existing table: what it is partitioned by.",
    )
    partition_type: Literal["hour", "day", "month", "year", "range"] = Field(
        default="day",
        description="Size of a new table's partitions; 'hour' needs a TIMESTAMP column or 'ingestion_time'. 'range' is "
        "for an existing table that is partitioned by ranges of an INTEGER column.",
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
        description="What happens to a column that the table lacks: 'evolve' adds it, 'freeze' fails the day, "
        "'discard_columns' leaves it out.",
    )
    errors_tolerance: Literal["none", "all"] = Field(
        default="none",
        description="What happens to a row that BigQuery cannot hold: 'none' fails the day, 'all' sets it aside in "
        "'<table>__rejects'.",
    )
    max_rejects: int = Field(default=1000, ge=0, description="How many rows may be set aside before the day fails.")
    staging_dataset: str | None = Field(
        default=None,
        description="Dataset for staging tables, 'dataset' or 'project.dataset', in the same location as the table's "
        "dataset, which is the default.",
    )
    maximum_bytes_billed: int | None = Field(
        default=None,
        ge=10_000_000,
        description="Most bytes that one statement may be billed for; a statement that would read more fails the day.",
    )
    max_tables: int = Field(
        default=MAX_TABLES,
        ge=1,
        le=MAX_TABLES,
        description="How many tables a name with a column in it may become; a day that needs more fails.",
    )
    retry_budget_seconds: float = Field(
        default=90.0,
        ge=0,
        description="How long a call is tried again after retriable errors before Airflow's own retry takes over.",
    )

    @property
    def tables(self) -> TableTemplate | None:
        """Which table a row belongs to; None where there is one table."""
        _, template = template_of(self.table)
        return TableTemplate(template=template, most=self.max_tables, kept_apart=SIBLING_SUFFIXES) if template else None

    @property
    def head(self) -> str:
        """The table that the ledger is about: the table itself, or the one without rows beside those of a template."""
        return head_of(self.table)

    @field_validator("table")
    @classmethod
    def _is_table(cls, table: str) -> str:
        _, template = template_of(table)
        if template and (problem := template_problem(template)):
            raise ValueError(problem)
        if "." in template.rpartition("}")[2]:
            raise ValueError(f"{table!r}: a column belongs into the table's name, such as 'analytics.{{event}}'")
        try:
            place = TableRef.parse(head_of(table), "the-connections-own")
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if len(place.table.encode()) > MAX_TARGET_BYTES:
            raise ValueError(
                f"the table's name takes {len(place.table.encode())} bytes of UTF-8: at most {MAX_TARGET_BYTES} bytes, "
                "since the names of the ledger and of staging tables add a suffix to it"
            )
        return table

    @field_validator("staging_dataset")
    @classmethod
    def _is_dataset(cls, dataset: str) -> str:
        try:
            TableRef.parse(f"{dataset}.x", project="the-connections-own")
        except ConfigError:
            raise ValueError(f"{dataset!r} is not a dataset: write 'dataset' or 'project.dataset'") from None
        return dataset

    @model_validator(mode="after")
    def _modes(self) -> Self:
        if self.write_mode == "merge" and not self.key:
            raise ValueError("write_mode='merge' needs key=[…], the columns that identify a row")
        only_merge = [name for name in ("key", "newest_by", "delete_where") if getattr(self, name)]
        if self.write_mode != "merge" and only_merge:
            raise ValueError(f"{', '.join(only_merge)}: only with write_mode='merge'")
        if self.write_mode != "append" and self.on_published_day != "refuse":
            raise ValueError("on_published_day: only with write_mode='append'")
        if wrong := self._wrong_partitions() or self._wrong_with_tables() or self._wrong_deletes():
            raise ValueError(wrong)
        return self

    def _wrong_with_tables(self) -> str | None:
        if self.tables is None:
            if self.max_tables != MAX_TABLES:
                return "max_tables belongs to a table with a column in its name, such as 'analytics.{event}'"
            return None
        if self.write_mode != "replace":
            return f"table={self.table!r}: tables of a column's values are written with write_mode='replace' alone"
        if self.load_method == "load_job":
            return (
                f"table={self.table!r}: load jobs take files as they are, which do not say which table a row belongs "
                "to: leave load_method out"
            )
        if self.partition_type == RANGE:
            return f"table={self.table!r}: partition_type='range' is for one table, made by hand"
        return None

    def _wrong_deletes(self) -> str | None:
        not_with = {
            "snapshot='daily'": self.snapshot == "daily",
            "write_mode='append'": self.write_mode == "append",
            "delete_where, which deletes rows whole": self.delete_where is not None,
            "a table with a column in its name": self.tables is not None,
        }
        if self.deletes == "soft" and (found := [what for what, is_set in not_with.items() if is_set]):
            return (
                "deletes='soft' is for one table that shows the newest snapshot, and not for "
                f"{' and '.join(found)}: leave one out"
            )
        return None

    def _wrong_partitions(self) -> str | None:
        by, size = self.partition_by, self.partition_type
        if by == NONE:
            given = {"partition_type": size != "day", "partition_expiration_days": self.partition_expiration_days}
            named = [f"{name}: only with partitions, and partition_by='none'" for name in given if given[name]]
            return "; ".join(named) or None
        if size == RANGE and by in ("day", INGESTION_TIME):
            return "partition_type='range' needs partition_by=, an INTEGER column"
        if size == RANGE and self.partition_expiration_days is not None:
            return "partition_expiration_days: partitions by ranges never expire"
        if size == "hour" and by == "day":
            return "partition_type='hour' needs partition_by=, a TIMESTAMP column"
        return None

    @property
    def target(self) -> str:
        """``bigquery://`` and the table as given; the connection's name stands for a missing project."""
        return f"bigquery://{self._place_name}"

    @property
    def asset_uri(self) -> str:
        """``bigquery://project/dataset/table``, as in the Google provider's assets.

        The connection's name stands for a missing project; give the operator ``asset=`` for the real one.
        """
        dataset, template = template_of(self._place_name)
        table = quote(template)
        if not template:
            dataset, _, table = self._place_name.rpartition(".")
        project, _, dataset = dataset.rpartition(".")  # a domain-scoped project id has dots, too
        return f"bigquery://{project}/{dataset}/{table}"

    @property
    def _place_name(self) -> str:
        return self.table if project_in_name(self.head) else f"{self.conn_id}.{self.table}"

    def replaces(self, kind: SourceKind) -> bool:
        """Tell whether an empty answer deletes rows: only where a day, or the whole, is replaced."""
        return self.write_mode == "replace" or self.replaces_whole(kind)

    def replaces_whole(self, kind: SourceKind) -> bool:
        """Tell whether a publish takes the place of everything in the table, not of its own day alone."""
        return kind == "snapshot" and self.snapshot == "replace" and self.write_mode != "append"

    def kind_problems(self, kind: SourceKind) -> list[str]:
        """Say which options mean nothing for rows of a kind."""
        return soft_kind_problems(self.deletes, kind)

    def deletes_softly(self, kind: SourceKind) -> bool:
        """Tell whether a publish keeps the rows that it no longer has."""
        return self.deletes == "soft" and self.replaces_whole(kind)

    def identifies_by_key(self, kind: SourceKind) -> bool:
        """Tell whether rows are merged, or kept as deleted, by their key: then another key doubles them."""
        return self.write_mode == "merge" or self.deletes_softly(kind)

    @property
    def keeps_spans(self) -> bool:
        """Whether a publish is compared with the one before it, in one table: not where it only adds."""
        return self.write_mode != "append" and self.tables is None

    @property
    def reloads(self) -> bool:
        """Whether a day may be published again: ``write_mode="append"`` would double it."""
        return self.write_mode != "append"
