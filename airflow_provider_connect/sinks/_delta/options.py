"""The options of the Delta sink."""

from __future__ import annotations

import datetime as dt
import re
from typing import Literal

from pydantic import Field, field_validator

from airflow_provider_connect.config import Options
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.storage import normalised
from airflow_provider_connect.window import ONE_DAY, SourceKind

_SCHEMES = ("s3", "s3a", "gs", "abfss")
# delta-rs writes the log of such a path to one place and reads it from another.
_MISREAD = re.compile(r"\\|%[0-9A-Fa-f]{2}|[\x00-\x1f\x7f]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class DeltaOptions(Options):
    """What a user may set."""

    path: str = Field(
        description="Root of the table: an absolute path, or a URL (s3://, gs://, abfss://).",
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

    def replaces_whole(self, kind: SourceKind) -> bool:
        """Tell whether a publish takes the place of everything in the table, not of its own day alone."""
        return kind == "snapshot" and self.snapshot == "replace"

    @field_validator("path")
    @classmethod
    def _one_spelling(cls, path: str) -> str:
        given = path
        try:
            path = normalised(path)
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
        return path
