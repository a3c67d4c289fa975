"""Small manifests of our own, and an API that serves their shapes."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

from airflow_provider_connect import registry
from airflow_provider_connect.cli.declarations import accepted_streams
from airflow_provider_connect.cli.manifests.translation import Translation, translate
from airflow_provider_connect.cli.manifests.writing import stream_yaml
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.testing.polls import poll
from airflow_provider_connect.window import Day
from tests.equipment.rest_api.server import Answer, Request, RestApi

DAY = Day(date=dt.date(2026, 3, 1))
ROWS = [{"id": number, "at": f"2026-03-01T0{number}:00:00Z", "token": f"t{number}"} for number in range(7)]
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}}


def option(name: str, place: str = "request_parameter") -> dict[str, Any]:
    return {"type": "RequestOption", "inject_into": place, "field_name": name}


def paged(strategy: dict[str, Any], token: dict[str, Any] | None, size: dict[str, Any] | None = None) -> dict[str, Any]:
    fields = {"page_token_option": token, "page_size_option": size}
    return {"type": "DefaultPaginator", "pagination_strategy": strategy} | {k: v for k, v in fields.items() if v}


def stream(name: str = "things", **parts: Any) -> dict[str, Any]:
    """Return a stream. The requester, path, field_path, paginator and router belong to its retriever."""
    requester = {"type": "HttpRequester", "url_base": "https://api.example.com", "path": parts.pop("path", "/things")}
    extractor = {"type": "DpathExtractor", "field_path": parts.pop("field_path", ["data"])}
    retriever = {
        "type": "SimpleRetriever",
        "requester": requester | parts.pop("requester", {}),
        "record_selector": {"type": "RecordSelector", "extractor": extractor} | parts.pop("selector", {}),
        "paginator": parts.pop("paginator", None),
        "partition_router": parts.pop("router", None),
    }
    loader = {"type": "InlineSchemaLoader", "schema": parts.pop("schema", SCHEMA)}
    fields = {"type": "DeclarativeStream", "name": name, "primary_key": ["id"], "schema_loader": loader}
    return fields | {"retriever": retriever} | parts


def manifest(*streams: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"version": "6.0.0", "type": "DeclarativeSource", "streams": list(streams)} | fields


def translated(tree: dict[str, Any], **config: Any) -> Translation:
    return accepted_streams(translate(json.loads(json.dumps(tree)), "api", config))


def options_of(tree: dict[str, Any], **config: Any) -> dict[str, Any]:
    """Return the declaration of the only stream, which must be accepted."""
    translation = translated(tree, **config)
    assert not translation.refused
    (only,) = translation.streams
    return dict(only.options)


def remarks_of(tree: dict[str, Any]) -> list[str]:
    return [f"{remark.kind} {remark.section}: {remark.text}" for remark in translated(tree).streams[0].remarks]


def loaded(tree: dict[str, Any], serve: Any, folder: Path) -> list[Any]:
    """Write the last stream's file, load it from an API that answers by ``serve``, and return the ids."""
    translation = translated(tree)
    assert not translation.refused
    (folder / "things.yaml").write_text(stream_yaml(translation.streams[-1]))
    source = registry.source_class("rest").from_file(folder / "things.yaml", retry_budget_seconds=1)  # type: ignore[attr-defined]

    def answer(request: Request) -> Answer:
        try:
            result = serve(request)
        except (AssertionError, ValueError, KeyError, IndexError, TypeError) as error:  # named by the failed load
            return Answer({"error": repr(error)}, status=400)
        return result if isinstance(result, Answer) else Answer(result)

    with RestApi() as api:
        api.faults.append(answer)
        connection = Connection(conn_id="api", host=f"http://127.0.0.1:{api.port}")
        polled = poll(source, connection, DAY)
    return [key for _, _, batch in polled.batches for key in batch.column("id").to_pylist()]
