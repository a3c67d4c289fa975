"""Chooses the days of one export, and counts requests."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_connect.capabilities.poller import Sizes, Together
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources._mixpanel.access import VENDOR_LIMITS
from airflow_provider_connect.sources._mixpanel.options import MAX_DAYS_PER_REQUEST, MixpanelOptions
from airflow_provider_connect.window import Day, group_days

TARGET_BYTES = 1 << 30
"""Greatest decoded size of a request with ``auto``. Reading and staging takes some 20 s of a processor (measured
2026-11), or four minutes at 5 MB a second.
"""


def max_days_per_request(options: MixpanelOptions) -> int:
    return MAX_DAYS_PER_REQUEST if options.days_per_request == "auto" else options.days_per_request


def requests_for(options: MixpanelOptions, days: Sequence[Day]) -> int:
    """Return the least number of exports for a window.

    :raises ConfigError: an unrendered template.
    """
    if "days_per_request" in options.templates:
        raise ConfigError(
            "days_per_request: the cost of a template is unknown until it is rendered. Plan with a number or 'auto'"
        )
    size = options.days_per_request
    return len(group_days(days, _days_to_fit_limit(len(days)) if size == "auto" else size))


def choose_days_together(options: MixpanelOptions, days: Sequence[Day], sizes: Sizes) -> Together:
    """Return the number of days in the next request, and its reason.

    ``auto`` takes the fewest days with which the window fits one hour's limit, up to :data:`TARGET_BYTES`.
    """
    if options.days_per_request != "auto":
        return Together(options.days_per_request)
    days_needed = _days_to_fit_limit(len(days))
    limit = VENDOR_LIMITS["export"].requests
    if days_needed == 1:
        return Together(1, f"{len(days)} days fit into {limit} requests an hour, one day in each")
    known_sizes = sizes()
    if not known_sizes:
        return Together(1, "the size of no day is known yet")
    largest_bytes = max(known_sizes)
    days_that_fit = max(1, TARGET_BYTES // max(1, largest_bytes))
    reason = (
        f"{len(days)} days fit into {limit} requests an hour with {days_needed} days in each. The largest known day "
        f"nearby has {largest_bytes / 1e6:,.1f} MB, and a request should have at most {TARGET_BYTES / 1e6:,.0f} MB"
    )
    return Together(min(days_needed, days_that_fit), reason)


def _days_to_fit_limit(days: int) -> int:
    return min(MAX_DAYS_PER_REQUEST, max(1, -(-days // VENDOR_LIMITS["export"].requests)))
