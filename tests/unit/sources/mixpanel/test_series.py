"""Flattening the series of saved reports: no value is lost or doubled, however deep it lies. Properties, no network."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.sources._mixpanel.query.insights import series_values, walk_leaves

NAMES = st.text(max_size=5)
VALUES = st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3), st.booleans())
TREES = st.recursive(
    VALUES, lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3), max_leaves=12
)
TIMES = st.datetimes(
    min_value=dt.datetime(2012, 1, 1),  # noqa: DTZ001  # the zone comes with timezones
    max_value=dt.datetime(2030, 1, 1),  # noqa: DTZ001
    timezones=st.integers(-47, 47).map(lambda quarters: dt.timezone(dt.timedelta(minutes=15 * quarters))),
).map(lambda instant: instant.isoformat())


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        tree = tree[name]
    return tree


def size(tree: Any) -> int:
    if isinstance(tree, dict | list):
        return sum(size(child) for child in (tree.values() if isinstance(tree, dict) else tree))
    return 1


@given(TREES)
def test_every_value_comes_once_with_the_names_above_it(tree):
    found = list(walk_leaves(tree))
    assert len(found) == size(tree)
    assert len({path for path, _ in found}) == len(found)
    assert all(at(tree, path) is value for path, value in found)


@given(TREES)
def test_names_that_are_no_times_stay_in_the_path(tree):
    assert [(point.path, point.value) for point in series_values(tree)] == list(walk_leaves(tree))
    assert all(point.time is None and point.date is None for point in series_values(tree))


@given(st.dictionaries(NAMES, st.dictionaries(TIMES, VALUES, max_size=3), max_size=3))
def test_the_innermost_times_leave_the_path(series):
    expected = [((name,), dt.datetime.fromisoformat(time), v) for name, by in series.items() for time, v in by.items()]
    assert [(point.path, point.time, point.value) for point in series_values(series)] == expected
    texts = [time for by in series.values() for time in by]
    assert [str(point.date) for point in series_values(series)] == [text[:10] for text in texts]


@given(st.lists(NAMES, max_size=3), TIMES, st.lists(NAMES, min_size=1, max_size=3), VALUES)
def test_times_between_names_leave_their_place(above, time, below, value):
    tree = value
    for name in reversed([*above, time, *below]):
        tree = {name: tree}
    (point,) = series_values(tree)
    assert point.path == (*above, None, *below)
    assert point.time == dt.datetime.fromisoformat(time)


@given(st.recursive(VALUES, lambda below: st.dictionaries(NAMES | TIMES, below, max_size=3), max_leaves=12))
def test_no_two_values_have_one_key(tree):
    """The times of one object may be one instant in two offsets, which Mixpanel never writes."""
    found = list(series_values(tree))
    assert len(found) == size(tree)
    texts = [next((name for name in reversed(path) if _is_time(name)), None) for path, _ in walk_leaves(tree)]
    keys = {(point.path, text) for point, text in zip(found, texts, strict=True)}
    assert len(keys) == len(found)


def _is_time(name: Any) -> bool:
    try:
        return dt.datetime.fromisoformat(name).tzinfo is not None
    except ValueError:
        return False


@pytest.mark.parametrize(
    "name",
    [
        "2026-03-01",
        "2026-03-01T00:00:00",
        "2026-03-01 00:00:00-08:00",
        "20260301T000000Z",
        "2026-13-01T00:00:00Z",
        "Z",
        "",
    ],
)
def test_only_a_time_with_an_offset_is_one(name):
    (point,) = series_values({"event": {name: 1}})
    assert (point.path, point.time) == (("event", name), None)


def test_a_series_is_as_deep_as_the_report_likes():
    tree: Any = 7
    for number in range(2_000):
        tree = {str(number): tree}
    (point,) = series_values(tree)
    assert (len(point.path), point.value) == (2_000, 7)
