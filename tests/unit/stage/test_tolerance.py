"""How many bad records a day may have is decided in one place, and said in one way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.stage.rejects import Tolerance


@given(st.integers(0, 20), st.integers(0, 20))
def test_all_allows_as_many_as_the_limit(rejects: int, limit: int) -> None:
    assert Tolerance("all", limit).allows(rejects) is (rejects <= limit)


@given(st.integers(0, 20), st.integers(0, 20))
def test_none_allows_none(rejects: int, limit: int) -> None:
    assert Tolerance("none", limit).allows(rejects) is (rejects == 0)


def test_allowed_rejects_raise_no_error() -> None:
    Tolerance("none", 5).require(0, "nothing")
    Tolerance("all", 5).require(5, "row 7: NaN")


def test_the_first_bad_record_names_the_way_to_set_it_aside() -> None:
    with pytest.raises(DataError, match=r"^row 7: NaN\. Correct .* errors_tolerance='all'$"):
        Tolerance("none", 5).require(1, "row 7: NaN")


def test_one_too_many_names_the_limit() -> None:
    with pytest.raises(
        DataError, match=r"^1,001 rejects, more than max_rejects=1000: row 7: NaN\. Correct .* raise max"
    ):
        Tolerance("all", 1000).require(1001, "row 7: NaN")
