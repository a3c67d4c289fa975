"""Translates one stream of a manifest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_connect.cli.manifests.columns import Columns
from airflow_provider_connect.cli.manifests.connections import ConnectionDraft, fill_authentication
from airflow_provider_connect.cli.manifests.incremental import (
    TimeRange,
    day_options,
    feed_options,
    read_time_range,
    request_bounds,
)
from airflow_provider_connect.cli.manifests.paginators import translate_paging
from airflow_provider_connect.cli.manifests.partitions import StreamDraft, translate_parent, translate_values
from airflow_provider_connect.cli.manifests.records import (
    translate_columns,
    translate_decoder,
    translate_key,
    translate_place,
)
from airflow_provider_connect.cli.manifests.remarks import Remarks, UntranslatableError
from airflow_provider_connect.cli.manifests.requests import translate_request
from airflow_provider_connect.cli.manifests.rules import translate_errors
from airflow_provider_connect.cli.manifests.settings import Settings
from airflow_provider_connect.cli.manifests.texts import Scope, SecretError
from airflow_provider_connect.values.json.paths import path_steps

_MAX_PARENTS = 10


def stream_name(text: Any) -> str:
    """Return a name that ``RestSource`` accepts."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", str(text or "")).strip("_.-") or "stream"


@dataclass(frozen=True)
class StreamTranslator:
    """Translates the streams of one manifest."""

    settings: Settings

    def translate(self, stream: Mapping[str, Any]) -> StreamDraft:
        """Return one stream.

        :raises UntranslatableError: it has no counterpart.
        """
        try:
            return self._translate(stream, depth=0)
        except SecretError as error:
            raise UntranslatableError(
                f"it needs the secret config {error.setting.name!r} in an unusual place"
            ) from None

    def _translate(self, stream: Mapping[str, Any], depth: int) -> StreamDraft:
        if stream.get("type") == "StateDelegatingStream":
            stream = stream.get("incremental_stream") or {}
        retriever = stream.get("retriever") or {}
        _require_simple(retriever, depth)
        remarks = Remarks()
        draft = StreamDraft(stream_name(stream.get("name")), ConnectionDraft(""), remarks)
        draft.parent = translate_parent(
            retriever.get("partition_router"), lambda parent: self._translate(parent, depth + 1)
        )
        draft.values = translate_values(retriever.get("partition_router"), Scope(self.settings, remarks))
        scope = Scope(self.settings, remarks, draft.partitions)
        time_range = None if depth else read_time_range(stream.get("incremental_sync"), scope)
        if time_range is not None:
            scope.time_form = time_range.form
        elif depth and stream.get("incremental_sync"):
            remarks.check("snapshot", "as a parent it lists everything, so that no child is lost")
        self._fill(draft, stream, scope, time_range)
        return draft

    def _fill(self, draft: StreamDraft, stream: Mapping[str, Any], scope: Scope, time_range: TimeRange | None) -> None:
        retriever = stream["retriever"]
        requester = retriever.get("requester") or {}
        request = translate_request(requester, scope, draft.connection)
        fill_authentication(draft.connection, requester.get("authenticator"), self.settings)
        for option, column in draft.parent_options:
            request.put(option, f"{{parent.{column}}}")
        selects_day = time_range is not None and request_bounds(time_range, request)
        paging = translate_paging(retriever.get("paginator"), request, scope)
        place = translate_place(retriever.get("record_selector") or {}, scope, request.path)
        place |= translate_decoder(retriever.get("decoder") or {}, place)
        draft.columns, parent_columns = translate_columns(stream, scope)
        key = translate_key(stream, draft.columns, parent_columns, scope)
        if "unique" in paging:  # its repeats are noticed by a column
            name = draft.columns.require(path_steps(paging["field"]), "string")
            if key == [name]:
                del paging["unique"]
        bounds: dict[str, Any] = {}
        day: dict[str, Any] = {}
        if time_range is not None and selects_day:
            bounds, day = day_options(time_range, draft.columns, scope)
        elif time_range is not None and (feed := feed_options(time_range, draft.columns, scope)) is not None:
            selects_day, day = True, feed
        key = key_with_parents(key, draft, parent_columns)
        errors = translate_errors(requester.get("error_handler"), scope.remarks, has_parent=bool(draft.partitions))
        draft.options = {
            "stream": draft.name,
            "request": request.as_options(),
            **({"bounds": bounds} if bounds else {}),
            "paging": paging,
            "records": {**place, "key": key, **day},
            **({} if selects_day else {"snapshot": "replace"}),
            **({"parent_values": {n: list(v.values) for n, v in draft.values.items()}} if draft.values else {}),
            **({"parent_columns": parent_columns} if parent_columns else {}),
            **({"errors": errors} if errors else {}),
        }
        if time_range is not None and not selects_day:
            scope.remarks.check("snapshot", "the API selects no day, so each run replaces everything")


def _require_simple(retriever: Mapping[str, Any], depth: int) -> None:
    """Raise UntranslatableError for a retriever, decoder or depth without counterpart."""
    kind = retriever.get("type", "SimpleRetriever")
    if kind == "AsyncRetriever":
        raise UntranslatableError("it creates a job, waits for it and downloads its result")
    if kind != "SimpleRetriever" or not retriever.get("requester"):
        raise UntranslatableError(f"it is read by {retriever.get('class_name') or kind!r}")
    if depth > _MAX_PARENTS:
        raise UntranslatableError(f"it has more than {_MAX_PARENTS} levels of parents")


def key_with_parents(key: list[str], draft: StreamDraft, parent_columns: dict[str, str]) -> list[str]:
    """Return the key with the columns of the parents, because ids may be unique only within a parent."""
    parents = {} if draft.parent is None else {draft.parent.column: draft.parent.field}
    parents |= {name: values.field for name, values in draft.values.items()}
    for column, field in reversed(parents.items()):
        name = next((own for own, theirs in parent_columns.items() if theirs == column), None)
        if name is None:
            name = _free_name(stream_name(field).replace(".", "_").replace("-", "_"), draft.columns, parent_columns)
            parent_columns[name] = column
        draft.remarks.check("records", f"if ids are unique without it, remove {name!r} from the key")
        key = [name, *(own for own in key if own != name)]
    return key


def _free_name(name: str, columns: Columns, parent_columns: Mapping[str, str]) -> str:
    name = name if name[:1].isalpha() else f"parent_{name}"
    while name in columns or name in parent_columns:
        name = f"parent_{name}"
    return name
