from __future__ import annotations

import itertools

import pytest

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.polling.paging import next_link, pages


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
    with pytest.raises(RetriableError, match=f"same next page twice, the second time on page {len(links)}: "):
        found += list(itertools.islice(pages(lambda token: token, lambda page: links[page]), 20))


def test_a_page_is_asked_for_only_when_it_is_wanted() -> None:
    asked: list[str | None] = []

    def fetch(token: str | None) -> str:
        asked.append(token)
        return f"{token}."

    reading = pages(fetch, lambda page: page)
    assert asked == []
    assert next(reading) == "None."
    assert asked == [None]


@pytest.mark.parametrize(
    ("link", "address"),
    [
        ("https://api.example:8443/v1/events?page=2", "https://api.example:8443/v1/events?page=2"),
        ("?cursor=a%2Fb", "https://api.example:8443/v1/events?cursor=a%2Fb"),
        ("/v1/events?page=2", "https://api.example:8443/v1/events?page=2"),
    ],
)
def test_a_link_may_be_relative(link: str, address: str) -> None:
    assert next_link("https://api.example:8443/v1/events?page=1", link) == address


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("https://elsewhere.example/v1/events", "https://elsewhere.example"),
        ("//elsewhere.example/v1/events", "https://elsewhere.example"),
        ("http://api.example/v1/events", "http://api.example"),
        ("https://api.example:444/", "https://api.example:444"),
        ("https://user:s3cret@api.example/", "https://api.example"),
    ],
)
def test_credentials_do_not_follow_a_link_to_another_address(link: str, shown: str) -> None:
    with pytest.raises(ConfigError) as caught:
        next_link("https://api.example/v1/events", link)
    assert f"({shown})" in str(caught.value)
    assert "s3cret" not in str(caught.value)
