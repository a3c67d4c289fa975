"""Turns a query into an answer: a day's lines, filtered, perhaps damaged by a fault, perhaps compressed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator

from tests.standins.mixpanel.bodies import (
    TRAILER_BYTES,
    DayStore,
    Part,
    gzip_members,
    gzip_pieces,
    raw_size,
)
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import (
    ANSWER_KINDS,
    EXPORT_PATH,
    GZIP_KINDS,
    LINE_KINDS,
    Fault,
    damage_lines,
)
from tests.standins.mixpanel.query import Query
from tests.standins.wire import Answer

# The vendor compresses nothing smaller (https://developer.mixpanel.com/reference/raw-event-export, 2026-11).
GZIP_ABOVE_BYTES = 1400

_LOGIN_PAGE = (
    b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head>\n"
    b'<body><form method="post" action="/login">Your session has ended. Sign in.</form></body></html>\n'
)
_ZEROS = bytes(4096)


def export(store: DayStore, project: Project, query: Query, fault: Fault | None, *, accepts_gzip: bool) -> Answer:
    """Return the answer to ``query``."""
    kind = fault.kind if fault else "none"
    if fault is not None and kind in ANSWER_KINDS:
        return instead_of_export(fault, EXPORT_PATH, accepts_gzip=accepts_gzip)
    if fault is not None and kind in GZIP_KINDS:
        return _compressed(_damage_gzip(fault, store, query))
    if query.selects_all and kind not in LINE_KINDS:
        body = store.gzipped(query.dates, query.unit)
        return _fitting(body, accepts_gzip=accepts_gzip)
    if store.keeps_on_disk and kind not in LINE_KINDS:
        part = Part(query.selection_text, query.iter_selected_lines)
        return _fitting(store.gzipped(query.dates, query.unit, part), accepts_gzip=accepts_gzip)
    lines = store.lines(query.dates, query.unit)
    total = sum(project.truth(date).lines for date in query.dates)
    if not query.selects_all:
        selected_lines = query.select_lines(lines)
        lines, total = iter(selected_lines), len(selected_lines)
    if fault is not None and kind in LINE_KINDS:
        lines = damage_lines(fault, lines, total)
    return _fitting(memoryview(b"".join(gzip_pieces(lines))), accepts_gzip=accepts_gzip)


def _fitting(gzipped: memoryview, *, accepts_gzip: bool) -> Answer:
    """Answer with a body, compressed if the client takes gzip."""
    if accepts_gzip and raw_size(gzipped) > GZIP_ABOVE_BYTES:
        return _compressed(gzipped)
    return Answer(200, memoryview(zlib.decompress(gzipped, 16 + zlib.MAX_WBITS)), {"Content-Type": "text/plain"})


def _compressed(gzipped: memoryview) -> Answer:
    return Answer(200, gzipped, {"Content-Type": "text/plain", "Content-Encoding": "gzip"})


def _damage_gzip(fault: Fault, store: DayStore, query: Query) -> memoryview:
    lines = store.lines(query.dates, query.unit)
    if fault.kind == "multi_member" or not query.selects_all:
        body = memoryview(gzip_members(query.select_lines(lines), 3 if fault.kind == "multi_member" else 1))
    else:
        body = store.gzipped(query.dates, query.unit)
    return damaged(fault, body)


def damaged(fault: Fault, body: memoryview) -> memoryview:
    """Return a gzipped body with a fault of :data:`GZIP_KINDS`."""
    if fault.kind == "cut_gzip":
        # Never the whole stream: at=1 leaves out its last byte but the trailer.
        return body[: min(int(len(body) * fault.at), len(body) - TRAILER_BYTES - 1)]
    if fault.kind == "no_trailer":
        return body[:-TRAILER_BYTES]
    if fault.kind == "bad_crc":
        damaged = bytearray(body)
        damaged[-TRAILER_BYTES] ^= 0xFF
        return memoryview(damaged)
    if fault.kind == "garbage_after":
        return memoryview(bytes(body) + b"garbage after the stream")
    return body


def instead_of_export(fault: Fault, path: str, *, accepts_gzip: bool) -> Answer:
    """Return what a fault of :data:`ANSWER_KINDS` answers to a request for ``path``."""
    if fault.kind == "status":
        return Answer(
            fault.status, memoryview(fault.body.encode()), {"Content-Type": "application/json", **fault.headers}
        )
    if fault.kind == "html":
        return Answer(200, memoryview(_LOGIN_PAGE), {"Content-Type": "text/html; charset=utf-8"})
    if fault.kind == "html_as_text":
        return Answer(200, memoryview(_LOGIN_PAGE), {"Content-Type": "text/plain"})
    if fault.kind == "error_document":
        document = {"request": path, "error": "An error occurred while exporting"}
        return Answer(200, memoryview(json.dumps(document).encode()), {"Content-Type": "application/json"})
    if fault.kind == "zeros":
        return _fitting(memoryview(b"".join(gzip_pieces(_zeros(fault.size_bytes)))), accepts_gzip=accepts_gzip)
    return Answer(200, memoryview(b""), {"Content-Type": "text/plain"})


def _zeros(count_bytes: int) -> Iterator[bytes]:
    for start in range(0, count_bytes, len(_ZEROS)):
        yield _ZEROS[: count_bytes - start]
