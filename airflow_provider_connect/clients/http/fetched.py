"""Credentials that are fetched before they can be used: kept for the whole process, and fetched once for all threads.

Each executor process fetches its own, and keeps it for all polls that it runs. A token for every poll would exhaust
the limit that services put on their token endpoints. authlib keeps a token for one session and one thread.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_provider_connect.clients.http.auth import Auth
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.patience import CLOCK, Clock

_MARGIN_SECONDS = 60.0
_REFUSED_SECONDS = 60.0


class Fresh(NamedTuple):
    """Credentials as they come from the service.

    :param lasts_seconds: how long they are good for; None if it did not say.
    """

    auth: Auth
    lasts_seconds: float | None


@dataclass
class _Held:
    """What this process holds of one login; whoever looks at it or fetches holds the lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    auth: Auth | None = None
    ends: float = 0.0
    refusal: str = ""
    refused_until: float = 0.0


_held: dict[str, _Held] = {}
_held_lock = threading.Lock()


class Fetched:
    """Credentials of one login at one service.

    :param identity: all that they depend on, secrets too: logins with the same identity share what was fetched.
    :param fetch: asks the service.
    :param clock: by which they end; :data:`CLOCK` if None.
    """

    def __init__(self, identity: tuple[object, ...], fetch: Callable[[], Fresh], clock: Clock | None = None) -> None:
        self._name = hashlib.sha256(repr(identity).encode()).hexdigest()
        self._fetch = fetch
        self._clock = clock or CLOCK

    def auth(self) -> Auth:
        """Return credentials that are good for a while yet. May ask the service, and wait for another thread that does.

        :raises RetriableError: the service is away, in trouble or busy.
        :raises ConfigError: it refuses the login. It is not asked again for a minute, so that many who ask lock nobody
            out.
        """
        held = self._own()
        with held.lock:
            if held.auth is None or self._clock.now() >= held.ends:
                self._renew(held)
            assert held.auth is not None
            return held.auth

    def renewed(self, refused: Auth) -> Auth:
        """Return other credentials than those, which the API refused: fetched once, however many ask."""
        held = self._own()
        with held.lock:
            if held.auth == refused:
                held.auth = None
        return self.auth()

    def _own(self) -> _Held:
        with _held_lock:
            return _held.setdefault(self._name, _Held())

    def _renew(self, held: _Held) -> None:
        if held.refusal and self._clock.now() < held.refused_until:
            raise ConfigError(held.refusal)
        asked = self._clock.now()
        held.auth = None
        try:
            fresh = self._fetch()
        except ConfigError as error:
            held.refusal, held.refused_until = str(error), asked + _REFUSED_SECONDS
            raise
        held.auth, held.refusal = fresh.auth, ""
        lasts = float("inf") if fresh.lasts_seconds is None else fresh.lasts_seconds
        # What ends while a request is under way is refused, so it counts as ended a while before.
        held.ends = asked + lasts - min(_MARGIN_SECONDS, lasts / 10 if lasts != float("inf") else 0.0)
