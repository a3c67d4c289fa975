"""The options of X search. DAG files import this: keep it light."""

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
"""The longest query by access level: https://docs.x.com/x-api/posts/search/integrate/overview (2026-11)."""

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


_NEEDED: dict[StreamName, tuple[str, tuple[str, ...]]] = {
    "users": ("author_id", ("author_id", "user_id", "username")),
    "media": ("attachments.media_keys", ("media_keys",)),
    "referenced": ("referenced_posts", ("referenced_posts",)),
}
"""By stream, the expansion that brings its rows, and how the names of all that do end."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[list[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.]*$")]], BeforeValidator(_as_list)]


class XSearchOptions(Options):
    """What may be asked of X, and how."""

    removed: ClassVar[Mapping[str, str]] = {
        "page_size": "pages are as large as the endpoint allows",
        "connect_timeout_seconds": "a connection may take 10 seconds, within request_deadline_seconds",
    }

    conn_id: str = Field(
        description="Airflow connection that holds where the source is and who may read it.", examples=["x_default"]
    )
    queries: Annotated[
        list[Annotated[str, Field(min_length=1, pattern=r"\S")]], BeforeValidator(_as_list), Field(min_length=1)
    ] = Field(
        description="What to search for, in X's query language. A post that several queries find is one row, which "
        "names them.",
        examples=[["coffee lang:en"]],
    )
    stream: StreamName = Field(
        default="posts",
        description="What a row is: a post that the queries find, or a user, a medium or another post that the posts "
        "of the day refer to, each once a day.",
    )
    endpoint: Literal["auto", "recent", "all"] = Field(
        default="auto",
        description="Recent search, which reaches back seven days, or the full archive (all); auto: by the day's age.",
    )
    access_level: Literal["self_serve", "enterprise"] = Field(
        default="self_serve", description="The app's access to X, which decides how long a query may be."
    )
    dialect: Dialect = Field(
        default="tweet",
        description="Names in requests: tweet (tweet.fields), or post as in X's newest specification (post.fields), "
        "where the ids of authors and referenced posts come only with users and posts that X bills. Answers are read "
        "in both. The other options use the names of post.",
    )
    post_fields: Names = Field(
        default=list(_POST_FIELDS),
        description="Fields of posts to ask for. id, text, created_at and the edit history are always asked for.",
    )
    expansions: Names = Field(
        default=list(_EXPANSIONS), description="What a post refers to and X is to send along with it."
    )
    user_fields: Names = Field(default=list(_USER_FIELDS), description="Fields of users to ask for.")
    media_fields: Names = Field(default=list(_MEDIA_FIELDS), description="Fields of media to ask for.")
    poll_fields: Names = Field(default=list(_POLL_FIELDS), description="Fields of polls to ask for.")
    place_fields: Names = Field(default=list(_PLACE_FIELDS), description="Fields of places to ask for.")
    split_rows: int | None = Field(
        default=None,
        ge=1,
        description="A day with more posts than these, as X counts them, is read in several parts side by side; an "
        "hour is not cut. Each day is then counted first. By default a day is one part, and not counted.",
    )
    parallel_days: int = Field(
        default=1,
        ge=1,
        description="How many days of one window may be polled at the same time. One day alone can use up X's limits.",
    )
    errors_tolerance: Literal["none", "all"] = Field(
        default="none",
        description="A post without id or time fails the day (none), or is set aside and counted (all).",
    )
    max_rejects: int = Field(default=1000, ge=0, description="How many posts may be set aside before the day fails.")
    read_timeout_seconds: float = Field(default=60.0, gt=0, description="Longest wait for the next bytes.")
    request_deadline_seconds: float = Field(
        default=300.0, gt=0, description="Longest time for a whole request, even while bytes still arrive."
    )

    @property
    def timeouts(self) -> HttpTimeouts:
        """How long each part of a request may take."""
        return HttpTimeouts(
            read_timeout_seconds=self.read_timeout_seconds, deadline_seconds=self.request_deadline_seconds
        )

    @model_validator(mode="after")
    def _can_be_asked(self) -> XSearchOptions:
        most = max(MAX_QUERY_LENGTHS[self.access_level][each] for each in self.endpoints)
        found = [
            f"queries: query {number} has {len(query)} characters, and X takes {most} with "
            f"access_level={self.access_level!r} and endpoint={self.endpoint!r}: shorten it, or cut it in two"
            for number, query in enumerate(self.queries, 1)
            if len(query) > most
        ]
        if len(set(self.queries)) < len(self.queries):
            found.append("queries: a query is listed twice")
        found += self._name_problems()
        found += self._stream_problems()
        if self.split_rows is not None:
            found += [f"split_rows: {problem}" for problem in self.joined_query_problems()]
        if found:
            raise ValueError("; ".join(found))
        return self

    def _name_problems(self) -> list[str]:
        """Name what X would leave out without a word."""
        found = []
        for option, known in VOCABULARY[self.dialect].items():
            for name in getattr(self, option):
                if name not in known:
                    better = newer_name(name)
                    advice = f"write {better!r}" if better in known else f"choose from {', '.join(sorted(known))}"
                    found.append(
                        f"{option}: X knows no {name!r} with dialect={self.dialect!r}, and would leave it out without "
                        f"an error: {advice}"
                    )
        return found

    def _stream_problems(self) -> list[str]:
        if self.stream == "posts":
            return []
        found = []
        example, ends = _NEEDED[self.stream]
        if not any(each.endswith(ends) for each in self.expansions):
            found.append(f"expansions: stream={self.stream!r} has no rows without {example!r}: add it")
        if self.split_rows is not None:
            found.append(
                f"split_rows: stream={self.stream!r} takes none: posts of several parts may refer to the same one, "
                "which would then be there twice"
            )
        return found

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints that days may be read from."""
        return ("recent", "all") if self.endpoint == "auto" else (self.endpoint,)

    @property
    def variant(self) -> str:
        """What tells this stream from others of the connection: other queries find other posts."""
        return hashlib.blake2b(json.dumps(sorted(self.queries)).encode(), digest_size=4).hexdigest()

    @property
    def joined_query(self) -> str:
        """One query that finds what all queries find together."""
        if len(self.queries) == 1:
            return self.queries[0]
        return " OR ".join(f"({query})" for query in self.queries)

    def max_page_size(self, endpoint: Endpoint) -> int:
        """Return how many posts to ask for at once: the most that X sends in one answer."""
        return min(MAX_PAGE_SIZE[endpoint], _HEAVY_PAGE if _HEAVY_FIELD in self.post_fields else MAX_PAGE_SIZE["all"])

    def joined_query_problems(self) -> list[str]:
        """Say why X's counts cannot be compared with the rows; [] if they can."""
        most = min(MAX_QUERY_LENGTHS[self.access_level][each] for each in self.endpoints)
        if len(self.joined_query) <= most:
            return []
        return [
            f"posts that several queries find are counted once only if the queries are counted together, joined by OR; "
            f"joined they have {len(self.joined_query)} characters, and X takes {most}: use fewer queries in one source"
        ]
