"""The options of the Delta sink."""

from __future__ import annotations

import datetime as dt
import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from airflow_provider_connect.config import Options
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.merging import (
    DELETE_WHERE_HELP,
    INCREMENTS_NEED_ORDER,
    KEY_HELP,
    NEWEST_BY_HELP,
    merge_problem,
    order_of_increments,
)
from airflow_provider_connect.stage.soft_deletes import DELETES_HELP, Deletes, soft_kind_problems
from airflow_provider_connect.stage.storage import normalise_path
from airflow_provider_connect.stage.stream_names import names_streams
from airflow_provider_connect.stage.tables import HEAD_FOLDER, TableTemplate, template_problem
from airflow_provider_connect.window import ONE_DAY, SourceKind

_SCHEMES = ("s3", "s3a", "gs", "abfss")
# delta-rs writes the log of such a path to one place and reads it from another.
_MISREAD = re.compile(r"\\|%[0-9A-Fa-f]{2}|[\x00-\x1f\x7f]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class DeltaOptions(Options):
    """Options of the Delta sink."""

    path: str = Field(
        description="Root of the table: an absolute path, or a URL (s3://, gs://, abfss://). A source column "
        "in the last part, '/data/lake/{event}', makes a table for each event. For a source of many tables, {schema} "
        "and {table} name a table each.",
        examples=["/data/lake/events", "s3://bucket/lake/events"],
    )
    sweep_after: dt.timedelta = Field(
        default=ONE_DAY,
        ge=dt.timedelta(minutes=10),
        description="How long an attempt must have been silent, by the storage's clock, before its unpublished files "
        "are deleted.",
    )
    schema_contract: Literal["evolve", "freeze"] = Field(
        default="evolve",
        description="Effect of a column that the table lacks: 'evolve' adds it, 'freeze' fails the day.",
    )
    names: Literal["refuse", "safe"] = Field(
        default="refuse",
        description="Effect of a column's name that Delta does not allow: 'refuse' fails the run, 'safe' writes an "
        "underscore for each character that is not allowed.",
    )
    types: Literal["refuse", "safe"] = Field(
        default="refuse",
        description="Effect of a time of day, for which Delta has no type: 'refuse' fails the run, 'safe' stores it as "
        "text, HH:MM:SS.ffffff.",
    )
    widen_up_to: int = Field(
        default=10_000_000_000,
        ge=0,
        description="Most bytes of files that are written again because a column grows, such as from int to bigint. "
        "Larger tables fail the day.",
    )
    write_mode: Literal["replace", "merge"] = Field(
        default="replace",
        description="'replace' replaces a day by its new rows, 'merge' updates rows by key.",
    )
    key: tuple[str, ...] = Field(default=(), description=KEY_HELP)
    newest_by: str | None = Field(default=None, description=NEWEST_BY_HELP)
    delete_where: str | None = Field(default=None, description=DELETE_WHERE_HELP)
    snapshot: Literal["replace", "daily"] = Field(
        default="replace",
        description="Effect of a snapshot of all rows: 'replace' shows only the newest one (with write_mode='merge', "
        "rows whose key vanished are deleted), 'daily' treats it as the rows of its day.",
    )

    deletes: Deletes = Field(default="hard", description=DELETES_HELP)
    max_tables: int = Field(
        default=500,
        ge=1,
        le=5000,
        description="Largest number of tables of a path with a column. A day that needs more fails.",
    )

    @property
    def tables(self) -> TableTemplate | None:
        """The template of table names, or None for a single table."""
        template = self.path.rpartition("/")[2]
        return TableTemplate(template=template, most=self.max_tables) if "{" in template else None

    @property
    def root(self) -> str:
        """The stage's folder: the table's root, or the common folder of a template's tables."""
        return self.path if self.tables is None else self.path.rpartition("/")[0]

    @property
    def ledger_path(self) -> str:
        """The root of the table whose log holds the ledger."""
        return self.path if self.tables is None else f"{self.root}/{HEAD_FOLDER}"

    def replaces(self, kind: SourceKind) -> bool:
        """Return True if an empty answer deletes rows."""
        return self.write_mode == "replace" or self.replaces_whole(kind)

    def replaces_whole(self, kind: SourceKind) -> bool:
        """Return True if a publish of this source kind replaces the whole table."""
        return kind == "snapshot" and self.snapshot == "replace"

    def type_change(self, kind: SourceKind) -> Literal["none", "wider", "any"]:
        """Return the new types that a publish of this source kind may give to the table's columns."""
        if self.tables is not None:
            return "none"
        keeps_rows = self.write_mode == "merge" or self.deletes == "soft" or not self.replaces_whole(kind)
        return "wider" if keeps_rows else "any"

    def ordered_by(self, columns: tuple[str, ...]) -> Self:
        """Return the options with ``newest_by`` if a merge of increments does not name it."""
        if self.write_mode != "merge" or self.newest_by is not None:
            return self
        column = order_of_increments(tuple(self.key), columns)
        return self if column is None else self.model_copy(update={"newest_by": column})

    def kind_problems(self, kind: SourceKind) -> list[str]:
        """Return a problem for each option that this kind of source cannot have."""
        problems = soft_kind_problems(self.deletes, kind)
        if names_streams(self.path) and (problem := _column_problem(self.path) or self._tables_problem()):
            problems.append(problem)  # the source has one stream, so {table} is its column
        if kind == "increment" and self.write_mode == "merge" and self.newest_by is None:
            problems.append(INCREMENTS_NEED_ORDER)
        return problems

    def deletes_softly(self, kind: SourceKind) -> bool:
        """Return True if a publish keeps vanished rows, marked as deleted."""
        return self.deletes == "soft" and self.replaces_whole(kind)

    @field_validator("path")
    @classmethod
    def _one_spelling(cls, path: str) -> str:
        path_argument = path
        try:
            path = normalise_path(path)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if "://" in path and path.partition("://")[0] not in _SCHEMES:
            raise ValueError(f"a Delta table lies on a local path or on {', '.join(_SCHEMES)}")
        if path == "/":
            raise ValueError("the root of the filesystem cannot be a table")
        # Parsing a URL drops its control characters, so the given text is checked too.
        if (misread := _MISREAD.search(path) or _CONTROL.search(path_argument)) is not None:
            raise ValueError(
                f"readers take a Delta table's path with {misread[0]!r} for another place. Choose a path "
                "without backslashes, control characters and '%' before two hex digits"
            )
        if not names_streams(path) and (problem := _column_problem(path)):
            raise ValueError(problem)
        return path

    @model_validator(mode="after")
    def _merge_has_a_key(self) -> Self:
        merge_options = {"key": self.key, "newest_by": self.newest_by, "delete_where": self.delete_where}
        if problem := merge_problem(self.write_mode, merge_options):
            raise ValueError(problem)
        if self.write_mode == "merge" and self.deletes == "soft":
            raise ValueError("deletes='soft' needs write_mode='replace'. Leave one of them out")
        return self

    @model_validator(mode="after")
    def _tables_have_a_template(self) -> Self:
        if self.tables is None and self.max_tables != type(self).model_fields["max_tables"].default:
            raise ValueError("max_tables belongs to a path with a column, such as /data/lake/{event}. Leave it out")
        if self.deletes == "soft" and self.snapshot == "daily":
            raise ValueError(_soft_conflict("snapshot='daily'"))
        if not names_streams(self.path) and (problem := self._tables_problem()):
            raise ValueError(problem)
        return self

    def _tables_problem(self) -> str | None:
        """Return why the other options do not allow a table for each value of a column. None if they do."""
        if self.tables is None:
            return None
        if self.write_mode == "merge":
            return f"path={self.path!r}: a table for each value needs write_mode='replace'"
        return _soft_conflict("a path with a column") if self.deletes == "soft" else None


def _column_problem(path: str) -> str | None:
    """Return why a column is at a wrong place of the path. None if the path is valid."""
    above, _, last = path.rpartition("/")
    if "{" in above or "}" in above:
        return f"{path!r}: a column belongs in the last part of the path, such as /data/lake/{{event}}"
    if "{" in last or "}" in last:
        if problem := template_problem(last):
            return problem
        if not above or above.endswith(":/"):
            return f"{path!r}: name a folder for the tables, such as /data/lake/{{event}}"
    return None


def _soft_conflict(conflict: str) -> str:
    return f"deletes='soft' needs one table with the newest snapshot, and excludes {conflict}. Leave one out"
