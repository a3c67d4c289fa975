"""What is refused before X is asked, and what X counts."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from airflow_provider_connect.completeness import Rules, count_finding
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.stage.counts import VendorCount
from airflow_provider_connect.window import Day
from tests.equipment.x import DAY, NOW, QUERIES, connection, found_by, poll, source
from tests.standins.x.faults import Fault
from tests.standins.x.server import StandIn
from tests.unit.sources.x_search.conftest import Clock


@pytest.mark.parametrize(
    ("level", "endpoint", "most"),
    [("self_serve", "recent", 512), ("self_serve", "all", 1024), ("self_serve", "auto", 1024)]
    + [("enterprise", each, 4096) for each in ("recent", "all", "auto")],
)
def test_a_query_that_is_too_long_is_refused_in_the_dag_file(level: str, endpoint: str, most: int) -> None:
    source(queries=["q" * most], access_level=level, endpoint=endpoint)
    with pytest.raises(ConfigError, match=f"query 2 has {most + 1} characters, and X accepts {most}"):
        source(queries=["q", "q" * (most + 1)], access_level=level, endpoint=endpoint)


def test_a_query_too_long_for_recent_search_goes_to_the_archive(x: StandIn) -> None:
    poll(x, day=Day(date=dt.date(2026, 3, 9)), queries=["coffee OR " + "q" * 600])
    assert {each.endpoint for each in x.requests_taken} == {"search/all"}


def test_a_day_beyond_the_week_is_refused_before_any_request(x: StandIn) -> None:
    with pytest.raises(ConfigError, match="day 2026-03-01 began more than seven days ago"):
        poll(x, endpoint="recent")
    with pytest.raises(ConfigError, match="archive starts on 2006-03-21"):
        poll(x, day=Day(date=dt.date(2006, 3, 20)))
    assert x.stats["requests"] == {}


def test_auto_leaves_a_day_time_to_be_read(x: StandIn, clock: Clock) -> None:
    """A day that falls out of the week between two pages is refused by X."""
    edge = Day(date=dt.date(2026, 3, 4))
    clock.seconds = (edge.start + dt.timedelta(days=7) - NOW).total_seconds() - 3600
    poll(x, day=edge)
    assert {each.endpoint for each in x.requests_taken} == {"search/all"}


def test_a_day_that_has_fallen_out_of_the_week_is_planned_again(x: StandIn, clock: Clock) -> None:
    edge = Day(date=dt.date(2026, 3, 4))
    with source().open(connection(x), PollContext()) as poller:
        (part,) = poller.plan([edge])
        clock.seconds = (edge.start + dt.timedelta(days=7) - NOW).total_seconds() + 1
        with pytest.raises(RetriableError, match="next try reads the archive"):
            list(poller.poll(part, Tally([edge])))
        (again,) = poller.plan([edge])
    assert (part.params["endpoint"], again.params["endpoint"]) == ("recent", "all")


@pytest.mark.parametrize(("seconds", "wait"), [(0, 10), (9, 1)])
def test_a_day_is_asked_for_ten_seconds_after_its_end(x: StandIn, clock: Clock, seconds: int, wait: int) -> None:
    """X refuses an end_time that is nearer to now."""
    today = Day(date=NOW.date())
    clock.seconds = (today.end - NOW).total_seconds() + seconds
    with pytest.raises(RetriableError) as caught:
        poll(x, day=today)
    assert caught.value.retry_after_seconds == wait
    clock.seconds += wait
    assert found_by(poll(x, day=today)[0])


def test_wrong_options_are_named() -> None:
    for options, words in (
        ({"queries": []}, "queries"),
        ({"queries": ["  "]}, "queries"),
        ({"queries": ["a", "a"]}, "listed twice"),
        ({"page_size": 200}, "page_size: no longer an option: pages are as large as the endpoint allows"),
        ({"expansions": ["author_id&x=1"]}, "expansions"),
        ({"split_rows": 10, "queries": ["q" * 400, "r" * 400]}, "split_rows: .*joined"),
    ):
        with pytest.raises(ConfigError, match=words):
            source(**options)  # type: ignore[arg-type]


def test_streams_of_other_queries_never_replace_each_other() -> None:
    keys = {source(queries=queries).stream_key for queries in (["a"], ["b"], ["a", "b"])}
    assert len(keys) == 3
    assert source(queries=["b", "a"]).stream_key in keys


def test_counts_are_an_upper_bound_of_the_union(x: StandIn) -> None:
    with source().open(connection(x), PollContext()) as poller:
        count = poller.count(DAY, Tally())
    counted = {post.id for query in QUERIES for post in x.timeline.matching_posts(query, DAY.start, DAY.end)}
    assert count == VendorCount(len(counted), is_most=True)
    assert count.rows > len(x.timeline.truth(DAY.date, *QUERIES))


def test_counts_that_end_before_the_days_start_are_no_count(x: StandIn) -> None:
    """twarc (client2.py) has seen counts whose pages end too early, and goes on from where they end."""
    buckets = [{"start": "2026-03-01T05:00:00.000Z", "end": "2026-03-01T06:00:00.000Z", "tweet_count": 3}]
    body = json.dumps({"data": buckets, "meta": {"total_tweet_count": 3}})
    x.faults.replace([Fault("status", status=200, body=body)])
    with source().open(connection(x), PollContext()) as poller:
        with pytest.raises(RetriableError, match=r"counts .* start at 2026-03-01T05:00:00Z, not at 2026-03-01T00:"):
            poller.count(DAY, Tally())
        x.faults.replace([Fault("status", status=200, body='{"data":[],"meta":{"total_tweet_count":0}}')])
        assert poller.count(DAY, Tally()).rows == 0, "of a user who is no more X sends no buckets"


def test_queries_too_long_to_count_together_are_not_compared() -> None:
    assert source().count_problems() == []
    (problem,) = source(queries=["q" * 300, "r" * 300]).count_problems()
    assert "Joined they have 608 characters, and X accepts 512" in problem


def test_fewer_rows_than_an_upper_bound_are_named_so() -> None:
    finding = count_finding(DAY.date, 90, VendorCount(100, is_most=True), 5, "fail")
    assert finding is not None
    assert "such as deleted ones" in finding.text
    assert count_finding(DAY.date, 96, VendorCount(100, is_most=True), 5, "fail") is None
    assert count_finding(DAY.date, 110, VendorCount(100, is_most=True), 5, "fail") is not None
    assert Rules().reconcile == "off"


@pytest.mark.parametrize("split_rows", [1, 7, 30, 10_000])
def test_a_large_day_is_cut_at_full_hours_and_is_whole(x: StandIn, split_rows: int) -> None:
    rows, tally = poll(x, split_rows=split_rows)
    assert found_by(rows) == x.timeline.truth(DAY.date, *QUERIES)
    spans = sorted({(each.start, each.end) for each in x.requests_taken if each.endpoint.startswith("search")})
    assert spans[0][0] == DAY.start
    assert spans[-1][1] == DAY.end
    assert [end for _, end in spans[:-1]] == [start for start, _ in spans[1:]]
    assert all(start.minute == 0 for start, _ in spans)
    assert (len(spans) == 1) is (split_rows == 10_000)
    assert tally.rows > 0


def test_the_limits_are_the_apps(x: StandIn) -> None:
    one, other = connection(x, app="news"), connection(x, app="news").model_copy(update={"conn_id": "y"})
    quotas = [source().quota(each) for each in (one, other, connection(x))]
    assert quotas[0] == quotas[1] != quotas[2]
    assert quotas[0] is not None
    assert (quotas[0].requests, quotas[0].seconds) == (300, 900)
    recent = source(endpoint="recent").quota(one)
    assert recent is not None
    assert recent.requests == 450
    assert recent.name != quotas[0].name
    assert source().requests_for([DAY, DAY]) == 4
    assert x.app.token not in repr(quotas)
