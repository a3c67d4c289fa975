"""Compares the definition of a stream with that of its published days."""

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
"""Names of two parts of the shapes: digests of the masks' keys, and masked columns of the target."""
KEY_METADATA = b"key"
"""Metadata of a source's schema: JSON list of ``[column, class]`` for each column of ``record_key``."""
EARLIER_KEY_METADATA = b"earlier_key"
"""Like :data:`KEY_METADATA`, for another key of an earlier version of this package."""
_USER = re.compile(r"//[^/@?#;]*@")
_MAY_BE_A_PASSWORD = re.compile(r"[^:]@")
"""An ``@`` that may end a password. None precedes it in ``jdbc:oracle:thin:@host``."""


class Comparison(NamedTuple):
    """Changes between two definitions of a stream, by consequence.

    :param acceptable: changes that a person must accept.
    :param notices: changes with a warning: earlier days may have other rows.
    :param access: changes of host or login, which do not affect rows.
    """

    refusals: tuple[str, ...] = ()
    acceptable: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    access: tuple[str, ...] = ()


def build_definition(
    source: Source,
    declared_options: Mapping[str, Any],
    connection: Connection,
    shapes: Sequence[Mapping[str, Any]] = (),
    mask_key_digests: Mapping[str, str] = MappingProxyType({}),
    *,
    transform: str | None = None,
) -> StreamDefinition:
    """Build the definition of a stream, without network.

    :param source: the source with rendered templates.
    :param transform: SQL of the DAG file, or the name of a function.
    """
    parts = {name: _value(declared_options, name) for name in source.row_options}
    reading = {name: plain_part(parts[name]) for name, role in source.row_options.items() if role == "reading"}
    narrowing = {
        name: (literal_part if role == "condition" and parts[name] else plain_part)(parts[name])
        for name, role in source.row_options.items()
        if role != "reading"
    }
    zone = {} if "zone" in reading else {"zone": source.timezone}
    of_connection = {name: plain_part(value) for name, value in source.connection_parts(connection).items()}
    return StreamDefinition(
        reading={"kind": source.kind, **zone, **reading, **of_connection},
        narrowing=narrowing,
        access={"host": _shown_host(connection.host), "login": _login(connection)},
        shapes={
            **_shape_parts(shapes, mask_key_digests),
            "transform": "none" if transform is None else literal_part(transform),
        },
    )


def add_key(
    definition: StreamDefinition, metadata: Mapping[bytes, bytes] | None, metadata_key: bytes = KEY_METADATA
) -> StreamDefinition:
    """Return the definition with the key from the metadata of the source's schema."""
    text = (metadata or {}).get(metadata_key)
    columns = () if text is None else tuple(f"{name}: {kind}" for name, kind in json.loads(text))
    return definition.model_copy(update={"key": columns})


def legacy_definition(present: StreamDefinition, metadata: Mapping[bytes, bytes] | None) -> StreamDefinition | None:
    """Return the definition of days older than the ledger's definitions, if their key is known to differ."""
    is_known = EARLIER_KEY_METADATA in (metadata or {})
    return add_key(present, metadata, EARLIER_KEY_METADATA) if is_known else None


def compare_definitions(
    published: StreamDefinition, present: StreamDefinition, *, is_same_task: bool, identifies_by_key: bool
) -> Comparison:
    """Compare the definition in force with the attempt's.

    :param is_same_task: True if the same task published the newest day.
    """
    refusals, notices = [], []
    if published.key != present.key:
        text = _key_change(published.key, present.key)
        if identifies_by_key and not present.key:
            refusals.append(f"{text}: the target identifies rows by it. Set key= to these columns")
        elif identifies_by_key:
            refusals.append(
                f"{text}: the target would keep each row twice, once by each key. Set key= as before, or name a new "
                "target"
            )
        else:
            notices.append(text)
    acceptable = _changes(published.reading, present.reading)
    narrowing = [
        *_changes(published.narrowing, present.narrowing),
        *_changes(published.shapes, present.shapes),  # filters and transforms leave rows out, too
    ]
    if is_same_task:
        notices += narrowing
    else:
        acceptable += narrowing
    return Comparison(
        tuple(refusals), tuple(acceptable), tuple(notices), tuple(_changes(published.access, present.access))
    )


def _key_change(earlier: Sequence[str], present: Sequence[str]) -> str:
    if not present:
        return f"rows have no key any more, it was ({', '.join(earlier)})"
    return f"the key was ({', '.join(earlier)}), and is ({', '.join(present)})"


def days_with_other_rows(
    rows: Sequence[LedgerRow], definitions: Mapping[str, StreamDefinition], present: StreamDefinition
) -> list[dt.date]:
    """Return the days loaded with a definition that may give other rows than the present one.

    :param rows: those without a definition are skipped.
    """
    other_digests = {digest for digest, published in definitions.items() if _has_other_rows(published, present)}
    return [row.day for row in rows if row.definition in other_digests]


def _has_other_rows(published: StreamDefinition, present: StreamDefinition) -> bool:
    changed = (
        _changes(getattr(published, name), getattr(present, name)) for name in ("reading", "narrowing", "shapes")
    )
    return any(changed)


def _changes(earlier: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    changed_names = [name for name in present if name in earlier and earlier[name] != present[name]]
    return [f"{name} was {earlier[name]}, and is {present[name]}" for name in changed_names]


def _value(options: Mapping[str, Any], path: str) -> Any:
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
    """Return the sorted target names of columns that a mask creates."""
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
    return "none" if connection.login is None else f"#{digest_of(connection.login.get_secret_value())}"


def _shown_host(host: str | None) -> str:
    text = _USER.sub("//", host or "")
    without_query = re.split(r"[?;#]", text, maxsplit=1)[0]
    return "not shown" if _MAY_BE_A_PASSWORD.search(text) or "=" in without_query else plain_part(without_query)
