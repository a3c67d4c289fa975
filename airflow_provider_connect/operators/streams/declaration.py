"""Checks a source of many streams when Airflow reads the DAG file, by the example of one stream."""

from __future__ import annotations

from typing import Any, NamedTuple

from airflow.sdk import Asset, AssetAlias

from airflow_provider_connect.capabilities.source import HasQuota, ListsStreams
from airflow_provider_connect.config import has_template
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.arguments import AssetEvents, require_position_ledger, require_supported_kind
from airflow_provider_connect.operators.outlets import add_outlet, as_list
from airflow_provider_connect.sink import Sink
from airflow_provider_connect.source import Source


class ConnectorPair(NamedTuple):
    """Source and sink of one stream."""

    source: Source
    sink: Sink

    def require_fit(self) -> None:
        """Refuse a sink that cannot keep the source's kind of rows. Raises ConfigError."""
        require_position_ledger(self.source, self.sink)
        require_supported_kind(self.source, self.sink)


def example_pair(source: Source, sink: Sink) -> ConnectorPair:
    """Return source and sink of one stream: an example if the source has many, else the two themselves.

    :raises ConfigError: the sink would not keep the streams apart.
    """
    lister = source.capability(ListsStreams)
    if lister is None:
        return ConnectorPair(source, sink)
    if source.capability(HasQuota) is not None:
        raise ConfigError(f"source {source.name!r} has a quota, which many streams cannot share. Use a task for each")
    target = getattr(sink, sink.stream_option) if sink.stream_option else ""
    if has_template(target):
        return ConnectorPair(source, sink)
    if not sink.names_streams:
        option = f"{sink.stream_option}={target!r} of sink" if sink.stream_option else "sink"
        raise ConfigError(
            f"source {source.name!r} has many tables, and {option} {sink.name!r} has one target. Put {{table}} into it"
        )
    stream = lister.example_stream()
    return ConnectorPair(lister.stream_source(stream.choices[0]), sink.for_stream(stream.names))


def add_stream_outlet(
    outlets: Any, sink: Sink, asset: Asset | AssetAlias | None, events: AssetEvents
) -> tuple[list[Any], Asset | AssetAlias]:
    """Add the outlet of a task with many streams. Returns all outlets, and the added one.

    It is the user's asset or alias, else an alias for the assets of all streams, because Airflow accepts events of
    assets that a run finds only through an alias.

    :raises ConfigError: ``events`` asks for an event for each day, which a task with many streams does not emit.
    """
    if events == "day":
        raise ConfigError("asset_events='day' needs one asset, and each of many tables has its own. Leave it out")
    outlet = asset or AssetAlias(name=f"{sink.name}:{getattr(sink, sink.stream_option)}")
    if isinstance(outlet, Asset):
        return add_outlet(outlets, outlet)
    user_outlets = as_list(outlets)
    return (user_outlets if outlet in user_outlets else [*user_outlets, outlet]), outlet
