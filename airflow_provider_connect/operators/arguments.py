"""Checks the operator's arguments when Airflow reads the DAG file."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from airflow.sdk import Asset, AssetAlias

from airflow_provider_connect.capabilities.source import Counts, CountsLate
from airflow_provider_connect.completeness import OnShrink, Reconcile, RowBounds
from airflow_provider_connect.config import has_template, suggest_nearest
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import OnEmpty, Sink
from airflow_provider_connect.source import Source
from airflow_provider_connect.stage.rejects import RejectsKeep
from airflow_provider_connect.stage.transform import transform_problem
from airflow_provider_connect.window import parse_first_and_last

AssetEvents = Literal["task", "day"]
LookbackDays = int | Literal["measured"]
RESERVED_ARGUMENTS = ("application", "application_args", "java_class", "durable", "reconnect_on_retry")
"""Arguments of Airflow's spark-submit operator that ConnectOperator sets."""
_MEMORY_CONF = (
    "spark.driver.memory",
    "spark.executor.memory",
    "spark.driver.memoryOverhead",
    "spark.executor.memoryOverhead",
)
_SPARK_SIZE = re.compile(r"\d+([kmgtp]b?|b)?", re.IGNORECASE)
_FROM_AIRFLOW = ("default_args", "task_concurrency")


def require_known_arguments(operator: type, names: Iterable[str]) -> None:
    """Refuse unknown argument names and suggest known ones."""
    known_names = {
        name
        for cls in operator.mro()
        for name in getattr(vars(cls).get("__init__"), "_BaseOperatorMeta__param_names", ())
        if name not in RESERVED_ARGUMENTS
    }
    problems = [
        f"{name}: set by {operator.__name__} itself. Remove it"
        if name in RESERVED_ARGUMENTS
        else f"{name}: unknown argument; {suggest_nearest(name, known_names)}"
        for name in names
        if name not in known_names and name not in _FROM_AIRFLOW
    ]
    _refuse(operator.__name__, problems)


def require_valid_values(operator: str, arguments: Mapping[str, Any]) -> None:
    """Refuse invalid values among the operator's own arguments."""
    checks = {
        "source": lambda value: _contract_problem(value, Source),
        "sink": lambda value: _contract_problem(value, Sink),
        "shape": _shape_problem,
        "rejects_keep": lambda value: None if value is None else _choice_problem(value, get_args(RejectsKeep)),
        "asset_events": lambda value: _choice_problem(value, get_args(AssetEvents)),
        "on_empty": lambda value: _choice_problem(value, get_args(OnEmpty)),
        "on_shrink": lambda value: _choice_problem(value, get_args(OnShrink)),
        "shrink_percent": _percent_problem,
        "row_bounds": _row_bounds_problem,
        "reconcile": lambda value: _choice_problem(value, get_args(Reconcile)),
        "reconcile_percent": _percent_problem,
        "progress_seconds": _seconds_problem,
        "ready_after": _ready_after_problem,
        "lookback_days": _lookback_days_problem,
        "asset": _asset_problem,
        "days": _days_problem,
        "driver_memory": _memory_problem,
        "executor_memory": _memory_problem,
        "conf": _conf_problem,
        "origin": _date_problem,
        "transform": transform_problem,
    }
    problems = {name: check(arguments[name]) for name, check in checks.items() if name in arguments}
    _refuse(operator, [f"{name}: {problem}" for name, problem in problems.items() if problem])


def require_vendor_counts(source: Source, reconcile: Reconcile) -> None:
    """Refuse ``reconcile`` for a source whose vendor gives no row count."""
    if reconcile == "off":
        return
    counting = source.capability(Counts)
    if counting is None:
        problems = [f"source {source.name!r} has no vendor's count of {source.stream_key}"]
    else:
        problems = counting.count_problems()
    if problems:
        raise ConfigError(f"reconcile={reconcile!r}: {'; '.join(problems)}. Correct that, or remove reconcile")


def require_position_ledger(source: Source, sink: Sink) -> None:
    """Refuse a source of increments if the sink's ledger cannot keep their end positions."""
    if source.kind == "increment" and not sink.keeps_spans:
        raise ConfigError(
            f"source {source.name!r} reads increments, and sink {sink.name!r} of {sink.target} keeps no positions for "
            "them. Use another sink, or read days or snapshots"
        )


def require_supported_kind(source: Source, sink: Sink) -> None:
    """Refuse sink options that do not fit the source's kind: days, snapshots or increments."""
    problems = sink.kind_problems(source.kind)
    if source.repeats_rows and not sink.identifies_by_key(source.kind):
        problems.append("overlap reads rows again, which the sink would keep twice. Set write_mode='merge' with a key")
    if problems:
        raise ConfigError(f"source {source.name!r}, sink {sink.name!r} of {sink.target}: {'; '.join(problems)}")


