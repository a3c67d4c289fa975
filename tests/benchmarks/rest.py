"""Prints what a day of a declared API costs: ``python tests/benchmarks/rest.py [rows] [page seconds]``.

The rows come a thousand on a page, each page after so many seconds, into a Delta table: polled and staged as an
executor does it, published as the driver does. The poll's seconds are compared with those that the pages take one after
the other, as each names the next; the memory with that of a tenth of the rows. Before that, what it costs to make rows
of pages is compared with decoding the same bytes by msgspec: the least of several measurements of each, in turns.
"""

from __future__ import annotations

import datetime as dt
import multiprocessing
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._rest.building.duplicates import DuplicateCheck
from airflow_provider_connect.sources._rest.building.rows import RowBuilder
from airflow_provider_connect.sources._rest.pages.page_parser import PageParser
from airflow_provider_connect.sources.rest import Cursor, NoToken, Records, Request, RestSource
from airflow_provider_connect.spark.poll import PollTask, stage_partition
from airflow_provider_connect.stage.manifest import Manifest, SeenPublish
from airflow_provider_connect.stage.rejects import Tolerance
from airflow_provider_connect.window import Day

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
PAGE_SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 0.05
PAGE_ROWS = 1000
PARSED_PAGES, TURNS = 100, 7
DATE = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=2)
KINDS = ("opened", "closed", "reopened", "labeled")

COLUMNS: dict[str, Any] = {
    "id": "bigint",
    "kind": "string",
    "created_at": "timestamp",
    "amount": "double",
    "is_public": "boolean",
    "user_id": {"type": "bigint", "at": "/user/id"},
    "user_name": {"type": "string", "at": "/user/name"},
}


def source(undeclared: str) -> RestSource:
    """Return a source with the columns that most want."""
    return RestSource(
        conn_id="api",
        stream="events",
        request=Request(path="/events", params={"since": "{day.start}", "until": "{day.end}"}),
        paging=Cursor(at="/meta/next", param="cursor", ends=NoToken()),
        records=Records(
            at="data",
            key=("id",),
            columns=COLUMNS,
            day="created_at",
            undeclared=undeclared,  # type: ignore[arg-type]
        ),
    )


def page(number: int, rows: int) -> bytes:
    """Return a page of so many rows in all; some 330 bytes for each row."""
    start = number * PAGE_ROWS
    data = ",".join(
        f'{{"id":{each},"kind":"{KINDS[each % 4]}","created_at":"{DATE}T{each % 24:02d}:{each % 60:02d}:07.125Z",'
        f'"amount":{each % 1000}.25,"is_public":{"true" if each % 3 else "false"},'
        f'"user":{{"id":{each % 5000},"name":"näme {each % 5000}","site_admin":false}},'
        f'"labels":["bug","area:{each % 7}"],"body":"It has {each} lines, and is as long as such a text often is: the '
        f'page has to be read over, and the document keeps it.","score":null}}'
        for each in range(start, min(start + PAGE_ROWS, rows))
    )
    following = f'"{number + 1}"' if start + PAGE_ROWS < rows else "null"
    return f'{{"data":[{data}],"meta":{{"next":{following}}}}}'.encode()


