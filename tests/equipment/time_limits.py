"""Ends every test: by its own limit, or by the system's clock if it hangs where Python cannot be interrupted.

A test that reaches its limit fails with the stack of every thread, and the session goes on. If it hangs
inside a library's code, its process prints the stacks a minute later and ends, and pytest-xdist reports that test as
failed. The limits are for hangs: a busy machine must not reach them.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Iterator

import pytest

LIMIT_SECONDS = {
    "campaign": 24 * 3600.0,
    "catchup": 3600.0,
    "slow": 900.0,  # the first one may fetch a server
}
"""By marker, the first that matches; for other tests the ini option ``timeout`` counts."""

DEAF_SECONDS = 60.0
"""Extra time for a test that cannot be interrupted at its limit."""

_stderr = pytest.StashKey[int]()


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


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _arm(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    # After a failure pytest and its plugins stop their timers, so that a person can debug.
    if not item.config.getoption("usepdb"):
        _arm(item)
    return (yield)


def _arm(item: pytest.Item) -> None:
    own = item.get_closest_marker("timeout")
    limit = float(own.args[0] if own else item.config.getini("timeout"))
    faulthandler.dump_traceback_later(limit + DEAF_SECONDS, exit=True, file=item.config.stash[_stderr])
