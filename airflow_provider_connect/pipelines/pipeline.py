"""A pipeline as its file declares it."""

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
from airflow_provider_connect.timetables import daily, every

DAILY = "daily"


class Daily(BaseModel):
    """Schedule with one run for each calendar day of a zone."""

    model_config = ConfigDict(extra="forbid")

    daily: window.ZoneName = Field(description="IANA zone of the days, usually the source's.", examples=["US/Pacific"])

    @property
    def zone(self) -> str:
        """Zone of the days."""
        return self.daily

    def timetable(self) -> Any:
        """Return Airflow's timetable."""
        return daily(self.daily)


class Cron(BaseModel):
    """Schedule whose runs load the time between two ticks of a cron expression."""

    model_config = ConfigDict(extra="forbid")

    cron: str = Field(description="Cron expression.", examples=["0 0 * * MON"])
    timezone: window.ZoneName = Field(default="UTC", description="IANA zone of the expression.")

    @field_validator("cron")
    @classmethod
    def _expression(cls, cron: str) -> str:
        try:
            CronDataIntervalTimetable(cron, timezone="UTC").validate()
        except Exception:  # noqa: BLE001  # the type of Airflow's error differs by version
            raise ValueError("is not a cron expression such as '0 0 * * MON'") from None
        return cron

    @property
    def zone(self) -> str:
        """Zone of the ticks."""
        return self.timezone

    def timetable(self) -> Any:
        """Return Airflow's timetable."""
        return CronDataIntervalTimetable(self.cron, timezone=self.timezone)


class Every(BaseModel):
    """Schedule with one run for each part of a day."""

    model_config = ConfigDict(extra="forbid")

    every: str = Field(
        description="Minutes that divide an hour, or hours that divide a day.", examples=["15 minutes", "1 hour"]
    )
    timezone: window.ZoneName = Field(default="UTC", description="IANA zone of the days.")

    @field_validator("every")
    @classmethod
    def _period(cls, period: str) -> str:
        try:
            every(period)
        except ConfigError as error:
            raise ValueError(str(error).partition(": ")[2]) from None
        return period

    @property
    def zone(self) -> str:
        """Zone of the days."""
        return self.timezone

    def timetable(self) -> Any:
        """Return Airflow's timetable."""
        return every(self.every, self.timezone)


Schedule = Daily | Every | Cron
_SCHEDULES: dict[str, type[Schedule]] = {"cron": Cron, "daily": Daily, "every": Every}

_Model = TypeVar("_Model", bound=BaseModel)

DEFAULT_TASK_ID = "load"


class DagOptions(BaseModel):
    """Keys of a file that become arguments of the DAG, under the same names."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(
        pattern=r"^[\w.-]+$",
        max_length=250,
        description="The DAG's id and the Spark application's name.",
    )
    start_date: dt.datetime | None = Field(
        default=None,
        description="First day, such as 2026-10-01: its midnight in the schedule's zone. An instant is taken "
        "as written.",
    )
    end_date: dt.datetime | None = Field(default=None, description="Last day, in the same form.")
    catchup: bool = Field(default=False, description="True to load all days since start_date, each by its own run.")
    max_active_runs: int = Field(default=16, ge=1, description="Largest number of concurrent runs.")
    dagrun_timeout: dt.timedelta | None = Field(default=None, description="Longest duration of a run.")
    description: str | None = Field(default=None, description="A line for Airflow's list of DAGs.")
    doc_md: str | None = Field(default=None, description="The DAG's documentation, in Markdown.")
    tags: list[str] = Field(default=[], description="Tags for Airflow's list of DAGs.")
    params: dict[str, Any] = Field(default={}, description="Defaults of the template variable params.")
    is_paused_upon_creation: bool | None = Field(default=None, description="True to create the DAG paused.")


@dataclass
class Pipeline:
    """A pipeline's checked parts: the file's keys, sorted into arguments of DAG and operator."""

    file: YamlFile
    name: str = ""
    dag_options: dict[str, Any] = field(default_factory=dict)
    operator_arguments: dict[str, Any] = field(default_factory=dict)
    schedule: Schedule | None = None

    @property
    def zone(self) -> str:
        """Zone of ``start_date`` and ``end_date``, unless they name one."""
        if self.schedule is not None:
            return self.schedule.zone
        zone: str = self.operator_arguments["source"].timezone
        return "UTC" if has_template(zone) else zone


def load_pipeline(file: YamlFile) -> Pipeline:
    """Check a file and build its pipeline. Problems are added to the file."""
    values, pipeline = file.values, Pipeline(file)
    if not values and file.problems:
        return pipeline  # the file cannot be read, so nothing in it is missing
    known_names = [*DagOptions.model_fields, *arguments.PIPELINE_KEYS, "schedule", *arguments.file_arguments()]
    for name in values.keys() - known_names:
        file.add_problem((name,), f"unknown option; {suggest_nearest(name, known_names)}")
    _read_dag_options(pipeline)
    for name in arguments.file_arguments().keys() & values.keys():
        value, problems = arguments.read_argument(name, values[name])
        pipeline.operator_arguments[name] = value
        _add_problems(file, (), problems)
    pipeline.operator_arguments["source"] = _build_connector(file, "source", registry.source_class)
    pipeline.operator_arguments["sink"] = _build_connector(file, "sink", registry.sink_class)
    if "shape" in values:
        pipeline.operator_arguments["shape"] = _build_shapes(file)
    pipeline.schedule = _read_schedule(pipeline)
    return pipeline


def _read_dag_options(pipeline: Pipeline) -> None:
    values = {name: value for name, value in pipeline.file.values.items() if name in DagOptions.model_fields}
    dag_options = _validate(pipeline.file, (), DagOptions, values)
    if dag_options is not None:
        pipeline.dag_options = {name: getattr(dag_options, name) for name in dag_options.model_fields_set}
        pipeline.name = pipeline.dag_options.pop("name")


def in_zone(moment: dt.datetime, zone: str) -> dt.datetime:
    """Set the zone of a time, unless it has one."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=ZoneInfo(zone))