def serve(rows: int, answers: Any) -> None:
    """Serve pages until nobody wants them; each is made within the seconds that it takes."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            began = time.perf_counter()
            query = parse_qs(urlsplit(self.path).query)
            body = page(int(query.get("cursor", ["0"])[0]), rows)
            time.sleep(max(0.0, began + PAGE_SECONDS - time.perf_counter()))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    answers.send(server.server_address[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    answers.recv()


def load(port: int, root: str) -> tuple[float, float, float, int]:
    """Load one day into a new table; return seconds of poll and publish, the peak of memory in MB, and rows."""
    wanted, sink = source("json"), DeltaSink(path=root)
    connection = Connection(conn_id="api", conn_type="http", host="http://127.0.0.1", port=port)
    key, day = StreamKey(connector=wanted.name, stream=wanted.stream_key), Day(date=DATE)
    with wanted.open(connection, PollContext()) as poller, sink.open(key, {}) as publisher:
        schema = poller.schema()
        assert publisher.preflight(schema, [day], "day") == []
        (part,) = poller.plan([day])
        task = PollTask(
            source_name=wanted.name,
            source=wanted.serialize(),
            part=part,
            root=root,
            attempts=("benchmark",),
            progress_seconds=60,
        )
        started = time.perf_counter()
        polled = stage_partition(task, schema, connection)[day.date]
        poll_seconds = time.perf_counter() - started
        manifest = Manifest(day=day, attempt="benchmark", fingerprint="", polled=polled, seen=SeenPublish())
        intent = Intent(token="benchmark", run="benchmark")
        row = publisher.commit(
            Publish(key=key, day=day, intent=intent, manifest=manifest, schema=schema, stage=root, kind="day"), None, []
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return poll_seconds, time.perf_counter() - started - poll_seconds, peak, row.rows


def measure(rows: int) -> tuple[float, float, float, int]:
    """Load so many rows, the API and the load each in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=serve, args=(rows, theirs))
    server.start()
    try:
        with tempfile.TemporaryDirectory() as folder, spawn.Pool(1) as pool:
            return pool.apply(load, (ours.recv(), str(Path(folder) / "events")))
    finally:
        ours.send(None)
        server.join()


def seconds_of(work: Callable[[], None]) -> float:
    """Return the CPU seconds that something takes: the machine may be busy."""
    began = time.process_time()
    work()
    return time.process_time() - began


def parsed(bodies: list[bytes], undeclared: str) -> None:
    """Make rows of pages, as a poll does."""
    wanted = source(undeclared)
    cutter = PageParser(wanted.records, ["/meta/next"])
    with ExitStack() as stack:
        maker = RowBuilder(
            wanted.records,
            (),
            Day(date=DATE),
            seen_keys=stack.enter_context(KeySet()),
            tolerance=Tolerance("none", 0),
            tally=Tally(),
            slices=cutter.slices,
            duplicate_check=DuplicateCheck(wanted, stack),
        )
        rows = sum(maker.build_rows(cutter.parse(body, "page"), {}, "page").batch.num_rows for body in bodies)
    assert rows == len(bodies) * PAGE_ROWS


def parse_cost() -> None:
    """Print what rows cost beside msgspec's decoding of the same bytes."""
    bodies = [page(number, PARSED_PAGES * PAGE_ROWS) for number in range(PARSED_PAGES)]
    decoder = msgspec.json.Decoder()

    def decode() -> None:
        for body in bodies:
            decoder.decode(body)

    works = {
        "msgspec.json.decode": decode,
        "rows with the document": lambda: parsed(bodies, "json"),
        "rows without it": lambda: parsed(bodies, "drop"),
    }
    least = dict.fromkeys(works, float("inf"))
    for _ in range(TURNS):
        for name, work in works.items():
            least[name] = min(least[name], seconds_of(work))
    alone = least["msgspec.json.decode"]
    megabytes = sum(map(len, bodies)) / 1e6
    for name, seconds in least.items():
        print(f"{name}: {seconds:.2f} s of CPU for {megabytes:.0f} MB, {seconds / alone:.2f} of msgspec's", flush=True)


def main() -> None:
    """Measure the parsing, then a tenth of the rows, then all."""
    parse_cost()
    peaks = []
    for rows in (ROWS // 10, ROWS):
        poll, publish, megabytes, found = measure(rows)
        assert found == rows
        peaks.append(megabytes)
        pages = -(-rows // PAGE_ROWS)
        alone = pages * PAGE_SECONDS
        print(
            f"{rows:,} rows polled in {poll:.1f} s: {poll / alone:.2f} of the {alone:.1f} s that {pages:,} pages take "
            f"one after the other; published in {publish:.1f} s more, peak {megabytes:.0f} MB "
            f"({megabytes / peaks[0]:.2f} of a tenth's)",
            flush=True,
        )


if __name__ == "__main__":
    main()
