"""Options of X search. DAG files import this."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.config import Options
from airflow_provider_connect.sources._x_search.dialect import VOCABULARY, Dialect, newer_name

Endpoint = Literal["recent", "all"]

StreamName = Literal["posts", "users", "media", "referenced"]

MAX_QUERY_LENGTHS: dict[str, dict[Endpoint, int]] = {
    "self_serve": {"recent": 512, "all": 1024},
    "enterprise": {"recent": 4096, "all": 4096},
}
"""Longest query in characters: https://docs.x.com/x-api/posts/search/integrate/overview (2026-11)."""

MAX_PAGE_SIZE: dict[Endpoint, int] = {"recent": 100, "all": 500}
_HEAVY_FIELD, _HEAVY_PAGE = "context_annotations", 100

_POST_FIELDS = (
    "attachments",
    "author_id",
    "conversation_id",
    "created_at",
    "edit_history_post_ids",
    "entities",
    "geo",
    "in_reply_to_user_id",
    "lang",
    "note_post",
    "possibly_sensitive",
    "public_metrics",
    "referenced_posts",
    "reply_settings",
    "withheld",
)
_EXPANSIONS = ("author_id", "attachments.media_keys", "attachments.poll_ids", "geo.place_id", "referenced_posts")
_USER_FIELDS = ("created_at", "description", "location", "name", "public_metrics", "username", "verified")
_MEDIA_FIELDS = ("alt_text", "duration_ms", "height", "preview_image_url", "type", "url", "width")
_POLL_FIELDS = ("duration_minutes", "end_datetime", "options", "voting_status")
_PLACE_FIELDS = ("country_code", "full_name", "geo", "name", "place_type")