def require_reloadable(source: Source, sink: Sink, lookback_days: LookbackDays) -> None:
    """Refuse ``lookback_days`` if days cannot be loaded again, or ``"measured"`` if the source counts no late rows."""
    if source.kind == "increment":
        raise ConfigError(
            f"lookback_days loads days again, and source {source.name!r} reads increments, so later runs load later "
            "changes. Remove lookback_days"
        )
    if not source.reloads:
        raise ConfigError(
            f"lookback_days loads days again, and source {source.name!r} reads snapshots, which always have the "
            "present state. Remove lookback_days"
        )
    if not sink.reloads:
        raise ConfigError(
            f"lookback_days loads days again, and sink {sink.name!r} of {sink.target} only appends, which would double "
            "them. Set write_mode='replace', or remove lookback_days"
        )
    if lookback_days == "measured" and source.capability(CountsLate) is None:
        raise ConfigError(
            f"lookback_days='measured' needs counts of late rows, and source {source.name!r} has none for "
            f"{source.stream_key}. Set a number of days"
        )


def parse_origin(origin: str | dt.date | None) -> dt.date | None:
    """Convert the operator's ``origin=`` to a date."""
    return dt.date.fromisoformat(origin) if isinstance(origin, str) else origin


def _refuse(operator: str, problems: list[str]) -> None:
    if problems:
        raise ConfigError(f"{operator}: " + "; ".join(problems))


def _contract_problem(value: object, contract: type) -> str | None:
    if isinstance(value, contract):
        return None
    name, package = contract.__name__, f"airflow_provider_connect.{contract.__name__.lower()}s"
    return f"must be a {name}, such as a class of {package}, not a {_type_name(value)}"


def _shape_problem(value: object) -> str | None:
    if not isinstance(value, (list, tuple)):
        return f"must be a list of shapes, such as [Drop(columns=['ip'])], not a {_type_name(value)}"
    if not value:
        return None
    # A DAG file with a shape has imported all of them. Others are spared the import.
    from airflow_provider_connect.shapes.shape import Shape  # noqa: PLC0415

    wrong_items = [
        f"[{index}] is a {_type_name(shape)}" for index, shape in enumerate(value) if not isinstance(shape, Shape)
    ]
    return (
        f"must contain only shapes of airflow_provider_connect.shapes: {', '.join(wrong_items)}"
        if wrong_items
        else None
    )


def _asset_problem(value: object) -> str | None:
    return (
        None
        if value is None or isinstance(value, (Asset, AssetAlias))
        else f"must be an airflow.sdk.Asset, not a {_type_name(value)}"
    )


def _type_name(value: object) -> str:
    return type(value).__name__


def _choice_problem(value: object, choices: tuple[str, ...]) -> str | None:
    return None if value in choices else f"cannot be {value!r}; {suggest_nearest(str(value), choices)}"


def _seconds_problem(value: object) -> str | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf:
        return None
    return f"must be a number of seconds above 0, not {value!r}"


def _ready_after_problem(value: object) -> str | None:
    if value is None or (isinstance(value, dt.timedelta) and value >= dt.timedelta(0)):
        return None
    return f"must be a datetime.timedelta of 0 or more, not {value!r}"


def _lookback_days_problem(value: object) -> str | None:
    if value == "measured" or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return None
    return f"must be a whole number of days, 0 or more, or 'measured', not {value!r}"


def _percent_problem(value: object) -> str | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 100:
        return None
    return f"must be a number of percent from 0 to below 100, not {value!r}"


def _row_bounds_problem(value: object) -> str | None:
    if value is None or isinstance(value, RowBounds):
        return None
    return f"must be a RowBounds of airflow_provider_connect.completeness, not a {_type_name(value)}"


def _days_problem(value: object) -> str | None:
    if value is None or (isinstance(value, str) and (has_template(value) or not value.strip())):
        return None
    if not isinstance(value, str):
        return f"must be text such as '2026-10-05' or '2026-10-05..2026-10-11', not a {_type_name(value)}"
    try:
        parse_first_and_last(value)
    except ConfigError as error:
        return str(error).removeprefix("days=")
    return None


def _memory_problem(value: object) -> str | None:
    if value is None or (isinstance(value, str) and (has_template(value) or _SPARK_SIZE.fullmatch(value))):
        return None
    return f"must be a size such as '2g' or '512m', not {value!r}"


def _conf_problem(value: object) -> str | None:
    if not isinstance(value, Mapping):
        return None
    problems = {name: _memory_problem(value[name]) for name in _MEMORY_CONF if name in value}
    return "; ".join(f"{name}: {problem}" for name, problem in problems.items() if problem) or None


def _date_problem(value: object) -> str | None:
    if isinstance(value, dt.datetime):
        return "must be a day, not an instant. Use a date or 'YYYY-MM-DD'"
    try:
        if value is None or isinstance(value, dt.date) or (isinstance(value, str) and dt.date.fromisoformat(value)):
            return None
    except ValueError:
        pass
    return f"must be a date or 'YYYY-MM-DD', not {value!r}"
