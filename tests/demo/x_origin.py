"""The demo's X: some hundred posts a day, and the Delta table that they go into."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.demo.delta_target import DeltaTarget
from tests.demo.origin import Origin
from tests.demo.target import Target
from tests.standins.x.posts import Timeline
from tests.standins.x.search import in_dialect

QUERIES = ("coffee -is:repost", "tea OR rain")
"""Those of the example DAG."""

TIMELINE = Timeline(seed=7, posts_per_day=1500, deleted_per_day=30, edited_per_day=40, gone_references_per_day=20)
_ARGUMENTS = ("seed", "posts_per_day", "deleted_per_day", "edited_per_day", "gone_references_per_day")


class XDeltaTarget(DeltaTarget):
    """A Delta table of posts."""

    dag_id: ClassVar[str] = "x_search_daily"
    table: ClassVar[str] = "x_posts"

    def as_kept(self, properties: str) -> str:
        """Return the post as a document: the stand-in sends it with other spaces."""
        return json.dumps(json.loads(properties), sort_keys=True)

    def events(self) -> list[tuple[dt.date, str, str]]:
        """Return day, queries and post of every row."""
        return [
            (day, " | ".join(queries), post)
            for day, queries, post in self._select("select day, queries, post from events")
        ]

    def sample(self) -> list[tuple[Any, ...]]:
        """Return the three oldest posts."""
        return self._select(
            "select day, created_at, author_username, left(text, 40), queries from events order by created_at limit 3"
        )


class Posts:
    """What a table must hold."""

    def expected_rows(self, date: dt.date) -> Iterator[dict[str, Any]]:
        """Yield each post of a day that a query finds, with those queries."""
        documents = {post.id: in_dialect(post.document, "tweet") for post in TIMELINE.posts_of_day(date)}
        for post_id, queries in TIMELINE.truth(date, *QUERIES).items():
            yield {"event": " | ".join(queries), "properties": documents[post_id]}


class XOrigin(Origin):
    """The X stand-in."""

    name: ClassVar[str] = "x_search"
    title: ClassVar[str] = "X"
    things: ClassVar[str] = "posts"
    task_id: ClassVar[str] = "posts"
    module: ClassVar[str] = "tests.standins.x"

    @property
    def targets(self) -> Mapping[str, type[Target]]:
        """The Delta table."""
        return {XDeltaTarget.name: XDeltaTarget}

    @property
    def served(self) -> Posts:
        """The posts."""
        return Posts()

    def arguments(self, folder: Path, dates: Iterable[dt.date], secret_variable: str) -> list[str]:
        """Return the timeline's options."""
        found = ["--token-env", secret_variable]
        for name in _ARGUMENTS:
            found += [f"--{name.replace('_', '-')}", str(getattr(TIMELINE, name))]
        return found

    def connection(self, port: int, secret: str) -> dict[str, Any]:
        """Return the X connection."""
        return {
            "connection_id": "x_default",
            "conn_type": "x",
            "host": "http://127.0.0.1",
            "port": port,
            "password": secret,
        }
