"""Options of the OpenSearch sink."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from airflow_provider_connect.sink import Sink
from airflow_provider_connect.window import SourceKind


class OpenSearchOptions(Sink):
    """Options of :class:`~.sinks.opensearch.OpenSearchSink`, and names derived from them."""

    connection_types: ClassVar[dict[str, tuple[str, ...]]] = {"conn_id": ("http",)}

    conn_id: str = Field(default="opensearch_default", description="Airflow connection of type http.")
    alias: str = Field(
        description="Alias that readers search: lower-case letters, digits, '_', '-', '.'.",
        examples=["mixpanel_events"],
        pattern=r"^[a-z0-9][a-z0-9_.-]{0,99}$",
    )
    mode: Literal["alias"] = Field(
        default="alias", description="'alias' fills a new index for each publish, and switches the alias to it."
    )
    id_columns: tuple[str, ...] = Field(
        default=(),
        description="Columns whose values are the document's _id, such as record_key. Of rows with the same values in "
        "a day, the last one stays. Default: the row's position in its day.",
    )
    mapping: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Fields of the mapping that replace those of the columns: {'title': {'type': 'text'}}.",
    )
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Settings of new indices, such as {'number_of_replicas': 2}."
    )
    bulk_bytes: int = Field(
        default=5_000_000, ge=1_000, le=100_000_000, description="Largest body of a bulk request, in bytes."
    )
    bulk_documents: int = Field(default=5_000, ge=1, le=100_000, description="Most documents of a bulk request.")

    @field_validator("id_columns", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value

    @property
    def target(self) -> str:
        """Return connection and alias."""
        return f"{self.conn_id}/{self.alias}"

    @property
    def asset_uri(self) -> str:
        """Return the URI of the alias."""
        return f"opensearch://{self.target}"

    def kind_problems(self, kind: SourceKind) -> list[str]:
        """Refuse increments, whose days several runs fill."""
        return ["mode='alias' takes days and snapshots, no increments"] if kind == "increment" else []

    def replaces_whole(self, kind: SourceKind) -> bool:
        """Return True for snapshots."""
        return kind == "snapshot"
