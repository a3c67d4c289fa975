"""The one small request that a check of a connection asks of an API, and what came back."""

from __future__ import annotations

import datetime as dt
import email.utils
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from airflow_provider_connect.clients.http.client import HttpResponse, form_body
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.clients.http.inflate import gunzip
from airflow_provider_connect.errors import ConnectError, RetriableError
from airflow_provider_connect.sources._mixpanel.access import MixpanelAccess
from airflow_provider_connect.sources._mixpanel.preflight.regime_detection import EventTimes
from airflow_provider_connect.sources._mixpanel.refusals import refusal_error, status_of_refusal

_EVENTS = 10_000
"""How many events of a day are asked for: enough to tell the regime, and a megabyte or so on the wire."""

_LIMITS = HttpTimeouts(connect_timeout_seconds=10, read_timeout_seconds=30, deadline_seconds=60)
_MAX_BYTES = 64 << 20
_LATEST = 1 << 33


@dataclass(frozen=True)
class ProbeResult:
    """What an API answered.

    :param status: of the answer; that of the error document in an answer with status 200.
    :param error: what to raise for it; None if it is what was asked for.
    :param clock_seconds: by how much our clock is ahead of the server's, at least; None if it did not say.
    :param day: whose events were asked for.
    """

    status: int
    error: ConnectError | None
    clock_ahead_seconds: float | None
    day: dt.date
    samples: tuple[EventTimes, ...] = ()

    @property
    def knows_credentials(self) -> bool:
        """Whether the host knows the credentials, whatever it allows them."""
        return self.status in (200, 402, 403, 429)

    @property
    def rejects_credentials(self) -> bool:
        """Whether the host says that it does not know the credentials."""
        return self.status == 401 or (self.status == 400 and "authenticate" in str(self.error).lower())


def probe(access: MixpanelAccess, clock: Callable[[], dt.datetime], on_sent: Callable[[], None]) -> ProbeResult:
    """Ask an API for little.

    :param clock: tells the present instant, in UTC.
    :param on_its_way: called when the request is sent: from then on Mixpanel may count it.
    :raises ConnectError: if there is no answer.
    """
    sent = clock()
    # It is over in every zone: the last one leaves it at noon of the day after.
    day = sent.date() - dt.timedelta(days=2)
    with _ask(access, day, on_sent) as answer:
        got = clock()
        asked = _Asked(access, answer, day, got, clock_ahead_seconds(answer.header("Date"), sent, got))
        is_page = answer.header("Content-Type").partition(";")[0].strip().lower() == "text/html"
        if answer.status == 200 and access.api == "export" and not is_page:
            return _read_export(asked)
        return _read_answer(asked)


def clock_ahead_seconds(date: str, sent_at: dt.datetime, received_at: dt.datetime) -> float | None:
    """Return by how many seconds our clock is ahead of a server's, at least; negative if it is behind.

    :param date: the header of an answer: the second in which the server wrote it.
    :param sent: when our clock said that the request was sent, and with ``got`` that the answer came.
    :return: 0 if the server may have written it in between; None if the header cannot be read.
    """
    try:
        written = email.utils.parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    if written.tzinfo is None:
        written = written.replace(tzinfo=dt.UTC)
    latest = written + dt.timedelta(seconds=1)
    if latest < sent_at:
        return (sent_at - latest).total_seconds()
    return min(0.0, (received_at - written).total_seconds())


def _ask(access: MixpanelAccess, day: dt.date, on_its_way: Callable[[], None]) -> HttpResponse:
    params, path, form = {}, "/api/2.0/export", None
    if access.api == "export":
        params = {"from_date": day.isoformat(), "to_date": day.isoformat(), "limit": str(_EVENTS)}
    elif access.api == "query":
        path, form = "/api/query/cohorts/list", form_body({})
    else:
        path = f"/api/app/projects/{access.project_id}/annotations"
        params = {"fromDate": day.isoformat(), "toDate": day.isoformat()}
    if access.project_id is not None and access.api != "app":
        params["project_id"] = access.project_id
    return access.request(path, params, _LIMITS, on_its_way, form)


class _Asked(NamedTuple):
    """An answer whose head has come."""

    access: MixpanelAccess
    answer: HttpResponse
    day: dt.date
    at: dt.datetime
    clock_seconds: float | None

    def fine(self, samples: Sequence[EventTimes] = ()) -> ProbeResult:
        return ProbeResult(200, None, self.clock_seconds, self.day, tuple(samples))

    def refused(self, text: str, *, is_cut: bool = False) -> ProbeResult:
        status, retry_after = self.answer.status, self.answer.header("Retry-After")
        error = refusal_error(status, text, self.access, now=self.at, retry_after=retry_after, is_cut=is_cut)
        return ProbeResult(status_of_refusal(status, text), error, self.clock_seconds, self.day)


def _read_export(asked: _Asked) -> ProbeResult:
    first, samples = None, []
    try:
        for line in _lines(asked.answer):
            if first is None:
                first = line
                if not _is_record(line):
                    return asked.refused(first.decode("utf-8", "replace"))
            sample = _sample(line)
            if sample is not None:
                samples.append(sample)
    except RetriableError:
        if first is None:
            raise
        # It began as an export. A poll finds out that it is cut; here it serves as a smaller sample.
    return asked.fine(samples)


def _read_answer(asked: _Asked) -> ProbeResult:
    said = asked.answer.text()
    is_json = said.text.lstrip()[:1] in ("[", "{")
    if asked.answer.status == 200 and is_json and not _tells_of_trouble(said.text):
        return asked.fine()
    return asked.refused(said.text, is_cut=said.is_cut)


def _lines(answer: HttpResponse) -> Iterator[bytes]:
    is_gzip = answer.header("Content-Encoding").strip().lower() == "gzip"
    wire = answer.chunks()
    rest, size = b"", 0
    for piece in gunzip(wire) if is_gzip else wire:
        size += len(piece)
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line for line in whole if line.strip())
        if size > _MAX_BYTES:
            return
    if rest.strip():
        yield rest


def _is_record(line: bytes) -> bool:
    """Tell whether a line is an event, or the beginning of one."""
    parsed = _parsed(line)
    return "event" in parsed if isinstance(parsed, dict) else parsed is None and line.startswith(b'{"event"')


def _tells_of_trouble(text: str) -> bool:
    parsed = _parsed(text)
    return isinstance(parsed, dict) and bool(parsed.get("error"))


def _parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _sample(line: bytes) -> EventTimes | None:
    record = _parsed(line)
    properties = record.get("properties") if isinstance(record, dict) else None
    if not isinstance(properties, dict):
        return None
    time, received = _instant(properties.get("time"), 1), _instant(properties.get("mp_processing_time_ms"), 1000)
    return None if time is None or received is None else EventTimes(time, received / 1000)


def _instant(value: Any, a_second: int) -> int | None:
    """Return a count of seconds, or of parts of them, since 1970 if it may be one."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 < value < _LATEST * a_second else None
