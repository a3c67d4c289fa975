"""The language of places and the bounds of a day: closed, quoted where it must be, and exact."""

from __future__ import annotations

import datetime as dt
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._rest.bounds import day_bound
from airflow_provider_connect.sources._rest.placeholders import fill_request
from airflow_provider_connect.sources.rest import Bounds, PageNumber, Request, Single
from airflow_provider_connect.window import Day
from tests.equipment.rest_api.reading import DAY, declared, records

STEPS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
ZONES = ["UTC", "US/Pacific", "Asia/Kolkata", "Australia/Lord_Howe", "Europe/London"]


def path_of(value: str) -> str:
    return fill_request(Request(path="/a/{parent.id}/b"), DAY, Bounds(), {"id": value}).path


@given(st.text(min_size=1))
def test_what_is_put_into_a_path_stays_one_step_of_it(value: str) -> None:
    if not value.isprintable() and any("\ud800" <= char <= "\udfff" for char in value):
        return
    steps = urlsplit(path_of(value)).path.split("/")
    assert len(steps) == 4
    assert unquote(steps[2]) == value
    assert steps[2] not in (".", "..")


def test_a_whole_place_in_a_body_is_a_number_where_its_format_is_one() -> None:
    body = {"since": "{day.start:epoch_ms}", "text": "from {day.start:epoch_s}", "query": "query { items { id } }"}
    made = fill_request(Request(path="/x", method="POST", body=body), DAY, Bounds(), {})
    seconds = int(DAY.start.timestamp())
    assert made.body == {"since": seconds * 1000, "text": f"from {seconds}", "query": "query { items { id } }"}


def test_all_wrong_places_are_named_at_once_with_the_nearest_name() -> None:
    request = {
        "path": "/x/{parnt.id}",
        "method": "POST",
        "params": {"a": "{day.strt}", "b": ["{day.end:epochms}"], "c": "{ day.start }"},
        "headers": {"X-Until": "{day.end.iso}"},
        "body": {"deep": ["{parent.id}"]},
    }
    with pytest.raises(ConfigError) as caught:
        declared("", PageNumber(ends="empty_page"), request=request)
    for message in (
        "request.path: unknown {parnt.id}",
        "request.params.a: unknown {day.strt}; did you mean 'day.start'?",
        "request.params.b: {day.end}: unknown format 'epochms'; did you mean 'epoch_ms'?",
        "request.params.c: '{ day.start }' is not one of {day.start}, {day.end}",
        "request.headers.X-Until: unknown {day.end.iso}; did you mean 'day.end'?",
        "request.body.deep.0: unknown {parent.id}; no parent is declared",
    ):
        assert message in str(caught.value)


def instant_of(value: str | int) -> dt.datetime:
    if isinstance(value, int):
        return dt.datetime.fromtimestamp(value, dt.UTC)
    return dt.datetime.fromisoformat(value)


@given(
    date=st.dates(dt.date(2020, 1, 1), dt.date(2030, 12, 31)),
    zone=st.sampled_from(ZONES),
    written_in=st.sampled_from(ZONES),
    start=st.sampled_from(["inclusive", "exclusive"]),
    end=st.sampled_from(["inclusive", "exclusive"]),
    granularity=st.sampled_from(["second", "minute", "hour"]),
    form=st.sampled_from(["iso", "epoch_s"]),
    micros=st.lists(st.integers(-2 * 86_400 * 10**6, 3 * 86_400 * 10**6), max_size=5),
)
def test_nothing_of_a_day_is_left_out_and_nothing_beyond_it_comes_in_silence(micros: list[int], **options: Any) -> None:
    """An API that compares as declared returns every record of the day; others only where the bound says so."""
    day = Day(date=options["date"], zone=options["zone"])
    fine = options["granularity"]
    bounds = Bounds(
        start=options["start"], end=options["end"], granularity=fine, format=options["form"], zone=options["written_in"]
    )
    low, high = day_bound(day, "start", bounds), day_bound(day, "end", bounds)
    since, until = instant_of(low.value), instant_of(high.value)
    micro = dt.timedelta(microseconds=1)
    edges = [day.start - micro, day.start, day.start + micro, day.end - micro, day.end, day.end + micro]
    for moment in [*edges, *(day.start + dt.timedelta(microseconds=each) for each in micros)]:
        offset = _offset(moment, options)
        seen = _cut(moment, STEPS[fine], offset)
        after = seen >= since if options["start"] == "inclusive" else seen > since
        before = seen <= until if options["end"] == "inclusive" else seen < until
        if day.start <= moment < day.end:
            assert after, (moment, since)
            assert before, (moment, until)
        elif moment < day.start:
            assert not after or low.includes_other_days
        else:
            assert not before or high.includes_other_days


def _offset(moment: dt.datetime, options: Any) -> dt.timedelta:
    from zoneinfo import ZoneInfo

    return moment.astimezone(ZoneInfo(options["written_in"])).utcoffset() or dt.timedelta()


