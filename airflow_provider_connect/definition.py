"""Compares the definition of a stream with the one that its published days were loaded with.

Airflow's side makes the definition (:func:`definition_of`) from the options as the DAG file has them: a template that
is rendered otherwise each day is the same part each day. The driver adds the key that the source has found, and
compares (:func:`compare`) before anything is polled.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.ledger import LedgerRow
from airflow_provider_connect.source import Source
from airflow_provider_connect.stage.definition import StreamDefinition, digest_of, literal_part, plain_part

MASK_KEYS, MASKED = "mask keys", "masked"
"""Parts of the shapes: digests of the masks' keys, and the columns of the target that a mask makes."""
TRANSFORM = "transform"
"""Part of the narrowing: the task's transform, which may leave rows out as a condition of the source does."""
KEY_METADATA = b"key"
"""Metadata of a source's schema: JSON, a list of ``[column, class]`` for each column behind ``record_key``."""
EARLIER_KEY_METADATA = b"earlier_key"
"""The same of the key that an earlier version of this package made, where that was another one."""


class Comparison(NamedTuple):
    """What has changed between two definitions of a stream.

    :param refusals: changes that must not be published, each with the ways out.
    :param acceptable: changes that are refused until a person accepts them.
    :param notices: changes that are told, and that make earlier days differ from later ones.
    :param access: changes of host or login, which are told and leave the days as they are.
    """

    refusals: tuple[str, ...] = ()
    acceptable: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    access: tuple[str, ...] = ()


def definition_of(
    source: Source,
    written: Mapping[str, Any],
    connection: Connection,
    shapes: Sequence[Mapping[str, Any]] = (),
    keys: Mapping[str, str] = MappingProxyType({}),
    *,
    transform: str | None = None,
) -> StreamDefinition:
    """Return the definition of a stream as its options, connection and shapes say. No network.

    :param source: rendered, so that its kind and zone are known.
    :param written: its options as plain JSON, as the DAG file has them.
    :param shapes: as the DAG file has them, in the form of :meth:`.Chain.serialize`.
    :param keys: digests of the keys of masks, by position.
    :param transform: SQL as the DAG file has it, or the name of a function.
    """
    parts = {name: _value(written, name) for name in source.row_options}
    reading = {name: plain_part(parts[name]) for name, role in source.row_options.items() if role == "reading"}
    narrowing = {
        name: (literal_part if role == "condition" and parts[name] else plain_part)(parts[name])
        for name, role in source.row_options.items()
        if role != "reading"
    }
    zone = {} if {"zone", "project_timezone"} & reading.keys() else {"zone": source.timezone}
    of_connection = {name: plain_part(value) for name, value in source.connection_parts(connection).items()}
    return StreamDefinition(
        reading={"kind": source.kind, **zone, **reading, **of_connection},
        narrowing=narrowing | {TRANSFORM: "none" if transform is None else literal_part(transform)},
        access={"host": _shown_host(connection.host), "login": _login(connection)},
        shapes=_shape_parts(shapes, keys),
    )


def with_key(
    definition: StreamDefinition, metadata: Mapping[bytes, bytes] | None, entry: bytes = KEY_METADATA
) -> StreamDefinition:
    """Return a definition with the key that the source's schema names in an entry of its metadata."""
    text = (metadata or {}).get(entry)
    columns = () if text is None else tuple(f"{name}: {kind}" for name, kind in json.loads(text))
    return definition.model_copy(update={"key": columns})


def before_definitions(present: StreamDefinition, metadata: Mapping[bytes, bytes] | None) -> StreamDefinition | None:
    """Return the definition of days that were published before ledgers kept any; None if nothing is known to differ."""
    is_known = EARLIER_KEY_METADATA in (metadata or {})
    return with_key(present, metadata, EARLIER_KEY_METADATA) if is_known else None


def compare(
    published: StreamDefinition, present: StreamDefinition, *, is_same_task: bool, identifies_by_key: bool
) -> Comparison:
    """Compare the definition in force with an attempt's own. Pure.

    A part that only one of them has is no change: another version of this package did not know it.

    :param is_same_task: whether the same task published the newest day.
    :param identifies_by_key: whether the sink merges, compacts or keeps deleted rows by their key.
    """
    refusals, notices = [], []
    if published.key != present.key:
        text = f"the key was ({', '.join(published.key)}), and is ({', '.join(present.key)})"
        if identifies_by_key:
            refusals.append(
                f"{text}: the target would keep each row under both. Set key= as before, or name a new target"
            )
        else:
            notices.append(text)
    acceptable = _changes(published.reading, present.reading)
    rows = [*_changes(published.narrowing, present.narrowing), *_changes(published.shapes, present.shapes)]
    if is_same_task:
        notices += rows
    else:
        acceptable += rows  # also by a shape: two filters over one source would take each other's rows away
    return Comparison(
        tuple(refusals), tuple(acceptable), tuple(notices), tuple(_changes(published.access, present.access))
    )


def days_loaded_otherwise(
    rows: Sequence[LedgerRow], definitions: Mapping[str, StreamDefinition], present: StreamDefinition
) -> list[dt.date]:
    """Return the days that may have other rows than the present definition gives them. Pure.

    :param rows: rows without a definition are passed over: nothing is known of them.
    :param definitions: those that the ledger keeps, by digest.
    """
    others = {digest for digest, published in definitions.items() if _has_other_rows(published, present)}
    return [row.day for row in rows if row.definition in others]


def _has_other_rows(published: StreamDefinition, present: StreamDefinition) -> bool:
    changed = (
        _changes(getattr(published, name), getattr(present, name)) for name in ("reading", "narrowing", "shapes")
    )
    return any(changed)


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    both = [name for name in after if name in before and before[name] != after[name]]
    return [f"{name} was {before[name]}, and is {after[name]}" for name in both]


def _value(options: Mapping[str, Any], path: str) -> Any:
    """Return the option at a dotted path; None if an option on the way is not set."""
    value: Any = options
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _shape_parts(shapes: Sequence[Mapping[str, Any]], keys: Mapping[str, str]) -> dict[str, str]:
    kinds = " → ".join(name for shape in shapes for name in shape)
    chain = f"{kinds} #{digest_of(list(shapes))}" if shapes else "none"
    masked = {MASKED: ", ".join(names)} if (names := masked_columns(shapes)) else {}
    return {"shape": chain, MASK_KEYS: ", ".join(sorted(keys.values())) or "none", **masked}


def masked_columns(shapes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the columns of the target that a mask makes, sorted.

    :param shapes: as :meth:`.Chain.serialize` returns them, also before their templates are rendered.
    """
    masked: set[str] = set()
    for shape in shapes:
        for name, options in shape.items():
            columns = options.get("columns", ())
            if name == "mask" and not isinstance(columns, str):
                masked |= {*columns}
            elif name == "rename" and isinstance(columns, Mapping):
                masked = {columns.get(column, column) for column in masked}
            elif name == "drop":
                masked -= {*columns}
            elif name == "select":
                masked &= {*columns}
    return sorted(masked)


def _login(connection: Connection) -> str:
    """Return a digest of the login: vendors use it for account names and for keys alike."""
    return "none" if connection.login is None else f"#{digest_of(connection.login.get_secret_value())}"


def _shown_host(host: str | None) -> str:
    """Return a host or URL without user information, query and properties, which may hold credentials."""
    text = re.split(r"[?;#]", host or "", maxsplit=1)[0]
    return plain_part(re.sub(r"//[^/@]*@", "//", text))
