"""Ends every test: by its own limit, or by the system's clock if it hangs where Python cannot be interrupted.

A test that reaches its limit fails with the stack of every thread, and the session goes on. If it hangs
inside a library's code, its process prints the stacks a minute later and ends, and pytest-xdist reports that test as
failed. The limits are for hangs: a busy machine must not reach them.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from collections.abc import Iterator

import pytest

LIMIT_SECONDS = {
    "campaign": 24 * 3600.0,
    "catchup": 3600.0,
    "slow": 900.0,  # the first one may fetch a server
}
"""By marker, the first that matches; for other tests the ini option ``timeout`` counts."""

DEAF_SECONDS = 60.0
"""Extra time for a test that cannot be interrupted at its limit, at least. At most twice as much."""

_stderr = pytest.StashKey[int]()
_armed = pytest.StashKey[tuple[float, float]]()
"""Limit in seconds, and monotonic time, of the newest start of the timer."""


def pytest_configure(config: pytest.Config) -> None:
    # Captured output would be lost with the process.
    config.stash[_stderr] = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[_stderr])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("timeout") is None:
            for name, seconds in LIMIT_SECONDS.items():
                if item.get_closest_marker(name) is not None:
                    item.add_marker(pytest.mark.timeout(seconds))
                    break


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    limit, now = _limit(item), time.monotonic()
    armed_limit, armed_at = item.config.stash.get(_armed, (0.0, 0.0))
    # Each start takes a thread and ends another, so that most tests leave the timer as it is.
    if limit != armed_limit or now > armed_at + DEAF_SECONDS:
        _arm(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> Iterator[None]:
    try:
        return (yield)
    finally:
        # pytest has just stopped the timer, so that a person can debug.
        if isinstance(node, pytest.Item) and not node.config.getoption("usepdb"):
            _arm(node)


def pytest_sessionfinish() -> None:
    faulthandler.cancel_dump_traceback_later()


def _limit(item: pytest.Item) -> float:
    own = item.get_closest_marker("timeout")
    return float(own.args[0] if own else item.config.getini("timeout"))


def _arm(item: pytest.Item) -> None:
    limit = _limit(item)
    item.config.stash[_armed] = limit, time.monotonic()
    faulthandler.dump_traceback_later(limit + 2 * DEAF_SECONDS, exit=True, file=item.config.stash[_stderr])
