"""An API whose requests count to a quota: what is counted, and what other tasks are told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider_connect.clients.http.asking import pacing
from airflow_provider_connect.clients.http.asking.call import Call, Reply
from airflow_provider_connect.clients.http.asking.rules import RateLimits
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import QuotaError, RetriableError
from airflow_provider_connect.polling.counted import CountedApi, declared_quota
from airflow_provider_connect.polling.quota.limits import Quota
from airflow_provider_connect.polling.tally import Tally
from tests.equipment.clock import NoTime
from tests.equipment.http.answering import AnsweringServer, Heard, Said

OK = Said({"rows": [1]})
Make = Callable[..., CountedApi]


@pytest.fixture
def clock() -> NoTime:
    return NoTime()


@pytest.fixture
def api_of(clock: NoTime, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(pacing, "_paces", {})

    def make(server: AnsweringServer, limits: RateLimits | None, **options: Any) -> CountedApi:
        connection = Connection(conn_id="c", host=server.url)
        api = JsonApi(connection, clock=clock, limits=limits, **{"patience_seconds": 300.0} | options)
        return CountedApi(api, declared_quota(limits, "c"))

    return make


def test_requests_are_counted_where_the_limits_are(api_of: Make) -> None:
    for limits, requests in ((RateLimits(per_hour=60), 2), (RateLimits(per_second=60), 0), (None, 0)):
        answers: Iterator[Said] = iter([Said({}, 503), OK])
        message: list[int] = []
        with AnsweringServer(lambda _, answers=answers: next(answers)) as server:
            api_of(server, limits).ask(Call("a"), tally := Tally(), on_sent=lambda message=message: message.append(1))
        assert tally.requests == len(tally.sent) == requests
        assert (tally.wire_bytes, tally.raw_bytes, message) == (13, 13, [1, 1])


def test_several_threads_ask_at_once(api_of: Make) -> None:
    together = threading.Barrier(4, timeout=10)

    def answer(_: Heard) -> Said:
        together.wait()
        return OK

    tally = Tally()
    got: list[Reply] = []
    with AnsweringServer(answer) as server:
        api = api_of(server, RateLimits(per_hour=60))
        threads = [threading.Thread(target=lambda: got.append(api.ask(Call("a"), tally))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(got) == 4
    assert (tally.requests, tally.raw_bytes) == (4, 52)


def test_h10_a_long_wait_under_a_counted_limit_is_told_to_all_tasks(api_of: Make, clock: NoTime) -> None:
    with AnsweringServer(lambda _: Said({}, 429, {"Retry-After": "1800"})) as server:
        with pytest.raises(QuotaError) as caught:
            api_of(server, RateLimits(per_hour=60)).ask(Call("a"), Tally())
        assert len(server.heard) == 1
    assert caught.value.said == (0, 60, 1800.0)
    assert clock.seconds == 0


def test_a_wait_that_is_no_matter_of_a_quota_is_told_to_nobody(api_of: Make) -> None:
    with AnsweringServer(lambda _: Said({}, 429, {"Retry-After": "1800"})) as server:
        with pytest.raises(RetriableError) as caught:
            api_of(server, RateLimits(per_second=60)).ask(Call("a"), Tally())
        assert (type(caught.value), caught.value.retry_after_seconds) == (RetriableError, 1800.0)


def test_how_thin_a_job_spreads_its_part_is_no_news_for_other_tasks(api_of: Make) -> None:
    limits = RateLimits(per_minute=1, per_hour=60)
    with AnsweringServer(lambda _: OK) as server:
        api = api_of(server, limits, share=100, patience_seconds=10)
        api.ask(Call("a"), Tally())
        with pytest.raises(RetriableError) as caught:
            api.ask(Call("a"), Tally())
    assert not isinstance(caught.value, QuotaError)


def test_a_server_in_trouble_is_no_matter_of_the_limits(api_of: Make) -> None:
    busy = Said({}, 503, {"Retry-After": "1800"})
    with AnsweringServer(lambda _: busy) as server, pytest.raises(RetriableError) as caught:
        api_of(server, RateLimits(per_hour=60)).ask(Call("a"), Tally())
    assert not isinstance(caught.value, QuotaError)


def test_tasks_reserve_what_an_hour_or_a_minute_allows() -> None:
    assert declared_quota(RateLimits(per_second=3, at_once=2), "my api") is None
    hourly = declared_quota(RateLimits(per_hour=60, per_second=3.5, at_once=2), "my api")
    assert hourly == Quota("http.my-api.ddbe76bd", requests=60, per_second=3, at_once=2)
    by_minute = declared_quota(RateLimits(per_minute=10), "my api")
    assert by_minute is not None
    assert (by_minute.name, by_minute.requests, by_minute.seconds) == (hourly.name, 600, 3600)
    both = declared_quota(RateLimits(per_minute=10, per_hour=60), "my-api")
    assert both is not None
    assert both.requests == 60
    assert both.name != hourly.name  # another connection's
