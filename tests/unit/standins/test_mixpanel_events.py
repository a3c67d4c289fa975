from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from tests.standins.mixpanel.events import Project

DATE = dt.date(2026, 10, 5)
RICH = Project(seed=7, events_per_day=1500, duplicates_per_day=40, missing_ids_per_day=9, late_per_day=11)
PACIFIC = Project(seed=7, regime="project_local", timezone="US/Pacific", events_per_day=500)
SPRING, AUTUMN = dt.date(2026, 3, 8), dt.date(2026, 11, 1)


def rows_of(project: Project, date: dt.date) -> list[dict]:
    return [json.loads(line) for line in project.lines(date)]


def wall_hours(project: Project, date: dt.date) -> Counter[tuple[dt.date, int]]:
    walls = (dt.datetime.fromtimestamp(row["properties"]["time"], dt.UTC) for row in rows_of(project, date))
    return Counter((wall.date(), wall.hour) for wall in walls)


def test_same_seed_and_date_give_the_same_bytes_in_another_process() -> None:
    code = (
        "import datetime as dt, hashlib, sys\n"
        "from tests.standins.mixpanel.events import Project\n"
        "p = Project(seed=7, events_per_day=1500, duplicates_per_day=40, missing_ids_per_day=9, late_per_day=11)\n"
        "sys.stdout.buffer.write(b''.join(p.lines(dt.date(2026, 10, 5))))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60).stdout
    assert other == b"".join(RICH.lines(DATE))


@pytest.mark.parametrize("changed", [{"seed": 8}, {"events_per_day": 1501}])
def test_another_seed_gives_other_events(changed: dict) -> None:
    other = replace(RICH, **changed)
    assert list(other.lines(DATE)) != list(RICH.lines(DATE))
    assert other.fingerprint != RICH.fingerprint


def test_another_date_gives_other_events() -> None:
    assert set(RICH.lines(DATE)).isdisjoint(RICH.lines(DATE + dt.timedelta(days=1)))


def test_lines_are_compact_json_of_the_vendors_shape_and_size() -> None:
    lines = list(replace(RICH, events_per_day=6000).lines(DATE))
    assert sum(map(len, lines)) / len(lines) == pytest.approx(836, abs=8)
    for line in lines:
        row = json.loads(line)
        assert line.endswith(b"}\n")
        assert line.count(b"\n") == 1
        assert list(row) == ["event", "properties"]
        assert line.rstrip(b"\n") == json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()


def test_events_hold_what_trips_readers() -> None:
    text = b"".join(RICH.lines(DATE)).decode()
    for trap in ("\u2028", "\u0085", "\\\\", '\\"', "🎯", '"undefined"', '"<null>"', '\\"properties\\":{', "São Paulo"):
        assert trap in text, trap
    amounts = {type(row["properties"].get("amount", ...)) for row in RICH.expected_rows(DATE)}
    assert amounts == {int, float, str, type(None), type(...)}


def test_truth_agrees_with_what_is_served() -> None:
    truth, rows, kept = RICH.truth(DATE), rows_of(RICH, DATE), RICH.expected_rows(DATE)
    assert len(rows) == truth.lines == 1500 + 40 + 11
    assert len(kept) == truth.rows == 1500 + 11
    assert truth.lines - truth.rows == truth.duplicates == 40
    lacking = [row for row in rows if not {"$insert_id", "distinct_id"} <= row["properties"].keys()]
    assert len(lacking) == truth.missing_ids == 9
    assert {"$insert_id" in row["properties"] for row in lacking} == {True, False}
    late = [row for row in rows if str(row["properties"].get("$insert_id")).startswith("late")]
    assert len(late) == truth.late == 11
    for row in late:
        days = (row["properties"]["mp_processing_time_ms"] / 1000 - row["properties"]["time"]) / 86_400
        assert 1 <= days <= 5.01


def test_duplicates_share_the_key_and_not_always_the_bytes() -> None:
    lines = list(RICH.lines(DATE))
    identical = len(lines) - len(set(lines))
    assert 0 < identical < 40


def test_a_reused_insert_id_is_no_duplicate() -> None:
    ids = Counter(row["properties"].get("$insert_id") for row in RICH.expected_rows(DATE))
    del ids[None]
    assert max(ids.values()) == 2


def test_late_events_change_nothing_else() -> None:
    early = list(replace(RICH, late_per_day=0).lines(DATE))
    later = list(RICH.lines(DATE))
    assert [line for line in later if b'"$insert_id":"late' not in line] == early


def test_an_empty_date_is_empty() -> None:
    project = replace(RICH, empty_dates=frozenset({DATE}))
    assert list(project.lines(DATE)) == project.expected_rows(DATE) == []
    assert project.truth(DATE).lines == 0
    assert project.truth(DATE + dt.timedelta(days=1)).rows == 1511


def test_a_utc_day_has_all_its_hours_whatever_the_zone() -> None:
    project = replace(PACIFIC, regime="utc")
    for date in (SPRING, AUTUMN):
        assert wall_hours(project, date).keys() == {(date, hour) for hour in range(24)}
        times = [row["properties"]["time"] for row in rows_of(project, date)]
        midnight = int(dt.datetime.combine(date, dt.time(), tzinfo=dt.UTC).timestamp())
        assert (min(times), max(times)) == (midnight, midnight + 86_399)


def test_a_local_day_of_23_hours_has_no_time_in_the_gap() -> None:
    assert wall_hours(PACIFIC, SPRING).keys() == {(SPRING, hour) for hour in range(24) if hour != 2}


def test_a_local_day_of_25_hours_has_the_repeated_hour_twice() -> None:
    hours = wall_hours(PACIFIC, AUTUMN)
    assert hours.keys() == {(AUTUMN, hour) for hour in range(24)}
    assert hours[AUTUMN, 1] > 1.6 * hours[AUTUMN, 5]


@pytest.mark.parametrize(
    ("zone", "date", "absent_hour"),
    [("America/Santiago", dt.date(2026, 9, 6), 0), ("Asia/Kathmandu", DATE, None), ("America/Havana", SPRING, 0)],
)
def test_local_days_where_midnight_is_skipped_or_the_offset_is_odd(
    zone: str, date: dt.date, absent_hour: int | None
) -> None:
    project = replace(PACIFIC, timezone=zone)
    assert wall_hours(project, date).keys() == {(date, hour) for hour in range(24) if hour != absent_hour}


def test_processing_time_is_utc_in_both_regimes() -> None:
    zone = ZoneInfo("US/Pacific")
    for row in rows_of(PACIFIC, DATE):
        properties = row["properties"]
        wall = dt.datetime.fromtimestamp(properties["time"], dt.UTC).replace(tzinfo=zone)
        delay = properties["mp_processing_time_ms"] / 1000 - wall.timestamp()
        assert 0 <= delay <= 92


def test_time_in_ms_is_the_same_time_finer() -> None:
    for fine, coarse in zip(RICH.lines(DATE, "ms"), RICH.lines(DATE), strict=True):
        assert json.loads(fine)["properties"]["time"] // 1000 == json.loads(coarse)["properties"]["time"]


@pytest.mark.parametrize(
    "counts", [{"events_per_day": -1}, {"missing_ids_per_day": 2000}, {"events_per_day": 0, "missing_ids_per_day": 0}]
)
def test_impossible_counts_are_refused(counts: dict) -> None:
    with pytest.raises(ValueError, match=r"missing_ids_per_day|duplicates"):
        replace(RICH, **counts)
