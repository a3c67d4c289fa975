"""Times as nearly all JSON has them are read a column at once."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_provider_connect.values.json import typed


def test_usual_times_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[object] = []
    monkeypatch.setattr(typed, "_instant", alone.append)
    texts = ["2026-03-01T12:00:00", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00.123456Z", None]
    found, misfits = typed.read_instants(texts)
    noon = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    assert found.to_pylist() == [noon, noon, noon.replace(microsecond=123_456), None]
    assert (misfits, alone) == (0, [None])
