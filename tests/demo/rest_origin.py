"""The demo's REST API: some thousand events a day in the shape of Stripe's, and the Delta table that they go into."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.demo.delta_target import DeltaTarget
from tests.demo.origin import Origin
from tests.demo.target import Target
from tests.standins.rest.events import Ledger

LEDGER = Ledger(seed=7, events_per_day=2000)
_BUSY_EVERY = 25  # about once a day: the page is asked for again


class RestDeltaTarget(DeltaTarget):
    """A Delta table of events."""

    dag_id: ClassVar[str] = "stripe_events_daily"
    table: ClassVar[str] = "stripe_events"

    def events(self) -> list[tuple[dt.date, str, str]]:
        """Return day, type and document of every row."""
        return [(day, kind, text) for day, kind, text in self._select("select day, type, document from events")]

    def sample(self) -> list[tuple[Any, ...]]:
        """Return the three oldest events."""
        return self._select(
            "select day, created, id, type, object_id, left(document, 40) from events order by created, id limit 3"
        )


class RestOrigin(Origin):
    """The REST stand-in, which the source of the example DAG ``stripe_events_daily`` declares."""

    name: ClassVar[str] = "rest"
    title: ClassVar[str] = "REST"
    things: ClassVar[str] = "events, in the shape of Stripe's"
    task_id: ClassVar[str] = "events"
    module: ClassVar[str] = "tests.standins.rest"

    @property
    def targets(self) -> Mapping[str, type[Target]]:
        """The Delta table."""
        return {RestDeltaTarget.name: RestDeltaTarget}

    @property
    def served(self) -> Ledger:
        """The events."""
        return LEDGER

    def arguments(self, folder: Path, dates: Iterable[dt.date], secret_variable: str) -> list[str]:
        """Return the ledger's options; now and then the API is busy."""
        return [
            *("--key-env", secret_variable, "--seed", str(LEDGER.seed)),
            *("--events-per-day", str(LEDGER.events_per_day), "--busy-every", str(_BUSY_EVERY)),
        ]

    def connection(self, port: int, secret: str) -> dict[str, Any]:
        """Return the connection ``stripe``."""
        return {
            "connection_id": "stripe",
            "conn_type": "http",
            "host": "http://127.0.0.1",
            "port": port,
            "password": secret,
            "extra": '{"auth": "bearer"}',
        }
