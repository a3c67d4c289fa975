"""What the posts of a day refer to, as rows of streams of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from xxhash import xxh3_128_hexdigest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources._x_search.columns import STREAMS, schema
from tests.equipment.x import DAY, QUERIES, poll, source
from tests.standins.x.faults import Fault
from tests.standins.x.server import StandIn

STREAMS_ALONG = ["users", "media", "referenced"]


def expected(x: StandIn) -> dict[str, set[str]]:
    """Return the keys of each stream, from what the stand-in would send."""
    found = x.timeline.truth(DAY.date, *QUERIES)
    posts = [post.document for post in x.timeline.posts_of_day(DAY.date) if post.id in found]
    named = {each["id"] for post in posts for each in post.get("referenced_posts", [])}
    referenced = {each for each in named if not each.startswith("9")}
    return {
        "users": {post["author_id"] for post in posts} | {"1003"},  # 1003 has written all referenced posts
        "media": {key for post in posts for key in post.get("attachments", {}).get("media_keys", [])},
        "referenced": referenced,
    }


@pytest.mark.parametrize("dialect", ["post", "tweet"])
@pytest.mark.parametrize("stream", STREAMS_ALONG)
def test_each_object_of_a_day_is_one_row_whichever_posts_refer_to_it(x: StandIn, stream: Any, dialect: str) -> None:
    rows, tally = poll(x, stream=stream, dialect=dialect)
    keys = [row[STREAMS[stream].key] for row in rows]
    assert len(set(keys)) == len(keys) > 0
    assert set(keys) == expected(x)[stream]
    assert tally.rows == len(rows) + tally.counts["duplicates"]
    assert len({row["record_key"] for row in rows}) == len(rows)


def test_a_row_has_the_columns_and_the_json_as_sent(x: StandIn) -> None:
    (user,) = [row for row in poll(x, stream="users", dialect="tweet")[0] if row["id"] == "1005"]
    assert (user["username"], user["verified"], user["created_at"]) == ("user_5", True, None)
    assert (user["followers_count"], user["post_count"]) == (50, 99)  # tweet_count in the older names
    assert json.loads(user["user"])["username"] == "user_5"
    medium = poll(x, stream="media")[0][0]
    assert (medium["type"], medium["width"], medium["height"]) == ("photo", 640, None)
    assert json.loads(medium["media"])["media_key"] == medium["media_key"]
    post = poll(x, stream="referenced")[0][0]
    assert (post["text"], post["author_username"]) == (f"the post {post['id']}", "user_3")
    assert post["created_at"] is None
    assert json.loads(post["post"])["id"] == post["id"]


def test_the_key_of_a_referenced_post_is_the_one_it_has_among_posts(x: StandIn) -> None:
    """So that a table of all posts may be merged from both streams."""
    for row in [*poll(x, stream="referenced")[0], *poll(x)[0]]:
        assert row["record_key"] == xxh3_128_hexdigest(row["id"].encode())


@pytest.mark.parametrize("stream", STREAMS_ALONG)
def test_an_object_of_another_days_post_is_no_row(x: StandIn, stream: Any) -> None:
    """twarc #671: such posts are sent, and are no posts of this day."""
    times = {"1": DAY.start, "2": DAY.end}
    posts = [
        {
            "id": f"10{name}",
            "created_at": at.isoformat(),
            "author_id": f"20{name}",
            "attachments": {"media_keys": [f"3_{name}"]},
            "referenced_posts": [{"type": "quoted", "id": f"40{name}"}],
        }
        for name, at in times.items()
    ]
    includes = {
        "users": [{"id": "201"}, {"id": "202"}, {"username": "nobody"}],
        "media": [{"media_key": "3_1"}, {"media_key": "3_2"}],
        "posts": [{"id": "401", "text": "q"}, {"id": "402", "text": "r"}],
    }
    body = json.dumps({"data": posts, "includes": includes, "meta": {}})
    rows, tally = poll(x, Fault("status", status=200, body=body), queries=["coffee"], stream=stream)
    expected_keys = {"users": ["201"], "media": ["3_1"], "referenced": ["401"]}
    assert [row[STREAMS[stream].key] for row in rows] == expected_keys[stream]
    assert tally.counts["outside_asked"] == 1


@pytest.mark.parametrize("stream", STREAMS_ALONG)
def test_repeated_pages_double_no_rows(x: StandIn, stream: Any) -> None:
    rows, _ = poll(x, Fault("page_again", page=2), Fault("empty_page", page=3), stream=stream)
    keys = [row[STREAMS[stream].key] for row in rows]
    assert len(set(keys)) == len(keys)
    assert set(keys) == expected(x)[stream]


def test_partial_errors_are_counted_and_all_set_aside_where_no_row_can_hold_them(x: StandIn) -> None:
    kept = sum(len(json.loads(row["errors"] or "[]")) for row in poll(x)[0])
    assert kept > 0
    _, tally = poll(x, stream="users")
    assert len(tally.rejects) == tally.counts["partial_errors.resource-not-found"] >= kept


def test_each_stream_has_a_ledger_and_a_full_name_of_its_own() -> None:
    streams = [source(stream=stream) for stream in ("posts", *STREAMS_ALONG)]
    assert len({each.stream_key for each in streams}) == len(streams)
    names = [(schema(each.stream).metadata or {})[b"record_name"].decode() for each in streams]
    assert names == ["connect.x.Post", "connect.x.User", "connect.x.Media", "connect.x.ReferencedPost"]


def test_options_that_a_stream_has_no_use_for_are_refused() -> None:
    options: list[tuple[dict[str, Any], str]] = [
        ({"stream": "users", "expansions": ["attachments.media_keys"]}, "'author_id'. Add it"),
        ({"stream": "media", "expansions": ["author_id"]}, "'attachments.media_keys'. Add it"),
        ({"stream": "referenced", "expansions": []}, "'referenced_posts'. Add it"),
        ({"stream": "users", "split_rows": 10}, "split_rows: .*loaded twice"),
    ]
    for given, words in options:
        with pytest.raises(ConfigError, match=words):
            source(**given)
    source(stream="users", expansions=["entities.mentions.username"])


def test_only_posts_are_compared_with_counts() -> None:
    assert source().count_problems() == []
    assert "knows no count" in source(stream="users").count_problems()[0]
