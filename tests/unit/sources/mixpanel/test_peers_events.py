"""What users of other connectors saw in their events, by the issue that told of it, and what ours does.

A bare number is one of https://github.com/airbytehq/airbyte/issues, or of its pull requests.
"""

from __future__ import annotations

import datetime as dt
import json
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, QuotaError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._mixpanel import client
from airflow_provider_connect.sources._mixpanel.access import HOSTS
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import Day
from tests.equipment.http.raw_server import Peer, RawServer
from tests.equipment.mixpanel import DAY, connection, poll
from tests.standins.mixpanel.access import Limits
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn

SMALL = Project(events_per_day=200, duplicates_per_day=5, missing_ids_per_day=8)
PACIFIC = "US/Pacific"


@pytest.fixture(scope="module")
def standin() -> Iterator[StandIn]:
    with StandIn(SMALL) as server:
        yield server


@pytest.fixture
def served(standin: StandIn) -> Iterator[StandIn]:
    """The stand-in, whose project a test may replace."""
    yield standin
    standin.project = SMALL


def asked(server: StandIn) -> int:
    return sum(sum(by.values()) for by in server.stats["requests"].values())


def said(line: str) -> Fault:
    """Answer with this body alone."""
    return Fault("status", status=200, headers={"Content-Type": "text/plain"}, body=line)


# Rate limits


def test_a_429_ended_the_sync_though_it_said_when_to_come_back_9410_7126_16770(standin: StandIn) -> None:
    text = "Query rate limit exceeded for project_id: 1. 1/5 queries running concurrently and 61/60 queries running in "
    used_up = Fault("status", status=429, body=json.dumps({"error": text + "the last hour"}))
    with pytest.raises(QuotaError, match="limit is reached") as caught:
        poll(standin, used_up)
    assert caught.value.said is not None
    assert caught.value.said[:2] == (61, 60), "the next task believes the vendor's count"
    with pytest.raises(RetriableError) as waited:
        poll(standin, Fault("status", status=429, headers={"Retry-After": "17"}))
    assert waited.value.retry_after_seconds == 17
    assert len(poll(standin)[0]) == SMALL.truth(DAY.date).rows


def test_every_request_of_an_export_waited_for_sixty_seconds_29035() -> None:
    with StandIn(SMALL, limits=Limits(queries_per_hour=60, queries_per_second=3, concurrent=100)) as server:
        started = dt.datetime.now(dt.UTC)
        for date in (1, 2, 3):
            poll(server, day=Day(date=dt.date(2026, 3, date)))
        assert dt.datetime.now(dt.UTC) - started < dt.timedelta(seconds=30)


# Memory


def peak_bytes(megabytes: int) -> int:
    """Return how much memory it takes to read a day of this size, Arrow's included; the rows are thrown away."""
    line = b'{"event":"e","properties":{"time":1772323200,"distinct_id":"%07d","$insert_id":"i","text":"%b"}}\n'
    text, count = b"x" * (4096 - len(line % (0, b""))), 256 * megabytes

    def answer(peer: Peer) -> None:
        peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (count << 12))
        for first in range(0, count, 64):
            peer.say(b"".join(line % (number, text) for number in range(first, first + 64)))

    tally, arrow, before = Tally(), 0, pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        with RawServer(answer) as server:
            there = Connection(conn_id="m", host=server.url, login="me", password="-", extra={"project_id": "1"})
            with MixpanelSource().open(there, PollContext()) as poller:
                for part in poller.plan([DAY]):
                    for _ in poller.poll(part, tally):
                        arrow = max(arrow, pa.total_allocated_bytes() - before)
        assert tally.rows == count
        return tracemalloc.get_traced_memory()[1] + arrow
    finally:
        tracemalloc.stop()


def test_a_day_with_more_events_than_memory_killed_the_worker_8427_58611_62845_mixpanel_utils_2_28() -> None:
    peak_bytes(1)  # what is imported then is none of it
    assert peak_bytes(40) - peak_bytes(16) < 8 << 20


# Days, zones, the future