_NEEDED_EXPANSIONS: dict[StreamName, tuple[str, tuple[str, ...]]] = {
    "users": ("author_id", ("author_id", "user_id", "username")),
    "media": ("attachments.media_keys", ("media_keys",)),
    "referenced": ("referenced_posts", ("referenced_posts",)),
}


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[list[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.]*$")]], BeforeValidator(_as_list)]


class XSearchOptions(Options):
    """Options of X search."""

    removed: ClassVar[Mapping[str, str]] = {
        "page_size": "pages are as large as the endpoint allows",
        "connect_timeout_seconds": "a connection may take 10 seconds, within request_deadline_seconds",
    }

    conn_id: str = Field(description="Airflow connection with the address and the credentials.", examples=["x_default"])
    queries: Annotated[
        list[Annotated[str, Field(min_length=1, pattern=r"\S")]], BeforeValidator(_as_list), Field(min_length=1)
    ] = Field(
        description="Searches in X's query language. A post that several queries find is one row, which lists them.",
        examples=[["coffee lang:en"]],
    )
    stream: StreamName = Field(
        default="posts",
        description="Rows to load: the posts that match, or the users, media or referenced posts to which the posts of "
        "the day refer, each once a day.",
    )
    endpoint: Literal["auto", "recent", "all"] = Field(
        default="auto",
        description="Recent search, which reaches back seven days, or the full archive (all). auto: by the day's age.",
    )
    access_level: Literal["self_serve", "enterprise"] = Field(
        default="self_serve", description="The app's access to X, which limits the length of a query."
    )
    dialect: Dialect = Field(
        default="tweet",
        description="Names in requests: tweet (tweet.fields), or post as in X's newest specification (post.fields). "
        "With post the ids of authors and referenced posts come only with users and posts that X bills. Answers are "
        "read in both. The other options use the names of post.",
    )
    post_fields: Names = Field(
        default=list(_POST_FIELDS),
        description="Fields of posts to request. id, text, created_at and the edit history are always requested.",
    )
    expansions: Names = Field(
        default=list(_EXPANSIONS), description="Objects to which posts refer, to request with the posts."
    )
    user_fields: Names = Field(default=list(_USER_FIELDS), description="Fields of users to request.")
    media_fields: Names = Field(default=list(_MEDIA_FIELDS), description="Fields of media to request.")
    poll_fields: Names = Field(default=list(_POLL_FIELDS), description="Fields of polls to request.")
    place_fields: Names = Field(default=list(_PLACE_FIELDS), description="Fields of places to request.")
    split_rows: int | None = Field(
        default=None,
        ge=1,
        description="A day with more posts by X's count is read in several parts concurrently. An hour is never "
        "divided. Each day is counted first. By default a day is one part without a count.",
    )
    parallel_days: int = Field(
        default=1,
        ge=1,
        description="Days of one window to poll at the same time. One day alone can use up X's limits.",
    )
    errors_tolerance: Literal["none", "all"] = Field(
        default="none",
        description="A post without id or time fails the day (none), or is set aside and counted (all).",
    )
    max_rejects: int = Field(
        default=1000, ge=0, description="Number of posts that may be set aside before the day fails."
    )
    read_timeout_seconds: float = Field(default=60.0, gt=0, description="Longest wait for the next bytes.")
    request_deadline_seconds: float = Field(
        default=300.0, gt=0, description="Longest time for a request, even while bytes still arrive."
    )

    @property
    def timeouts(self) -> HttpTimeouts:
        return HttpTimeouts(
            read_timeout_seconds=self.read_timeout_seconds, deadline_seconds=self.request_deadline_seconds
        )

    @model_validator(mode="after")
    def _validate_together(self) -> XSearchOptions:
        max_length = max(MAX_QUERY_LENGTHS[self.access_level][endpoint] for endpoint in self.endpoints)
        problems = [
            f"queries: query {number} has {len(query)} characters, and X accepts {max_length} with "
            f"access_level={self.access_level!r} and endpoint={self.endpoint!r}. Shorten it, or make two queries of it"
            for number, query in enumerate(self.queries, 1)
            if len(query) > max_length
        ]
        if len(set(self.queries)) < len(self.queries):
            problems.append("queries: a query is listed twice")
        problems += self._name_problems()
        problems += self._stream_problems()
        if self.split_rows is not None:
            problems += [f"split_rows: {problem}" for problem in self.joined_query_problems()]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _name_problems(self) -> list[str]:
        problems = []
        for option, known_names in VOCABULARY[self.dialect].items():
            for name in getattr(self, option):
                if name not in known_names:
                    better = newer_name(name)
                    advice = (
                        f"write {better!r}"
                        if better in known_names
                        else f"choose from {', '.join(sorted(known_names))}"
                    )
                    problems.append(
                        f"{option}: X knows no {name!r} with dialect={self.dialect!r}, and would ignore it without "
                        f"an error: {advice}"
                    )
        return problems

    def _stream_problems(self) -> list[str]:
        if self.stream == "posts":
            return []
        problems = []
        example, endings = _NEEDED_EXPANSIONS[self.stream]
        if not any(expansion.endswith(endings) for expansion in self.expansions):
            problems.append(f"expansions: stream={self.stream!r} has no rows without {example!r}. Add it")
        if self.split_rows is not None:
            problems.append(
                f"split_rows: not possible with stream={self.stream!r}, because posts of several parts may refer to "
                "the same object, which would be loaded twice. Remove split_rows"
            )
        return problems

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Endpoints that the option ``endpoint`` allows."""
        return ("recent", "all") if self.endpoint == "auto" else (self.endpoint,)

    @property
    def variant(self) -> str:
        """Hash of the queries, which distinguishes the streams of one connection."""
        return hashlib.blake2b(json.dumps(sorted(self.queries)).encode(), digest_size=4).hexdigest()

    @property
    def joined_query(self) -> str:
        """All queries joined by OR."""
        if len(self.queries) == 1:
            return self.queries[0]
        return " OR ".join(f"({query})" for query in self.queries)

    def max_page_size(self, endpoint: Endpoint) -> int:
        """Return the most posts in an answer of the endpoint."""
        return min(MAX_PAGE_SIZE[endpoint], _HEAVY_PAGE if _HEAVY_FIELD in self.post_fields else MAX_PAGE_SIZE["all"])

    def joined_query_problems(self) -> list[str]:
        """Return the reasons why X's count cannot be compared with the rows."""
        max_length = min(MAX_QUERY_LENGTHS[self.access_level][endpoint] for endpoint in self.endpoints)
        if len(self.joined_query) <= max_length:
            return []
        return [
            f"X counts several queries as one query joined by OR, so that each post counts once. Joined they have "
            f"{len(self.joined_query)} characters, and X accepts {max_length}. Use fewer queries in one source"
        ]
