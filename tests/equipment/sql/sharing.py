"""One server of each kind for all workers of a test run. The first worker that needs it starts it, and stops it.

An unneeded server costs seconds, and MySQL 300 MB of memory.
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
    """Yield a running server that other workers use too.

    :param folder: a folder of all workers of a run. None for a single worker.

    The worker that started it waits at the end until the others are done. A worker that dies blocks no other, since the
    kernel releases its lock.
    """
    if folder is None:
        with kind() as server:
            yield server
        return
    address_file = folder / f"{kind.kind}.json"
    with (folder / f"{kind.kind}.users").open("w") as users:
        with _turn(address_file):
            is_ours = not address_file.exists()
            server = kind().__enter__() if is_ours else _running(kind, address_file)
            address_file.write_text(json.dumps({"folder": str(server.folder), "port": server.port}))
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield server
        finally:
            fcntl.flock(users, fcntl.LOCK_UN)
            if is_ours:
                _stop(server, address_file, users)


@contextmanager
def _turn(address_file: Path) -> Iterator[None]:
    """Let one worker at a time start, join or stop a server."""
    with address_file.with_suffix(".turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


def _running(kind: type[DatabaseServer], address_file: Path) -> DatabaseServer:
    address = json.loads(address_file.read_text())
    return kind(folder=Path(address["folder"]), port=address["port"])


def _stop(server: DatabaseServer, address_file: Path, users: IO[str]) -> None:
    """Stop a server when no worker uses it. Later workers start another one."""
    while True:
        with _turn(address_file):
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                address_file.unlink()
                server.__exit__()
                return
        time.sleep(_LOOK_SECONDS)
