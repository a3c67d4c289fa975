"""Days of a lookback under a real spark-submit: an unchanged one is confirmed in the log, a changed one published."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from deltalake import DeltaTable

pytestmark = pytest.mark.slow

MONDAY, TUESDAY, WEDNESDAY = (f"2026-10-{day:02d}" for day in range(5, 8))


def told(ended):
    assert ended.report.exit_code == 0, ended.output
    return {str(day.day): (day.status, day.generation) for day in ended.report.days}


def files(submit) -> set[Path]:
    return {path for path in submit.table.glob("day=*/*.parquet") if MONDAY in str(path.parent)}


def test_the_same_answer_is_confirmed_and_a_late_event_is_published(submit):
    submit.here([MONDAY], has_lookback=True)
    before, uris = files(submit), DeltaTable(str(submit.table)).file_uris()
    look_back = submit.run([TUESDAY], token="b" * 32, lookback=[MONDAY])
    assert look_back.process.returncode == 0, look_back.output
    assert told(look_back) == {TUESDAY: ("published", 1), MONDAY: ("unchanged", 1)}
    assert f"day {MONDAY}: unchanged as generation 1, 2,000 rows" in look_back.output
    assert files(submit) == before, "an unchanged answer left a data file"
    assert {uri for uri in DeltaTable(str(submit.table)).file_uris() if MONDAY in uri} == set(uris)

    retry = submit.here([TUESDAY], token="b" * 32, lookback=[MONDAY])
    assert told(retry) == {TUESDAY: ("already_published", 1), MONDAY: ("already_published", 1)}

    submit.standin.project = dataclasses.replace(submit.standin.project, late_per_day=1)
    late = submit.here([WEDNESDAY], token="c" * 32, lookback=[MONDAY, TUESDAY])
    assert told(late) == {WEDNESDAY: ("published", 1), MONDAY: ("published", 2), TUESDAY: ("published", 2)}
    figures = {str(day.day): (day.rows_before, day.rows_written) for day in late.report.days}
    assert figures[MONDAY] == figures[TUESDAY] == (2000, 2001)
    assert submit.rows() == submit.served([MONDAY, TUESDAY, WEDNESDAY])

    clear = submit.here([MONDAY], token="d" * 32)
    assert told(clear) == {MONDAY: ("published", 3)}, "a clear loads a day whatever it holds"
