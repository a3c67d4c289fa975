"""Frozen days that wait for their turn to be published: a sweep must not take a silent one for dead."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.stage.manifest import attempt_folder
from airflow_provider_connect.stage.storage import Folder

EVERY_SECONDS = 60.0
"""Between two signs of one attempt. A sweep takes nothing for dead that was silent for less than ten minutes."""


class Waiting:
    """Gives signs of life for attempts that are polled and not being published yet, while its block runs."""

    def __init__(self, root: Folder) -> None:
        self._root = root
        self._attempts: set[str] = set()
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waiting", daemon=True)

    def __enter__(self) -> Waiting:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def begin(self, attempts: Iterable[str]) -> None:
        """Let attempts wait, also those that wait already."""
        with self._lock:
            self._attempts.update(attempts)

    def tell(self, attempt: str) -> None:
        """Let an attempt wait, and give its first sign before this returns."""
        self.begin([attempt])
        self._tell(attempt)

    def end(self, attempt: str) -> None:
        """Let an attempt wait no longer: no sign of it is written after this returns, so its folder can be deleted."""
        with self._lock:
            self._attempts.discard(attempt)

    def _run(self) -> None:
        while not self._done.wait(EVERY_SECONDS):
            with self._lock:
                attempts = sorted(self._attempts)
            for attempt in attempts:
                self._tell(attempt)

    def _tell(self, attempt: str) -> None:
        with self._lock:
            if attempt not in self._attempts:
                return
            try:
                self._root.write(f"{attempt_folder(attempt)}/waiting.json", b"{}")
            except (OSError, ConnectError):
                # What is wrong with the stage fails the publish, with a message; the sign of life is not the place.
                return
