from __future__ import annotations

import itertools
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.polling.paging import pages


def read(links: dict[str | int | None, str | int | None]) -> list[str | int | None]:
    """Read a service whose pages are called by their tokens."""
    return list(pages(lambda token: token, lambda page: links[page]))


@pytest.mark.parametrize("end", [None, ""])
def test_it_ends_where_a_page_names_no_next_one(end: str | None) -> None:
    assert read({None: "b", "b": "c", "c": end}) == [None, "b", "c"]
    assert read({None: end}) == [None]


def test_offsets_are_tokens_and_zero_is_one() -> None:
    assert read({None: 0, 0: 100, 100: None}) == [None, 0, 100]


@pytest.mark.parametrize(
    "links",
    [
        {None: "b", "b": "b"},
        {None: "b", "b": "c", "c": "b"},
        {None: "b", "b": "c", "c": "d", "d": "b"},
        {None: 100, 100: 100},
    ],
)
def test_a_token_that_comes_again_ends_the_reading(links: dict[str | int | None, str | int | None]) -> None:
    found = []
    with pytest.raises(RetriableError, match=f"same next page twice, the second time on page {len(links)}, so"):
        found += list(itertools.islice(pages(lambda token: token, lambda page: links[page]), 20))


def scrolled(answers: list[list[str]]) -> list[list[str]]:
    """Read a service that names the same token on every page, up to a page without records."""
    coming = iter(answers)
    return list(
        pages(
            lambda _: next(coming),
            lambda page: "scroll-1" if page else None,
            content_of=lambda page: "".join(page[-1:]),
        )
    )


def test_a_token_may_stay_while_the_pages_differ() -> None:
    assert scrolled([["a", "b"], ["c"], ["d"], []]) == [["a", "b"], ["c"], ["d"], []]


@pytest.mark.parametrize("answers", [[["a"], ["b"], ["b"]], [["a"], ["b"], ["c"], ["a"]]])
def test_a_page_that_comes_again_under_a_token_that_stays_ends_the_reading(answers: list[list[str]]) -> None:
    with pytest.raises(RetriableError, match=f"sent the same page twice, the second time as page {len(answers)}, so"):
        scrolled(answers * 2)


def test_a_circle_of_tokens_is_told_where_the_content_is_compared() -> None:
    links: dict[str | None, str] = {None: "b", "b": "c", "c": "b"}
    reading = pages(lambda token: token, lambda page: links[page], content_of=str)
    with pytest.raises(RetriableError, match="sent the same page twice"):
        list(itertools.islice(reading, 20))


def test_a_page_is_asked_for_only_when_it_is_wanted() -> None:
    asked: list[str | None] = []

    def fetch(token: str | None) -> str:
        asked.append(token)
        return f"{token}."

    reading = pages(fetch, lambda page: page)
    assert asked == []
    assert next(reading) == "None."
    assert asked == [None]


def numbered(answers: list[list[str]], **options: Any) -> list[list[str]]:
    """Read a service with page numbers, up to a page without rows."""
    return list(
        pages(
            lambda token: answers[token or 0],
            lambda page: answers.index(page) + 1 if page else None,
            rows_of=lambda page: ",".join(page).encode() or None,
            **options,
        )
    )


def test_rows_that_come_again_end_the_reading_before_they_are_yielded_twice() -> None:
    assert numbered([["a"], ["b"], []]) == [["a"], ["b"], []]
    found: list[list[str]] = []
    answers = [["a"], ["b"], ["a"]]
    reading = pages(
        lambda token: answers[token or 0],
        lambda page: {"a": 1, "b": 2}[page[0]],
        rows_of=lambda page: page[0].encode(),
    )
    with pytest.raises(RetriableError, match="the same rows twice, the second time on page 3"):
        found.extend(reading)
    assert found == [["a"], ["b"]]


def test_there_are_no_more_pages_than_there_may_be() -> None:
    answers = [["a"], ["b"], []]
    assert numbered(answers, max_pages=3) == answers
    with pytest.raises(ConfigError, match="more than max_pages=2 pages"):
        numbered(answers, max_pages=2)
