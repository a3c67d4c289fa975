"""Translates a manifest's selector, schema, transformations and keys to the records of a declaration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from airflow_provider_connect.cli.manifests.columns import Columns, columns_of_schema, pointer
from airflow_provider_connect.cli.manifests.expressions import Reference, read_whole
from airflow_provider_connect.cli.manifests.remarks import UntranslatableError
from airflow_provider_connect.cli.manifests.texts import Scope

_KEY_TYPES = ("string", "bigint", "timestamp", "date", "boolean")


def translate_place(selector: Mapping[str, Any], scope: Scope, path: str) -> dict[str, Any]:
    """Return location and layout of the records.

    :param path: of the request. If it ends with a parent's value, the answer is probably one object.
    :raises UntranslatableError: the records are extracted in another way.
    """
    extractor = selector.get("extractor") or {}
    if extractor.get("type", "DpathExtractor") != "DpathExtractor":
        raise UntranslatableError(f"records are extracted by {extractor.get('class_name') or extractor.get('type')!r}")
    steps = extractor.get("field_path") or []
    names = [scope.write_text(step, "records") for step in steps] if isinstance(steps, list) else [str(steps)]
    options: dict[str, Any] = {}
    expander = extractor.get("record_expander") or {}
    if expander:
        inner = [scope.write_text(step, "records") for step in expander.get("expand_records_from_field") or ()]
        names = [*names, *([] if names[-1:] == ["*"] else ["*"]), *inner, *([] if inner[-1:] == ["*"] else ["*"])]
        if expander.get("remain_original_record"):
            scope.remarks.gap("records", "fields of the record around the list. Name them in records.outer_fields")
    if names[-1:] == ["*"]:
        scope.remarks.check(
            "records", "the manifest reads each item of a list, or each entry of an object (layout: map)"
        )
        names = names[:-1]
        options = {"layout": "list" if names else "map"} | ({} if names else {"name_field": "entry_name"})
    elif "*" in names:
        scope.remarks.check("records", "the values there are read as objects. If they are lists, remove layout: object")
        options = {"layout": "object"}
    if selector.get("record_filter"):
        condition = (selector["record_filter"] or {}).get("condition", "custom code")
        scope.remarks.gap("records", f"the filter {condition}: all records are loaded. Filter them by SQL")
    if not options and not names and path.rstrip("/").endswith("}"):
        scope.remarks.check("records", "the path names one record, so the answer is read as one object")
        options = {"layout": "object"}
    elif not options:
        scope.remarks.check("records", "if the answer holds one object instead of a list, set layout: object")
    return ({"at": pointer(names)} if names else {}) | options


_FORMATS = {
    "JsonDecoder": "json", "IterableDecoder": "json", "JsonParser": "json", "JsonlDecoder": "json_lines",
    "JsonLineParser": "json_lines", "CsvDecoder": "csv", "CsvParser": "csv",
}  # fmt: skip


def translate_decoder(decoder: Mapping[str, Any], place: dict[str, Any]) -> dict[str, Any]:
    """Return the format of the answers. Removes the location of records from one that has only records.

    :raises UntranslatableError: the answers are decoded in another way.
    """
    inner = decoder.get("parser") if decoder.get("type") == "CompositeRawDecoder" else decoder
    kind = str(inner.get("type", "JsonDecoder")) if isinstance(inner, Mapping) else "None"
    form = _FORMATS.get(kind)
    if form is None or not isinstance(inner, Mapping):
        raise UntranslatableError(f"its answers are read by {decoder.get('class_name') or kind!r}")
    if form == "json":
        return {}
    place.clear()
    delimiter = str(inner.get("delimiter") or ",").replace("\\t", "\t")
    return {"format": form} | ({"delimiter": delimiter} if form == "csv" and delimiter != "," else {})


def translate_columns(stream: Mapping[str, Any], scope: Scope) -> tuple[Columns, dict[str, str]]:
    """Return the columns, and the columns with values of the parent: own name and parent's column."""
    columns = columns_of_schema(_schema(stream.get("schema_loader"), scope))
    parent_columns: dict[str, str] = {}
    for transformation in stream.get("transformations") or ():
        if not isinstance(transformation, Mapping):
            continue
        kind = transformation.get("type")
        if kind == "AddFields":
            for field in transformation.get("fields") or ():
                _add_field(field, columns, parent_columns, scope)
        elif kind == "RemoveFields":
            for steps in transformation.get("field_pointers") or ():
                columns.drop(tuple(map(str, steps)) if isinstance(steps, list) else (str(steps),))
            scope.remarks.check("records", "removed fields stay in the column document. Set undeclared: drop")
        else:
            name = transformation.get("class_name") or kind
            scope.remarks.gap("records", f"the transformation {name!r}: columns have the fields' names as sent")
    return columns, parent_columns


