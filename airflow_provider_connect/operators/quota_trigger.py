"""Trigger of a task that waits for requests, without reserving any."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_provider_connect.hooks.variables import VariableStore
from airflow_provider_connect.polling.quota.limits import Quota, QuotaClaim
from airflow_provider_connect.polling.quota.turns import Turns

_CHECKS_PER_PERIOD = 60


class QuotaTrigger(BaseTrigger):
    """Trigger that fires when the quota may have room.

    :param quota: fields of a :class:`.Quota`, as ``want`` of a :class:`.QuotaClaim`.
    :param until: latest time of room, in seconds since 1970.
    """

    def __init__(self, quota: dict[str, Any], want: dict[str, Any], until: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.quota, self.want, self.until = quota, want, until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments of the trigger."""
        fields = {"quota": self.quota, "want": self.want, "until": self.until}
        return f"{type(self).__module__}.{type(self).__qualname__}", fields

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check for room sixty times in the quota's period, and keep the task's place in the queue."""
        turns, want = Turns(VariableStore(), Quota(**self.quota)), QuotaClaim(**self.want)
        until, pause, failures = self.until, turns.quota.seconds / _CHECKS_PER_PERIOD, 0
        while True:
            await asyncio.sleep(max(0.0, min(until - time.time(), pause)))
            try:
                has_room = await sync_to_async(turns.has_room)(want)
                if has_room or time.time() >= until:
                    # A task that is about to resume also keeps its place.
                    until = (await sync_to_async(turns.join_queue)(want)).until
                failures = 0
            except Exception as error:  # noqa: BLE001  # a restarting API server must not fail the task
                self.log.warning("Checking the quota failed and will be repeated: %s", error)
                await asyncio.sleep(pause)
                failures += 1
                has_room = failures == _CHECKS_PER_PERIOD  # the task runs into the error itself and reports it
            if has_room:
                yield TriggerEvent({})  # type: ignore[no-untyped-call]
                return
