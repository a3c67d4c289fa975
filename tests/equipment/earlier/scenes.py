"""The targets that are frozen: for each a story, and the options of the sink that it is told to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.window import SourceKind
from tests.equipment.earlier.stories import (
    BY_DAY,
    DAYS,
    FOLLOWED,
    WHOLE,
    Options,
    Shop,
    require_all,
    tell_days,
    tell_halted_days,
    tell_increments,
    tell_snapshots,
)


@dataclass(frozen=True)
class Scene:
    """A story into a sink.

    :param sink: its options, but for the place of the target.
    :param erases: the column by which people are erased in it; None if nobody is.
    :param others: the connections of other streams that write there, with whom each has erased.
    :param place: the table's name, or the template of several.
    :param erases_now: the same of this version.
    :param refusal: why this version erases nobody.
    :param outlived: orders that a reload did not take out, since it only brings keys up to date.
    """

    story: Callable[..., None]
    sink: Mapping[str, Any] = field(default_factory=dict)
    erases: str | None = "person"
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    place: str = "orders"
    erases_now: str | None = "person"
    refusal: str = ""
    outlived: tuple[tuple[Any, ...], ...] = ()

    @property
    def kind(self) -> SourceKind:
        return {tell_days: "day", tell_halted_days: "day", tell_increments: "increment", tell_snapshots: "snapshot"}[
            self.story
        ]  # type: ignore[return-value]

    @property
    def reloaded(self) -> tuple[dt.date, int]:
        """A day to load again, and the run that published it last."""
        return {"day": (DAYS[1], 4), "increment": (DAYS[0], 1), "snapshot": (DAYS[2], 3)}[self.kind]

    @property
    def is_compacted(self) -> bool:
        """Whether a person has one row at most."""
        return self.sink.get("cleanup") == "compact"

    @property
    def streams(self) -> tuple[str, ...]:
        """The connections of all streams that write there."""
        return ("shop", *self.others)

    @property
    def reading(self) -> Options:
        """The source's options."""
        return {"day": BY_DAY, "increment": FOLLOWED, "snapshot": WHOLE}[self.kind]

    def begin(self, shop: Shop) -> None:
        """Tell the story. Each other stream then loads a day of its own, and erases people of its own."""
        self.story(shop, erases=self.erases)
        for conn_id, people in self.others.items():
            require_all(shop.load(DAYS[2], reading=self.reading, conn_id=conn_id))
            if people and self.erases:
                with shop.publisher(conn_id) as publisher:
                    publisher.erase(self.erases, people, self.kind)


DELTA = {
    "days": Scene(tell_days),
    "increments": Scene(tell_increments),
    "snapshots": Scene(tell_snapshots, {"deletes": "soft"}),
    "per_event": Scene(tell_days, erases=None, place="{event}"),
}
DELTA_HALTED = Scene(tell_halted_days, erases=None)
"""A table, and a day that is staged under it and not published."""
BIGQUERY = {
    "days": Scene(tell_days),
    "merged": Scene(
        tell_days,
        {"write_mode": "merge", "key": ["id", "person"]},
        others={"other_shop": ()},
        erases_now=None,
        refusal="another stream has published",
        outlived=((5, "signup", "cat", ""),),
    ),
    "snapshots": Scene(tell_snapshots, {"deletes": "soft"}),
    "increments": Scene(tell_increments),
    "per_event": Scene(tell_days, erases=None, place="{event}"),
}
KAFKA = {
    "days": Scene(tell_days, erases=None, erases_now=None, refusal="nothing can be erased from"),
    "parts": Scene(
        tell_days,
        {"atomicity": "partition"},
        erases=None,
        erases_now=None,
        refusal="nothing can be erased from",
    ),
    "at_least_once": Scene(
        tell_days,
        {"delivery": "at_least_once"},
        erases=None,
        erases_now=None,
        refusal="nothing can be erased from",
    ),
    "snapshots": Scene(tell_snapshots, {"cleanup": "compact", "key_fields": ["person"]}),
    "compacted": Scene(tell_days, {"cleanup": "compact", "key_fields": ["person"]}, others={"other_shop": ("dan",)}),
    "increments": Scene(tell_increments, erases=None, erases_now=None, refusal="nothing can be erased from"),
}
