"""The ways to read a table, their options, and other projects' names for option values. DAG files import this.

A test compares this with the tables of ``docs/sql.md``.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import BaseModel

Mode = Literal["incrementing", "timestamp", "timestamp+incrementing"]
SnapshotModeName = Literal["initial", "no_data", "initial_only", "when_needed"]
OptionUse = Literal["needed", "yes", "no"]


class ReadMethod(NamedTuple):
    """One way to read a table.

    :param option: option that selects it.
    :param value: selecting value. "" for any.
    :param requires: options that must be set.
    :param accepts: options that may be set. All others are errors.
    """

    option: str
    value: str
    requires: tuple[str, ...] = ()
    accepts: tuple[str, ...] = ()

    def option_use(self, option: str) -> OptionUse:
        """Return whether this way requires, allows or refuses an option."""
        if option in self.requires:
            return "needed"
        return "yes" if option in self.accepts else "no"

    def __str__(self) -> str:
        """Return the option as a user types it."""
        return f"{self.option}={self.value!r}" if self.value else self.option


class StartMode(NamedTuple):
    """Rows that the first and later runs of a ``mode`` read.

    :param loads_existing: the first run reads all rows.
    :param loads_new: later runs read new rows.
    :param reloads_when_lost: a run reads all rows again if the ledger's position is lost.
    """

    loads_existing: bool
    loads_new: bool = True
    reloads_when_lost: bool = False


_NUMBER, _TIME = ("incrementing_column",), ("timestamp_column",)
_MODE, _CLOCK = (
    ("snapshot_mode", "start", "end", "nulls", "overlap", "parallel_chunks", "consistency"),
    ("timestamp_delay_seconds", "db_timezone"),
)
READ_METHODS = (
    ReadMethod("day_column", "", accepts=("day_column_unit", "db_timezone", "lookback_days")),
    ReadMethod("snapshot", "replace", accepts=("parallel_chunks", "consistency")),
    ReadMethod("snapshot", "daily", accepts=("parallel_chunks", "consistency")),
    ReadMethod("mode", "incrementing", requires=_NUMBER, accepts=_MODE),
    ReadMethod("mode", "timestamp", requires=_TIME, accepts=_MODE + _CLOCK),
    ReadMethod("mode", "timestamp+incrementing", requires=_TIME + _NUMBER, accepts=_MODE + _CLOCK),
)
METHOD_OPTIONS = (
    "timestamp_column",
    "incrementing_column",
    "timestamp_delay_seconds",
    "day_column_unit",
    "db_timezone",
    "snapshot_mode",
    "start",
    "end",
    "nulls",
    "overlap",
    "parallel_chunks",
    "consistency",
    "lookback_days",
)
"""Options that only some ways accept. The operator checks the last by :attr:`.Source.reloads`."""
SNAPSHOT_MODES: dict[SnapshotModeName, StartMode] = {
    "initial": StartMode(loads_existing=True),
    "no_data": StartMode(loads_existing=False),
    "initial_only": StartMode(loads_existing=True, loads_new=False),
    "when_needed": StartMode(loads_existing=True, reloads_when_lost=True),
}
FOREIGN_NAMES = {
    ("mode", "bulk"): "snapshot='replace', without mode",
    ("snapshot_mode", "always"): "snapshot='replace', without mode",
    ("snapshot_mode", "schema_only"): "snapshot_mode='no_data'",
    ("snapshot_mode", "never"): "snapshot_mode='no_data'",
}
"""Values of Kafka Connect's JDBC source (``mode``) and Debezium (``snapshot_mode``), with our setting."""
_MISPLACED = {
    "timestamp_column": "only a mode with 'timestamp' uses it",
    "incrementing_column": "only a mode with 'incrementing' uses it",
    "timestamp_delay_seconds": "only a mode with 'timestamp' uses it",
    "day_column_unit": "only day_column uses it",
    "db_timezone": "only day_column and timestamp_column use it",
    "snapshot_mode": "only a mode uses it",
    "start": "only a mode uses it: days are chosen by the DAG's dates",
    "end": "only a mode uses it: days are chosen by the DAG's dates",
    "nulls": "only a mode uses it",
    "overlap": "only a mode uses it: set the operator's lookback_days for days",
    "consistency": "a day is read in one piece: only snapshots and the first run of a mode are split",
    "parallel_chunks": "a day is read in one piece: only snapshots and the first run of a mode are split",
}


def refuse_foreign_name(option: str, value: object) -> object:
    """Return an option's value. Raises ValueError if Kafka Connect or Debezium calls a value so, with its name here."""
    if isinstance(value, str) and (our_setting := FOREIGN_NAMES.get((option, value))):
        raise ValueError(f"{value!r} has another name here: set {our_setting}")
    return value


def read_methods(options: BaseModel) -> list[ReadMethod]:
    """Return the ways that the options select, exactly one if valid."""
    return [
        method
        for method in READ_METHODS
        if (value := getattr(options, method.option)) is not None and method.value in ("", value)
    ]


def read_method_problems(options: BaseModel) -> list[str]:
    """Return a problem for each missing or misplaced option."""
    methods, problems = read_methods(options), []
    if len(methods) != 1:
        problems.append("day_column: set one of day_column, snapshot and mode")
    for option in METHOD_OPTIONS[:-1]:
        uses = {method.option_use(option) for method in methods}
        if is_set(options, option) and uses <= {"no"}:
            problems.append(f"{option}: {_MISPLACED[option]}")
        for method in methods:
            if method.option_use(option) == "needed" and not is_set(options, option):
                problems.append(f"{option}: {method} needs it")
    if "mode" in [method.option for method in methods]:
        name: SnapshotModeName = getattr(options, "snapshot_mode")  # noqa: B009
        chunk_options = [] if SNAPSHOT_MODES[name].loads_existing else ["parallel_chunks", "consistency"]
        problems += [
            f"{option}: snapshot_mode={name!r} loads no existing rows, so there is nothing to split"
            for option in chunk_options
            if is_set(options, option)
        ]
    return problems


def is_set(options: BaseModel, option: str) -> bool:
    """Return True if an option differs from its default."""
    return bool(getattr(options, option) != type(options).model_fields[option].default)
