"""Parses requests, refuses those that X refuses, and makes the documents of answers."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.standins.x.access import App, RefusedError, invalid
from tests.standins.x.posts import Post, Timeline, media, the_place
from tests.standins.x.query import QueryError, matches
from tests.standins.x.vocabulary import KNOWN, Dialect

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_FIRST = dt.datetime(2006, 3, 21, tzinfo=dt.UTC)
_WEEK = dt.timedelta(days=7)
_COUNT_DAYS = 31
_GRAINS = {"minute": 60, "hour": 3600, "day": 86_400}
_NOT_FOUND = "https://api.x.com/2/problems/resource-not-found"
_OLD_NAMES = {
    "referenced_posts": "referenced_tweets",
    "edit_history_post_ids": "edit_history_tweet_ids",
    "repost_count": "retweet_count",
    "post_count": "tweet_count",
    "note_post": "note_tweet",
    "total_post_count": "total_tweet_count",
}
_OLD_EXPANSIONS = {
    "referenced_tweets.id": "referenced_posts",
    "referenced_tweets.id.author_id": "referenced_posts.author_id",
    "edit_history_tweet_ids": "edit_history_post_ids",
}
_FIELDS_OF_EXPANSIONS = {
    "author_id": "author_id",
    "attachments.media_keys": "attachments",
    "geo.place_id": "geo",
    "in_reply_to_user_id": "in_reply_to_user_id",
    "referenced_posts": "referenced_posts",
}
"""The field that holds the ids of what an expansion brings. It comes along with it."""

_POST_FIELDS = frozenset({"id", "text", "edit_history_post_ids"})
_USER_FIELDS = frozenset({"id", "name", "username"})
_MEDIA_FIELDS = frozenset({"media_key", "type"})
_PLACE_FIELDS = frozenset({"id", "full_name"})
"""What comes without being asked for: https://docs.x.com/x-api/fundamentals/data-dictionary (2026-11)."""

_SHARED = {"query", "start_time", "end_time", "since_id", "until_id", "next_token", "pagination_token"}
_FIELDS = {"expansions", "max_results", "sort_order", "user.fields", "media.fields", "poll.fields", "place.fields"}
_SEARCH = _SHARED | _FIELDS | {"post.fields", "tweet.fields"}


@dataclass(frozen=True)
class SearchRequest:
    """A request that X accepts.

    :param endpoint: ``search/recent`` and so on.
    :param fields: fields of posts, by newer names.
    :param other_fields: fields of users, media and places, by parameter.
    :param first_index: index of the page's first post among the results.
    :param page: number of the page, from 1.
    """

    endpoint: str
    query: str
    start: dt.datetime
    end: dt.datetime
    size: int
    dialect: Dialect
    fields: frozenset[str]
    expansions: frozenset[str]
    other_fields: Mapping[str, frozenset[str]]
    grain: int = 3600
    first_index: int = 0
    page: int = 1
    token: str = ""


def parse_request(
    endpoint: str, params: Mapping[str, str], app: App, now: dt.datetime, dialects: frozenset[str]
) -> SearchRequest:
    """Parse a request.

    :param dialects: dialects that the server accepts.
    :raises RefusedError: 400.
    """
    is_search = endpoint.startswith("search/")
    known_parameters = _SEARCH if is_search else _SHARED | {"granularity"}
    if unknown := sorted(set(params) - known_parameters):
        raise invalid(f"The query parameter [{unknown[0]}] is not one of [{', '.join(sorted(known_parameters))}]")
    for name in ("post", "tweet"):
        if f"{name}.fields" in params and name not in dialects:
            raise invalid(f"The query parameter [{name}.fields] is not one of [expansions, …]")
    query = _query(params, endpoint, app)
    start, end = _span(endpoint, params, now)
    size = int(params.get("max_results", 10))
    if is_search and not 10 <= size <= (500 if endpoint == "search/all" else 100):
        raise invalid(f"The `max_results` query parameter value [{size}] is not between 10 and the most")
    dialect: Dialect = "tweet" if "tweet.fields" in params or "post" not in dialects else "post"
    token = params.get("next_token") or params.get("pagination_token") or ""
    first, page = _page_position(token)
    grain = params.get("granularity", "hour")
    if grain not in _GRAINS:
        raise invalid(f"The `granularity` query parameter value [{grain}] is not one of [minute,hour,day]")
    return SearchRequest(
        endpoint, query, start, end, size, dialect, _post_fields(params, dialect), _expansions(params, dialect),
        {name: _names(params, name, dialect) for name in ("user.fields", "media.fields", "place.fields")},
        grain=_GRAINS[grain], first_index=first, page=page, token=token,
    )  # fmt: skip


def make_next_token(request: SearchRequest, first: int) -> str:
    """Return the next_token of a page that begins at ``first``."""
    return f"b26v89c19zqg8o3f{first:08x}{request.page + 1:06x}"


