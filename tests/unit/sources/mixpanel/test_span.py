"""One export of several days is cut into the same days as one export for each, whatever order its lines come in."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.jsonlines import blocks
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, PollContext
from airflow_provider_connect.sources._mixpanel.day_cutter import row_maker_for
from airflow_provider_connect.sources._mixpanel.export_reader import ExportReader
from airflow_provider_connect.sources._mixpanel.records import RecordReader
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.stage.key_digest import KeyDigest
from airflow_provider_connect.stage.rejects import Tolerance
from airflow_provider_connect.window import Day, parse_days
from tests.equipment.mixpanel import connection
from tests.standins.mixpanel.bodies import DayStore
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn
from tests.unit.sources.mixpanel.hostile.test_faults import RETRIABLE

PROJECT = {"events_per_day": 40, "duplicates_per_day": 6, "missing_ids_per_day": 3}
NOWHERE = Connection(conn_id="m", conn_type="mixpanel", login="u", password="p", extra={"project_id": "1"})
PACIFIC = {"zone": "US/Pacific"}


@pytest.fixture(scope="module")
def standin() -> Iterator[StandIn]:
    with StandIn(Project(**PROJECT)) as server:
        yield server


@pytest.fixture
def mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the lines of all days of an answer come in one order that knows no days."""
    in_turn = DayStore.lines

    def lines(self: DayStore, dates: Any, unit: Any) -> Iterable[bytes]:
        found = list(in_turn(self, dates, unit))
        random.Random(7).shuffle(found)
        return found

    monkeypatch.setattr(DayStore, "lines", lines)


def poll(server: StandIn, days: list[Day], *faults: Fault, **options: Any) -> dict[Day, tuple[Any, ...]]:
    """Poll days in as many requests as the plan has; return what is staged of each: rows, digest, counts, span."""
    server.faults.replace(faults)
    found: dict[Day, tuple[Any, ...]] = {}
    with MixpanelSource(**options).open(connection(server), PollContext()) as poller:
        schema = poller.schema()
        for part in poller.plan(days):
            tally, digests = Tally(part.days), {day: KeyDigest(schema) for day in part.days}
            rows = dict.fromkeys(part.days, 0)
            for day, batch in poller.poll(part, tally):
                assert batch.schema.equals(schema)
                digests[day].add(batch)
                rows[day] += batch.num_rows
            for day in part.days:
                own = tally.for_day(day)
                found[day] = rows[day], digests[day].text, own.rows, dict(own.counts), own.earliest, own.latest
    return found


def requests(server: StandIn) -> int:
    return sum(sum(by_status.values()) for by_status in server.stats["requests"].values())


@pytest.mark.parametrize("order", ["in turn", "mixed"])
@pytest.mark.parametrize(
    ("regime", "zone", "days"),
    [
        ("utc", "UTC", "2025-02-27..2025-03-02"),
        ("utc", "US/Pacific", "2025-03-08..2025-03-10"),  # a day of 23 hours
        ("utc", "US/Pacific", "2025-11-01..2025-11-03"),  # one of 25
        ("utc", "Europe/London", "2025-03-29..2025-03-31"),  # the request covers more at one end only
        ("utc", "Asia/Kolkata", "2025-03-01..2025-03-03"),
        ("project_local", "US/Pacific", "2025-03-08..2025-03-10"),
        ("project_local", "US/Pacific", "2025-11-01..2025-11-03"),
        ("project_local", "America/Sao_Paulo", "2018-11-03..2018-11-05"),  # a midnight that the clock skipped
        ("project_local", "America/Sao_Paulo", "2018-02-16..2018-02-18"),  # an evening that it showed twice
    ],
)
def test_days_of_one_request_are_those_of_one_request_each(
    request: pytest.FixtureRequest, regime: Any, zone: str, days: str, order: str
) -> None:
    if order == "mixed":
        request.getfixturevalue("mixed")
    wanted = parse_days(days, zone)
    options = {"timestamps": regime, "zone": zone}
    with StandIn(Project(regime=regime, timezone=zone, **PROJECT)) as server:
        together = poll(server, wanted, days_per_request=len(wanted), **options)
        assert requests(server) == 1
        apart = poll(server, wanted, **options)
        assert requests(server) == 1 + len(wanted)
    for day in wanted:
        covers_more = regime == "utc" and zone != "UTC"
        assert _without(together[day], "other_day" if covers_more else "") == _without(
            apart[day], "other_day" if covers_more else ""
        )
    if regime == "project_local" or zone == "UTC":
        # The first and the last instant of each day have an event: none has moved over a boundary.
        assert all(together[day][0] == PROJECT["events_per_day"] for day in wanted)
    else:
        dropped = sum(found[3].get("other_day", 0) for found in together.values())
        assert 0 < dropped < sum(found[3].get("other_day", 0) for found in apart.values())


