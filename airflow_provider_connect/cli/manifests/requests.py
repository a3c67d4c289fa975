"""Translates a manifest's requester to a request, and splits its address into connection and path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from airflow_provider_connect.cli.manifests.connections import ConnectionDraft, masked_text
from airflow_provider_connect.cli.manifests.remarks import UntranslatableError
from airflow_provider_connect.cli.manifests.texts import LeftOutError, Scope, SecretError

_LOCATIONS = {"params": "query", "headers": "header", "body": "body", "form": "body"}
_OPTION_PARTS = {"request_parameter": "params", "header": "headers", "body_json": "body", "body_data": "form"}


@dataclass
class RequestDraft:
    """The request of one stream.

    :param host: scheme and name, for the connection.
    """

    host: str
    path: str
    method: str = "GET"
    params: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    form: dict[str, str] | None = None

    def put(self, option: Mapping[str, Any], value: Any) -> None:
        """Set a value where a ``RequestOption`` names it.

        :raises UntranslatableError: the option names no place.
        """
        part, steps = option_place(option)
        if part == "params":
            self.params[steps[0]] = value
        elif part == "headers":
            self.headers[steps[0]] = str(value)
        elif part == "form":
            self.form = {**(self.form or {}), steps[0]: str(value)}
        else:
            self.body = _put(self.body, steps, value)

    def as_options(self) -> dict[str, Any]:
        """Return the request as an option of the declaration.

        :raises UntranslatableError: it sends a body by GET, or two.
        """
        options: dict[str, Any] = {"path": self.path}
        bodies = [body for body in (self.body, self.form) if body is not None]
        if len(bodies) > (self.method == "POST"):
            raise UntranslatableError("it sends a body by GET" if self.method == "GET" else "it sends two bodies")
        if self.method != "GET":
            options["method"] = self.method
        for name in ("params", "headers"):
            if values := getattr(self, name):
                options[name] = values
        if self.form is not None:
            options["form"] = self.form
        elif self.body is not None:
            options["body"] = self.body
        return options


def option_place(option: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the part of the request that a ``RequestOption`` names, and the path in it.

    :raises UntranslatableError: it names none.
    """
    part = _OPTION_PARTS.get(str(option.get("inject_into")))
    path = option.get("field_path")
    steps = tuple(map(str, path)) if isinstance(path, list) and path else (str(option.get("field_name") or ""),)
    if part is None or not all(steps):
        raise UntranslatableError(f"an option of the request is injected into {option.get('inject_into')!r}")
    return part, steps


def _put(document: Any, steps: tuple[str, ...], value: Any) -> Any:
    if not steps:
        return value
    container = document if isinstance(document, dict) else {}
    return {**container, steps[0]: _put(container.get(steps[0]), steps[1:], value)}


def translate_request(requester: Mapping[str, Any], scope: Scope, connection: ConnectionDraft) -> RequestDraft:
    """Return the request. Its secrets go to the connection.

    :raises UntranslatableError: the address or the method has no counterpart.
    """
    if requester.get("type", "HttpRequester") != "HttpRequester":
        raise UntranslatableError(f"requests are made by custom code, {requester.get('class_name', '')!r}")
    method = str(requester.get("http_method") or "GET").upper()
    if method not in ("GET", "POST"):
        raise UntranslatableError(f"requests by {method} have no counterpart")
    host, path, query = _address(requester, scope)
    connection.host = host
    request = RequestDraft(host, path, method, params=_grouped(query))
    fill = _Fields(scope, connection)
    request.params |= fill.params(requester.get("request_parameters"))
    request.headers = {name: str(value) for name, value in fill.mapping("headers", requester.get("request_headers"))}
    request.headers = {name: text for name, text in request.headers.items() if name.lower() != "content-type"}
    _fill_body(request, requester, fill)
    if requester.get("query_properties") or requester.get("fetch_properties_from_endpoint"):
        scope.remarks.gap("request", "properties of the query that another request lists")
    return request


