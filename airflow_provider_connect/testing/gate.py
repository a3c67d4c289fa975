"""A proxy that stops before and after every request of a sink, so that others can come between."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable

from airflow_provider_connect.testing.faults import BLOCK_BYTES, GIVE_UP_SECONDS, Listener, end


class Gate(Listener):
    """Passes on what clients and a server say to each other, and stops each time the speaker changes.

    Where both take turns, as in HTTP, that is before a request reaches the server and before its answer goes back.

    :param behind: port of the server on this machine.
    :ivar stops: how many there were since :meth:`watch`.
    """

    def __init__(self, behind: int) -> None:
        super().__init__()
        self.stops = 0
        self._behind = behind
        self._at_stop: Callable[[int], bool] = lambda stop: True

    def watch(self, at_stop: Callable[[int], bool]) -> None:
        """Call this at each stop from now on.

        :param at_stop: is given the stop's number, from 0 on; False ends the connection there.
        """
        with self._lock:
            self.stops, self._at_stop = 0, at_stop

    def talk(self, near: socket.socket) -> None:
        """Pass on a conversation until either side, or a stop, ends it."""
        far, speaker = self.call(self._behind), None
        while ready := select.select([near, far], [], [], GIVE_UP_SECONDS)[0]:
            for side in ready:
                data = side.recv(BLOCK_BYTES)
                if not data or (side is not speaker and not self._passes()):
                    end(far)
                    return
                speaker = side
                (far if side is near else near).sendall(data)

    def _passes(self) -> bool:
        with self._lock:
            number, at_stop = self.stops, self._at_stop
            self.stops += 1
        return at_stop(number)
