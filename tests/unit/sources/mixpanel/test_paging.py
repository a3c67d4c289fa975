"""What page 0 of a session promises, and every way in which a later page may break it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import Failure, RetriableError
from airflow_provider_connect.sources._mixpanel.query.engage_pages import EngagePage, EngageSession, is_session_lost


def session_pages(size: int, total: int) -> list[EngagePage]:
    """Return the pages that a right server sends."""
    pages = max(1, -(-total // size))
    return [
        EngagePage(number, "s1", size, total, min(size, total - number * size), b"%d" % number)
        for number in range(pages)
    ]


def take_all(pages: list[EngagePage]) -> EngageSession:
    session = EngageSession(pages[0])
    for page in pages[1:]:
        session.accept(page)
    return session


sizes = st.tuples(st.integers(1, 50), st.integers(0, 400))
several = sizes.filter(lambda each: each[1] > each[0])


@given(sizes)
def test_right_pages_make_a_whole_session(shape):
    pages = session_pages(*shape)
    session = take_all(pages)
    assert session.is_complete
    assert session.page_count == len(pages)


@given(several, st.data())
def test_a_session_is_not_whole_before_its_last_page(shape, data):
    pages = session_pages(*shape)
    some = data.draw(st.integers(1, len(pages) - 1))
    assert not take_all(pages[:some]).is_complete


CHANGES = {
    "another session": lambda page, _: page._replace(session="s2"),
    "another number": lambda page, _: page._replace(number=page.number + 1),
    "another total": lambda page, _: page._replace(total=page.total + 1),
    "another size": lambda page, _: page._replace(size=page.size + 1),
    "empty": lambda page, _: page._replace(profile_count=0, fingerprint=b""),
    "one short": lambda page, _: page._replace(profile_count=page.profile_count - 1),
    "one too many": lambda page, _: page._replace(profile_count=page.profile_count + 1),
    "the page before": lambda page, before: page._replace(fingerprint=before.fingerprint),
}


@pytest.mark.parametrize("change", CHANGES)
@given(shape=several, data=st.data())
def test_a_changed_page_is_refused(change, shape, data):
    pages = session_pages(*shape)
    at = data.draw(st.integers(1, len(pages) - 1))
    pages[at] = CHANGES[change](pages[at], pages[at - 1])
    with pytest.raises(RetriableError, match=f"page {at} of {len(pages)}"):
        take_all(pages)


@given(several, st.data())
def test_a_page_that_is_missing_or_out_of_order_is_refused(shape, data):
    pages = session_pages(*shape)
    at = data.draw(st.integers(1, len(pages) - 1))
    del pages[at]
    with contextlib.suppress(RetriableError):
        assert not take_all(pages).is_complete


@given(several, st.data())
def test_a_page_without_a_number_counts_by_its_position(shape, data):
    pages = session_pages(*shape)
    at = data.draw(st.integers(0, len(pages) - 1))
    pages[at] = pages[at]._replace(number=None)
    assert take_all(pages).is_complete


@given(several)
def test_later_pages_may_omit_the_header_of_page_0(shape):
    """Clients of the real API see total on the first page alone, and do without session_id on others."""
    first, *later = session_pages(*shape)
    assert take_all([first, *(page._replace(session="", total=None, size=None) for page in later)]).is_complete


@pytest.mark.parametrize(
    "first",
    [
        EngagePage(0, "s", None, 5, 5, b""),
        EngagePage(0, "s", 10, None, 5, b""),
        EngagePage(0, "s", 0, 5, 5, b""),
        EngagePage(0, "s", 10, -1, 0, b""),
        EngagePage(0, "s", 10, 5, 4, b""),
        EngagePage(0, "s", 10, 0, 1, b""),
        EngagePage(1, "s", 10, 5, 5, b""),
        EngagePage(0, "", 10, 11, 10, b""),
    ],
)
def test_a_page_0_that_contradicts_itself_is_refused(first):
    with pytest.raises(RetriableError, match="page 0"):
        EngageSession(first)


def test_an_error_of_paging_crosses_processes_as_retriable():
    pages = session_pages(10, 30)
    pages[1] = pages[1]._replace(session="s2")
    with pytest.raises(RetriableError, match="the next try starts at page 0") as caught:
        take_all(pages)
    assert Failure.from_error(caught.value).type == "RetriableError"


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (400, '{"error":"request for page in uncached query"}', True),
        (404, "session_id not found", True),
        (500, "Query result expired", True),
        (400, "where is not an expression", False),
        (503, "Service temporarily unavailable", False),
        (429, "rate limit: too many uncached queries", False),
        (200, "cached", False),
    ],
)
def test_only_some_refusals_mean_that_the_session_is_lost(status, text, expected):
    assert is_session_lost(status, text) is expected
