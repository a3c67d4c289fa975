"""Translates a manifest's partition router to a parent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.cli.manifests.columns import Columns
from airflow_provider_connect.cli.manifests.connections import ConnectionDraft
from airflow_provider_connect.cli.manifests.remarks import Remarks, UntranslatableError

_REQUEST_TYPES = ("string", "bigint")


@dataclass
class StreamDraft:
    """One translated stream.

    :param options: of the declaration, without the columns.
    """

    name: str
    connection: ConnectionDraft
    remarks: Remarks
    columns: Columns = field(default_factory=Columns)
    options: dict[str, Any] = field(default_factory=dict)
    parent: Parent | None = None

    def as_options(self) -> dict[str, Any]:
        """Return the declaration, without ``conn_id``."""
        records = {**self.options["records"], "columns": self.columns.as_options()}
        options = {**self.options, "records": records}
        if self.parent is not None:
            options["parent"] = self.parent.stream.as_options()
        return options


@dataclass(frozen=True)
class Parent:
    """The parent of a stream.

    :param partitions: column of the parent, by path in the manifest's slice.
    :param request_options: where the request of a child sends a column, by ``RequestOption``.
    """

    stream: StreamDraft
    partitions: Mapping[tuple[str, ...], str]
    request_options: tuple[tuple[Mapping[str, Any], str], ...]
    field: str

    @property
    def column(self) -> str:
        """The parent's column that identifies the slice."""
        return self.partitions[(self.field,)]


def translate_parent(router: Any, translate: Callable[[Mapping[str, Any]], StreamDraft]) -> Parent | None:
    """Return the parent of a stream, or None if it has none.

    :param translate: translates the stream of the parents.
    :raises UntranslatableError: the router has no counterpart.
    """
    routers = router if isinstance(router, list) else [router]
    routers = [item for item in routers if isinstance(item, Mapping) and item]
    if not routers:
        return None
    if len(routers) > 1:
        raise UntranslatableError("it combines several lists of partitions")
    kind = routers[0].get("type", "SubstreamPartitionRouter")
    if kind == "ListPartitionRouter":
        raise UntranslatableError("it has static partitions. Declare a stream for each value")
    if kind != "SubstreamPartitionRouter":
        raise UntranslatableError(f"its partitions are listed by {routers[0].get('class_name') or kind!r}")
    configs = routers[0].get("parent_stream_configs") or []
    if len(configs) != 1 or not isinstance(configs[0], Mapping):
        raise UntranslatableError("it has several parents")
    config = configs[0]
    return _parent(config, translate(config.get("stream") or {}))


def _parent(config: Mapping[str, Any], parent: StreamDraft) -> Parent:
    name = str(config.get("partition_field") or "parent_id")
    column = request_column(parent.columns, tuple(str(config.get("parent_key")).split("/")))
    partitions: dict[tuple[str, ...], str] = {(name,): column}
    for steps in config.get("extra_fields") or ():
        path = tuple(map(str, steps)) if isinstance(steps, list) else (str(steps),)
        partitions["extra_fields", *path] = request_column(parent.columns, path)
    if parent.parent is not None:
        for path, grandparent_column in parent.parent.partitions.items():
            own_name = next(
                (
                    own
                    for own, theirs in parent.options.get("parent_columns", {}).items()
                    if theirs == grandparent_column
                ),
                None,
            )
            if own_name is not None:
                partitions["parent_slice", *path] = own_name
    option = config.get("request_option")
    request_options = ((option, column),) if isinstance(option, Mapping) and option else ()
    return Parent(parent, partitions, request_options, name)


def request_column(columns: Columns, steps: tuple[str, ...]) -> str:
    """Return a column of a type that a request can send."""
    name = columns.require(steps, "string")
    return name if columns.kind_of(steps) in _REQUEST_TYPES else columns.add(steps, "string")