def test_a_date_in_the_future_ended_the_stream_in_silence_23662_30028(
    standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their mend was to stop: the days after it were never loaded, and nobody was told."""
    tomorrow = Day(date=standin.today + dt.timedelta(days=1))
    with pytest.raises(ConfigError, match="not over yet"):
        poll(standin, day=tomorrow)
    monkeypatch.setattr(client, "current_time", lambda: tomorrow.end)
    with pytest.raises(ConfigError, match=r"future in the project's zone\. Check zone and timestamps"):
        poll(standin, day=tomorrow)


@pytest.mark.parametrize("regime", ["utc", "project_local"])
def test_whole_data_sets_were_shifted_by_the_projects_zone_mpmigrate_10(served: StandIn, regime: Any) -> None:
    served.project = Project(events_per_day=300, regime=regime, timezone=PACIFIC)
    rows, _ = poll(served, day=Day(date=DAY.date, zone=PACIFIC), zone=PACIFIC, timestamps=regime)
    assert rows
    for row in rows:
        late = row["processing_time"] - row["time"]
        assert dt.timedelta(seconds=-1) < late < dt.timedelta(seconds=120), "Mixpanel had each of them within a minute"


@pytest.mark.parametrize("regime", ["utc", "project_local"])
def test_a_day_boundary_event_comes_once_and_on_its_own_day_45068_posthog_46625(served: StandIn, regime: Any) -> None:
    """They took to_date, which is included, for the end: the events of each boundary day came twice."""
    served.project = Project(events_per_day=100, regime=regime, timezone=PACIFIC)
    dates = [dt.date(2026, 3, 7) + dt.timedelta(days=number) for number in range(3)]  # the clock changes on the second
    found: Counter[str] = Counter()
    seconds = set()
    for date in dates:
        day = Day(date=date, zone=PACIFIC)
        rows, _ = poll(served, day=day, zone=PACIFIC, timestamps=regime)
        assert all(day.start <= row["time"] < day.end for row in rows)
        found.update(row["record_key"] for row in rows)
        seconds |= {row["time"] for row in rows}
    assert set(found.values()) == {1}
    if regime == "project_local":
        assert len(found) == 300
        for date in dates:  # the server has an event in the first and in the last second of each
            day = Day(date=date, zone=PACIFIC)
            assert {day.start, day.end - dt.timedelta(seconds=1)} <= seconds
    else:
        within = [
            event["properties"]["time"]
            for offset in range(4)
            for event in served.project.expected_rows(dates[0] + dt.timedelta(days=offset))
        ]
        begin, end = Day(date=dates[0], zone=PACIFIC).start, Day(date=dates[-1], zone=PACIFIC).end
        assert len(found) == sum(begin.timestamp() <= time < end.timestamp() for time in within)


# What was missing


def test_late_events_were_cut_off_by_the_cursor_of_the_sync_before_estuary_3546_55673(served: StandIn) -> None:
    """They asked again for a day, but only for events later than the latest that they had."""
    before, _ = poll(served)
    served.project = replace(SMALL, late_per_day=25)
    after, _ = poll(served)
    assert len(after) == len(before) + 25
    assert {row["record_key"] for row in before} < {row["record_key"] for row in after}
    came_in_between = sorted(row["time"] for row in before)
    late = {row["record_key"]: row["time"] for row in after}.items() - {
        row["record_key"]: row["time"] for row in before
    }.items()
    assert any(time < came_in_between[-1] for _, time in late)


def test_a_rewrite_returned_285_rows_fewer_than_there_were_36724(standin: StandIn) -> None:
    rows, tally = poll(standin)
    truth = SMALL.truth(DAY.date)
    assert (len(rows), tally.counts["duplicates"], tally.rows) == (truth.rows, truth.duplicates, truth.lines)
    expected = Counter(json.dumps(one["properties"], sort_keys=True) for one in SMALL.expected_rows(DAY.date))
    assert Counter(json.dumps(json.loads(row["properties"]), sort_keys=True) for row in rows) == expected


@pytest.mark.parametrize("at", [0.0, 0.5, 1.0])
def test_a_day_that_was_terminated_early_passed_for_a_whole_one_mixpanel_utils_5_data_export_js_31(
    standin: StandIn, at: float
) -> None:
    with pytest.raises(RetriableError, match="terminated early"):
        poll(standin, Fault("terminated_early", at=at))


# Keys


def test_events_of_one_user_replaced_each_other_30469(standin: StandIn) -> None:
    """They made distinct_id the key."""
    rows, _ = poll(standin)
    of_one = Counter(row["distinct_id"] for row in rows).most_common(1)[0]
    assert of_one[1] > 1
    assert len({row["record_key"] for row in rows if row["distinct_id"] == of_one[0]}) == of_one[1]


def test_an_event_without_an_insert_id_failed_the_sync_30025_31955_estuary_1877(standin: StandIn) -> None:
    rows, tally = poll(standin)
    without = [row for row in rows if row["insert_id"] is None]
    assert without
    assert {row["key_origin"] for row in without} == {"fallback"}
    assert len({row["record_key"] for row in without}) == len(without)
    assert tally.counts["fallback_keys"] == SMALL.missing_ids_per_day


def test_an_event_without_a_distinct_id_crashed_the_reader_cloudquery_11620(standin: StandIn) -> None:
    rows, _ = poll(standin)
    without = [row for row in rows if row["distinct_id"] is None]
    assert len(without) == sum("distinct_id" not in event["properties"] for event in SMALL.expected_rows(DAY.date)) > 0
    assert {row["key_origin"] for row in without} == {"fallback"}


# Schema


def test_user_name_and_username_became_one_column_of_events_5355(standin: StandIn) -> None:
    line = '{"event":"e","properties":{"time":1772323200,"userName":"Ada","username":"ada","User Name":"A"}}\n'
    (row,), _ = poll(standin, said(line), promote={"userName": "string"})
    assert (row["userName"], json.loads(row["properties"])["username"]) == ("Ada", "ada")
    assert json.loads(row["properties"])["User Name"] == "A"


def test_names_lost_the_dollar_and_the_underscores_before_them_13372(standin: StandIn) -> None:
    line = '{"event":"e","properties":{"time":1772323200,"$browser":"a","_browser":"b","browser":"c","__v":"d"}}\n'
    (row,), _ = poll(standin, said(line), promote={"$browser": "string", "_browser": "string", "browser": "string"})
    assert (row["$browser"], row["_browser"], row["browser"]) == ("a", "b", "c")
    assert list(json.loads(row["properties"])) == ["time", "$browser", "_browser", "browser", "__v"]


def test_the_insert_id_was_in_no_column_21460(standin: StandIn) -> None:
    rows, _ = poll(standin)
    for row in rows:
        assert row["insert_id"] == json.loads(row["properties"]).get("$insert_id")


def test_an_object_in_an_event_became_the_repr_of_a_python_dict_73493(standin: StandIn) -> None:
    properties = '{"time":1772323200,"cart":{"items":[{"sku":"a","on_sale":true,"note":null}]}}'
    (row,), _ = poll(standin, said('{"event":"e","properties":' + properties + "}\n"))
    assert row["properties"] == properties


def test_looking_for_all_properties_took_longer_than_the_sync_might_81343(standin: StandIn) -> None:
    """They asked for the names of all properties first, and failed where there were too many."""
    before = asked(standin)
    many = {f"property {number} ✓.$ 😀": number for number in range(10_000)}
    line = json.dumps({"event": "e", "properties": {"time": 1772323200} | many}) + "\n"
    (row,), tally = poll(standin, said(line))
    assert json.loads(row["properties"]) == {"time": 1772323200} | many
    assert (asked(standin) - before, tally.requests) == (1, 1)


def test_a_property_that_changed_its_type_failed_the_day_or_changed_a_column(standin: StandIn) -> None:
    times = ('"plan":7', '"plan":"seven"', '"plan":{"a":[7]}', '"other":1')
    lines = [
        f'{{"event":"e","properties":{{"time":1772323200,"$insert_id":"{number}",{text}}}}}\n'
        for number, text in enumerate(times)
    ]
    rows, tally = poll(standin, said("".join(lines)), promote={"plan": "bigint"})
    assert [row["plan"] for row in rows] == [7, None, None, None]
    assert tally.counts["promote_null.plan"] == 2
    assert [json.loads(row["properties"]).get("plan") for row in rows] == [7, "seven", {"a": [7]}, None]


# What was not to be had


def test_history_of_more_than_a_year_was_refused_7451(standin: StandIn) -> None:
    long_ago = standin.today - dt.timedelta(days=3 * 365)
    assert len(poll(standin, day=Day(date=long_ago))[0]) == SMALL.truth(long_ago).rows
    days = [Day(date=long_ago + dt.timedelta(days=number)) for number in range(1000)]
    with MixpanelSource().open(connection(standin), PollContext()) as poller:
        assert len(poller.plan(days)) == 1000


def test_projects_in_india_could_not_be_read_openpanel_359() -> None:
    assert HOSTS["in"] == "data-in.mixpanel.com"


# Lines


def test_a_line_break_inside_a_value_broke_the_record_in_two_11018(standin: StandIn) -> None:
    head, tail = '{"event":"e","properties":{"time":1772323200,"text":"one', 'two"}}'
    (row,), tally = poll(standin, said(f"{head}\n{tail}\n"))
    assert json.loads(row["properties"])["text"] == "one\ntwo"
    assert tally.counts["rejected"] == 0


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c"])
def test_a_separator_of_unicode_broke_the_record_in_two_11018(standin: StandIn, character: str) -> None:
    text = json.dumps(f"one{character}two", ensure_ascii=character < " ")
    (row,), tally = poll(standin, said(f'{{"event":"e","properties":{{"time":1772323200,"text":{text}}}}}\n'))
    assert json.loads(row["properties"])["text"] == f"one{character}two"
    assert tally.counts["rejoined"] == 0
