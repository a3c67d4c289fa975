"""What can go wrong with an export, and when: the faults of the stand-in and their schedule.

A fault acts on one of four levels: on the lines before compression, on the compressed body, in place of the answer, or
on the wire. All have been seen with this API or with something between it and a client.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.standins.mixpanel.templates import render, rng
from tests.standins.schedule import Schedule
from tests.standins.wire import WIRE_KINDS

EXPORT_PATH = "/api/2.0/export"

_PLAIN = b'{"event":"Stand-in","properties":{"time":0,"distinct_id":"x","$insert_id":"inserted"}}\n'
_INSERTED: dict[str, bytes] = {
    "error_line": b'{"error":"internal error while exporting"}\n',
    "bad_line": b'{"event":"Bad Line","properties":{"time":\n',
    "nan_line": _PLAIN.replace(b'"inserted"', b'"inserted","amount":NaN'),
    "bad_utf8": _PLAIN.replace(b"inserted", b"inserted\xff"),
    "no_event": _PLAIN.replace(b'"event":"Stand-in",', b""),
    "duplicate_keys": _PLAIN.replace(b'"event":"Stand-in"', b'"event":"Stand-in","event":"Other"'),
}

_VALID_LINE_KINDS = frozenset({"huge_line", "other_zone"})
LINE_KINDS = _INSERTED.keys() | _VALID_LINE_KINDS | {"terminated_early", "split_record", "cut_last_line"}
GZIP_KINDS = frozenset({"cut_gzip", "no_trailer", "bad_crc", "garbage_after", "multi_member"})
ANSWER_KINDS = frozenset({"status", "html", "html_as_text", "zeros", "error_document", "empty"})
PAGE_KINDS = frozenset(
    {
        "expired",
        "other_session",
        "page_again",
        "empty_page",
        "short_page",
        "wrong_page",
        "wrong_total",
        "bad_profile",
    }
)
REPORT_KINDS = frozenset({"other_day"})
KINDS = LINE_KINDS | PAGE_KINDS | REPORT_KINDS | GZIP_KINDS | ANSWER_KINDS | WIRE_KINDS | {"none"}

# After one of these a retry may succeed; ``terminated_early`` is in the list twice, as the most usual one.
RETRIABLE_KINDS = (
    "terminated_early",
    "terminated_early",
    "cut_gzip",
    "no_trailer",
    "bad_crc",
    "cut_chunked",
    "short_length",
    "reset",
    "refuse",
    "status",
)


@dataclass(frozen=True)
class Fault:
    """One fault, for the first ``times`` requests that match it.

    ================== ==================================================================================
    kind               what the client gets
    ================== ==================================================================================
    none               nothing wrong: lets a request pass before the next fault in the schedule
    terminated_early   the lines up to ``at``, then the line ``terminated early``; valid framing
    error_line         a line ``{"error": …}`` among the records
    split_record       two records broken over lines: inside a text, and between two tokens
    bad_line           a line that is no JSON
    nan_line           a record with ``NaN``
    bad_utf8           a record with a byte that is no UTF-8
    no_event           a record without ``event``
    duplicate_keys     a record that has ``event`` twice
    huge_line          a valid record with a text of ``size_bytes``
    other_zone         a valid record 30 hours after another one: not of the day asked for
    cut_last_line      the last line ends in its middle; valid framing
    cut_gzip           the gzip stream ends at ``at``; valid framing
    no_trailer         gzip without its last eight bytes; valid framing
    bad_crc            gzip with a wrong checksum
    garbage_after      bytes after the gzip stream
    multi_member       no fault: three gzip members in a row
    status             ``status`` with ``headers`` and ``body``
    html               200, a login page as text/html
    html_as_text       the same as text/plain
    zeros              200, ``size_bytes`` zero bytes (compressed if the client takes gzip: a bomb when large)
    error_document     200, ``{"error": …}`` and nothing else
    empty              200 and no byte
    cut_chunked        the connection closed inside a chunk, at ``at``
    short_length       Content-Length of one byte more than the body, closed at ``at``
    eof_delimited      the whole body with neither length nor chunks
    reset              a TCP reset at ``at``
    refuse             the connection closed before the answer
    silent             no answer for ``seconds``, then closed
    slow               ``size_bytes`` every ``seconds``
    expired            engage: every session is forgotten before it answers
    other_session      engage: the page names another session
    page_again         engage: the profiles of the page before, under the number asked for
    empty_page         engage: a page without profiles
    short_page         engage: a page without its last profile
    wrong_page         engage: the page says that it is the next one
    wrong_total        engage: the page says that there is one profile more
    bad_profile        engage: the first ``count`` profiles have no id
    other_day          reports by date: the days after those asked for
    ================== ==================================================================================

    The gzip kinds wait for a client that takes gzip, and compress however small the body is.

    :param path: only requests for this path.
    :param page: only requests for this page; None for any.
    :param date: only requests that hold this date; None for any.
    :param times: how many requests; None for all.
    :param at: the fraction of lines, or of body bytes, before it happens.
    :param count: how many bad lines in a row, for the kinds that insert a line.
    :param size_bytes: see the table.
    :param seconds: see the table.
    :raises ValueError: for an unknown kind or a fraction outside 0 to 1.
    """

    kind: str
    date: dt.date | None = None
    times: int | None = 1
    at: float = 0.5
    count: int = 1
    size_bytes: int = 1024
    seconds: float = 1.0
    status: int = 503
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = '{"error": "Service temporarily unavailable"}'
    path: str = EXPORT_PATH
    page: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown fault {self.kind!r}: one of {', '.join(sorted(KINDS))}")
        if not 0 <= self.at <= 1:
            raise ValueError("at must be a fraction from 0 to 1")

    @classmethod
    def from_json(cls, options: Mapping[str, Any]) -> Fault:
        """Return a fault from decoded JSON, with its date in ISO form."""
        date = options.get("date")
        return cls(**{**options, "date": dt.date.fromisoformat(date) if date else None})

    def as_json(self) -> dict[str, Any]:
        """Return the JSON that :meth:`from_json` reads."""
        return asdict(self) | {"date": self.date and self.date.isoformat(), "headers": dict(self.headers)}


class FaultSchedule(Schedule[Fault]):
    """The faults of exports, pages and reports still to come."""

    def take(
        self, dates: Iterable[dt.date], *, accepts_gzip: bool, path: str = EXPORT_PATH, page: int = 0
    ) -> Fault | None:
        """Return the fault for a request that holds ``dates``, or is for a page, and count it as spent."""
        requested_dates = set(dates)

        def fits(fault: Fault) -> bool:
            is_asked = fault.path == path and fault.page in (None, page)
            is_dated = fault.date is None or fault.date in requested_dates
            return is_asked and is_dated and (accepts_gzip or fault.kind not in GZIP_KINDS)

        return self.take_first(fits)


def seeded_schedule(seed: int, dates: Iterable[dt.date], rate: float) -> list[Fault]:
    """Return retriable faults over ``dates``, the same for the same arguments.

    :param rate: the chance that a date has faults; such a date fails once or twice before it is served whole.
    """
    random_source = rng("faults", seed)
    faults = []
    for date in sorted(dates):
        hit, kind, at, times, status = (
            random_source.random(),
            random_source.choice(RETRIABLE_KINDS),
            random_source.uniform(0.05, 0.95),
            random_source.choice((1, 1, 2)),
            random_source.choice((500, 502, 503, 429)),
        )
        if hit < rate:
            headers = {"Retry-After": "1"} if status == 429 else {}
            faults.append(Fault(kind, date=date, times=times, at=at, status=status, headers=headers))
    return faults


def damage_lines(fault: Fault, lines: Iterator[bytes], total: int) -> Iterator[bytes]:
    """Apply a fault of :data:`LINE_KINDS` to the ``total`` lines of an answer."""
    position = min(int(total * fault.at), total)
    if fault.kind == "cut_last_line":
        yield from _cut_last(lines)
        return
    for index, line in enumerate(lines):
        if index >= position:
            if fault.kind == "terminated_early":
                break
            if fault.kind == "split_record" and index < position + 2:
                yield _split(line, index - position)
                continue
            if index == position:
                yield from _inserted(fault, line)
        yield line
    if fault.kind == "terminated_early":
        yield b"terminated early\n"
    elif position == total:
        yield from _inserted(fault, _PLAIN)


def _inserted(fault: Fault, neighbour: bytes) -> Iterator[bytes]:
    for index in range(fault.count if fault.kind in _INSERTED or fault.kind in _VALID_LINE_KINDS else 0):
        if fault.kind in _INSERTED:
            yield _INSERTED[fault.kind]
        else:
            yield _record(fault, json.loads(neighbour), f"inserted-{index}")


def _record(fault: Fault, row: dict[str, Any], insert_id: str) -> bytes:
    properties = row["properties"]
    properties["$insert_id"] = insert_id
    if fault.kind == "huge_line":
        properties["text"] = "x" * fault.size_bytes
    else:
        a_second = 1000 if properties["time"] > 100_000_000_000 else 1
        properties["time"] += 30 * 3600 * a_second
    return render(row) + b"\n"


def _split(line: bytes, part_number: int) -> bytes:
    """Break a line in two: inside the text of ``$browser``, or after the brace that opens ``properties``."""
    if part_number == 0:
        return re.sub(rb'("\$browser":"..)', rb"\1\n", line, count=1)
    return line.replace(b'"properties":{', b'"properties":{\n', 1)


def _cut_last(lines: Iterator[bytes]) -> Iterator[bytes]:
    previous_line = None
    for line in lines:
        if previous_line is not None:
            yield previous_line
        previous_line = line
    if previous_line is not None:
        yield previous_line[: len(previous_line) // 2]
