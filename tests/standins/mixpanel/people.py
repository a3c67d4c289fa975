"""Deterministic profiles and cohorts: what the stand-in's Query API serves, and the expected results for tests.

Shapes and names follow https://developer.mixpanel.com/reference/engage-query and /reference/cohorts-list (2026-11).
Like :mod:`.events` this shares no code with the connector that reads it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from tests.standins.mixpanel.templates import render, rng

POOL_SIZE = 200
_NEWEST = dt.datetime(2026, 3, 1, 12, 0, 0)  # noqa: DTZ001  # profiles' times have no zone
_PLANS = ("free", "growth", "enterprise")
_TRAPS: tuple[dict[str, Any], ...] = (
    {"userName": "Ada", "username": "ada"},
    {"address": {"city": "Zürich", "geo": {"lat": 47.37, "tags": ["home", None, True]}}},
    {"note": 'He said "ok"},{"$distinct_id":"fake","$properties":{}}', "": "empty name"},
    {"balance": 9007199254740993, "score": "12.5", "plan": "undefined"},
    {"line": "separator\u2028next\nline", "page.title": "a.b", "emoji 🎯": "👩‍👩‍👧"},
)


class Cohort(NamedTuple):
    """A cohort: every profile whose number is a multiple of ``every``.

    :param has_group: False for a cohort whose data group was deleted: it is listed, but its members cannot be read.
    """

    id: int
    name: str
    every: int
    has_group: bool = True


COHORTS = (Cohort(1001, "Everybody", 1), Cohort(1002, "Every seventh", 7), Cohort(1003, "Müller & Söhne", 50))


@dataclass(frozen=True)
class People:
    """The profiles of a project.

    :param users: how many users have a profile.
    :param groups: group profiles by ``data_group_id``.
    :param numbers: of every so many users one has a number as its id; 0 for none.
    :param cohorts: of users.
    """

    seed: int = 0
    users: int = 2500
    groups: Mapping[str, int] = field(default_factory=dict)
    numbers: int = 50
    cohorts: tuple[Cohort, ...] = COHORTS

    def count(self, group: str | None = None) -> int:
        """Return how many profiles there are."""
        return self.users if group is None else self.groups.get(group, 0)

    def profile(self, number: int, group: str | None = None, property_names: frozenset[str] | None = None) -> bytes:
        """Return one profile as JSON.

        :param property_names: properties to send. None for all.
        """
        encoded = self._id(number, group)
        last_seen = _last_seen(number)
        text = _pool(self.seed)[number % POOL_SIZE]
        if property_names is None:
            return b'{"$distinct_id":%b,"$properties":{%b%b}}' % (encoded, last_seen, text)
        properties = json.loads(b"{%b%b}" % (last_seen, text))
        shown_properties = {name: value for name, value in properties.items() if name in property_names}
        return b'{"$distinct_id":%b,"$properties":%b}' % (encoded, render(shown_properties))

    def properties(self, number: int) -> dict[str, Any]:
        """Return the properties of one profile."""
        parsed: dict[str, Any] = json.loads(b"{%b%b}" % (_last_seen(number), _pool(self.seed)[number % POOL_SIZE]))
        return parsed

    def all(self, group: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield every profile as parsed JSON."""
        for number in range(self.count(group)):
            yield json.loads(self.profile(number, group))

    def cohort(self, cohort_id: int) -> Cohort | None:
        """Return a cohort by its id."""
        return next((cohort for cohort in self.cohorts if cohort.id == cohort_id), None)

    def members(self, cohort: Cohort) -> int:
        """Return how many users are in a cohort."""
        return -(-self.users // cohort.every)

    def cohort_entries(self, project_id: int) -> list[dict[str, Any]]:
        """Return the cohorts in the form of ``/cohorts/list``."""
        return [
            {
                "count": self.members(cohort),
                "is_visible": 1,
                "description": f"every {cohort.every}th",
                "created": f"2025-03-{index + 1:02d} 23:49:51",
                "project_id": project_id,
                "id": cohort.id,
                "name": cohort.name,
            }
            for index, cohort in enumerate(self.cohorts)
        ]

    def _id(self, number: int, group: str | None) -> bytes:
        if group is not None:
            return b'"company-%d"' % number
        if self.numbers and number % self.numbers == self.numbers - 1:
            return b"%d" % (10_000_000_000_000_000_000 + number)
        return render(f"müller+{number}@example.com" if number % 3 == 0 else f"{number:08x}-device")


def _last_seen(number: int) -> bytes:
    """Return the member ``$last_seen``: for most a time, for some another text, an offset, or nothing."""
    last_seen = _NEWEST - dt.timedelta(minutes=number)
    special = number % 100
    if special == 97:
        return b""
    text = {98: f"{last_seen.isoformat()}+02:00", 99: "undefined"}.get(special, last_seen.isoformat())
    return b'"$last_seen":%b,' % render(text)


@lru_cache(maxsize=4)
def _pool(seed: int) -> tuple[bytes, ...]:
    """Return the members after ``$last_seen``, made once for a seed."""
    random_source = rng("people", seed)
    pool = []
    for index in range(POOL_SIZE):
        properties: dict[str, Any] = {
            "$name": f"Person {index}",
            "$email": f"person{index}@example.com",
            "$city": random_source.choice(("São Paulo", "Zürich", "東京", "London")),
            "plan": random_source.choice(_PLANS),
            "logins": random_source.randrange(1000),
            "revenue": random_source.randrange(100_000) / 100,
            "is_admin": random_source.random() < 0.1,
            "about": "x" * random_source.randrange(300, 700),
        }
        if index % 4 == 0:
            properties |= _TRAPS[index // 4 % len(_TRAPS)]
        pool.append(render(properties)[1:-1])
    return tuple(pool)
