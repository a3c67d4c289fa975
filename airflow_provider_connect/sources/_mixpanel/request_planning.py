"""How many days one export is asked for, and what that costs. DAG files import this."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_connect.capabilities.poller import Sizes, Together
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources._mixpanel.access import VENDOR_LIMITS
from airflow_provider_connect.sources._mixpanel.options import MAX_DAYS_PER_REQUEST, MixpanelOptions
from airflow_provider_connect.window import Day, group_days

TARGET_BYTES = 1 << 30
"""The most that ``auto`` asks for in one request, after decoding. A cut answer, or a killed task, loses all that its
request brought. To read and stage so much takes some 20 s of a processor (measured 2026-11), and a server that sends
5 MB of it a second takes four minutes: little to lose, and far below ``request_deadline_seconds``."""


def max_days_per_request(options: MixpanelOptions) -> int:
    """Return the most days that one request may take."""
    return MAX_DAYS_PER_REQUEST if options.days_per_request == "auto" else options.days_per_request


def requests_for(options: MixpanelOptions, days: Sequence[Day]) -> int:
    """Return how many requests the days of a window cost at least.

    :raises ConfigError: nobody can tell before a template is rendered.
    """
    if "days_per_request" in options.templates:
        raise ConfigError(
            "days_per_request: a template has no cost before it is rendered: plan with a number, or with 'auto'"
        )
    size = options.days_per_request
    return len(group_days(days, _needed(len(days)) if size == "auto" else size))


def choose_days_together(options: MixpanelOptions, days: Sequence[Day], sizes: Sizes) -> Together:
    """Return how many days the next request takes.

    ``auto`` takes as few as bring the whole window into an hour's limit, and no more than fit into
    :data:`TARGET_BYTES`. While no day's size is known, it is one.
    """
    if options.days_per_request != "auto":
        return Together(options.days_per_request)
    needed = _needed(len(days))
    limit = VENDOR_LIMITS["export"].requests
    if needed == 1:
        return Together(1, f"{len(days)} days are wanted, and {limit} requests an hour have room for each of them")
    known = sizes()
    if not known:
        return Together(1, "no day's size is known yet")
    largest = max(known)
    fitting = max(1, TARGET_BYTES // max(1, largest))
    why = (
        f"{len(days)} days fit into the {limit} requests of an hour if each takes {needed}; the largest known day "
        f"nearby has {largest / 1e6:,.1f} MB, and one request should bring {TARGET_BYTES / 1e6:,.0f} MB at most"
    )
    return Together(min(needed, fitting), why)


def _needed(days: int) -> int:
    """Return how many days each request of a window has to take to bring it into one hour's limit."""
    return min(MAX_DAYS_PER_REQUEST, max(1, -(-days // VENDOR_LIMITS["export"].requests)))
