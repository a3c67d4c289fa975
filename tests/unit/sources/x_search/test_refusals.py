"""What X refuses, and what becomes of it."""

from __future__ import annotations

import json

import pytest

from airflow_provider_connect.errors import ConfigError, ConnectError, QuotaError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from tests.equipment import x as equipment
from tests.equipment.x import DAY, QUERIES, YESTERDAY, connection, found_by, poll, source
from tests.standins.x.access import App, Limits
from tests.standins.x.faults import Fault
from tests.standins.x.server import StandIn
from tests.unit.sources.x_search.conftest import Clock


def truth(x: StandIn) -> dict[str, list[str]]:
    return x.timeline.truth(DAY.date, *QUERIES)


@pytest.mark.parametrize("kind", ["rate_limit", "rate_limit_88"])
def test_a_rate_limit_says_how_long_to_wait_whatever_its_body(x: StandIn, clock: Clock, kind: str) -> None:
    with pytest.raises(QuotaError) as caught:
        poll(x, Fault(kind, seconds=700))
    assert 699 <= (caught.value.retry_after_seconds or 0) <= 702
    assert caught.value.said == (450, 450, caught.value.retry_after_seconds)
    assert clock.pauses == []


def test_a_rate_limit_half_way_is_waited_for_and_no_page_is_read_twice(x: StandIn, clock: Clock) -> None:
    """Else a day of more pages than a window has requests begins again for ever."""
    quiet = poll(x)[1].requests
    clock.pauses.clear()
    rows, tally = poll(x, Fault("rate_limit", page=2, seconds=300))
    assert found_by(rows) == truth(x)
    assert tally.requests == quiet + 1
    assert any(299 <= pause <= 302 for pause in clock.pauses)


def test_a_window_that_is_used_up_is_waited_for_before_x_refuses(x: StandIn, clock: Clock) -> None:
    x.gate.limits = Limits(requests={"search/all": 2}, seconds=900)
    rows, _ = poll(x)
    assert found_by(rows) == truth(x)
    assert set(x.stats["requests"]["search/all"]) == {"200"}
    assert sum(pause > 800 for pause in clock.pauses) >= 1


def test_a_window_of_counts_that_is_used_up_holds_up_no_search(x: StandIn, clock: Clock) -> None:
    """Each endpoint has windows of its own."""
    x.gate.limits = Limits(requests={"counts/recent": 1}, seconds=900)
    with source(endpoint="recent").open(connection(x), PollContext()) as poller:
        assert poller.count(YESTERDAY, counted := Tally()).rows > 0
        (part,) = poller.plan([YESTERDAY])
        assert list(poller.poll(part, Tally([YESTERDAY])))
    assert counted.requests == x.stats["requests"]["counts/recent"]["200"] == 1
    assert clock.pauses == []


def test_a_429_of_a_window_with_room_is_the_limit_on_a_second(x: StandIn, clock: Clock) -> None:
    """Its reset would be up to fifteen minutes away."""
    x.gate.limits = Limits(per_second=1)
    poll(x, queries=["zebra"])
    with pytest.raises(RetriableError, match="too many requests a second") as caught:
        poll(x, queries=["zebra"])
    assert caught.value.retry_after_seconds == 2
    assert not isinstance(caught.value, QuotaError)


@pytest.mark.parametrize("parallel_days", [1, 3])
def test_the_archives_pace_is_kept(x: StandIn, clock: Clock, parallel_days: int) -> None:
    """X takes one request a second to the archive."""

    tally = Tally([DAY])
    with source(parallel_days=parallel_days).open(connection(x, limits=None), PollContext()) as poller:
        for part in poller.plan([DAY]):
            list(poller.poll(part, tally))
    assert sum(clock.pauses) == pytest.approx(parallel_days * (tally.requests - 1))


def test_the_parts_of_a_day_share_the_archives_pace(x: StandIn, clock: Clock) -> None:
    """They are polled by several tasks at once, and the app has one limit."""
    tally = Tally([DAY])
    with source(split_rows=30).open(connection(x, limits=None), PollContext()) as poller:
        parts = poller.plan([DAY])
        clock.pauses.clear()
        list(poller.poll(parts[0], tally))
    assert len(parts) > 1
    assert tally.requests > 1
    assert sum(clock.pauses) == pytest.approx(len(parts) * (tally.requests - 1))


@pytest.mark.parametrize("endpoint", ["recent", "all"])
def test_the_usage_cap_stops_and_names_the_next_day(x: StandIn, clock: Clock, endpoint: str) -> None:
    """xdk #25: a 429, too, with a window that has room; each retry burns one more request."""

    day = YESTERDAY if endpoint == "recent" else DAY
    with pytest.raises(ConfigError, match=f"monthly usage cap .* next day to load is {day}"):
        poll(x, Fault("usage_cap", times=None), day=day, endpoint=endpoint)
    assert len(x.requests_taken) == 1
    assert clock.pauses == []


