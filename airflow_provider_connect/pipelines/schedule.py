"""The schedule of a pipeline: a run for each day, or a cron expression in a zone."""

from __future__ import annotations

from typing import Any

from airflow.sdk import CronDataIntervalTimetable
from pydantic import BaseModel, ConfigDict, Field, field_validator

from airflow_provider_connect import window
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.timetables import daily

DAILY = "daily"
"""In place of a schedule: each day in the source's own zone."""


def _known_zone(zone: str) -> str:
    try:
        window.zone(zone)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return zone


class Daily(BaseModel):
    """One run for each calendar day of a zone, started when the day is over."""

    model_config = ConfigDict(extra="forbid")

    daily: str = Field(description="IANA zone whose days are meant: the source's.", examples=["US/Pacific"])

    @field_validator("daily")
    @classmethod
    def _zone(cls, zone: str) -> str:
        return _known_zone(zone)

    @property
    def zone(self) -> str:
        """The zone of its days."""
        return self.daily

    def timetable(self) -> Any:
        """Return what Airflow takes."""
        return daily(self.daily)


class Cron(BaseModel):
    """Runs whose data interval is the time between two ticks of a cron expression."""

    model_config = ConfigDict(extra="forbid")

    cron: str = Field(description="Cron expression.", examples=["0 6 * * MON"])
    timezone: str = Field(default="UTC", description="IANA zone of the expression.")

    @field_validator("cron")
    @classmethod
    def _expression(cls, cron: str) -> str:
        try:
            CronDataIntervalTimetable(cron, timezone="UTC").validate()
        except Exception:  # noqa: BLE001  # Airflow's own type of error differs by version
            raise ValueError("is no cron expression; one is '0 6 * * MON'") from None
        return cron

    @field_validator("timezone")
    @classmethod
    def _zone(cls, zone: str) -> str:
        return _known_zone(zone)

    @property
    def zone(self) -> str:
        """The zone of its ticks."""
        return self.timezone

    def timetable(self) -> Any:
        """Return what Airflow takes."""
        return CronDataIntervalTimetable(self.cron, timezone=self.timezone)