def search(timeline: Timeline, request: SearchRequest, *, first: int, size: int) -> dict[str, Any]:
    """Return a page of results."""
    everything = timeline.search(request.query, request.start, request.end)
    posts = everything[first : first + size]
    is_last = first + size >= len(everything)
    document = make_page(timeline, request, posts)
    document["meta"] |= {} if is_last else {"next_token": make_next_token(request, first + size)}
    return document


def make_page(timeline: Timeline, request: SearchRequest, posts: list[Post]) -> dict[str, Any]:
    """Return posts as a page, without a next_token."""
    meta: dict[str, Any] = {"result_count": len(posts)}
    if not posts:
        return {"meta": meta}
    meta |= {"newest_id": posts[0].id, "oldest_id": posts[-1].id}
    shown = [_render_post(post.document, request) for post in posts]
    includes, errors = _included(timeline, request, posts)
    document: dict[str, Any] = {"data": shown}
    if includes:
        document["includes"] = includes
    if errors:
        document["errors"] = errors
    return document | {"meta": meta}


def counts(timeline: Timeline, request: SearchRequest) -> dict[str, Any]:
    """Return the counts of a time range. The archive's counts come in pages of 31 days, the newest first."""
    until = request.end - dt.timedelta(days=_COUNT_DAYS * (request.page - 1))
    since = max(request.start, until - dt.timedelta(days=_COUNT_DAYS))
    posts = timeline.matching_posts(request.query, since, until)
    buckets = []
    bucket_start = since
    while bucket_start < until:
        next_at = min(until, _next(bucket_start, request.grain))
        count = sum(bucket_start <= post.created_at < next_at for post in posts)
        buckets.append({"start": _written(bucket_start), "end": _written(next_at), "post_count": count})
        bucket_start = next_at
    meta: dict[str, Any] = {"total_post_count": len(posts)}
    if since > request.start:
        meta["next_token"] = make_next_token(request, 0)
    document: dict[str, Any] = in_dialect({"data": buckets, "meta": meta}, request.dialect)
    return document


def not_found(post_id: str, parameter: str, kind: str = "post") -> dict[str, Any]:
    """Return the entry of ``errors`` for a missing object."""
    return {
        "value": post_id,
        "detail": f"Could not find {kind} with {parameter}: [{post_id}].",
        "title": "Not Found Error",
        "resource_type": kind,
        "parameter": parameter,
        "resource_id": post_id,
        "type": _NOT_FOUND,
    }


def _query(params: Mapping[str, str], endpoint: str, app: App) -> str:
    query = params.get("query", "")
    if not query:
        raise invalid("The `query` query parameter can not be empty")
    most = 4096 if app.level == "enterprise" else 512 if endpoint.endswith("/recent") else 1024
    if len(query) > most:
        raise invalid(f"The query's length [{len(query)}] is more than the maximum of {most} characters.")
    try:
        matches(query, {"lang": "", "text": "", "author_id": "1000"})
    except QueryError as error:
        raise invalid(f"There were errors processing your request: {error}") from None
    return query


