"""Source and sink of a task, identified by the names of their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from airflow_provider_connect import offsets
from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.registry import names, sink_class, source_class
from airflow_provider_connect.sink import Sink
from airflow_provider_connect.source import Source


@dataclass(frozen=True)
class ConnectorPair:
    """Source and sink of a task, None if unidentified."""

    source: Source | None = None
    sink: Sink | None = None

    @property
    def timezone(self) -> str | None:
        """Zone of the source's days."""
        return None if self.source is None else self.source.timezone

    @property
    def replaces_whole(self) -> bool:
        """True if a publish replaces the whole target."""
        return self.source is not None and self.sink is not None and self.sink.replaces_whole(self.source.kind)

    @property
    def follows(self) -> bool:
        """True if the source reads increments."""
        return self.source is not None and self.source.kind == "increment"

    @property
    def offset_key(self) -> str | None:
        """Name of the offset's Variable. None if a connector is unknown."""
        if self.source is None or self.sink is None:
            return None
        return offsets.variable_key(self.source, self.sink)


def connectors_of(fields: Mapping[str, Any]) -> ConnectorPair:
    """Identify source and sink from a task instance's rendered fields."""
    return ConnectorPair(
        _build_connector("sources", fields.get("source")), _build_connector("sinks", fields.get("sink"))
    )


def _build_connector(room: str, options: Any) -> Any:
    if not isinstance(options, Mapping):
        return None  # truncated by Airflow, or not rendered yet
    matching = [cls for cls in _classes(room) if cls.model_fields.keys() == options.keys()]
    if len(matching) != 1:
        return None
    try:
        connector = matching[0].from_options(dict(options))
        # Computed from options that Airflow may have masked. Later reads of these must not fail.
        _ = (
            (connector.stream_key, connector.timezone, connector.kind)
            if isinstance(connector, Source)
            else (connector.target,)
        )
    except (ConnectError, ValueError, TypeError, AttributeError):
        return None
    return connector


@cache
def _classes(room: str) -> tuple[type[Any], ...]:
    class_of: Any = source_class if room == "sources" else sink_class
    classes = []
    for name in names(room):
        try:
            classes.append(class_of(name))
        except (ConnectError, ImportError):
            continue  # a connector of another package that cannot be loaded here
    return tuple(classes)
