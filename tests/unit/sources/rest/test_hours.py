"""Limits over a day of pages: an hour that is too short for it is told, and what is shared is shared by who asks."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.clients.http.asking import pacing
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.errors import ConfigError, QuotaError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._rest import poller as polling
from airflow_provider_connect.sources.rest import Moment, PageNumber, RateLimits
from tests.equipment.rest_api.items import DATE, items_of
from tests.equipment.rest_api.reading import DAY, declared, ids, read
from tests.equipment.rest_api.server import Answer, Request, RestApi

PAGED = PageNumber(ends="empty_page")


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port may come twice, and with it what another test left in this process."""
    monkeypatch.setattr(pacing, "_paces", {})


class Api(RestApi):
    """Five pages; so many requests are served in an hour."""

    def __init__(self, serves: int, *, tells: bool = False) -> None:
        super().__init__(items_of(DATE, 45))
        self._serves, self._tells = serves, tells

    def answer(self, request: Request) -> Answer:
        left = self._serves - len(self.asked)
        found = super().answer(request) if left > 0 else Answer({}, 429, {"Retry-After": "3000"})
        if self._tells:
            found.headers |= {"X-Left": str(left - 1), "X-Reset": "3000"}
        return found


@pytest.mark.parametrize("tells", [False, True])
def test_a_day_of_more_pages_than_an_hour_has_requests_never_begins_again(*, tells: bool) -> None:
    limits = RateLimits(per_hour=3, remaining="X-Left" if tells else None, reset=Moment(header="X-Reset"))
    with Api(3, tells=tells) as api:
        with pytest.raises(ConfigError) as caught:
            read(api, declared("/pages", PAGED, limits=limits))
        assert len(api.asked) == 3
    text = str(caught.value)
    assert "2026-10-05 has more than 3 pages, and limits.per_hour allows 3 requests" in text
    assert "larger pages, or raise limits.per_hour" in text


def test_a_day_that_others_left_no_requests_for_says_how_many_it_takes() -> None:
    """The task reserves more before it begins again."""
    with Api(3) as api, pytest.raises(QuotaError) as caught:
        read(api, declared("/pages", PAGED, limits=RateLimits(per_hour=60)))
    assert (caught.value.needs, caught.value.said) == (4, (0, 60, 3000.0))


def test_a_day_that_fits_into_its_hour_is_read() -> None:
    with Api(6) as api:
        assert len(ids(read(api, declared("/pages", PAGED, limits=RateLimits(per_hour=6))))) == 45


@pytest.mark.parametrize(("at_once", "share"), [(1, 1), (2, 2), (None, 4)])
def test_a_limit_for_each_second_is_shared_by_the_polls_that_run(
    monkeypatch: pytest.MonkeyPatch, at_once: int | None, share: int
) -> None:
    """A job of one day has it for itself, though four days of a longer one would be polled at once."""
    shares: list[int] = []

    def made(*args: Any, **options: Any) -> JsonApi:
        shares.append(options["share"])
        return JsonApi(*args, **options)

    monkeypatch.setattr(polling, "JsonApi", made)
    with RestApi(items_of(DATE, 5)) as api:
        poller = declared("/pages", PAGED, limits=RateLimits(per_second=4)).open(
            api.connection, PollContext(polls_at_once=at_once)
        )
        (part,) = poller.plan([DAY])
        assert sum(batch.num_rows for _, batch in poller.poll(part, Tally(part.days))) == 5
    assert shares == [share]