def test_a_day_of_23_hours_within_one_utc_date_leaves_the_24th_hour_to_the_next() -> None:
    """London, when summer time begins: both requests bring that hour, and one day has it."""
    days = parse_days("2025-03-30..2025-03-31", "Europe/London")
    with StandIn(Project(events_per_day=48)) as server:
        found = poll(server, days, timestamps="utc", zone="Europe/London")
    assert [(rows, counts["other_day"]) for rows, _, _, counts, _, _ in found.values()] == [(46, 2), (48, 48)]
    assert next(iter(found.values()))[5] < days[0].end


def _without(found: tuple[Any, ...], count: str) -> tuple[Any, ...]:
    """Leave out what a narrower request sees more of: rows of other days, their duplicates and odd keys."""
    if not count:
        return found
    rows, digest, _, _, earliest, latest = found
    return rows, digest, earliest, latest


def test_days_without_events_are_whole_and_empty() -> None:
    days = parse_days("2025-03-01..2025-03-04", "UTC")
    with StandIn(Project(empty_dates=frozenset({days[1].date, days[3].date}), **PROJECT)) as server:
        found = poll(server, days, days_per_request=4)
    assert [found[day][0] for day in days] == [40, 0, 40, 0]
    with StandIn(Project(empty_dates=frozenset(day.date for day in days))) as server:
        assert [rows for rows, *_ in poll(server, days, days_per_request=4).values()] == [0] * 4


@pytest.mark.parametrize("kind", RETRIABLE)
def test_a_cut_answer_publishes_none_of_its_days(standin: StandIn, kind: str) -> None:
    with pytest.raises(RetriableError, match=RETRIABLE[kind]):
        poll(standin, parse_days("2025-03-01..2025-03-03", "UTC"), Fault(kind, at=0.9), days_per_request=3)


@pytest.mark.parametrize("kind", ["bad_line", "bad_utf8", "no_event"])
def test_a_line_that_is_no_record_fails_all_days_or_is_kept_with_the_first(standin: StandIn, kind: str) -> None:
    """Nobody knows whose it is."""
    days = parse_days("2025-03-01..2025-03-03", "UTC")
    with pytest.raises(DataError, match=r"line at byte [0-9]+ of the answer"):
        poll(standin, days, Fault(kind), days_per_request=3)
    found = poll(standin, days, Fault(kind), days_per_request=3, errors_tolerance="all")
    assert [counts.get("rejected", 0) for _, _, _, counts, _, _ in found.values()] == [1, 0, 0]
    assert [rows for rows, *_ in found.values()] == [40] * 3
    with pytest.raises(DataError, match="more than max_rejects=2: "):
        poll(standin, days, Fault(kind, count=3), days_per_request=3, errors_tolerance="all", max_rejects=2)


def test_the_days_of_a_request_are_named_as_the_project_reads_dates() -> None:
    asked = {
        ("UTC", "utc"): ("2025-03-08", "2025-03-10"),
        ("US/Pacific", "project_local"): ("2025-03-08", "2025-03-10"),
        ("US/Pacific", "utc"): ("2025-03-08", "2025-03-11"),
        ("Asia/Kolkata", "utc"): ("2025-03-07", "2025-03-10"),
    }
    for (zone, regime), ends in asked.items():
        source = MixpanelSource(zone=zone, timestamps=regime, days_per_request=3)
        days = parse_days("2025-03-08..2025-03-10", zone)
        with source.open(NOWHERE, PollContext()) as poller:
            (part,) = poller.plan(days)
            assert part == poller.plan(days)[0]
            assert InputPartition.model_validate_json(part.model_dump_json()) == part
        assert part.days == tuple(days)
        assert (part.params["from_date"], part.params["to_date"]) == ends


def test_a_request_takes_only_days_that_follow_each_other_and_no_more_than_it_may() -> None:
    days = [*parse_days("2011-12-26..2011-12-29", "Pacific/Apia"), *parse_days("2011-12-31", "Pacific/Apia")]
    options = {"zone": "Pacific/Apia", "timestamps": "project_local", "days_per_request": 3}
    with MixpanelSource(**options).open(NOWHERE, PollContext()) as poller:
        parts = poller.plan(days)
    assert [[day.date.day for day in part.days] for part in parts] == [[26, 27, 28], [29], [31]]
    assert [part.index for part in parts] == [0, 1, 2]


