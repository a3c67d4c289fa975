"""Finds a connector by the name of its file or entry point, and looks up capabilities."""

from __future__ import annotations

import datetime as dt
import functools
import importlib
import pkgutil
from collections.abc import Collection, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from airflow_provider_connect.capabilities.poller import Resumes, SeveralDaysARequest
from airflow_provider_connect.capabilities.publisher import StagesMarks
from airflow_provider_connect.capabilities.source import HasQuota, NamesColumns
from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import Sink
from airflow_provider_connect.source import Poller, Source
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    from airflow_provider_connect.polling.quota.limits import Quota

C = TypeVar("C")


def names(room: str) -> list[str]:
    """Return the names of all connectors in ``sources`` or ``sinks`` (the room), also of other packages."""
    return sorted(_ours(room) | set(_others(room)))


def source_class(name: str) -> type[Source]:
    """Return the source class of this name.

    :raises ConfigError: there is none.
    """
    return _connector("sources", name, Source)


def sink_class(name: str) -> type[Sink]:
    """Return the sink class of this name.

    :raises ConfigError: there is none.
    """
    return _connector("sinks", name, Sink)


def require_capability(poller: Poller, kind: type[C], because: str) -> C:
    """Return the poller, typed as a capability.

    :raises ConfigError: the poller lacks the capability.
    """
    if not isinstance(poller, kind):
        raise ConfigError(f"{type(poller).__name__} must be a {kind.__name__}, because {because}: correct it")
    return poller


def quota_of(source: Source, connection: Connection) -> Quota | None:
    """Return a source's quota (its request limit), if any."""
    limited = source.capability(HasQuota)
    return None if limited is None else limited.quota(connection)


def requests_for(source: Source, days: Sequence[Day], alone: Collection[dt.date] = ()) -> int:
    """Return the fewest requests that a poll of days needs, without a quota one for each day.

    :param alone: days that share no request with another day.
    """
    limited = source.capability(HasQuota)
    if limited is None:
        return len(days)
    together = [day for day in days if day.date not in alone]
    costs = [limited.requests_for([day]) for day in days if day.date in alone]
    return sum(costs) + (limited.requests_for(together) if together else 0)


def column_names(source: Source) -> Sequence[str] | None:
    """Return the names of the source's columns, or None if the options do not name all."""
    names = source.capability(NamesColumns)
    return None if names is None else names.column_names()


def days_per_plan(poller: Poller) -> int:
    """Return the most days that a plan of the poller may span."""
    return poller.days_per_plan if isinstance(poller, SeveralDaysARequest) else 1


def resumes(poller: object) -> TypeGuard[Resumes]:
    """Return True if a new driver can resume this poller's plans."""
    return isinstance(poller, Resumes) and not poller.begins_anew


def stages_marks(sink: Sink, kind: SourceKind) -> bool:
    """Return True if rows staged for a sink need the columns of :mod:`.stage.soft_deletes`."""
    marking = sink.capability(StagesMarks)
    return marking is not None and marking.stages_marks(kind)


def _ours(room: str) -> frozenset[str]:
    return _modules_in(*importlib.import_module(f"airflow_provider_connect.{room}").__path__)


@functools.cache  # every lookup of a class needs it
def _modules_in(*folders: str) -> frozenset[str]:
    return frozenset(module.name for module in pkgutil.iter_modules(folders) if not module.name.startswith("_"))


def _others(room: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"airflow_provider_connect.{room}")}


def _connector(room: str, name: str, contract: type[Any]) -> type[Any]:
    # Every executor task looks its connector up, and a look through all that is installed costs it 25 ms: ours first.
    if name not in _ours(room):
        if (point := _others(room).get(name)) is not None:
            return _only(point.load(), contract, name)
        raise ConfigError(f"no {room[:-1]} is called {name!r}; {suggest_nearest(name, names(room))}")
    module = importlib.import_module(f"airflow_provider_connect.{room}.{name}")
    candidates = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, contract) and value.__module__ == module.__name__
    ]
    return _only(candidates[0] if len(candidates) == 1 else None, contract, name)


def _only(candidate: Any, contract: type[Any], name: str) -> type[Any]:
    if not (
        isinstance(candidate, type) and issubclass(candidate, contract) and getattr(candidate, "name", None) == name
    ):
        raise ConfigError(f"connector {name!r} must define exactly one {contract.__name__} with name = {name!r}")
    return candidate
