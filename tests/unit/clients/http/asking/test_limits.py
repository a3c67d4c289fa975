"""How often an API is asked: by one process's part of a limit, and as answers tell."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from airflow_provider_connect.clients.http import json_api
from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.clients.http.asking.rules import ErrorRule, RateLimits
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.errors import ConfigError, RetriableError
from tests.equipment.clock import NoTime
from tests.equipment.http.answering import AnsweringServer, Said

Make = Callable[..., JsonApi]
OK = Said({"rows": []})
NOW = dt.datetime(2026, 11, 5, 12, 0, tzinfo=dt.UTC)
EPOCH = int(NOW.timestamp())


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_api, "current_time", lambda: NOW)


def asked_at(asker: JsonApi, clock: NoTime, count: int) -> list[float]:
    times = []
    for _ in range(count):
        asker.ask(Call("a"))
        times.append(round(clock.seconds, 3))
    return times


@pytest.mark.parametrize(
    ("limits", "share", "times"),
    [
        ({"per_second": 2}, 1, [0, 0, 1, 1, 2]),
        ({"per_second": 0.5}, 1, [0, 2, 4, 6, 8]),
        ({"per_second": 4}, 2, [0, 0, 1, 1, 2]),
        ({"per_second": 2}, 4, [0, 2, 4, 6, 8]),
        ({"per_minute": 3}, 1, [0, 0, 0, 60, 60]),
        ({"per_minute": 10}, 4, [0, 0, 48, 48, 96]),  # two and a half a minute
        ({"per_minute": 3, "per_second": 1}, 1, [0, 1, 2, 60, 61]),
        ({"per_hour": 3}, 1, [0, 0, 0, 0, 0]),  # is reserved, not waited for
    ],
)
def test_requests_are_spread(
    asker_of: Make, clock: NoTime, limits: dict[str, Any], share: int, times: list[float]
) -> None:
    with AnsweringServer(lambda _: OK) as server:
        assert asked_at(asker_of(server, limits=RateLimits(**limits), share=share), clock, 5) == times


def test_the_next_poll_in_the_same_process_goes_on_where_the_last_one_ended(asker_of: Make, clock: NoTime) -> None:
    limits = RateLimits(per_second=2)
    with AnsweringServer(lambda _: OK) as server:
        assert asked_at(asker_of(server, limits=limits), clock, 2) == [0, 0]
        assert asked_at(asker_of(server, limits=RateLimits(per_second=2)), clock, 1) == [1]


def test_a_wait_for_the_limit_that_is_longer_than_patience_is_the_task_s(asker_of: Make, clock: NoTime) -> None:
    with AnsweringServer(lambda _: OK) as server:
        asker = asker_of(server, limits=RateLimits(per_second=0.001), patience_seconds=10)
        asker.ask(Call("a"))
        with pytest.raises(RetriableError, match="has no requests left for connection 'c' now") as caught:
            asker.ask(Call("a"))
        assert len(server.heard) == 1
    assert caught.value.retry_after_seconds == 1000
    assert clock.seconds == 0


REMAINING = {"remaining": "X-RateLimit-Remaining", "reset": {"header": "X-RateLimit-Reset"}}


def told(left: int, seconds: int, status: int = 200) -> Said:
    headers = {"X-RateLimit-Remaining": str(left), "X-RateLimit-Reset": str(EPOCH + seconds)}
    return Said({"rows": []}, status, headers)


def answers(*said: Said) -> Callable[[Any], Said]:
    left: Iterator[Said] = iter(said)
    return lambda _: next(left)


def test_nothing_is_sent_before_the_reset_once_nothing_is_left(asker_of: Make, clock: NoTime) -> None:
    with AnsweringServer(answers(told(1, 50), told(0, 40), told(9, 60))) as server:
        assert asked_at(asker_of(server, limits=RateLimits(**REMAINING)), clock, 3) == [0, 0, 40]


def test_a_429_waits_for_the_reset(asker_of: Make, clock: NoTime) -> None:
    with AnsweringServer(answers(told(0, 40, 429), OK)) as server:
        asker_of(server, limits=RateLimits(**REMAINING)).ask(Call("a"))
    assert 40 <= clock.seconds <= 60


def test_a_403_is_waited_for_if_nothing_is_left_and_else_refused(asker_of: Make, clock: NoTime) -> None:
    """GitHub's, without a rule."""
    with AnsweringServer(answers(told(0, 40, 403), OK, told(1, 40, 403))) as server:
        asker = asker_of(server, limits=RateLimits(**REMAINING))
        asker.ask(Call("a"))
        assert 40 <= clock.seconds <= 60
        with pytest.raises(ConfigError, match="lack the permission"):
            asker.ask(Call("a"))
    declared = [ErrorRule(status=403, then="refuse", why="ask for it")]
    with AnsweringServer(lambda _: told(0, 40, 403)) as server, pytest.raises(ConfigError, match="answered 403: ask"):
        asker_of(server, limits=RateLimits(**REMAINING), errors=declared).ask(Call("a"))


