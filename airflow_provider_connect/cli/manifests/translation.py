"""Translates a whole file: an Airbyte low-code manifest, or a rest_api config of dlt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.cli.manifests.connections import ConnectionDraft
from airflow_provider_connect.cli.manifests.dlt import DltTranslator, is_dlt_config
from airflow_provider_connect.cli.manifests.partitions import StreamDraft
from airflow_provider_connect.cli.manifests.remarks import Remarks, UntranslatableError, one_line
from airflow_provider_connect.cli.manifests.rules import translate_budget
from airflow_provider_connect.cli.manifests.settings import Settings
from airflow_provider_connect.cli.manifests.streams import StreamTranslator, stream_name
from airflow_provider_connect.cli.manifests.trees import apply_parameters, resolve_references
from airflow_provider_connect.errors import ConfigError

_MAJOR_VERSIONS = range(8)


@dataclass(frozen=True)
class TranslatedStream:
    """One stream of a file.

    :param options: declaration, with ``conn_id``.
    """

    name: str
    options: Mapping[str, Any]
    remarks: Remarks


@dataclass
class Translation:
    """All streams of a file.

    :param connections: by connection id.
    :param refused: reason by name of a stream without counterpart.
    """

    connections: dict[str, ConnectionDraft] = field(default_factory=dict)
    streams: list[TranslatedStream] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def translate(tree: dict[str, Any], conn_id: str, config: Mapping[str, Any]) -> Translation:
    """Return the streams of a file.

    :param conn_id: id of the first connection. Others receive a number.
    :param config: the user's values for a manifest's config.
    :raises ConfigError: the file is neither a manifest nor a rest_api config.
    """
    if is_dlt_config(tree):
        return _translate_dlt(tree, conn_id)
    return _translate_manifest(tree, conn_id, config)


def _translate_dlt(config: Mapping[str, Any], conn_id: str) -> Translation:
    translator = DltTranslator(config)
    collector = DraftCollector(conn_id)
    for name, resource in translator.resources():
        collector.add(name, lambda resource=resource: translator.translate(resource))  # type: ignore[misc]
    return collector.translation


def _translate_manifest(tree: dict[str, Any], conn_id: str, config: Mapping[str, Any]) -> Translation:
    _require_manifest(tree)
    manifest = apply_parameters(resolve_references(tree))
    specification = (manifest.get("spec") or {}).get("connection_specification") or {}
    translator = StreamTranslator(Settings(specification, config))
    collector = DraftCollector(conn_id)
    budget_remarks = Remarks()
    limits = translate_budget(manifest.get("api_budget"), budget_remarks)
    for name, stream, remark in _streams(manifest):
        collector.add(name, lambda stream=stream: translator.translate(stream), remark)  # type: ignore[misc]
    if limits:
        collector.limit(limits, budget_remarks)
    for dynamic in manifest.get("dynamic_streams") or ():
        dynamic_name = dynamic.get("name") if isinstance(dynamic, Mapping) else None
        collector.translation.refused[stream_name(dynamic_name or "dynamic_streams")] = (
            "its streams are made from the config or an answer. Declare each stream that you need"
        )
    if not collector.translation.streams and not collector.translation.refused:
        raise ConfigError("the manifest has no streams")
    return collector.translation


def _require_manifest(tree: Mapping[str, Any]) -> None:
    if tree.get("type") != "DeclarativeSource" and not (tree.get("version") and isinstance(tree.get("streams"), list)):
        raise ConfigError(
            "the file is neither an Airbyte manifest (type: DeclarativeSource) nor a dlt rest_api config (client and "
            "resources)"
        )
    major = str(tree.get("version", "")).partition(".")[0]
    if not major.isdecimal() or int(major) not in _MAJOR_VERSIONS:
        raise ConfigError(f"the manifest has version {one_line(str(tree.get('version')))!r}. Known are 0 to 7")


def _streams(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], str | None]]:
    for stream in manifest.get("streams") or ():
        if not isinstance(stream, Mapping):
            continue
        if stream.get("type") == "ConditionalStreams":
            for inner in stream.get("streams") or ():
                yield stream_name(inner.get("name")), inner, f"the stream exists if {stream.get('condition')}"
        else:
            yield stream_name(stream.get("name")), stream, None


class DraftCollector:
    """Collects the streams of a file, and gives each its connection."""

    def __init__(self, conn_id: str) -> None:
        self.translation = Translation()
        self._conn_id = conn_id

    def add(self, name: str, translate_stream: Callable[[], StreamDraft], remark: str | None = None) -> None:
        """Translate a stream, or keep the reason why it has no counterpart."""
        name = self._free_name(name)
        try:
            draft = translate_stream()
            conn_id = self._connect(draft)
        except UntranslatableError as error:
            self.translation.refused[name] = one_line(str(error))
            return
        except (TypeError, AttributeError, KeyError, ValueError):
            self.translation.refused[name] = "a part of it has another form than the manifest's schema allows"
            return
        if remark is not None:
            draft.remarks.check("stream", remark)
        options = {"conn_id": conn_id, **draft.as_options(), "stream": name}
        for level in _levels(draft.parent.stream if draft.parent else None):
            for inner in level.remarks:
                draft.remarks.check("parent", inner.text) if inner.kind == "check" else draft.remarks.gap(
                    "parent", inner.text
                )
        self.translation.streams.append(TranslatedStream(name, options, draft.remarks))

    def limit(self, limits: Mapping[str, Any], remarks: Remarks) -> None:
        """Add rate limits to all streams."""
        streams = self.translation.streams
        for number, stream in enumerate(streams):
            streams[number] = TranslatedStream(stream.name, {**stream.options, "limits": dict(limits)}, stream.remarks)
            for remark in remarks:
                stream.remarks.check(remark.section, remark.text)

    def _free_name(self, name: str) -> str:
        taken = {*(stream.name for stream in self.translation.streams), *self.translation.refused}
        free, number = name, 2
        while free in taken:
            free, number = f"{name}_{number}", number + 1
        return free

    def _connect(self, draft: StreamDraft) -> str:
        """Return the id of the stream's connection, which its parents share.

        :raises UntranslatableError: they need another one.
        """
        connection = draft.connection
        for parent in _levels(draft.parent.stream if draft.parent else None):
            if parent.connection.identity != connection.identity:
                raise UntranslatableError("its parent has another host or other credentials")
            connection.merge_credentials(parent.connection)
        connections = self.translation.connections
        for conn_id, known in connections.items():
            if known.identity == connection.identity:
                known.merge_credentials(connection)
                return conn_id
        conn_id = self._conn_id if not connections else f"{self._conn_id}_{len(connections) + 1}"
        connections[conn_id] = connection
        return conn_id


def _levels(draft: StreamDraft | None) -> Iterator[StreamDraft]:
    while draft is not None:
        yield draft
        draft = draft.parent.stream if draft.parent else None
