"""The demo's Mixpanel: a project with duplicates, late events and events without ids."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.demo.bigquery_target import BigQueryTarget
from tests.demo.delta_target import DeltaTarget
from tests.demo.kafka_target import KafkaTarget
from tests.demo.origin import Origin
from tests.demo.target import Target
from tests.standins.mixpanel.events import Project

TARGETS: dict[str, type[Target]] = {target.name: target for target in (DeltaTarget, BigQueryTarget, KafkaTarget)}
PROJECT = Project(
    seed=7,
    regime="project_local",
    timezone="US/Pacific",
    events_per_day=20_000,
    duplicates_per_day=200,
    missing_ids_per_day=40,
    late_per_day=100,
)
_ARGUMENTS = (
    "seed",
    "regime",
    "timezone",
    "events_per_day",
    "duplicates_per_day",
    "missing_ids_per_day",
    "late_per_day",
)


class MixpanelOrigin(Origin):
    """The Mixpanel stand-in."""

    name: ClassVar[str] = "mixpanel"
    title: ClassVar[str] = "Mixpanel"
    things: ClassVar[str] = "events"
    zone: ClassVar[str] = PROJECT.timezone
    task_id: ClassVar[str] = "events"
    module: ClassVar[str] = "tests.standins.mixpanel"

    @property
    def targets(self) -> Mapping[str, type[Target]]:
        """All sinks."""
        return TARGETS

    @property
    def served(self) -> Project:
        """The project."""
        return PROJECT

    def arguments(self, folder: Path, dates: Iterable[dt.date], secret_variable: str) -> list[str]:
        """Return the project's options; its days are made before the stand-in listens."""
        found = ["--cache", str(folder / "standin-days"), "--secret-env", secret_variable]
        for name in _ARGUMENTS:
            found += [f"--{name.replace('_', '-')}", str(getattr(PROJECT, name))]
        return [*found, "--prepare", *map(str, dates)]

    def connection(self, port: int, secret: str) -> dict[str, Any]:
        """Return the Mixpanel connection."""
        return {
            "connection_id": "mixpanel_default",
            "conn_type": "mixpanel",
            "host": "http://127.0.0.1",
            "port": port,
            "login": "demo.service-account",
            "password": secret,
            "extra": '{"project_id": "1234567", "timestamps": "project_local"}',
        }