def _span(endpoint: str, params: Mapping[str, str], now: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
    if ("since_id" in params or "until_id" in params) and ("start_time" in params or "end_time" in params):
        raise invalid("Please specify only one of 'since_id' or 'start_time'")
    is_recent = endpoint.endswith("/recent")
    start = _time(params, "start_time", now - (_WEEK if is_recent else dt.timedelta(days=30)))
    end = _time(params, "end_time", now - dt.timedelta(seconds=30))
    if end > now - dt.timedelta(seconds=10):
        raise invalid("Invalid 'end_time': it must be a minimum of 10 seconds prior to the request time.")
    if is_recent and start < now - _WEEK:
        raise invalid(f"Invalid 'start_time':'{_written(start)}'. 'start_time' must be on or after the last 7 days.")
    if start < _FIRST:
        raise invalid(f"Invalid 'start_time':'{_written(start)}'. It must be after 2006-03-21.")
    if start >= end:
        raise invalid("Invalid 'start_time': it must be before 'end_time'.")
    return start, end


def _time(params: Mapping[str, str], name: str, default: dt.datetime) -> dt.datetime:
    if name not in params:
        return default.replace(microsecond=0)
    if not _TIME.fullmatch(params[name]):
        raise invalid(f"Invalid '{name}':'{params[name]}'. It must be YYYY-MM-DDTHH:mm:ssZ.")
    return dt.datetime.fromisoformat(params[name])


def _names(params: Mapping[str, str], parameter: str, dialect: Dialect) -> frozenset[str]:
    """Return the names in a parameter that X knows.

    It says nothing of the others: status 200, no error, and nothing of that name, measured on 2026-09-21 by
    https://github.com/0xFlimbo/attention-index (docs/PROVIDERS.md). In 2021 it answered 400:
    https://github.com/redouane59/twittered/issues/118.
    """
    return frozenset(params.get(parameter, "").split(",")) & KNOWN[dialect][parameter]


def _post_fields(params: Mapping[str, str], dialect: Dialect) -> frozenset[str]:
    """Return the fields of posts that are to be sent, by their newer names."""
    back = {old: new for new, old in _OLD_NAMES.items()}
    requested_fields = {back.get(name, name) for name in _names(params, f"{dialect}.fields", dialect)}
    along = {_FIELDS_OF_EXPANSIONS[name] for name in _expansions(params, dialect) if name in _FIELDS_OF_EXPANSIONS}
    return _POST_FIELDS | requested_fields | along


def _expansions(params: Mapping[str, str], dialect: Dialect) -> frozenset[str]:
    """Return the expansions by their newer names."""
    return frozenset(_OLD_EXPANSIONS.get(name, name) for name in _names(params, "expansions", dialect))


def _page_position(token: str) -> tuple[int, int]:
    if not token:
        return 0, 1
    match = re.fullmatch(r"b26v89c19zqg8o3f([0-9a-f]{8})([0-9a-f]{6})", token)
    if match is None:
        raise expired(token)
    return int(match[1], 16), int(match[2], 16)


def expired(token: str) -> RefusedError:
    """Return the refusal of an invalid token."""
    return invalid(f"Invalid 'next_token':'{token}'. The pagination token is expired or malformed.")


def _render_post(document: dict[str, Any], request: SearchRequest) -> dict[str, Any]:
    post: dict[str, Any] = in_dialect(
        {name: value for name, value in document.items() if name in request.fields}, request.dialect
    )
    return post


def _selected_fields(document: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name in names}


def _included(
    timeline: Timeline, request: SearchRequest, posts: list[Post]
) -> tuple[dict[str, list[Any]], list[dict[str, Any]]]:
    includes: dict[str, list[Any]] = {}
    errors: list[dict[str, Any]] = []
    documents = [post.document for post in posts]
    referenced = {entry["id"]: None for document in documents for entry in document.get("referenced_posts", [])}
    referenced_posts = [_referenced(entry) for entry in referenced if not entry.startswith("9")]
    if "referenced_posts" in request.expansions or "referenced_posts.author_id" in request.expansions:
        parameter = "referenced_posts" if request.dialect == "post" else "referenced_tweets.id"
        errors += [not_found(entry, parameter, request.dialect) for entry in referenced if entry.startswith("9")]
        if referenced_posts:
            includes["posts" if request.dialect == "post" else "tweets"] = [
                _render_post(entry, request) for entry in referenced_posts
            ]
    if users := _users_of(request, documents, referenced_posts):
        names = _USER_FIELDS | request.other_fields["user.fields"]
        includes["users"] = [
            in_dialect(_selected_fields(timeline.user(entry), names), request.dialect) for entry in users
        ]
    if "attachments.media_keys" in request.expansions:
        keys = {key: None for document in documents for key in document.get("attachments", {}).get("media_keys", [])}
        names = _MEDIA_FIELDS | request.other_fields["media.fields"]
        includes |= {"media": [_selected_fields(media(key), names) for key in keys]} if keys else {}
    if "geo.place_id" in request.expansions and any("geo" in document for document in documents):
        includes["places"] = [_selected_fields(the_place(), _PLACE_FIELDS | request.other_fields["place.fields"])]
    return includes, errors


def _users_of(
    request: SearchRequest, documents: list[dict[str, Any]], referenced: list[dict[str, Any]]
) -> dict[str, None]:
    """Return the ids of the users that the expansions bring, each once.

    Authors of referenced posts need an expansion of their own: https://docs.x.com/x-api/fundamentals/expansions
    (2026-11).
    """
    sources = {
        "author_id": [document["author_id"] for document in documents],
        "in_reply_to_user_id": [
            document["in_reply_to_user_id"] for document in documents if "in_reply_to_user_id" in document
        ],
        "referenced_posts.author_id": [document["author_id"] for document in referenced],
    }
    return {user: None for expansion, users in sources.items() if expansion in request.expansions for user in users}


def _referenced(post_id: str) -> dict[str, Any]:
    return {"id": post_id, "text": f"the post {post_id}", "author_id": "1003", "edit_history_post_ids": [post_id]}


def in_dialect(value: Any, dialect: Dialect) -> Any:
    """Convert a document with newer names to the names of a dialect."""
    if dialect == "post":
        return value
    if isinstance(value, dict):
        return {_OLD_NAMES.get(name, name): in_dialect(entry, dialect) for name, entry in value.items()}
    if isinstance(value, list):
        return [in_dialect(entry, dialect) for entry in value]
    return "retweeted" if value == "reposted" else value


def _next(at: dt.datetime, grain: int) -> dt.datetime:
    seconds = int(at.timestamp())
    return dt.datetime.fromtimestamp(seconds - seconds % grain + grain, dt.UTC)


def _written(at: dt.datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