def _build_connector(file: YamlFile, role: str, find: Callable[[str], type[Any]]) -> Any:
    connector = None
    if (entry := _read_single_entry(file, (role,), file.values.get(role), f"{role}'s")) is not None:
        name, options = entry
        try:
            cls = find(name)
        except ConfigError as error:
            file.add_problem((role, name), str(error))
        except Exception as error:  # noqa: BLE001  # a foreign package may fail in any way
            file.add_problem((role, name), f"cannot be imported: {type(error).__name__}: {error}")
        else:
            connector = build_options(file, (role, name), cls, options)
    return connector


def _build_shapes(file: YamlFile) -> list[Any]:
    entries = file.values["shape"]
    if not isinstance(entries, list):
        file.add_problem(("shape",), "must be a list, such as [{drop: {…}}]")
        return []
    return [_build_shape(file, ("shape", index), entry) for index, entry in enumerate(entries)]


def _build_shape(file: YamlFile, key_path: KeyPath, entry: Any) -> Any:
    if (name_and_options := _read_single_entry(file, key_path, entry, "shape's")) is None:
        return None
    name, options = name_and_options
    if name not in SHAPES:
        file.add_problem((*key_path, name), f"no shape is called {name!r}; {suggest_nearest(name, SHAPES)}")
        return None
    return build_options(file, (*key_path, name), SHAPES[name], options)


def _read_single_entry(file: YamlFile, key_path: KeyPath, value: Any, owner: str) -> tuple[str, dict[str, Any]] | None:
    if value is None and key_path[0] not in file.values:
        file.add_problem(key_path, "required")
    elif not isinstance(value, dict) or len(value) != 1:
        file.add_problem(key_path, _entry_problem(value, owner))
    else:
        ((name, options),) = value.items()
        if options is None or isinstance(options, dict):
            return name, options or {}
        file.add_problem((*key_path, name), "must be a mapping of options")
    return None


def build_options(file: YamlFile, key_path: KeyPath, cls: type[Options], options: dict[str, Any]) -> Any:
    """Build a connector or shape from its options. None if they are wrong."""
    try:
        # 'self' cannot be passed as a keyword.
        if "self" in options:
            raise ConfigError(f"self: unknown option; {suggest_nearest('self', cls.model_fields)}")
        return cls(**options)
    except ConfigError as error:
        cause = error.__context__
        if isinstance(cause, ValidationError):
            templates = frozenset(name for name, value in options.items() if has_template(value))
            _add_problems(file, key_path, problems_of(cls, cause, templates))
        else:
            file.add_problem(key_path, str(error))
        return None


def _entry_problem(value: Any, owner: str) -> str:
    if isinstance(value, str):
        return f"must hold the {owner} options: {{{value}: {{…}}}}"
    if not isinstance(value, dict) or not value:
        return f"must be a mapping with only the {owner} name, which holds its options"
    name = next((name for name, options in value.items() if options is None), None)
    if name is not None:
        siblings = [key for key in value if key != name]
        verb = "stands" if len(siblings) == 1 else "stand"
        return f"{', '.join(siblings)} {verb} beside {name}. Indent them under {name}"
    kind = value.get("type") or value.get("name") or "NAME"
    return f"must be a mapping with only the {owner} name, which holds its options: {{{kind}: {{…}}}}"


def _read_schedule(pipeline: Pipeline) -> Schedule | None:
    file, schedule = pipeline.file, pipeline.file.values.get("schedule", DAILY)
    if schedule is None:
        return None
    if schedule == DAILY:
        zone = getattr(pipeline.operator_arguments["source"], "timezone", "UTC")
        if has_template(zone):
            file.add_problem(("schedule",), "the source's zone is a template. Set a zone, such as {daily: US/Pacific}")
            return None
        return _validate(file, ("schedule",), Daily, {"daily": zone})
    for name, model in _SCHEDULES.items():
        if isinstance(schedule, dict) and name in schedule:
            return _validate(file, ("schedule",), model, schedule)
    file.add_problem(
        ("schedule",),
        "must be daily, {daily: US/Pacific}, {every: 15 minutes, timezone: US/Pacific}, {cron: '0 0 * * MON', "
        "timezone: US/Pacific}, or null for no schedule",
    )
    return None


def _validate(file: YamlFile, key_path: KeyPath, model: type[_Model], values: dict[str, Any]) -> _Model | None:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        _add_problems(file, key_path, problems_of(model, error))
        return None


def _add_problems(file: YamlFile, key_path: KeyPath, problems: Iterable[tuple[KeyPath, str]]) -> None:
    for inner_path, text in problems:
        file.add_problem((*key_path, *inner_path), text)