@pytest.mark.parametrize("left", ["", "many", "-1e9", "9" * 30, "\u0660"])
def test_a_header_that_says_nothing_stops_nobody(asker_of: Make, clock: NoTime, left: str) -> None:
    said = Said(
        {"rows": []}, 200, {"X-RateLimit-Remaining": left.encode().decode("latin-1"), "X-RateLimit-Reset": "60"}
    )
    with AnsweringServer(lambda _: said) as server:
        asked_at(asker_of(server, limits=RateLimits(**REMAINING)), clock, 2)
    assert clock.seconds == 0


def test_a_rule_s_wait_holds_for_all_who_ask_in_this_process(asker_of: Make, clock: NoTime) -> None:
    rules = [ErrorRule(status=403, text="slow down", then="wait", until={"at": "seconds"})]
    busy = Said({"error": "Slow down", "seconds": 30}, 403)
    with AnsweringServer(answers(busy, OK)) as server:
        with pytest.raises(RetriableError):
            asker_of(server, errors=rules).ask(Call("a", is_repeatable=False))
        assert asked_at(asker_of(server, errors=rules), clock, 1) == [30]


def test_rules_say_what_becomes_of_an_answer(asker_of: Make) -> None:
    rules = [
        ErrorRule(status=404, then="ignore"),
        ErrorRule(at="error", values=["none_today"], then="empty"),
        ErrorRule(at="error", then="refuse", why="ask for the right"),
    ]
    said = answers(Said({}, 404), Said({"error": "none_today"}), OK, Said({"error": "no_right", "rows": ["private"]}))
    with AnsweringServer(said) as server:
        asker = asker_of(server, errors=rules)
        replies = [asker.ask(Call("a")) for _ in range(3)]
        with pytest.raises(ConfigError, match=r"answered 200: ask for the right. Its answer: '\"no_right\"'") as caught:
            asker.ask(Call("a"))
    assert [(reply.verdict, reply.body) for reply in replies] == [
        ("ignored", b""),
        ("empty", b""),
        ("rows", b'{"rows": []}'),
    ]
    assert "private" not in str(caught.value)


@pytest.mark.parametrize("name", ["per_second", "per_minute", "per_hour", "at_once"])
def test_a_limit_of_nothing_is_none(name: str) -> None:
    with pytest.raises(ValidationError, match="greater than 0"):
        RateLimits(**{name: 0})


@pytest.mark.parametrize(("at_once", "share", "most"), [(None, 1, 4), (2, 1, 2), (4, 2, 2), (1, 4, 1)])
def test_no_more_are_under_way_than_may_be(asker_of: Make, at_once: int | None, share: int, most: int) -> None:
    lock, under_way, seen = threading.Lock(), 0, []
    together = threading.Barrier(most, timeout=5)

    def answer(_: Any) -> Said:
        nonlocal under_way
        with lock:
            under_way += 1
            seen.append(under_way)
        together.wait()
        time.sleep(0.02)  # for one too many to come
        with lock:
            under_way -= 1
        return OK

    with AnsweringServer(answer) as server:
        asker = asker_of(server, limits=RateLimits(at_once=at_once), share=share)
        threads = [threading.Thread(target=lambda: asker.ask(Call("a"))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (len(seen), max(seen)) == (4, most)