def _schema(loaders: Any, scope: Scope) -> Mapping[str, Any]:
    loader = loaders[0] if isinstance(loaders, list) and loaders else loaders
    if isinstance(loader, Mapping) and isinstance(loader.get("schema"), Mapping):
        schema: Mapping[str, Any] = loader["schema"]
        return schema
    scope.remarks.gap("records", "the manifest has no schema inside. Add columns for fields of the document")
    return {}


def _add_field(field: Any, columns: Columns, parent_columns: dict[str, str], scope: Scope) -> None:
    steps = tuple(map(str, field.get("path") or ())) if isinstance(field, Mapping) else ()
    value = read_whole(str(field.get("value"))) if steps else None
    if isinstance(value, Reference) and value.root == "record" and value.steps:
        columns.move(steps, value.steps)
        return
    parent_column = scope.partitions.get(value.steps) if isinstance(value, Reference) else None
    columns.mark_computed(steps)
    if parent_column is not None and len(steps) == 1 and steps[0].isidentifier():
        parent_columns[steps[0]] = parent_column
    elif re.search("now_|start_time|end_time", str(field.get("value"))):
        scope.remarks.check(
            "records", f"the time of the load, which the manifest adds as {'.'.join(steps)!r}, is no column"
        )
    elif steps:
        scope.remarks.gap("records", f"the added field {'.'.join(steps)!r}: {field.get('value')}")


def translate_key(
    stream: Mapping[str, Any], columns: Columns, parent_columns: Mapping[str, str], scope: Scope
) -> list[str]:
    """Return the names of the key's columns. Without a primary key, the most likely one."""
    names = []
    for steps in _key_fields(stream.get("primary_key")):
        if len(steps) == 1 and steps[0] in parent_columns:
            names.append(steps[0])
            continue
        if columns.is_computed(steps):
            scope.remarks.check("records", f"the manifest's key has {'.'.join(steps)!r}, which no record has")
            continue
        name = columns.require(steps, "string")
        if columns.kind_of(steps) not in _KEY_TYPES:
            columns.add(steps, "string")
        names.append(name)
    if names:
        return names
    likely = _likely_key(columns)
    if likely is None:
        likely = columns.require(("id",), "string")
    scope.remarks.check("records", f"the manifest has no primary key, so {likely!r} is a guess")
    return [likely]


def _key_fields(key: Any) -> Iterator[tuple[str, ...]]:
    for item in [key] if isinstance(key, str) else key if isinstance(key, list) else ():
        steps = tuple(map(str, item)) if isinstance(item, list) else (str(item),)
        if all(steps):
            yield steps


def _likely_key(columns: Columns) -> str | None:
    candidates = {
        name: steps for steps, name in columns.names().items() if columns.kind_of(steps) in ("string", "bigint")
    }
    for wanted in ("id", "uuid", "guid", "key", "code"):
        if match := next((name for name in candidates if name.lower() == wanted), None):
            return match
    by_ending = next((name for name in candidates if name.lower().endswith("id")), None)
    return by_ending or next(iter(candidates), None) or next(iter(columns.names().values()), None)
