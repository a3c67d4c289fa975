"""A vendor's hourly quota, and a task's claim (request for a part) to it."""

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
    """Limits that all runs, tasks and DAGs of one vendor project share.

    :param name: of project and API, without secrets.
    :param requests: most in any span of ``seconds``.
    :param per_second: most in a second. Kept by each job alone.
    """

    name: str
    requests: int = 60
    seconds: float = 3600.0
    per_second: int | None = None
    at_once: int | None = None

    @property
    def slack_seconds(self) -> float:
        """Largest expected clock difference of two workers."""
        return min(_CLOCKS_DIFFER_SECONDS, self.seconds / 100)

    @property
    def valid_seconds(self) -> float:
        """Validity of a reservation."""
        return self.seconds / 4

    @property
    def lag_seconds(self) -> float:
        """Time before a reservation's end in which no request is started."""
        return min(60.0, self.valid_seconds / 10)

    @property
    def grace_seconds(self) -> float:
        """How late a waiting task may return and keep its place in the queue."""
        return self.seconds / 30

    def with_settings(self, settings: Any, settings_label: str) -> Quota:
        """Return the quota with changed limits.

        :param settings: numbers by field name, or None.
        :raises ConfigError: a setting is unknown or invalid.
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
        period = "an hour" if self.seconds == 3600 else f"in {self.seconds:g} s"
        return f"{self.requests} requests {period}"


def quotas_from_extra(extra: Mapping[str, Any], vendors: Mapping[str, Quota]) -> dict[str, Quota]:
    """Return a vendor's quotas, changed by the field ``limits`` of a connection's extra.

    :raises ConfigError: the field is invalid.
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
    """Return the problem of a connection's extra field ``limits``, if any."""
    try:
        quotas_from_extra(extra, vendors)
    except ConfigError as error:
        return [str(error)]
    return []


def shared_quota_name(vendor: str, api: str, account: str, scope: tuple[object, ...]) -> str:
    """Return a quota's name: equal for all connections to one account, without secrets.

    :param scope: distinguishes accounts of the same name.
    """
    account_hash = hashlib.sha256(repr([*scope, account]).encode()).hexdigest()[:8]
    return f"{vendor}.{api}.{as_key_part(account)[:60]}.{account_hash}"


def as_key_part(text: str) -> str:
    """Replace every run of characters except letters, digits, dots and dashes by one dash."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", text).strip("-")


@dataclass(frozen=True)
class QuotaClaim:
    """The part of a quota that a task needs.

    :param asker: id of the task.
    :param least: smallest useful part.
    :param spare: additional requests for failed polls.
    :param width: most concurrent requests.
    :param rank: place in the queue: 0 for today's run, 1 for a backfill or catchup.
    """

    asker: str
    requests: int
    least: int = 1
    spare: int = 0
    width: int = 1
    rank: int = 0
