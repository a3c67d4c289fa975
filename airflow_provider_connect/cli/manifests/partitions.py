"""Translates a manifest's partition router to a parent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.cli.manifests.columns import Columns
from airflow_provider_connect.cli.manifests.connections import ConnectionDraft
from airflow_provider_connect.cli.manifests.remarks import Remarks, UntranslatableError
from airflow_provider_connect.cli.manifests.texts import LeftOutError, Scope, SecretError

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
    values: dict[str, DeclaredValues] = field(default_factory=dict)

    @property
    def partitions(self) -> dict[tuple[str, ...], str]:
        """Column of the parents, by path in the manifest's slice."""
        columns = dict(self.parent.partitions) if self.parent is not None else {}
        return columns | {(values.field,): name for name, values in self.values.items()}

    @property
    def parent_options(self) -> list[tuple[Mapping[str, Any], str]]:
        """Where a request sends a column of the parents, by ``RequestOption``."""
        options = list(self.parent.request_options) if self.parent is not None else []
        return options + [(values.option, name) for name, values in self.values.items() if values.option]

    def as_options(self) -> dict[str, Any]:
        """Return the declaration, without ``conn_id``."""
        records = {**self.options["records"], "columns": self.columns.as_options()}
        options = {**self.options, "records": records}
        if self.parent is not None:
            options["parent"] = self.parent.stream.as_options()
        return options


@dataclass(frozen=True)
class DeclaredValues:
    """A static list of partitions.

    :param field: name of the slice's field in the manifest.
    """

    field: str
    values: tuple[str | int, ...]
    option: Mapping[str, Any]


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


def translate_values(router: Any, scope: Scope) -> dict[str, DeclaredValues]:
    """Return the static lists of partitions, by name for ``parent_values``.

    :raises UntranslatableError: a list is not known before the request.
    """
    lists: dict[str, DeclaredValues] = {}
    for item in _routers(router):
        if item.get("type") != "ListPartitionRouter":
            continue
        field_name = scope.write_text(item.get("cursor_field") or "partition", "parent_values")
        name = re.sub(r"\W", "_", field_name, flags=re.ASCII)
        declared = item.get("values")
        values = [declared] if isinstance(declared, str) else list(declared or ())
        try:
            written = [scope.write(value, "parent_values") for value in values]
        except (LeftOutError, SecretError):
            raise UntranslatableError("its static partitions are known only to your config") from None
        written = list(written[0]) if len(written) == 1 and isinstance(written[0], list) else written
        texts = tuple(dict.fromkeys(value if type(value) is int else str(value) for value in written))
        if len({type(text) for text in texts}) > 1:
            texts = tuple(map(str, texts))
        lists[name] = DeclaredValues(field_name, texts, item.get("request_option") or {})
    return lists


def _routers(router: Any) -> list[Mapping[str, Any]]:
    routers = router if isinstance(router, list) else [router]
    return [item for item in routers if isinstance(item, Mapping) and item]


def translate_parent(router: Any, translate: Callable[[Mapping[str, Any]], StreamDraft]) -> Parent | None:
    """Return the source of a stream's parents, or None if it has none.

    :param translate: translates the stream of the parents.
    :raises UntranslatableError: the router has no counterpart.
    """
    routers = [item for item in _routers(router) if item.get("type") != "ListPartitionRouter"]
    if not routers:
        return None
    if len(routers) > 1:
        raise UntranslatableError("it combines several lists of partitions")
    kind = routers[0].get("type", "SubstreamPartitionRouter")
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
    for path, grandparent_column in parent.partitions.items():
        copies = parent.options.get("parent_columns", {}).items()
        own_name = next((own for own, theirs in copies if theirs == grandparent_column), None)
        if own_name is not None:
            partitions["parent_slice", *path] = own_name
    option = config.get("request_option")
    request_options = ((option, column),) if isinstance(option, Mapping) and option else ()
    return Parent(parent, partitions, request_options, name)


def request_column(columns: Columns, steps: tuple[str, ...]) -> str:
    """Return a column of a type that a request can send."""
    name = columns.require(steps, "string")
    return name if columns.kind_of(steps) in _REQUEST_TYPES else columns.add(steps, "string")
