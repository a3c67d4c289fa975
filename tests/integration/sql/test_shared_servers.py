"""Servers of these tests: workers share one, which runs until the last of them has left."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.equipment.sql.servers import PostgreSQLServer

pytestmark = pytest.mark.slow

WORKER = """
import sys
from pathlib import Path
from tests.equipment.sql.servers import PostgreSQLServer
from tests.equipment.sql.sharing import shared
with shared(PostgreSQLServer, Path(sys.argv[1])) as server:
    print(server.port, server.folder, flush=True)
    sys.stdin.read()
"""


class Worker:
    """A process that uses the server until :meth:`leave`."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", WORKER, str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        port, place = self.process.stdout.readline().split()
        self.server = PostgreSQLServer(folder=Path(place), port=int(port))

    def leave(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()

    def end(self) -> None:
        """Kill it if it has not left, and wait until it has stopped what it has to."""
        assert self.process.stdin
        assert self.process.stdout
        if not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def test_workers_share_a_server_until_the_last_of_them_has_left(tmp_path: Path) -> None:
    with ExitStack() as ends:

        def begin() -> Worker:
            worker = Worker(tmp_path)
            ends.callback(worker.end)
            return worker

        first, second = begin(), begin()
        assert first.server == second.server
        first.leave()
        with pytest.raises(subprocess.TimeoutExpired):  # it waits for the other
            first.process.wait(1)
        assert second.server.run("SELECT 1") == [(1,)]
        second.process.kill()
        first.process.wait(20)
        assert not second.server.answers()
        assert not second.server.folder.exists()
        third = begin()
        assert third.server.folder != first.server.folder
        assert third.server.run("SELECT 1") == [(1,)]
