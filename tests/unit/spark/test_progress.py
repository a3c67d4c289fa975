"""The lines of a poll that goes on, as the driver prints them."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.spark.progress import PollProgress, ProgressFile, ProgressLog, RowEstimate
from airflow_provider_connect.stage.counts import VendorCount
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day
from tests.equipment.line_ledger import LineLedger

DAYS = [Day(date=dt.date(2026, 10, day)) for day in (4, 5, 6)]
DAY = DAYS[1]


@pytest.fixture
def ledger(tmp_path: Path) -> LineLedger:
    return LineLedger(tmp_path / "ledger")


@pytest.fixture
def root(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path / "stage"))


def lines(root: Folder, rows: RowEstimate | None, poll: PollProgress, *signs: dict[str, int]) -> list[str]:
    """Return the line of each moment, ten seconds apart, a minute after the poll began."""
    progress, told = ProgressLog(root, 60, 1, rows), []
    for at, sign in enumerate(signs):
        for each in poll.progress_files.values():
            seen = {
                "rows": 0,
                "raw_bytes": 0,
                "wire_bytes": 0,
                "announced_bytes": 0,
                "announced_rows": 0,
                "retries": [],
                "note": "",
            }
            root.write(each.path, json.dumps(seen | sign).encode())
        told.append(progress._line(poll, 60 + 10 * at))
    return told


def poll_of(parts: int = 1) -> PollProgress:
    return PollProgress([DAY], {at: ProgressFile(DAY, f"{at}.json") for at in range(parts)})


def unknown(day: Day) -> VendorCount | None:
    return None


GROWS: Any = ({"rows": 6000, "raw_bytes": 6_000_000}, {"rows": 9000, "raw_bytes": 9_000_000})


def test_rows_of_the_day_before_tell_the_time_left(ledger: LineLedger, root: Folder) -> None:
    ledger.add(LedgerRow(day=DAYS[0].date, generation=1, token="t", rows=90_000))
    told = lines(root, RowEstimate(ledger, "day", unknown), poll_of(), *GROWS)
    assert told == [
        "6,000 rows, 6.0 MB, 0.1 MB/s, 100 rows/s",
        "9,000 rows, 9.0 MB, 0.1 MB/s, 129 rows/s; about 4 min left, as day 2026-10-04 had 90,000 rows",
    ]


def test_before_the_first_byte_no_rate_is_told(root: Folder) -> None:
    assert lines(root, None, poll_of(), {}) == ["no rows yet after 60 s"]
    assert lines(root, None, poll_of(), {"raw_bytes": 3_000_000}) == ["0 rows, 3.0 MB, 0.1 MB/s, 0 rows/s"]


def test_the_best_known_figure_tells_the_time_left(ledger: LineLedger, root: Folder) -> None:
    for day, rows in ((DAYS[0], 5), (DAY, 15_000)):
        ledger.add(LedgerRow(day=day.date, generation=1, token="t", rows=rows))
    known = RowEstimate(ledger, "day", unknown)
    assert lines(root, known, poll_of(), *GROWS)[1].endswith("s left, as 15,000 rows of day 2026-10-05 are published")
    known = RowEstimate(ledger, "day", lambda day: VendorCount(12_000))
    assert lines(root, known, poll_of(), *GROWS)[1].endswith("about 10 s left, as the source counts 12,000 rows")
    paged = [sign | {"announced_rows": 18_000} for sign in GROWS]
    assert lines(root, known, poll_of(), *paged)[1].endswith("about 30 s left, as 18,000 rows were announced")
    wire = [sign | {"wire_bytes": at * 2_000_000, "announced_bytes": 10_000_000} for at, sign in enumerate(GROWS, 1)]
    assert lines(root, known, poll_of(), *wire)[1].endswith("about 30 s left, as 10.0 MB were announced")


def test_partitions_that_have_ended_tell_the_time_left(ledger: LineLedger, root: Folder) -> None:
    poll, noted = poll_of(12), []
    ended = poll.count_ended(lambda part, outcome: noted.append(part.index))
    for index in range(4):
        ended(SimpleNamespace(index=index), None)
    assert noted == [0, 1, 2, 3]
    [line] = lines(root, RowEstimate(ledger, "snapshot", unknown), poll, {"rows": 1})
    assert line.endswith("about 2 min left, as 4 of 12 partitions have ended")


def test_no_time_left_is_logged_without_an_estimate(ledger: LineLedger, root: Folder) -> None:
    assert "left" not in lines(root, RowEstimate(ledger, "day", unknown), poll_of(), *GROWS)[1]
    ledger.add(LedgerRow(day=DAYS[0].date, generation=1, token="t", rows=90_000))
    assert "left" not in lines(root, RowEstimate(ledger, "increment", unknown), poll_of(), *GROWS)[1]
    taken_over = PollProgress(
        [DAY], {1: ProgressFile(DAY, "1.json")}, reused_parts=1
    )  # the rows of the other partition are in no sign
    assert "left" not in lines(root, RowEstimate(ledger, "day", unknown), taken_over, *GROWS)[1]
    assert RowEstimate(ledger, "day", unknown).estimate([DAY], 5.0) is None  # a short poll asks no ledger


def test_a_ledger_that_is_away_costs_the_estimate_alone(
    ledger: LineLedger, root: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def away(*_: Any) -> None:
        asked.append(1)
        raise OSError("away")

    monkeypatch.setattr(ledger, "between", away)
    assert "left" not in lines(root, RowEstimate(ledger, "day", unknown), poll_of(), *GROWS, *GROWS)[1]
    assert len(asked) == 1


def test_a_window_tells_how_long_its_other_days_take(
    root: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("airflow_provider_connect.spark.progress.time.monotonic", lambda: now[0])
    progress = ProgressLog(root, 60, 3)
    progress.end_day(DAYS[0], "already published")  # what was not polled tells nothing
    with progress.polling(PollProgress([DAY], {})):
        now[0] = 120.0
    progress.end_day(DAY, "published")
    printed = capfd.readouterr().err.splitlines()
    assert printed == [
        "connect: day 2026-10-04: already published (1 of 3 days)",
        "connect: day 2026-10-05: published (2 of 3 days, about 2 min left)",
    ]
