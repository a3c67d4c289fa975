"""Reads an OpenAPI 3 document: https://spec.openapis.org/oas/v3.1.0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources._rest.proposing.response_shape import Parameter, ResponseShape, pointer_to

_DEEPEST = 3
_MOST_REFERENCES = 50
_TYPES = {"integer": "bigint", "number": "double", "boolean": "boolean", "string": "string"}
_FORMATS = {"date-time": "timestamp", "date": "date"}


class OpenApi:
    """An OpenAPI 3 document, with references into the same file.

    :raises ConfigError: the document is not OpenAPI 3.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        if not str(document.get("openapi", "")).startswith("3") or not isinstance(document.get("paths"), dict):
            raise ConfigError("the file is not an OpenAPI 3 document: 'openapi: 3.…' and 'paths' are missing")
        self._document = document

    def describe_get(self, path: str) -> tuple[list[Parameter], ResponseShape]:
        """Return the query parameters of ``GET path``, and the structure of its answer.

        :raises ConfigError: the document lacks the request, or its answer has no list of objects.
        """
        paths = self._document["paths"]
        if path not in paths:
            raise ConfigError(f"the document has no path {path!r}; {suggest_nearest(path, paths)}")
        item = self._resolved(paths[path])
        operation = self._resolved(item.get("get"))
        if not operation:
            raise ConfigError(f"the document has no GET of {path!r}: declare it by hand")
        parameters = [
            self._resolved(parameter) for parameter in [*item.get("parameters", ()), *operation.get("parameters", ())]
        ]
        answers = [
            self._resolved(answer) for status, answer in operation.get("responses", {}).items() if _is_good(status)
        ]
        schemas = [schema for answer in answers if (schema := _json_schema(answer)) is not None]
        lists = [record_list for schema in schemas for record_list in self._lists(schema, ())]
        if not lists:
            raise ConfigError(f"the document has no list of objects in the answer of GET {path!r}: declare it by hand")
        names, fields = min(lists, key=lambda record_list: len(record_list[0]))
        shape = ResponseShape(
            at=pointer_to(*names) if names else "",
            columns={name: kind for name, schema in fields.items() if (kind := self._column(schema))},
            other_fields={
                field_path: kind for schema in schemas for field_path, kind in self._other_fields(schema, ())
            },
            has_next_link=any("link" in map(str.lower, answer.get("headers", {})) for answer in answers),
        )
        return [self._parameter(parameter) for parameter in parameters if parameter.get("in") == "query"], shape

    def _resolved(self, value: Any) -> dict[str, Any]:
        for _ in range(_MOST_REFERENCES):
            if not isinstance(value, dict) or not isinstance(value.get("$ref"), str):
                return value if isinstance(value, dict) else {}
            if not value["$ref"].startswith("#/"):
                raise ConfigError(f"the document refers to another one ({value['$ref']!r}): bundle both into one file")
            target: Any = self._document
            for name in value["$ref"][2:].split("/"):
                name = name.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901
                target = target.get(name) if isinstance(target, dict) else None
            value = target
        raise ConfigError("the document's references form a circle")

    def _properties(self, schema: Any) -> dict[str, Any]:
        resolved = self._resolved(schema)
        parts = [self._resolved(part) for part in resolved.get("allOf", ())]
        properties: dict[str, Any] = {}
        for part in [*parts, resolved]:
            if isinstance(part.get("properties"), dict):
                properties |= part["properties"]
        return properties

    def _lists(self, schema: Any, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
        resolved = self._resolved(schema)
        if "array" in _types(resolved):
            if fields := self._properties(resolved.get("items")):
                yield names, fields
        elif len(names) < _DEEPEST:
            for name, inner in self._properties(resolved).items():
                yield from self._lists(inner, (*names, name))

    def _other_fields(self, schema: Any, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for name, schema_of_field in self._properties(schema).items():
            inner = self._resolved(schema_of_field)
            types = _types(inner) - {"null"}
            if types & {"string", "integer", "number", "boolean"}:
                is_link = inner.get("format") in ("uri", "url", "uri-reference")
                yield pointer_to(*names, name), "link" if is_link else min(types)
            elif len(names) < _DEEPEST - 1 and "array" not in types:
                yield from self._other_fields(inner, (*names, name))

    def _column(self, schema: Any) -> str | None:
        resolved = self._resolved(schema)
        types = _types(resolved) - {"null"}
        if len(types) != 1:
            return None
        (kind,) = types
        return _FORMATS.get(resolved.get("format", ""), _TYPES.get(kind)) if kind == "string" else _TYPES.get(kind)

    def _parameter(self, parameter: dict[str, Any]) -> Parameter:
        schema = self._resolved(parameter.get("schema"))
        maximum = schema.get("maximum")
        return Parameter(
            name=str(parameter.get("name", "")),
            type=min(_types(schema) - {"null"}, default="string"),
            format=str(schema.get("format", "")),
            maximum=maximum if isinstance(maximum, int) else None,
        )


def _types(schema: dict[str, Any]) -> set[str]:
    declared = schema.get("type")
    return (
        {declared}
        if isinstance(declared, str)
        else {str(type_name) for type_name in declared}
        if isinstance(declared, list)
        else set()
    )


def _is_good(status: Any) -> bool:
    return str(status).upper() in ("200", "2XX", "DEFAULT")


def _json_schema(answer: dict[str, Any]) -> Any:
    content = answer.get("content", {})
    return next((media.get("schema") for kind, media in content.items() if "json" in kind), None)
