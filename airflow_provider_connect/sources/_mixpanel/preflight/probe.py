"""Sends the request of a connection check and reads its answer."""

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
"""Events in the sample: about a megabyte on the wire."""

_LIMITS = HttpTimeouts(connect_timeout_seconds=10, read_timeout_seconds=30, deadline_seconds=60)
_MAX_BYTES = 64 << 20
_LATEST = 1 << 33


@dataclass(frozen=True)
class ProbeResult:
    """Result of a check's request.

    :param status: also of an error document.
    :param error: None for success.
    """

    status: int
    error: ConnectError | None
    clock_ahead_seconds: float | None
    day: dt.date
    samples: tuple[EventTimes, ...] = ()

    @property
    def knows_credentials(self) -> bool:
        return self.status in (200, 402, 403, 429)

    @property
    def rejects_credentials(self) -> bool:
        return self.status == 401 or (self.status == 400 and "authenticate" in str(self.error).lower())


def probe(access: MixpanelAccess, clock: Callable[[], dt.datetime], on_sent: Callable[[], None]) -> ProbeResult:
    """Send one small request to an API.

    :raises ConnectError: no answer.
    """
    sent_at = clock()
    # It is over in every zone: the last one leaves it at noon of the day after.
    day = sent_at.date() - dt.timedelta(days=2)
    with _send_request(access, day, on_sent) as answer:
        received_at = clock()
        answer_head = _AnswerHead(
            access, answer, day, received_at, clock_ahead_seconds(answer.header("Date"), sent_at, received_at)
        )
        is_page = answer.header("Content-Type").partition(";")[0].strip().lower() == "text/html"
        if answer.status == 200 and access.api == "export" and not is_page:
            return _read_export(answer_head)
        return _read_answer(answer_head)


def clock_ahead_seconds(date: str, sent_at: dt.datetime, received_at: dt.datetime) -> float | None:
    """Return the least lead of our clock over a server's, negative if behind.

    :param date: header Date.
    :return: 0 between both times, None if unreadable.
    """
    try:
        server_time = email.utils.parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    if server_time.tzinfo is None:
        server_time = server_time.replace(tzinfo=dt.UTC)
    server_time_end = server_time + dt.timedelta(seconds=1)
    if server_time_end < sent_at:
        return (sent_at - server_time_end).total_seconds()
    return min(0.0, (received_at - server_time).total_seconds())


def _send_request(access: MixpanelAccess, day: dt.date, on_its_way: Callable[[], None]) -> HttpResponse:
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


class _AnswerHead(NamedTuple):
    access: MixpanelAccess
    answer: HttpResponse
    day: dt.date
    at: dt.datetime
    clock_seconds: float | None

    def accepted(self, samples: Sequence[EventTimes] = ()) -> ProbeResult:
        return ProbeResult(200, None, self.clock_seconds, self.day, tuple(samples))

    def refused(self, text: str, *, is_cut: bool = False) -> ProbeResult:
        status, retry_after = self.answer.status, self.answer.header("Retry-After")
        error = refusal_error(status, text, self.access, now=self.at, retry_after=retry_after, is_cut=is_cut)
        return ProbeResult(status_of_refusal(status, text), error, self.clock_seconds, self.day)


def _read_export(answer_head: _AnswerHead) -> ProbeResult:
    first_line, samples = None, []
    try:
        for line in _read_lines(answer_head.answer):
            if first_line is None:
                first_line = line
                if not _is_record(line):
                    return answer_head.refused(first_line.decode("utf-8", "replace"))
            sample = _read_event_times(line)
            if sample is not None:
                samples.append(sample)
    except RetriableError:
        if first_line is None:
            raise
        # It began as an export. A poll detects the truncation. Here the rest serves as a smaller sample.
    return answer_head.accepted(samples)


def _read_answer(answer_head: _AnswerHead) -> ProbeResult:
    body = answer_head.answer.text()
    is_json = body.text.lstrip()[:1] in ("[", "{")
    if answer_head.answer.status == 200 and is_json and not _has_error(body.text):
        return answer_head.accepted()
    return answer_head.refused(body.text, is_cut=body.is_cut)


def _read_lines(answer: HttpResponse) -> Iterator[bytes]:
    is_gzip = answer.header("Content-Encoding").strip().lower() == "gzip"
    wire = answer.chunks()
    remainder, size = b"", 0
    for chunk in gunzip(wire) if is_gzip else wire:
        size += len(chunk)
        *complete_lines, remainder = (remainder + chunk).split(b"\n")
        yield from (line for line in complete_lines if line.strip())
        if size > _MAX_BYTES:
            return
    if remainder.strip():
        yield remainder


def _is_record(line: bytes) -> bool:
    parsed = _parse_json_or_none(line)
    return "event" in parsed if isinstance(parsed, dict) else parsed is None and line.startswith(b'{"event"')


def _has_error(text: str) -> bool:
    parsed = _parse_json_or_none(text)
    return isinstance(parsed, dict) and bool(parsed.get("error"))


def _parse_json_or_none(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read_event_times(line: bytes) -> EventTimes | None:
    record = _parse_json_or_none(line)
    properties = record.get("properties") if isinstance(record, dict) else None
    if not isinstance(properties, dict):
        return None
    time, received = (
        _plausible_time(properties.get("time"), 1),
        _plausible_time(properties.get("mp_processing_time_ms"), 1000),
    )
    return None if time is None or received is None else EventTimes(time, received / 1000)


def _plausible_time(value: Any, units_per_second: int) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 < value < _LATEST * units_per_second else None