def test_the_usage_cap_half_way_stops_at_once(x: StandIn, clock: Clock) -> None:
    x.gate.limits = Limits(monthly_posts=30)
    with pytest.raises(ConfigError, match="usage cap"):
        poll(x)
    assert x.stats["requests"]["search/all"]["429"] == 1


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, {"title": "UsageCapExceeded", "type": "https://api.twitter.com/2/problems/usage-capped"}),
        (429, {"type": "https://api.x.com/2/problems/usage-capped"}),
        (429, {"title": "UsageCapExceeded", "period": "Monthly", "scope": "Product"}),
        (402, {"title": "CreditsDepleted"}),
    ],
)
def test_the_cap_is_known_by_the_end_of_its_type_or_its_body(x: StandIn, status: int, body: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="usage cap"):
        poll(x, Fault("status", status=status, body=json.dumps(body)))


@pytest.mark.parametrize(
    "body", ["", "Too Many Requests", '{"title":"Too Many Requests"}', '{"errors":[{"code":88}]}', "[]", '{"type":7}']
)
def test_any_other_429_is_retriable(x: StandIn, body: str) -> None:
    with pytest.raises(RetriableError) as caught:
        poll(x, Fault("status", status=429, body=body, headers={}))
    assert caught.value.retry_after_seconds == 60


@pytest.mark.parametrize(("reset", "wait"), [("0", 1), ("99999999999", 960), ("soon", 60), ("-1", 60), ("9" * 40, 60)])
def test_a_reset_that_is_past_or_years_ahead_is_bounded(x: StandIn, reset: str, wait: float) -> None:
    with pytest.raises(RetriableError) as caught:
        poll(x, Fault("status", status=429, body="{}", headers={"x-rate-limit-reset": reset}))
    assert caught.value.retry_after_seconds == wait


def test_a_token_that_x_takes_no_more_begins_the_day_anew(x: StandIn) -> None:
    with pytest.raises(RetriableError, match="no longer accepts its own next_token, so the day starts again") as caught:
        poll(x, Fault("expired_token", page=2))
    assert not isinstance(caught.value, QuotaError)
    assert len(x.requests_taken) == x.stats["requests"]["search/all"]["200"] + 1
    assert found_by(poll(x)[0]) == truth(x)


@pytest.mark.parametrize("kind", ["status", "reset", "short_length", "html", "error_document"])
def test_a_later_page_that_fails_is_asked_for_again_alone(x: StandIn, clock: Clock, kind: str) -> None:
    quiet = poll(x)[1].requests
    rows, tally = poll(x, Fault(kind, page=2))
    assert found_by(rows) == truth(x)
    assert tally.requests == quiet + 1
    assert 1.0 in clock.pauses


@pytest.mark.parametrize("kind", ["status", "reset", "short_length", "html", "error_document"])
def test_a_first_page_that_fails_is_the_jobs_to_try_again(x: StandIn, clock: Clock, kind: str) -> None:
    with pytest.raises(RetriableError):
        poll(x, Fault(kind))
    assert clock.pauses == []


def test_a_page_that_goes_on_failing_is_given_up(x: StandIn) -> None:
    with pytest.raises(RetriableError):
        poll(x, Fault("status", page=2, times=None))


@pytest.mark.parametrize(
    ("app", "words"),
    [
        (App(token="another one"), "401.*bearer token"),
        (App(access="recent_only"), "403.*The archive .* needs pay-per-use or Enterprise"),
        (App(access="no_project"), "403.*belongs to a project"),
    ],
)
def test_a_403_names_the_access_to_check(x: StandIn, app: App, words: str, monkeypatch: pytest.MonkeyPatch) -> None:

    given = equipment.connection(x)
    monkeypatch.setattr(equipment, "connection", lambda _: given)
    x.app = app
    with pytest.raises(ConfigError, match=words) as caught:
        poll(x)
    assert App().token not in str(caught.value)


def test_a_request_that_is_not_understood_is_quoted(x: StandIn) -> None:
    x.dialects = frozenset({"tweet"})
    with pytest.raises(ConfigError, match=r"Check queries, dialect.*\[post.fields\] is not one of"):
        poll(x, dialect="post")


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408])
def test_a_server_error_is_retriable(x: StandIn, status: int) -> None:
    with pytest.raises(RetriableError) as caught:
        poll(x, Fault("status", status=status, headers={"Retry-After": "9"}))
    assert caught.value.retry_after_seconds == 9


@pytest.mark.parametrize("body", ["{}", "[]", "null", '{"meta":', '{"meta":[]}', '{"data":[],"includes":{}}', "7"])
def test_an_answer_without_its_meta_is_never_an_empty_day(x: StandIn, body: str) -> None:
    with pytest.raises(ConnectError) as caught:
        poll(x, Fault("status", status=200, body=body, headers={"Content-Type": "application/json"}))
    assert isinstance(caught.value, RetriableError)
