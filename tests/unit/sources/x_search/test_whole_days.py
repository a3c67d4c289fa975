"""Where posts got lost or doubled: each test is named after what a user of X saw."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections import Counter
from typing import Any

import pytest

from airflow_provider_connect.errors import DataError, RetriableError
from tests.equipment.x import DAY, QUERIES, YESTERDAY, found_by, poll
from tests.standins.x.faults import Fault
from tests.standins.x.server import StandIn


def truth(x: StandIn) -> dict[str, list[str]]:
    return x.timeline.truth(DAY.date, *QUERIES)


@pytest.mark.parametrize("dialect", ["post", "tweet"])
def test_a_post_of_several_queries_is_one_row_that_names_them(x: StandIn, dialect: str) -> None:
    rows, tally = poll(x, dialect=dialect)
    assert found_by(rows) == truth(x)
    both = sum(len(queries) == 2 for queries in truth(x).values())
    assert both > 0
    assert tally.counts["duplicates"] == both
    assert tally.rows == len(rows) + both


@pytest.mark.parametrize("dialect", ["post", "tweet"])
def test_included_objects_are_in_the_posts_row_in_either_dialect(x: StandIn, dialect: str) -> None:
    rows, _ = poll(x, dialect=dialect)
    posts = {post.id: post.document for post in x.timeline.posts_of_day(DAY.date)}
    for row in rows:
        post = posts[row["id"]]
        assert row["text"] == post["text"]
        assert row["created_at"] == dt.datetime.fromisoformat(post["created_at"])
        assert row["edit_history"] == post["edit_history_post_ids"]
        assert row["repost_count"] == post["public_metrics"]["repost_count"]
        assert row["author_username"] == f"user_{int(post['author_id']) - 1000}"
        assert json.loads(row["author"])["id"] == row["author_id"] == post["author_id"]
        keys = post.get("attachments", {}).get("media_keys")
        assert [each["media_key"] for each in json.loads(row["media"] or "[]")] == (keys or [])
        references = post.get("referenced_posts", [])
        assert [each["id"] for each in json.loads(row["referenced"] or "[]")] == [each["id"] for each in references]
        assert json.loads(row["post"])["id"] == row["id"]
    with_post = [each for row in rows for each in json.loads(row["referenced"] or "[]") if "post" in each]
    assert with_post
    assert all(each["post"]["id"] == each["id"] for each in with_post)
    assert any(len(row["edit_history"]) == 2 for row in rows)


def test_a_server_that_takes_only_the_older_names_is_asked_in_them(x: StandIn) -> None:
    x.dialects = frozenset({"tweet"})
    assert found_by(poll(x, dialect="tweet")[0]) == truth(x)


def test_an_empty_page_with_a_next_token_is_no_end(x: StandIn) -> None:
    """twitwi #35, twarc #602: taken for the end, years were lost."""
    rows, tally = poll(x, Fault("empty_page", page=1), Fault("empty_page", page=3))
    assert found_by(rows) == truth(x)
    assert tally.requests == poll(x)[1].requests + 2


def test_a_page_that_is_shorter_than_asked_for_is_no_end(x: StandIn) -> None:
    assert found_by(poll(x, Fault("short_page"), Fault("short_page", page=2))[0]) == truth(x)


def test_a_post_of_the_first_instant_is_the_days_and_one_of_the_next_midnight_is_not(x: StandIn) -> None:
    """``start_time`` is included, ``end_time`` is not: nothing is lost or doubled at midnight."""
    last = DAY.end - dt.timedelta(milliseconds=1)
    times = {"1": DAY.start - dt.timedelta(milliseconds=1), "2": DAY.start, "3": last, "4": DAY.end}
    posts = [{"id": name, "text": name, "created_at": at.isoformat()} for name, at in times.items()]
    body = json.dumps({"data": posts, "meta": {"result_count": 4}})
    rows, tally = poll(x, Fault("status", status=200, body=body), queries=["coffee"])
    assert [row["id"] for row in rows] == ["3", "2"]
    assert tally.counts["outside_asked"] == 2


def test_posts_of_another_day_are_dropped_and_counted(x: StandIn) -> None:
    """twarc #671."""
    rows, tally = poll(x, Fault("other_day"))
    assert found_by(rows) == truth(x)
    assert tally.counts["outside_asked"] == 2


@pytest.mark.parametrize("kind", ["overlap", "page_again", "out_of_order"])
def test_posts_that_come_again_on_a_later_page_are_one_row(x: StandIn, kind: str) -> None:
    """H17: a post that comes while pages are read moves those behind it."""
    rows, tally = poll(x, Fault(kind, page=2), queries=["coffee"])
    assert found_by(rows) == x.timeline.truth(DAY.date, "coffee")
    assert tally.counts["duplicates"] == {"overlap": 2, "page_again": 20, "out_of_order": 1}[kind]


