"""The X stand-in answers as X does, where a mistake of its own would hide one of the connector's."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
import requests

from airflow_provider_connect.sources._x_search import client
from airflow_provider_connect.window import Day
from tests.demo.x_origin import QUERIES, TIMELINE, Posts, XDeltaTarget
from tests.equipment.x import poll
from tests.standins.x.access import App, Limits
from tests.standins.x.faults import Fault
from tests.standins.x.posts import Timeline
from tests.standins.x.query import QueryError, matches
from tests.standins.x.server import StandIn

NOW = dt.datetime(2026, 3, 10, 12, tzinfo=dt.UTC)
SPAN = {"start_time": "2026-03-08T00:00:00Z", "end_time": "2026-03-09T00:00:00Z"}


@pytest.fixture
def x() -> Iterator[StandIn]:
    with StandIn(Timeline(posts_per_day=40, deleted_per_day=3, gone_references_per_day=3), now=lambda: NOW) as standin:
        yield standin


def ask(x: StandIn, endpoint: str, token: str | None = None, **params: Any) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        headers = {"Authorization": f"Bearer {token or x.app.token}"}
        return session.get(f"{x.url}/2/tweets/{endpoint}?{urlencode(SPAN | params)}", headers=headers, timeout=10)


def test_it_says_what_it_is(x: StandIn) -> None:
    assert ask(x, "search/all", query="tea").headers["Server"].strip() == "x-standin/1"


@pytest.mark.parametrize(
    ("endpoint", "params", "said"),
    [
        ("search/recent", {}, "can not be empty"),
        ("search/recent", {"query": "q" * 513}, "maximum of 512"),
        ("search/all", {"query": "q" * 1025}, "maximum of 1024"),
        ("search/recent", {"query": "a", "start_time": "2026-03-03T11:59:59Z"}, "on or after the last 7 days"),
        ("search/all", {"query": "a", "start_time": "2006-03-20T00:00:00Z"}, "after 2006-03-21"),
        ("search/all", {"query": "a", "end_time": "2026-03-10T11:59:55Z"}, "10 seconds prior"),
        ("search/all", {"query": "a", "start_time": "2026-03-08T00:00:00.5Z"}, "YYYY-MM-DDTHH:mm:ssZ"),
        ("search/all", {"query": "a", "since_id": "1"}, "only one of"),
        ("search/all", {"query": "a", "max_results": "501"}, "max_results"),
        ("search/recent", {"query": "a", "max_results": "101"}, "max_results"),
        ("search/all", {"query": "a", "post.feilds": "id"}, "post.feilds"),
        ("search/all", {"query": "a", "next_token": "zzz"}, "expired or malformed"),
        ("search/all", {"query": "(a"}, "not closed"),
        ("counts/all", {"query": "a", "granularity": "week"}, "granularity"),
    ],
)
def test_what_x_refuses_is_refused(x: StandIn, endpoint: str, params: dict[str, str], said: str) -> None:
    answer = ask(x, endpoint, **params)
    assert answer.status_code == 400
    assert said in answer.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({}, ""),
        ({"post.fields": "author_id,referenced_posts,lang,nonsense"}, "lang"),
        ({"post.fields": "lang", "expansions": "author_id,nonsense"}, "lang author_id"),
        ({"tweet.fields": "author_id,lang,note_post"}, "author_id lang"),
        ({"tweet.fields": "lang", "expansions": "author_id,referenced_posts"}, "author_id lang"),
    ],
    ids=str,
)
def test_names_that_x_does_not_know_are_left_out_without_a_word(x: StandIn, asked: dict[str, str], sent: str) -> None:
    """As https://github.com/0xFlimbo/attention-index has measured it: status 200, and no such field."""
    answer = ask(x, "search/all", query="tea", max_results=100, **asked)
    assert answer.status_code == 200
    history = "edit_history_tweet_ids" if "tweet.fields" in asked else "edit_history_post_ids"
    assert {name for post in answer.json()["data"] for name in post} == {*sent.split(), "id", "text", history}


def test_authors_of_referenced_posts_need_an_expansion_of_their_own(x: StandIn) -> None:
    x.timeline = Timeline(posts_per_day=40, gone_references_per_day=0)
    asked = {"tweet.fields": "author_id", "expansions": "referenced_tweets.id"}
    found = ask(x, "search/all", query="tea", max_results=100, **asked).json()["includes"]
    assert found.keys() == {"tweets"}
    asked["expansions"] += ".author_id"
    found = ask(x, "search/all", query="tea", max_results=100, **asked).json()["includes"]
    assert [user["id"] for user in found["users"]] == ["1003"]


