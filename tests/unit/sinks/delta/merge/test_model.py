"""Any order of loads, reloads and deletes gives the table that a dictionary gives."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_connect.sinks._delta.merge import matching
from tests.equipment.delta.merging import DAYS, MergeLab

VERSIONS = st.one_of(st.none(), st.just(float("nan")), st.sampled_from([1.0, 2.0, 3.0]))
ROWS = st.tuples(st.integers(0, 5), st.uuids().map(str), VERSIONS, st.one_of(st.none(), st.booleans()))
LOADS = st.lists(st.tuples(st.integers(0, 4), st.lists(ROWS, max_size=8)), min_size=1, max_size=7)


class Model:
    """One row and one delete a day for each key, as the pages promise.

    :param ordered: whether ``newest_by`` decides before the day.
    """

    def __init__(self, *, ordered: bool) -> None:
        self.ordered = ordered
        self.rows: dict[int, tuple[Any, int, str]] = {}
        self.tombstones: dict[int, dict[int, Any]] = {}

    def rank(self, version: float | None) -> float:
        return version if self.ordered and version is not None and version == version else 0.0

    def merge(self, day: int, rows: list[Any]) -> None:
        winners: dict[int, Any] = {}
        for key, value, version, gone in rows:
            if key not in winners or self.rank(version) >= winners[key][0]:
                winners[key] = (self.rank(version), value, bool(gone))
        others = {d: t for d, t in self.tombstones.items() if d != day}
        self.tombstones = others | {day: {key: rank for key, (rank, _, gone) in winners.items() if gone}}
        for key, (rank, value, gone) in winners.items():
            deletes = [(keys[key], d) for d, keys in others.items() if key in keys]
            if any((rank, day) < delete for delete in deletes):
                continue
            if key in self.rows and (rank, day) < self.rows[key][:2]:
                continue
            if gone:
                self.rows.pop(key, None)
            else:
                self.rows[key] = (rank, day, value)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("round_bytes", [matching.ROUND_BYTES, 100])
def test_the_table_is_that_of_a_dictionary(ordered: bool, round_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "ROUND_BYTES", round_bytes)

    @settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
    @given(LOADS)
    def compare(loads: list[tuple[int, list[Any]]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            options = {"newest_by": "version"} if ordered else {}
            lab, model = MergeLab(Path(folder) / "t", delete_where="gone", **options).made(), Model(ordered=ordered)
            for number, (day, rows) in enumerate(loads):
                published = lab.put(DAYS[day], rows, f"load{number}")
                model.merge(day, rows)
                assert lab.shown() == sorted((key, row[2]) for key, row in model.rows.items())
                assert published.rows == sum(row[1] == day for row in model.rows.values())

    compare()