def test_the_same_token_twice_is_no_endless_day(x: StandIn) -> None:
    with pytest.raises(RetriableError, match="would never end"):
        poll(x, Fault("same_token", page=2, times=None))


def test_a_list_that_repeats_a_page_is_no_endless_day(x: StandIn) -> None:
    """attention-index, docs/PROVIDERS.md: the same post again and again, each time with a new next_token."""
    with pytest.raises(RetriableError, match="the same posts 7 times in a row, each with a next page"):
        poll(x, Fault("repeating", times=None), queries=["coffee"])
    assert len(x.requests_taken) == 7


def test_a_day_without_a_post_is_empty(x: StandIn) -> None:
    rows, tally = poll(x, queries=["zebra"])
    assert (rows, tally.rows, tally.requests) == ([], 0, 1)


def test_partial_errors_of_a_whole_page_are_kept_with_their_posts(x: StandIn) -> None:
    rows, tally = poll(x)
    gone = {row["id"]: json.loads(row["errors"]) for row in rows if row["errors"]}
    assert len(gone) > 0
    for row in rows:
        references = [each["id"] for each in json.loads(row["referenced"] or "[]") if each["id"].startswith("9")]
        assert [each["resource_id"] for each in gone.get(row["id"], [])] == references
    assert tally.counts["partial_errors.resource-not-found"] >= len(gone)
    assert tally.rejects == []


def test_a_partial_error_that_belongs_to_no_post_is_kept_with_the_rejects(x: StandIn) -> None:
    rows, tally = poll(x, Fault("partial_error"))
    assert found_by(rows) == truth(x)
    (reject,) = tally.rejects
    assert json.loads(reject.record)["resource_id"] == "404404404"


@pytest.mark.parametrize(
    ("kind", "what"), [("no_id", "its id is not a number"), ("no_time", "its created_at is not a time")]
)
def test_a_post_that_cannot_be_a_row_fails_the_day_or_is_set_aside(x: StandIn, kind: str, what: str) -> None:
    with pytest.raises(DataError, match=what):
        poll(x, Fault(kind), queries=["coffee"])
    rows, tally = poll(x, Fault(kind), queries=["coffee"], errors_tolerance="all")
    assert len(rows) == len(x.timeline.truth(DAY.date, "coffee")) - 1
    assert tally.counts["rejected"] == len(tally.rejects) == 1


def test_a_lone_surrogate_loses_no_post(x: StandIn) -> None:
    rows, _ = poll(x, Fault("surrogate"), queries=["coffee"])
    assert found_by(rows) == x.timeline.truth(DAY.date, "coffee")
    assert sum(row["text"] == "half � a character" for row in rows) == 1


def test_a_post_that_is_deleted_is_gone_when_its_day_is_read_again(x: StandIn) -> None:
    before = found_by(poll(x)[0])
    deleted = next(iter(before))
    x.timeline = dataclasses.replace(x.timeline, deleted_ids=frozenset({deleted}))
    assert found_by(poll(x)[0]) == {post: queries for post, queries in before.items() if post != deleted}


def test_a_key_depends_on_the_post_alone(x: StandIn) -> None:
    one = {row["id"]: row["record_key"] for row in poll(x, queries=["coffee"])[0]}
    other = {row["id"]: row["record_key"] for row in poll(x, queries=QUERIES[::-1])[0]}
    assert one.items() <= other.items()
    assert len(set(other.values())) == len(other)


@pytest.mark.parametrize(("day", "endpoint", "size"), [(DAY, "search/all", 500), (YESTERDAY, "search/recent", 100)])
def test_a_day_is_read_where_its_age_says_from_its_start_up_to_its_end(
    x: StandIn, day: Any, endpoint: str, size: int
) -> None:
    x.most_posts = None
    rows, _ = poll(x, day=day)
    assert found_by(rows) == x.timeline.truth(day.date, *QUERIES)
    assert {(each.endpoint, each.size, each.start, each.end) for each in x.requests_taken} == {
        (endpoint, size, day.start, day.end)
    }


def test_fields_and_expansions_are_as_chosen(x: StandIn) -> None:
    rows, _ = poll(x, post_fields=["lang"], expansions=[])
    assert {frozenset(each.fields) for each in x.requests_taken} == {
        frozenset({"id", "text", "created_at", "edit_history_post_ids", "lang"})
    }
    filled = Counter(name for row in rows for name, value in row.items() if value is not None)
    assert set(filled) == {"id", "created_at", "text", "lang", "edit_history", "post", "queries", "record_key"}
