"""Waiting for what happens in another thread or process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(happened: Callable[[], T], what: str = "it did not happen in time", seconds: float = 60.0) -> T:
    """Wait until something is true, and return it.

    :param what: to say if it is not true within the seconds.
    """
    deadline = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
    return found
