"""Translates a rest_api config of dlt: a client, defaults and resources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_connect.cli.manifests.connections import ConnectionDraft
from airflow_provider_connect.cli.manifests.dlt_parts import (
    dlt_column_type,
    dlt_pointer,
    fill_dlt_authentication,
    translate_dlt_paging,
)
from airflow_provider_connect.cli.manifests.incremental import TimeRange, day_options
from airflow_provider_connect.cli.manifests.partitions import Parent, StreamDraft, request_column
from airflow_provider_connect.cli.manifests.records import translate_key
from airflow_provider_connect.cli.manifests.remarks import Remarks, UntranslatableError
from airflow_provider_connect.cli.manifests.requests import RequestDraft
from airflow_provider_connect.cli.manifests.settings import Settings
from airflow_provider_connect.cli.manifests.streams import key_with_parents, stream_name
from airflow_provider_connect.cli.manifests.texts import Scope

_RESOURCE = re.compile(r"\{resources\.([A-Za-z0-9_]+)\.([^{}]+)\}")
_RANGE = re.compile(r"\{incremental\.(start_value|last_value|initial_value|end_value)\}")
_MAX_PARENTS = 10


def is_dlt_config(tree: Mapping[str, Any]) -> bool:
    """Return True for a rest_api config."""
    return isinstance(tree.get("client"), Mapping) and isinstance(tree.get("resources"), list)


@dataclass(frozen=True)
class DltTranslator:
    """Translates the resources of one config."""

    config: Mapping[str, Any]

    def resources(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the name of each resource, and its fields laid over the defaults."""
        defaults = self.config.get("resource_defaults")
        for resource in self.config["resources"]:
            fields = {"name": resource} if isinstance(resource, str) else resource
            if isinstance(fields, Mapping):
                merged = _merged(_with_endpoint(defaults or {}), _with_endpoint(fields))
                yield stream_name(fields.get("name") or merged["endpoint"].get("path")), merged

    def translate(self, resource: Mapping[str, Any], *, depth: int = 0) -> StreamDraft:
        """Return one resource.

        :raises UntranslatableError: it has no counterpart.
        """
        return _ResourceTranslation(self, resource, depth).translate()

    def parent(self, name: str, depth: int) -> StreamDraft:
        """Return the resource of the parents.

        :raises UntranslatableError: the config lacks it.
        """
        resource = dict(self.resources()).get(stream_name(name))
        if resource is None or depth > _MAX_PARENTS:
            raise UntranslatableError(f"its parent {name!r} is no resource, or the parents form a circle")
        return self.translate(resource, depth=depth)


def _with_endpoint(fields: Mapping[str, Any]) -> dict[str, Any]:
    endpoint = fields.get("endpoint")
    path = {} if endpoint is not None or "name" not in fields else {"path": fields["name"]}
    return {**fields, "endpoint": {"path": endpoint} if isinstance(endpoint, str) else {**path, **(endpoint or {})}}


def _merged(defaults: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**defaults, **fields}
    for name in ("endpoint", "params"):
        if isinstance(defaults.get(name), Mapping) and isinstance(fields.get(name), Mapping):
            merged[name] = _merged(defaults[name], fields[name])
    return merged