def test_who_may_not_search(x: StandIn) -> None:
    assert ask(x, "search/all", token="other", query="a").status_code == 401
    x.app = App(access="recent_only")
    assert ask(x, "search/all", query="a").json()["type"].endswith("client-forbidden")
    assert ask(x, "search/recent", query="a").status_code == 200


def test_windows_are_counted_by_endpoint_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [NOW]
    with StandIn(limits=Limits(requests={"search/all": 2}, seconds=60), now=lambda: now[0]) as x:
        left = [ask(x, "search/all", query="a").headers["x-rate-limit-remaining"] for _ in range(3)]
        refused = ask(x, "search/all", query="a")
        assert left == ["1", "0", "0"]
        assert refused.status_code == 429
        assert refused.json()["type"].endswith("/rate-limit-exceeded")
        assert float(refused.headers["x-rate-limit-reset"]) - NOW.timestamp() == 60
        assert ask(x, "counts/all", query="a").status_code == 200
        now[0] += dt.timedelta(seconds=60)
        assert ask(x, "search/all", query="a").status_code == 200


@pytest.mark.parametrize("grain", ["minute", "hour", "day"])
def test_counts_hold_deleted_posts_and_searches_do_not(x: StandIn, grain: str) -> None:
    counted = ask(x, "counts/all", query="tea", granularity=grain).json()
    found = ask(x, "search/all", query="tea", max_results=500).json()
    total = counted["meta"]["total_post_count"]
    assert total == sum(each["post_count"] for each in counted["data"]) >= found["meta"]["result_count"]
    assert len(counted["data"]) == {"minute": 1440, "hour": 24, "day": 1}[grain]


def test_counts_of_many_days_come_in_pages(x: StandIn) -> None:
    params = {"query": "tea", "start_time": "2026-01-01T00:00:00Z", "granularity": "day"}
    days, token = [], None
    while True:
        page = ask(x, "counts/all", **params, **({"next_token": token} if token else {})).json()
        days += [each["start"] for each in page["data"]]
        if (token := page["meta"].get("next_token")) is None:
            break
    assert len(days) == len(set(days)) == 67


def test_faults_are_set_from_another_process(x: StandIn) -> None:
    with requests.Session() as session:
        session.trust_env = False
        fault = Fault("usage_cap", date=dt.date(2026, 3, 8)).as_json()
        assert session.post(f"{x.url}/_standin/faults", data=json.dumps([fault]), timeout=10).json() == {"faults": 1}
        assert ask(x, "search/all", query="a").json()["title"] == "UsageCapExceeded"
        assert ask(x, "search/all", query="a").status_code == 200
        stats = session.get(f"{x.url}/_standin/stats", timeout=10).json()
        assert stats["faults"] == {"usage_cap": 1}
        assert session.post(f"{x.url}/_standin/faults", data='[{"kind": "nonsense"}]', timeout=10).status_code == 400


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("tea", True),
        ("TEA rain", True),
        ("tea snow", False),
        ("snow OR rain", True),
        ("-snow tea", True),
        ("-tea", False),
        ("(snow OR tea) lang:en", True),
        ("-(snow OR tea)", False),
        ('"tea and"', True),
        ("lang:de", False),
        ("from:user_3", True),
        ("has:media", False),
        ("is:repost", True),
    ],
)
def test_queries(query: str, is_found: bool) -> None:  # a parameter of the table
    post = {"text": "Tea and rain", "lang": "en", "author_id": "1003", "referenced_posts": [{"type": "reposted"}]}
    assert matches(query, post) is is_found


@pytest.mark.parametrize("query", ["", "OR a", "a OR", "(a", "a)", "()"])
def test_queries_that_cannot_be_read(query: str) -> None:
    with pytest.raises(QueryError):
        matches(query, {"text": "", "lang": "", "author_id": "1000"})


def test_the_demo_expects_posts_as_its_dag_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are in the names of the request."""
    day = Day(date=dt.date(2026, 3, 8))
    monkeypatch.setattr(client, "current_time", lambda: NOW)
    with StandIn(TIMELINE, now=lambda: NOW) as standin:
        rows, _ = poll(standin, day=day, queries=list(QUERIES))
    expected = {as_document(post["properties"]) for post in Posts().expected_rows(day.date)}
    assert {XDeltaTarget.as_kept(None, row["post"]) for row in rows} == expected  # type: ignore[arg-type]
    assert len(rows) == len(expected)


def as_document(properties: Any) -> str:
    return json.dumps(properties, sort_keys=True)


def test_the_demo_compares_with_the_queries_of_its_dag() -> None:
    from pathlib import Path

    dag = (Path(__file__).parents[3] / "dags" / "x_search_daily.py").read_text()
    assert all(f'"{query}"' in dag for query in QUERIES)
    day = dt.date(2026, 3, 8)
    assert len(list(Posts().expected_rows(day))) == len(TIMELINE.truth(day, *QUERIES)) > 500
