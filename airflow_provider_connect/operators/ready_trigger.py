"""What a task that waits for its days to settle leaves in the triggerer: a moment to wake it at."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

_LONGEST_SLEEP_SECONDS = 60.0


class ReadyTrigger(BaseTrigger):
    """Fires at a moment.

    :param moment: in ISO 8601, with a time zone.
    """

    def __init__(self, moment: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.moment = moment

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the trigger is made of again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {"moment": self.moment}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Sleep, never long at a time: the event loop's clock stands still while a machine is suspended."""
        moment = dt.datetime.fromisoformat(self.moment)
        while (rest := (moment - dt.datetime.now(dt.UTC)).total_seconds()) > 0:
            await asyncio.sleep(min(rest, _LONGEST_SLEEP_SECONDS))
        yield TriggerEvent({})  # type: ignore[no-untyped-call]
