"""One pipeline: what its file declares, its schedule included, checked as far as that goes without a connection."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from airflow.sdk import CronDataIntervalTimetable
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from airflow_provider_connect import registry, window
from airflow_provider_connect.config import Options, has_template, problems_of, suggest_nearest
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.pipelines import arguments
from airflow_provider_connect.pipelines.yaml_files import KeyPath, YamlFile
from airflow_provider_connect.shapes.chain import SHAPES
from airflow_provider_connect.timetables import daily

DAILY = "daily"
"""In place of a schedule: each day in the source's own zone."""


class Daily(BaseModel):
    """One run for each calendar day of a zone, started when the day is over."""

    model_config = ConfigDict(extra="forbid")

    daily: window.ZoneName = Field(description="IANA zone whose days are meant: the source's.", examples=["US/Pacific"])

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
    timezone: window.ZoneName = Field(default="UTC", description="IANA zone of the expression.")

    @field_validator("cron")
    @classmethod
    def _expression(cls, cron: str) -> str:
        try:
            CronDataIntervalTimetable(cron, timezone="UTC").validate()
        except Exception:  # noqa: BLE001  # Airflow's own type of error differs by version
            raise ValueError("is no cron expression; one is '0 6 * * MON'") from None
        return cron

    @property
    def zone(self) -> str:
        """The zone of its ticks."""
        return self.timezone

    def timetable(self) -> Any:
        """Return what Airflow takes."""
        return CronDataIntervalTimetable(self.cron, timezone=self.timezone)


_Model = TypeVar("_Model", bound=BaseModel)

DEFAULT_TASK_ID = "load"
"""The task's id, where a file gives none."""


class DagOptions(BaseModel):
    """What a file says of the DAG, by the names of the DAG's own arguments."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(
        pattern=r"^[\w.-]+$",
        max_length=250,
        description="Of the pipeline: the DAG's id, and the Spark application's name.",
    )
    start_date: dt.datetime | None = Field(
        default=None,
        description="The first day wanted, such as 2026-10-01: its midnight in the schedule's zone. An instant counts "
        "as it is.",
    )
    end_date: dt.datetime | None = Field(default=None, description="The last one, in the same way.")
    catchup: bool = Field(default=False, description="Whether all days since start_date are loaded, each by its run.")
    max_active_runs: int = Field(default=16, ge=1, description="How many runs may be under way at once.")
    dagrun_timeout: dt.timedelta | None = Field(default=None, description="How long a run may take.")
    description: str | None = Field(default=None, description="A line that Airflow shows beside the name.")
    doc_md: str | None = Field(default=None, description="The DAG's documentation, in Markdown.")
    tags: list[str] = Field(default=[], description="By which Airflow's list of DAGs can be filtered.")
    params: dict[str, Any] = Field(default={}, description="Defaults of what templates have as params.")
    is_paused_upon_creation: bool | None = Field(default=None, description="Whether a new DAG waits to be unpaused.")


@dataclass
class Pipeline:
    """A pipeline whose parts are right, each by itself.

    :param head: what is given of the DAG's arguments.
    :param arguments: what is given of the operator's.
    """

    file: YamlFile
    name: str = ""
    dag_options: dict[str, Any] = field(default_factory=dict)
    operator_arguments: dict[str, Any] = field(default_factory=dict)
    schedule: Daily | Cron | None = None

    @property
    def zone(self) -> str:
        """The zone whose midnight a date means."""
        if self.schedule is not None:
            return self.schedule.zone
        zone: str = self.operator_arguments["source"].timezone
        return "UTC" if has_template(zone) else zone


def load_pipeline(file: YamlFile) -> Pipeline:
    """Check what a file declares; what is wrong is among its problems afterwards."""
    values, made = file.values, Pipeline(file)
    known = [*DagOptions.model_fields, *arguments.PIPELINE_KEYS, "schedule", *arguments.file_arguments()]
    for name in values.keys() - known:
        file.add_problem((name,), f"unknown option; {suggest_nearest(name, known)}")
    _read_head(made)
    for name in arguments.file_arguments().keys() & values.keys():
        value, problems = arguments.read_argument(name, values[name])
        made.operator_arguments[name] = value
        _blame(file, (), problems)
    made.operator_arguments["source"] = _connector(file, "source", registry.source_class)
    made.operator_arguments["sink"] = _connector(file, "sink", registry.sink_class)
    if "shape" in values:
        made.operator_arguments["shape"] = _shape(file)
    made.schedule = _schedule(made)
    return made


def _read_head(made: Pipeline) -> None:
    given = {name: value for name, value in made.file.values.items() if name in DagOptions.model_fields}
    head = _validated(made.file, (), DagOptions, given)
    if head is not None:
        made.dag_options = {name: getattr(head, name) for name in head.model_fields_set}
        made.name = made.dag_options.pop("name")


def in_zone(moment: dt.datetime, zone: str) -> dt.datetime:
    """Return an instant: a date, or a time without a zone, is one of the pipeline's own zone."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=ZoneInfo(zone))


