"""Source with deliberate mistakes, run with the shipped suite. ``test_wrong_connectors.py`` runs this file."""

from __future__ import annotations

import datetime as dt
import http.client
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from airflow_provider_connect.capabilities.poller import SeveralDaysARequest
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.source import InputPartition, PollContext, Poller, Source
from airflow_provider_connect.testing import Served, SourceConformance
from airflow_provider_connect.window import Day

LINES = 5000
EXPECTED = {
    "TestTrustsEveryAnswer": {
        "test_two_polls_of_a_day_bring_the_same_rows",
        "test_keys_are_32_hex_digits",
        "test_every_batch_fits_the_schema",
        "test_each_batch_is_of_a_day_that_its_partition_names",
        "test_the_tally_has_counted_every_row",
        "test_days_of_one_plan_are_those_of_a_plan_each",
        "test_each_of_several_days_is_planned",
        *(f"test_a_cut_answer_of_several_days_is_never_a_short_day[{share}]" for share in ("0.0", "0.5", "0.9", "1.0")),
        *(f"test_an_answer_that_is_cut_is_never_a_short_day[{share}]" for share in ("0.0", "0.5", "0.9", "1.0")),
        *(
            f"test_a_server_in_trouble_is_tried_again_later[{status}]"
            for status in ("500 Internal Server Error", "503 Service Unavailable", "429 Slow Down")
        ),
        *(f"test_refused_credentials_are_a_config_error[{status}]" for status in ("401 Unauthorized", "403 Forbidden")),
    }
}
"""Polling cases that must fail."""


class NaiveSource(Source):
    """Source that reads lines and trusts every response."""

    name: ClassVar[str] = "naive"
    connection_types: ClassVar[tuple[str, ...]] = ("http",)

    @property
    def stream_key(self) -> str:
        return "lines"

    def open(self, connection: Connection, context: PollContext) -> Poller:
        return NaivePoller(connection)


class NaivePoller(Poller, SeveralDaysARequest):
    days_per_plan = 2

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def schema(self) -> Any:
        import pyarrow as pa

        return pa.schema([pa.field("line", pa.string()), pa.field("record_key", pa.string(), nullable=False)])

    def plan(self, days: Any) -> list[InputPartition]:
        return [InputPartition(days=tuple(days[:1]))]

    def poll(self, part: InputPartition, tally: Any) -> Iterator[tuple[Day, Any]]:
        import pyarrow as pa

        client = http.client.HTTPConnection("127.0.0.1", self.connection.port)
        try:
            client.request("GET", "/")
            body = client.getresponse().read()
        except http.client.IncompleteRead as error:
            body = error.partial
        except (OSError, http.client.HTTPException):
            body = b""
        finally:
            client.close()
        lines = body.decode().splitlines()
        day = Day(date=part.days[0].date - dt.timedelta(days=1))
        yield day, pa.record_batch({"line": lines, "record_key": [str(uuid.uuid4()) for _ in lines]})


class Lines(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"".join(b"line %d\n" % number for number in range(LINES))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class TestTrustsEveryAnswer(SourceConformance):
    source = NaiveSource(conn_id="c")

    @pytest.fixture(scope="class")
    def served(self) -> Iterator[Served]:
        with ThreadingHTTPServer(("127.0.0.1", 0), Lines) as server:
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            connection = Connection(conn_id="c", host="http://127.0.0.1", port=server.server_port)
            yield Served(connection, Day(date=dt.date(2026, 10, 5)), LINES)
            server.shutdown()
