"""Keeps a process of tests on one core: ``CONNECT_TEST_CORE=0`` names it by its place among the machine's."""

from __future__ import annotations

import os


def stay_on_one_core() -> None:
    """Keep this process, and all that it starts from now on, on the core that ``CONNECT_TEST_CORE`` names, if any.

    Threads that hand work to each other, as client and server of one process do, or Delta's, cost a fifth less CPU
    there. Slow tests, the campaign and ``make mutants`` use all cores.
    """
    place = os.environ.get("CONNECT_TEST_CORE")
    if place and hasattr(os, "sched_setaffinity"):  # macOS has no such call
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(place) % len(cores)]})
