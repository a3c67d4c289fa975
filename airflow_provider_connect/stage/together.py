"""Calls for several files of a folder, which wait for the storage together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from airflow_provider_connect.stage.storage import Folder

T = TypeVar("T")
R = TypeVar("R")

_THREADS = 8
_FEW_CALLS = 16
"""A local disk answers this many calls before threads have started."""


def call_together(folder: Folder, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Yield the function's result for each item, in order. The calls overlap, except for few items on a local disk."""
    if folder.is_local and len(items) <= _FEW_CALLS:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(_THREADS, "together") as pool:
        yield from pool.map(function, items)