def _address(requester: Mapping[str, Any], scope: Scope) -> tuple[str, str, list[tuple[str, str]]]:
    base, path = requester.get("url_base") or requester.get("url") or "", requester.get("path") or ""
    try:
        base, path = scope.write_text(base, "connection"), scope.write_text(path, "request")
    except SecretError as error:
        raise UntranslatableError(f"its address holds the secret config {error.setting.name!r}") from None
    base, path = base.strip().strip("\"'"), path.strip().strip("\"'")  # expressions may print quotes around their text
    url = path if "://" in path else f"{base.rstrip('/')}/{path.lstrip('/')}" if path else base
    try:
        parts = urlsplit(url)
        name = parts.netloc
    except ValueError:
        raise UntranslatableError("its address is no URL") from None
    if not name or parts.scheme not in ("http", "https") or "{" in name or "@" in name:
        raise UntranslatableError("its host is not known before the request")
    if parts.scheme == "http":
        scope.remarks.check("connection", "the manifest uses plain http. The connection uses https")
    # The parent's value may be the whole address of its children.
    path = parts.path[1:] if re.fullmatch(r"/\{parent\.\w+\}", parts.path) else parts.path or "/"
    return f"https://{name}", path, parse_qsl(parts.query, keep_blank_values=True)


def _fill_body(request: RequestDraft, requester: Mapping[str, Any], fill: _Fields) -> None:
    typed = requester.get("request_body")
    sources = {"body": requester.get("request_body_json"), "form": requester.get("request_body_data")}
    if isinstance(typed, Mapping):
        kind = str(typed.get("type"))
        sources["form" if kind == "RequestBodyUrlEncodedForm" else "body"] = typed.get("value")
        if kind == "RequestBodyPlainText":
            raise UntranslatableError("its body is plain text")
    if sources["body"]:
        request.body = fill.body(sources["body"])
    form = sources["form"]
    if isinstance(form, Mapping):
        request.form = {name: str(value) for name, value in fill.mapping("form", form)}
    elif form:
        raise UntranslatableError("its body is text")


class _Fields:
    """Writes the fields of a request. A secret becomes a named credential of the connection."""

    def __init__(self, scope: Scope, connection: ConnectionDraft) -> None:
        self._scope = scope
        self._connection = connection

    def params(self, values: Any) -> dict[str, Any]:
        if isinstance(values, str):
            values = _grouped(parse_qsl(self._scope.write_text(values, "request"), keep_blank_values=True))
        return {name: _param(value) for name, value in self.mapping("params", values)}

    def mapping(self, part: str, values: Any) -> list[tuple[str, Any]]:
        """Return names and written values, without those that are left out."""
        pairs = []
        for name, value in values.items() if isinstance(values, Mapping) else ():
            written = self._written(part, (str(name),), value)
            if written is not None:
                pairs.append((self._scope.write_text(str(name), "request"), written))
        return pairs

    def body(self, value: Any) -> Any:
        if isinstance(value, str):
            text = self._scope.write_text(value, "request")
            try:
                return json.loads(text)
            except ValueError:
                raise UntranslatableError("its body is a text that is not JSON") from None
        return self._written("body", (), value)

    def _written(self, part: str, steps: tuple[str, ...], value: Any) -> Any:
        if isinstance(value, Mapping):
            items = {str(name): self._written(part, (*steps, str(name)), item) for name, item in value.items()}
            return {name: item for name, item in items.items() if item is not None}
        if isinstance(value, list):
            return [item for item in (self._written(part, steps, item) for item in value) if item is not None]
        try:
            return self._scope.write(value, "request")
        except LeftOutError as error:
            if str(error):
                self._scope.remarks.gap("request", f"{part}.{'.'.join(steps)} is left out: {error}")
        except SecretError as error:
            name = steps[0] if len(steps) == 1 else "/" + "/".join(steps)
            self._connection.add_credential(
                _LOCATIONS[part], name, masked_text(value), f"config {error.setting.name!r}"
            )
        return None


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the fields of a query. A repeated name has a list."""
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def _param(value: Any) -> Any:
    if isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(item, dict | list) for item in value)):
        return json.dumps(value, ensure_ascii=False)
    return value