class _ResourceTranslation:
    def __init__(self, translator: DltTranslator, resource: Mapping[str, Any], depth: int) -> None:
        self._translator = translator
        self._resource = resource
        self._endpoint: Mapping[str, Any] = resource["endpoint"]
        self._depth = depth
        self._draft = StreamDraft(stream_name(resource.get("name")), ConnectionDraft(""), Remarks())
        self._cursor: dict[str, Any] = dict(self._endpoint.get("incremental") or {})

    def translate(self) -> StreamDraft:
        client, draft = self._translator.config["client"], self._draft
        fill_dlt_authentication(draft.connection, client.get("auth"))
        request = self._request(client)
        time_range = self._time_range(request)
        paginator = self._endpoint.get("paginator") or client.get("paginator")
        paging = translate_dlt_paging(paginator, request.params, draft.remarks)
        scope = Scope(Settings({}, {}), draft.remarks)
        hints = self._resource.get("columns")
        for name, hint in hints.items() if isinstance(hints, Mapping) else ():
            draft.columns.add((str(name),), dlt_column_type(hint))
        parent_columns = self._parent_columns()
        key = translate_key(self._resource, draft.columns, parent_columns, scope)
        if draft.parent is not None:
            key = key_with_parents(key, draft, parent_columns)
        bounds, day = (None, {}) if time_range is None else day_options(time_range, draft.columns, scope)
        errors = self._errors()
        draft.options = {
            "stream": draft.name,
            "request": request.as_options(),
            **({"bounds": bounds} if bounds else {}),
            "paging": paging,
            "records": {**self._place(), "key": key, **day},
            **({} if time_range else {"snapshot": "replace"}),
            **({"parent_columns": parent_columns} if parent_columns else {}),
            **({"errors": errors} if errors else {}),
        }
        return draft

    def _request(self, client: Mapping[str, Any]) -> RequestDraft:
        path = str(self._endpoint.get("path") or "")
        method = str(self._endpoint.get("method") or "GET").upper()
        if method not in ("GET", "POST"):
            raise UntranslatableError(f"requests by {method} have no counterpart")
        params = {str(name): value for name, value in (self._endpoint.get("params") or {}).items()}
        written = {name: self._write(value, name) for name, value in params.items()}
        for name, value in params.items():
            if f"{{{name}}}" in path and isinstance(value, Mapping):
                path = path.replace(f"{{{name}}}", str(written.pop(name)))
        path = str(self._write(path, "path"))
        base = str(client.get("base_url") or "").rstrip("/")
        parts = urlsplit(path if "://" in path else f"{base}/{path.lstrip('/')}")
        if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc:
            raise UntranslatableError("its base_url is no http URL")
        self._draft.connection.host = f"https://{parts.netloc}"
        request = RequestDraft(self._draft.connection.host, parts.path or "/", method)
        request.params = {name: value for name, value in written.items() if value is not None}
        request.body = self._write(self._endpoint.get("json"), "json")
        names = [name for name in client.get("headers") or {} if name.lower() not in ("accept", "content-type")]
        for name in names:
            self._draft.connection.add_credential("header", str(name), "FILL_IN", "client.headers")
        return request

    def _write(self, value: Any, name: str) -> Any:
        """Return a value with placeholders."""
        if isinstance(value, Mapping) and value.get("type") == "resolve":
            return f"{{parent.{self._parent_column(str(value.get('resource')), str(value.get('field')))}}}"
        if isinstance(value, Mapping) and value.get("type") == "incremental":
            self._cursor = {"start_param": name, **value}
            return None
        if isinstance(value, Mapping):
            return {key: self._write(item, name) for key, item in value.items()}
        if isinstance(value, list):
            return [self._write(item, name) for item in value]
        if not isinstance(value, str):
            return value
        text = _RESOURCE.sub(lambda match: f"{{parent.{self._parent_column(match[1], match[2])}}}", value)
        return _RANGE.sub(lambda match: "{day.end}" if match[1] == "end_value" else "{day.start}", text)

    def _parent_column(self, resource: str, field: str) -> str:
        draft = self._draft
        if draft.parent is None:
            parent = self._translator.parent(resource, self._depth + 1)
            draft.parent = Parent(
                parent, {(field,): request_column(parent.columns, tuple(field.split(".")))}, (), field
            )
        elif draft.parent.stream.name != stream_name(resource):
            raise UntranslatableError("it has several parents")
        return request_column(draft.parent.stream.columns, tuple(field.split(".")))

    def _parent_columns(self) -> dict[str, str]:
        names = self._resource.get("include_from_parent") or ()
        if not names or self._draft.parent is None:
            return {}
        parent = self._draft.parent.stream
        return {f"_{parent.name}_{name}": request_column(parent.columns, (str(name),)) for name in names}

    def _time_range(self, request: RequestDraft) -> TimeRange | None:
        cursor = self._cursor
        if not cursor:
            return None
        if self._depth:
            self._draft.remarks.check("snapshot", "as a parent it lists everything, so that no child is lost")
            return None
        for name, edge in (("start_param", "start"), ("end_param", "end")):
            if cursor.get(name):
                request.params[str(cursor[name])] = f"{{day.{edge}}}"
        if "{day." not in str(request.as_options()):
            return None
        form = _form_of(cursor.get("initial_value"))
        steps = tuple(dlt_pointer(cursor.get("cursor_path") or "").lstrip("/").split("/"))
        self._draft.remarks.check("bounds", f"the time format {form!r} is a guess by initial_value")
        return TimeRange(form, steps, form if form.startswith("epoch") else "iso", {})

    def _place(self) -> dict[str, Any]:
        selector = self._endpoint.get("data_selector")
        if selector is None:
            self._draft.remarks.check("records", "dlt finds the list of records itself. If it is in a field, set at")
            return {}
        at = dlt_pointer(selector)
        return {"at": at} if at else {}

    def _errors(self) -> list[dict[str, Any]]:
        rules = []
        for action in self._endpoint.get("response_actions") or ():
            status = action.get("status_code") if isinstance(action, Mapping) else None
            if status is not None and action.get("action") == "ignore" and self._draft.parent is not None:
                rules.append({"status": [int(status)], "then": "ignore"})
            else:
                self._draft.remarks.check(
                    "errors", "a response_action is left out, so that such an answer fails the day"
                )
        return rules


def _form_of(value: Any) -> str:
    text = str(value or "")
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return "date"
    return ("epoch_ms" if len(text) > 10 else "epoch_s") if text.isdecimal() else "iso"
