"""The options of the Delta sink."""

from __future__ import annotations

import datetime as dt
import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from airflow_provider_connect.config import Options
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.soft_deletes import DELETES_HELP, Deletes, soft_kind_problems
from airflow_provider_connect.stage.storage import normalise_path
from airflow_provider_connect.stage.tables import HEAD_FOLDER, TableTemplate, template_problem
from airflow_provider_connect.window import ONE_DAY, SourceKind

_SCHEMES = ("s3", "s3a", "gs", "abfss")
# delta-rs writes the log of such a path to one place and reads it from another.
_MISREAD = re.compile(r"\\|%[0-9A-Fa-f]{2}|[\x00-\x1f\x7f]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class DeltaOptions(Options):
    """What a user may set."""

    path: str = Field(
        description="Root of the table: an absolute path, or a URL (s3://, gs://, abfss://). With one source column "
        "in its last part, '/data/lake/{event}' is a table for each event.",
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
        description="What happens to a column that the table lacks: 'evolve' adds it, 'freeze' fails the day.",
    )
    snapshot: Literal["replace", "daily"] = Field(
        default="replace",
        description="What a source that polls all rows there are does to the table: 'replace' shows the newest "
        "snapshot alone, 'daily' keeps the snapshot of each day beside the others.",
    )

    deletes: Deletes = Field(default="hard", description=DELETES_HELP)
    max_tables: int = Field(
        default=500,
        ge=1,
        le=5000,
        description="How many tables a path with a column in it may become; a day that needs more fails.",
    )

    @property
    def tables(self) -> TableTemplate | None:
        """Which table a row belongs to; None where the path is one table's."""
        template = self.path.rpartition("/")[2]
        return TableTemplate(template=template, most=self.max_tables) if "{" in template else None

    @property
    def root(self) -> str:
        """What the stage lies under: the table's root, or the folder that holds all tables of a template."""
        return self.path if self.tables is None else self.path.rpartition("/")[0]

    @property
    def ledger_path(self) -> str:
        """The root of the table whose log holds the ledger."""
        return self.path if self.tables is None else f"{self.root}/{HEAD_FOLDER}"

    def replaces_whole(self, kind: SourceKind) -> bool:
        """Tell whether a publish takes the place of everything in the table, not of its own day alone."""
        return kind == "snapshot" and self.snapshot == "replace"

    def kind_problems(self, kind: SourceKind) -> list[str]:
        """Say which options mean nothing for rows of a kind."""
        return soft_kind_problems(self.deletes, kind)

    def deletes_softly(self, kind: SourceKind) -> bool:
        """Tell whether a publish keeps the rows that it no longer has."""
        return self.deletes == "soft" and self.replaces_whole(kind)

    @field_validator("path")
    @classmethod
    def _one_spelling(cls, path: str) -> str:
        given = path
        try:
            path = normalise_path(path)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if "://" in path and path.partition("://")[0] not in _SCHEMES:
            raise ValueError(f"a Delta table lies on a local path or on {', '.join(_SCHEMES)}")
        if path == "/":
            raise ValueError("the root of the filesystem cannot be a table")
        # Parsing a URL drops its control characters, so the given text is checked too.
        if (misread := _MISREAD.search(path) or _CONTROL.search(given)) is not None:
            raise ValueError(
                f"readers take a Delta table's path with {misread[0]!r} for another place: choose a path "
                "without backslashes, control characters and '%' before two hex digits"
            )
        above, _, last = path.rpartition("/")
        if "{" in above or "}" in above:
            raise ValueError(f"{path!r}: a column belongs into the last part of the path, such as /data/lake/{{event}}")
        if "{" in last or "}" in last:
            if problem := template_problem(last):
                raise ValueError(problem)
            if not above or above.endswith(":/"):
                raise ValueError(f"{path!r}: name a folder for the tables, such as /data/lake/{{event}}")
        return path

    @model_validator(mode="after")
    def _tables_have_a_template(self) -> Self:
        if self.tables is None and self.max_tables != type(self).model_fields["max_tables"].default:
            raise ValueError(
                "max_tables belongs to a path with a column in it, such as /data/lake/{event}: leave it out"
            )
        if self.deletes == "soft" and (self.snapshot == "daily" or self.tables is not None):
            where = "a path with a column in it" if self.tables is not None else "snapshot='daily'"
            raise ValueError(
                f"deletes='soft' is for one table that shows the newest snapshot, and not for {where}: leave one out"
            )
        return self
