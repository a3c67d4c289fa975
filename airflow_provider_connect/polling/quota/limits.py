"""What a vendor allows in an hour, and what a task wants of it."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_connect.errors import ConfigError

_FIELDS = ("requests", "seconds", "per_second", "at_once")
_CLOCKS_DIFFER_SECONDS = 5.0


@dataclass(frozen=True)
class Quota:
    """What one project may ask: the limits that all its runs, tasks and DAGs share.

    :param name: of the project and API, the same for whoever asks it; part of keys, so no secret.
    :param requests: the most in any span of ``seconds``.
    :param per_second: the most in a second; a job spreads its own requests, and the jobs do not know each other's.
    :param at_once: the most that may be under way.
    """

    name: str
    requests: int = 60
    seconds: float = 3600.0
    per_second: int | None = None
    at_once: int | None = None

    @property
    def slack_seconds(self) -> float:
        """By how much the clocks of two workers may differ; each request counts for so much longer."""
        return min(_CLOCKS_DIFFER_SECONDS, self.seconds / 100)

    @property
    def valid_seconds(self) -> float:
        """How long a reservation is good for: what was not sent by then is not sent under it."""
        return self.seconds / 4

    @property
    def lag_seconds(self) -> float:
        """How long before its end a reservation sends nothing any more: a request takes time to be sent."""
        return min(60.0, self.valid_seconds / 10)

    @property
    def grace_seconds(self) -> float:
        """How late a task may come back from a wait and still be first: it may have to queue for a worker."""
        return self.seconds / 30

    def with_settings(self, settings: Any, settings_label: str) -> Quota:
        """Return the quota with other limits.

        :param settings: numbers by the names of this class's fields; None for no change.
        :param where: what the settings are part of, for messages.
        :raises ConfigError: naming what is wrong with them.
        """
        if settings is None:
            return self
        if not isinstance(settings, Mapping):
            raise ConfigError(f'{settings_label} must be an object such as {{"requests": 60, "seconds": 3600}}')
        for name, value in settings.items():
            if name not in _FIELDS:
                raise ConfigError(f"{settings_label}: unknown setting {name!r}; known: {', '.join(_FIELDS)}")
            # Python reads NaN and Infinity from JSON, too.
            is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
            if not is_number or isinstance(value, bool) or value <= 0 or (name != "seconds" and value != int(value)):
                kind = "number" if name == "seconds" else "whole number"
                raise ConfigError(f"{settings_label}: {name} must be a {kind} above 0")
        return replace(self, **settings)

    def describe(self) -> str:
        """Return the limit in words."""
        every = "an hour" if self.seconds == 3600 else f"in {self.seconds:g} s"
        return f"{self.requests} requests {every}"


def quotas_from_extra(extra: Mapping[str, Any], vendors: Mapping[str, Quota]) -> dict[str, Quota]:
    """Return a vendor's quotas, with other limits where the field ``limits`` of a connection's extra has them.

    :raises ConfigError: naming what is wrong with that field.
    """
    name = next(iter(vendors))
    limits = extra.get("limits")
    if isinstance(limits, str) and limits.strip():
        # a form field
        try:
            limits = json.loads(limits)
        except ValueError:
            limits = False
    if limits in (None, ""):
        return dict(vendors)
    if not isinstance(limits, dict):
        raise ConfigError(f'extra field \'limits\' must be a JSON object such as {{"{name}": {{"requests": 60}}}}')
    for api in limits:
        if api not in vendors:
            raise ConfigError(f"extra field 'limits': unknown {api!r}; known: {', '.join(vendors)}")
    return {
        api: quota.with_settings(limits.get(api), f"extra field 'limits', {api!r}") for api, quota in vendors.items()
    }


def quota_problems(extra: Mapping[str, Any], vendors: Mapping[str, Quota]) -> list[str]:
    """Return what is wrong with the field ``limits`` of a connection's extra; [] if nothing is."""
    try:
        quotas_from_extra(extra, vendors)
    except ConfigError as error:
        return [str(error)]
    return []


def shared_quota_name(vendor: str, api: str, account: str, scope: tuple[object, ...]) -> str:
    """Return a quota's name: the same for all connections to one account, and no secret.

    :param whose: the account; part of the name as far as it is legal there.
    :param where: what tells it from an account of the same name elsewhere.
    """
    who = hashlib.sha256(repr([*scope, account]).encode()).hexdigest()[:8]
    return f"{vendor}.{api}.{as_key_part(account)[:60]}.{who}"


def as_key_part(text: str) -> str:
    """Return a text as part of a key: letters, digits, dots and dashes."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", text).strip("-")


@dataclass(frozen=True)
class QuotaClaim:
    """What a task wants of a quota.

    :param asker: the same for every try of the task.
    :param requests: what its days cost if nothing goes wrong.
    :param least: with fewer it does not begin.
    :param spare: how many more it takes for polls that fail, if there is plenty of room.
    :param width: how many of its requests may be under way at once.
    :param rank: 0 for today's run, 1 for a backfill or a catchup, which come after it.
    """

    asker: str
    requests: int
    least: int = 1
    spare: int = 0
    width: int = 1
    rank: int = 0