def _connector(file: YamlFile, which: str, find: Callable[[str], type[Any]]) -> Any:
    made = None
    if (one := _named(file, (which,), file.values.get(which), f"{which}'s")) is not None:
        name, options = one
        try:
            cls = find(name)
        except ConfigError as error:
            file.add_problem((which, name), str(error))
        except Exception as error:  # noqa: BLE001  # a package of somebody else's may fail in any way
            file.add_problem((which, name), f"cannot be imported: {type(error).__name__}: {error}")
        else:
            made = build_options(file, (which, name), cls, options)
    return made


def _shape(file: YamlFile) -> list[Any]:
    entries = file.values["shape"]
    if not isinstance(entries, list):
        file.add_problem(("shape",), "is to be a list, such as [{drop: {…}}]")
        return []
    return [_one_shape(file, ("shape", index), entry) for index, entry in enumerate(entries)]


def _one_shape(file: YamlFile, place: KeyPath, entry: Any) -> Any:
    if (one := _named(file, place, entry, "shape's")) is None:
        return None
    name, options = one
    if name not in SHAPES:
        file.add_problem((*place, name), f"no shape is called {name!r}; {suggest_nearest(name, SHAPES)}")
        return None
    return build_options(file, (*place, name), SHAPES[name], options)


def _named(file: YamlFile, place: KeyPath, value: Any, whose: str) -> tuple[str, dict[str, Any]] | None:
    """Return the only name in a mapping, and the options under it."""
    if value is None and place[0] not in file.values:
        file.add_problem(place, "required")
    elif not isinstance(value, dict) or len(value) != 1:
        file.add_problem(place, f"is to be one mapping with the {whose} name alone, which holds its options")
    else:
        ((name, options),) = value.items()
        if options is None or isinstance(options, dict):
            return name, options or {}
        file.add_problem((*place, name), "is to be a mapping of options")
    return None


def build_options(file: YamlFile, place: KeyPath, cls: type[Options], options: dict[str, Any]) -> Any:
    """Make options, as Python code would; None if they are wrong."""
    try:
        # A name that Python's own first parameter has cannot be passed on.
        if "self" in options:
            raise ConfigError(f"self: unknown option; {suggest_nearest('self', cls.model_fields)}")
        return cls(**options)
    except ConfigError as error:
        found = error.__context__
        if isinstance(found, ValidationError):
            templates = frozenset(name for name, value in options.items() if has_template(value))
            _blame(file, place, problems_of(cls, found, templates))
        else:
            file.add_problem(place, str(error))
        return None


def _schedule(made: Pipeline) -> Daily | Cron | None:
    file, given = made.file, made.file.values.get("schedule", DAILY)
    if given is None:
        return None
    if given == DAILY:
        zone = getattr(made.operator_arguments["source"], "timezone", "UTC")
        if has_template(zone):
            file.add_problem(
                ("schedule",), "the source's zone is a template: say which days, such as {daily: US/Pacific}"
            )
            return None
        return _validated(file, ("schedule",), Daily, {"daily": zone})
    if isinstance(given, dict) and "cron" in given:
        return _validated(file, ("schedule",), Cron, given)
    if isinstance(given, dict) and "daily" in given:
        return _validated(file, ("schedule",), Daily, given)
    file.add_problem(
        ("schedule",),
        "is to be daily, {daily: US/Pacific}, {cron: '0 6 * * *', timezone: US/Pacific}, or null for none",
    )
    return None


def _validated(file: YamlFile, place: KeyPath, model: type[_Model], given: dict[str, Any]) -> _Model | None:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        _blame(file, place, problems_of(model, error))
        return None


def _blame(file: YamlFile, place: KeyPath, problems: Iterable[tuple[KeyPath, str]]) -> None:
    for at, text in problems:
        file.add_problem((*place, *at), text)
