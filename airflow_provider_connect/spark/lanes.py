"""Partitions of a plan, not all of them at once: in waves, or each as soon as another has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from airflow_provider_connect.capabilities.poller import LimitsPartitions
from airflow_provider_connect.registry import resumes
from airflow_provider_connect.source import InputPartition, Poller
from airflow_provider_connect.spark.poll import PollOutcome

_MOST = 32
"""Of the partitions that end one by one, if neither the source nor its quota says how many at once."""

PollParts = Callable[[list[str]], list[str]]
Ended = Callable[[InputPartition, PollOutcome], None]


def lanes(poller: Poller, parts: int, most: int) -> int | None:
    """Return how many partitions are polled at a time, each in a Spark job of its own; None if one job polls many.

    :param most: for how many the source's quota has room.
    """
    asked = poller.partitions_at_once if isinstance(poller, LimitsPartitions) else None
    if not resumes(poller) and (asked is None or parts <= min(asked, most)):
        return None
    return max(1, min(asked or _MOST, most, parts))


def in_waves(tasks: Sequence[str], at_once: int, poll_parts: PollParts) -> list[PollOutcome]:
    """Poll partitions, as many at once as may be; none begins after one of those before has failed."""
    outcomes: list[PollOutcome] = []
    for start in range(0, len(tasks), at_once):
        if any(outcome.failure for outcome in outcomes):
            break
        some = tasks[start : start + at_once]
        outcomes += [PollOutcome.model_validate_json(text) for text in poll_parts(list(some))]
    return outcomes


def in_lanes(
    parts: Sequence[InputPartition], tasks: Sequence[str], at_once: int, poll_parts: PollParts, ended: Ended
) -> list[PollOutcome]:
    """Poll partitions; as soon as one has ended the next begins, and none after one that failed.

    :param tasks: one for each partition.
    :param ended: is called with each that is whole, by the thread that polled it.
    :return: what came of each; one that was not begun has neither rows nor a failure.
    """
    outcomes = [PollOutcome()] * len(tasks)
    stop = threading.Event()

    def poll(at: int) -> None:
        if stop.is_set():
            return
        try:
            (text,) = poll_parts([tasks[at]])
            outcomes[at] = PollOutcome.model_validate_json(text)
            if outcomes[at].failure is None:
                ended(parts[at], outcomes[at])
        except BaseException:
            stop.set()
            raise
        if outcomes[at].failure is not None:
            stop.set()

    with ThreadPoolExecutor(at_once, "lane") as pool:
        for polled in [pool.submit(poll, at) for at in range(len(tasks))]:
            polled.result()
    return outcomes


def together(
    parts: Sequence[InputPartition], taken: Mapping[int, PollOutcome], outcomes: list[PollOutcome]
) -> list[PollOutcome]:
    """Return what came of partitions, in their order.

    :param taken: what was there already, by the partition's index.
    :param outcomes: of the others; fewer if not all were begun, and then nothing was there.
    """
    left = iter(outcomes)
    return [taken.get(part.index) or next(left) for part in parts] if taken else outcomes