def test_one_day_that_is_not_over_is_named_before_anything_is_asked(standin: StandIn) -> None:
    today = standin.today
    days = [Day(date=today - dt.timedelta(days=ago)) for ago in (2, 1, 0)]
    before = requests(standin)
    with pytest.raises((ConfigError, RetriableError), match=f"day {today} is not over yet"):
        poll(standin, days, days_per_request=3)
    assert requests(standin) == before


# Lines that no server of ours would send

DAYS = parse_days("2025-03-08..2025-03-10", "US/Pacific")


def cut(times: list[Any], regime: str = "project_local", **options: Any) -> tuple[dict[int, list[int]], Tally]:
    """Read records with these times; return their numbers by the day of the month, and what was counted."""
    source = MixpanelSource(timestamps=regime, days_per_request=3, errors_tolerance="all", **(PACIFIC | options))
    with source.open(NOWHERE, PollContext()) as poller:
        (part,) = poller.plan(DAYS)
    body = b"".join(
        json.dumps({"event": "e", "properties": {"time": time, "distinct_id": str(n), "$insert_id": "i"}}).encode()
        + b"\n"
        for n, time in enumerate(times)
    )
    reader, tally = RecordReader(), Tally(part.days)
    found: dict[int, list[int]] = {}
    with KeySet() as keys:
        rows = row_maker_for(part, source, reader.field_names, keys, tally)
        stray = tally.for_day(part.days[0])
        export = ExportReader(reader, rows, Tolerance("all", 9), tally, 1 << 20, stray_tally=stray)
        for block in blocks(iter([body]), 1 << 20):
            for day, batch in export.read_block(block):
                found.setdefault(day.date.day, []).extend(map(int, _ids(batch)))
        export.finish()
    return found, tally


def _ids(batch: pa.RecordBatch) -> list[str]:
    return [str(one) for one in batch.column("distinct_id").to_pylist()]


def wall(text: str) -> int:
    """Return what the project's clock showed, written as if it were an epoch."""
    return int(dt.datetime.fromisoformat(f"{text}+00:00").timestamp())


def test_an_event_on_a_boundary_belongs_to_the_day_that_begins() -> None:
    clock = ["2025-03-08 00:00:00", "2025-03-08 23:59:59", "2025-03-09 00:00:00", "2025-03-10 23:59:59"]
    found, tally = cut([wall(text) for text in clock])
    assert found == {8: [0, 1], 9: [2], 10: [3]}
    assert tally.for_day(DAYS[0]).counts["outside_day"] == 0
    epochs = [int(instant.timestamp()) for day in DAYS for instant in (day.start, day.end - dt.timedelta(seconds=1))]
    found, _ = cut(epochs, regime="utc")
    assert found == {8: [0, 1], 9: [2, 3], 10: [4, 5]}


def test_an_event_outside_the_days_stays_with_the_nearest_where_the_server_decides() -> None:
    found, tally = cut([wall("2025-03-07 23:59:59"), wall("2025-03-12 06:00:00"), wall("2025-03-09 12:00:00")])
    assert found == {8: [0], 9: [2], 10: [1]}
    assert [tally.for_day(day).counts["outside_day"] for day in DAYS] == [1, 0, 1]


def test_an_event_outside_the_days_is_dropped_where_the_request_covers_more() -> None:
    inside = int(DAYS[1].start.timestamp())
    found, tally = cut(
        [int(DAYS[0].start.timestamp()) - 1, int(DAYS[-1].end.timestamp()), inside],
        regime="utc",
    )
    assert found == {9: [2]}
    assert [tally.for_day(day).counts["other_day"] for day in DAYS] == [1, 0, 1]


@pytest.mark.parametrize("regime", ["utc", "project_local"])
def test_an_event_without_a_time_is_rejected(regime: str) -> None:
    found, tally = cut(["soon", wall("2025-03-09 12:00:00"), None], regime=regime)
    assert found == {9: [1]}
    first = tally.for_day(DAYS[0])
    assert (first.counts["time_unreadable"], first.counts["rejected"]) == (2, 2)
    assert {reject.reason for reject in first.rejects} == {"it has no usable time, so its day is unknown"}
    assert tally.rows_of_all_days == 3


def test_a_key_that_two_days_share_is_two_rows() -> None:
    """$insert_id may be reused: the key has the time in it."""
    times = [wall("2025-03-08 12:00:00"), wall("2025-03-09 12:00:00")]
    found, _ = cut(times)
    assert found == {8: [0], 9: [1]}
