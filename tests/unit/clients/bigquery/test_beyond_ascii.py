"""Tables whose names have letters beyond ASCII: what goes into headers and job ids is ASCII all the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs

import grpc
import pyarrow as pa
import pytest
from google.cloud.bigquery_storage_v1 import types
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.clients.bigquery.streams import Appender, _SentRequest
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.names import MAX_JOB_ID, legal_job_id
from airflow_provider_connect.sinks._bigquery.staging import REJECTS_SUFFIX, staging_prefix, staging_table_for
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from tests.equipment.bigquery.server import api_at

TARGET = TableRef("some-project", "d", "größe_名前")


@pytest.fixture
def headers() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Where a server listens that speaks gRPC, and the headers of the calls it gets."""
    seen: list[dict[str, str]] = []

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> Any:
            seen.append(dict(details.invocation_metadata))
            return grpc.stream_stream_rpc_method_handler(lambda requests, context: iter(()))

    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((Handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", seen
    server.stop(None).wait()


def test_the_routing_header_is_ascii_and_names_the_stream(headers: tuple[str, list[dict[str, str]]]) -> None:
    target, seen = headers
    stream = f"{TARGET.resource_name}/streams/a_b"
    with api_at("http://127.0.0.1:1", target) as api, Appender(api, TARGET, pa.schema([])) as appender:
        appender._name = stream
        appender._unanswered.append(_SentRequest(0, types.AppendRowsRequest.pb()(), 0))
        appender._send()
        assert isinstance(appender._answers.get(timeout=60), ConnectionError)  # the server has ended the call
    value = seen[0]["x-goog-request-params"]
    assert value.isascii()
    assert parse_qs(value, strict_parsing=True) == {"write_stream": [stream]}
    assert "/tables/" in value  # as Google's own clients write it


@given(st.text(max_size=1100) | st.text("a-_ö", max_size=8))
def test_job_ids_are_legal(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{6,1000}", legal_job_id(f"load_{text}_0"))


@given(st.text(max_size=30), st.text(max_size=30))
def test_job_ids_of_different_texts_differ(one: str, other: str) -> None:
    assert (legal_job_id(one) == legal_job_id(other)) == (one == other)


def test_a_job_id_that_is_legal_stays_readable() -> None:
    assert legal_job_id("connect_load_events__stage_a1-b2_0") == "connect_load_events__stage_a1-b2_0"
    assert legal_job_id("grün").startswith("gr_n_x")
    assert len(legal_job_id("x" * 5000)) <= MAX_JOB_ID


def test_a_table_name_is_counted_in_bytes_and_leaves_room_for_the_tables_beside_it() -> None:
    assert BigQuerySink(table=f"d.{'ö' * 375}").table
    with pytest.raises(ConfigError, match="bytes of UTF-8, but at most 750"):
        BigQuerySink(table=f"d.{'ö' * 376}")
    with pytest.raises(ConfigError, match="longer than 1,024 bytes"):
        TableRef("some-project", "d", "ö" * 513)
    longest = staging_table_for(staging_prefix(TableRef("some-project", "d", "ö" * 375)), "a" * 500)
    assert longest.sibling(f"{longest.table}{REJECTS_SUFFIX}")
