"""One server of each kind for all workers of a run of tests: whoever needs it first starts it, and stops it.

A server that is started for nothing costs seconds, and MySQL's 300 MB of memory.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.equipment.sql.servers import DatabaseServer

_LOOK_SECONDS = 0.2


@contextmanager
def shared(kind: type[DatabaseServer], folder: Path | None) -> Iterator[DatabaseServer]:
    """Yield a running server that the other workers use, too.

    :param folder: one that all workers of a run have; None if there is but one.

    Whoever has started it waits, at the end, until the others are done. A worker that dies holds nobody up, as the
    kernel lets go of its lock.
    """
    if folder is None:
        with kind() as server:
            yield server
        return
    place = folder / f"{kind.kind}.json"
    with (folder / f"{kind.kind}.users").open("w") as users:
        with _turn(place):
            is_ours = not place.exists()
            server = kind().__enter__() if is_ours else _running(kind, place)
            place.write_text(json.dumps({"folder": str(server.folder), "port": server.port}))
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield server
        finally:
            fcntl.flock(users, fcntl.LOCK_UN)
            if is_ours:
                _stop(server, place, users)


@contextmanager
def _turn(place: Path) -> Iterator[None]:
    """Let one worker at a time start, join or stop a server."""
    with place.with_suffix(".turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


def _running(kind: type[DatabaseServer], place: Path) -> DatabaseServer:
    known = json.loads(place.read_text())
    return kind(folder=Path(known["folder"]), port=known["port"])


def _stop(server: DatabaseServer, place: Path, users: IO[str]) -> None:
    """Stop a server once nobody uses it. Who comes later starts another one."""
    while True:
        with _turn(place):
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                place.unlink()
                server.__exit__()
                return
        time.sleep(_LOOK_SECONDS)
