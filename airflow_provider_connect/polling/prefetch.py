"""Runs an iterator in a background thread, a limited number of items ahead of its consumer."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")

_STOP_CHECK_SECONDS = 0.1


class _End:
    """Last item of the queue: the iterator ended, or raised ``error``."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Worker(Generic[T]):
    def __init__(self, iterator: Iterator[T], depth: int) -> None:
        self.iterator = iterator
        self.items: queue.Queue[T | _End] = queue.Queue(maxsize=max(depth, 1))
        self.requested = threading.Semaphore(0) if depth == 0 else None
        self.stopped = threading.Event()
        # A daemon: a read that never returns must not keep the interpreter alive.
        self.thread = threading.Thread(target=self._run, name="prefetch", daemon=True)

    def _run(self) -> None:
        end = _End(None)
        try:
            for item in self.iterator:
                self._put(item)
                del item  # it may be large, and the next one takes a while
                self._wait_until_requested()
                if self.stopped.is_set():
                    break
        except BaseException as error:  # noqa: BLE001  # raised again in the consumer's thread
            end = _End(error)
        finally:
            # Closed in its own thread: a generator cannot be closed while another thread is inside it.
            close = getattr(self.iterator, "close", None)
            if close is not None:
                with suppress(Exception):
                    close()
            self._put(end)

    def _put(self, item: T | _End) -> None:
        while not self.stopped.is_set():
            with suppress(queue.Full):
                self.items.put(item, timeout=_STOP_CHECK_SECONDS)
                return

    def _wait_until_requested(self) -> None:
        while self.requested is not None and not self.stopped.is_set():
            if self.requested.acquire(timeout=_STOP_CHECK_SECONDS):
                return


def prefetch(iterator: Iterator[T], depth: int) -> Generator[T, None, None]:
    """Yield the items of ``iterator``, which runs in a thread and keeps at most ``depth`` items ready.

    The iterator's exception is raised after the items before it. If the consumer stops early, the iterator is closed.
    ``close()`` waits for the thread's current item.
    """
    worker = _Worker(iterator, depth)
    worker.thread.start()
    try:
        while True:
            if worker.requested is not None:
                worker.requested.release()
            item = worker.items.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
            del item
    finally:
        worker.stopped.set()
        worker.thread.join()