def _cut(moment: dt.datetime, seconds: int, offset: dt.timedelta) -> dt.datetime:
    return moment - (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + offset) % dt.timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("form", "bounds", "sent"),
    [
        ("iso", {}, ("2026-10-05T00:00:00Z", "2026-10-06T00:00:00Z")),
        ("iso", {"end": "inclusive"}, ("2026-10-05T00:00:00Z", "2026-10-05T23:59:59Z")),
        ("iso", {"start": "exclusive"}, ("2026-10-04T23:59:59Z", "2026-10-06T00:00:00Z")),
        ("iso_ms", {"end": "inclusive", "granularity": "millisecond"},
         ("2026-10-05T00:00:00.000Z", "2026-10-05T23:59:59.999Z")),
        ("date", {"end": "inclusive"}, ("2026-10-05", "2026-10-05")),
        ("date", {}, ("2026-10-05", "2026-10-06")),
        ("sql", {"end": "inclusive", "granularity": "minute"}, ("2026-10-05 00:00:00", "2026-10-05 23:59:00")),
        ("epoch_ms", {}, (1_791_158_400_000, 1_791_244_800_000)),
        ("iso_us", {"end": "inclusive", "granularity": "microsecond"},
         ("2026-10-05T00:00:00.000000Z", "2026-10-05T23:59:59.999999Z")),
        ("rfc2822", {}, ("Mon, 05 Oct 2026 00:00:00 +0000", "Tue, 06 Oct 2026 00:00:00 +0000")),
        ("%Y%m%d", {"end": "inclusive"}, ("20261005", "20261005")),
        ("%m/%d/%Y", {}, ("10/05/2026", "10/06/2026")),
        ("%Y-%m-%d %H:%M UTC", {"end": "inclusive", "granularity": "minute"},
         ("2026-10-05 00:00 UTC", "2026-10-05 23:59 UTC")),
    ],
)  # fmt: skip
def test_bounds_are_written_in_the_declared_format(form: str, bounds: dict[str, Any], sent: tuple[Any, Any]) -> None:
    made = Bounds(format=form, **bounds)
    assert (day_bound(DAY, "start", made).value, day_bound(DAY, "end", made).value) == sent
    assert not day_bound(DAY, "start", made).includes_other_days
    assert not day_bound(DAY, "end", made).includes_other_days


def test_an_end_that_is_written_coarser_than_the_api_compares_is_wide_and_not_short() -> None:
    found = day_bound(DAY, "end", Bounds(end="inclusive", granularity="millisecond", format="iso"))
    assert (found.value, found.includes_other_days) == ("2026-10-06T00:00:00Z", True)


def test_a_local_time_that_comes_twice_is_moved_outward() -> None:
    """01:00 in London on 25 October 2026 is midnight in UTC, and one hour later again."""
    day = Day(date=dt.date(2026, 10, 25))
    bounds = Bounds(format="iso_local", zone="Europe/London")
    assert day_bound(day, "start", bounds) == ("2026-10-25T00:00:00", True)
    assert day_bound(Day(date=dt.date(2026, 10, 24)), "end", bounds) == ("2026-10-25T02:00:00", True)


@pytest.mark.parametrize("outside", ["fail", "count", "drop"])
def test_a_day_whose_bounds_cover_others_is_refused_unless_those_are_dropped(outside: str) -> None:
    source = declared(
        "/pages",
        PageNumber(ends="empty_page"),
        zone="US/Pacific",
        bounds=Bounds(format="date", zone="UTC"),
        records=records(day="at", outside=outside),
    )
    from airflow_provider_connect.connection import Connection

    poller = source.open(Connection(conn_id="api", host="http://127.0.0.1"), PollContext())
    day = Day(date=DAY.date, zone="US/Pacific")
    if outside == "drop":
        assert len(poller.plan([day])) == 1
    else:
        with pytest.raises(ConfigError, match="also covers records of another day"):
            poller.plan([day])


def test_a_pattern_is_a_format_of_a_placeholder() -> None:
    source = declared("/x", Single(), request={"path": "/x", "params": {"day": "{day.start:%d.%m.%Y}"}})
    assert fill_request(source.request, DAY, source.bounds, {}).params == (("day", "05.10.2026"),)
    with pytest.raises(ConfigError, match=r"\{day\.start\}: the pattern '%Y' needs %Y, %m \(or %b, %B\) and %d"):
        declared("/x", Single(), request={"path": "/x", "params": {"day": "{day.start:%Y}"}})


def test_a_pattern_of_a_local_time_is_never_in_the_hour_that_comes_twice() -> None:
    bounds = Bounds(format="%Y-%m-%d %H:%M", zone="Europe/London")
    assert day_bound(Day(date=dt.date(2026, 10, 25)), "start", bounds) == ("2026-10-25 00:00", True)
    with_zone = Bounds(format="%Y-%m-%d %H:%M %z", zone="Europe/London")
    assert day_bound(Day(date=dt.date(2026, 10, 25)), "start", with_zone) == ("2026-10-25 01:00 +0100", False)


@pytest.mark.parametrize("query", ["query{orders{id}}", "{orders{id}}", "query($a:Int){orders(n:$a){day{start},id}}"])
def test_braces_of_a_query_are_literal_text(query: str) -> None:
    body = {"query": query, "since": "{day.start}", "until": "{day.end}"}
    source = declared("/x", Single(), request={"path": "/x", "method": "POST", "body": body})
    assert fill_request(source.request, DAY, source.bounds, {}).body["query"] == query


@pytest.mark.parametrize("text", ["{start}", "from {start:date} on"])
def test_a_name_without_a_dot_is_no_placeholder(text: str) -> None:
    with pytest.raises(ConfigError, match=r"request\.params\.since: unknown \{start\}; did you mean 'day\.start'"):
        declared("/x", Single(), request={"path": "/x", "params": {"since": text, "until": "{day.end}"}})
