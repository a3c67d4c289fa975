"""Common base of sources and sinks, with access to capabilities."""

from __future__ import annotations

import inspect
from abc import ABC
from collections.abc import Mapping
from typing import Any, TypeVar

from airflow_provider_connect.closing import Closable
from airflow_provider_connect.config import Options
from airflow_provider_connect.errors import ConfigError

C = TypeVar("C")
_OURS = "airflow_provider_connect."

CAPABILITIES: Mapping[str, Mapping[str, str]] = {
    "Source": {
        "HasQuota": "quota requests_for requests_at_once",
        "Counts": "count_problems counts_first parts_at_once requests_to_count count_quota",
        "NamesColumns": "column_names",
        "CountsLate": "counts_late",
        "ReloadsWhenLost": "reloads_when_lost",
        "ListsStreams": "list_streams stream_source example_stream recall_streams parallel_streams",
        "Inspects": "inspect",
        "Proposes": "propose",
    },
    "Poller": {
        "CountsRows": "count",
        "SeveralDaysARequest": "days_per_plan days_together",
        "Splits": "split",
        "AcceptsParts": "accept",
        "LimitsPartitions": "partitions_at_once",
        "LimitsPolls": "max_polls",
        "Follows": "follow",
        "Resumes": "resume begins_anew",
        "ReadBySpark": "is_read_by_spark frame rows_of error_of",
    },
    "Publisher": {
        "StagesByExecutors": "begin shares put abort",
        "Confirms": "confirm",
        "TellsDifferences": "differences",
        "CommitCountsDifferences": "commit_counts_differences",
        "Erases": "find erase copies",
        "KeepsRejects": "rejects",
        "RewritesByKey": "rewrite_by_key",
        "Sweeps": "sweep leftovers",
        "KeepsNotes": "note",
        "InspectsTarget": "inspect",
        "TestsConnection": "test_connection",
    },
    "Sink": {"StagesMarks": "stages_marks"},
}
"""Capabilities of each contract, with their members."""


class Connector(Options, ABC):
    """Base of sources and sinks."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        _refuse_outdated(cls)

    def capability(self, kind: type[C]) -> C | None:
        """Return this connector as an instance of a capability, or None if its options lack it."""
        return self if isinstance(self, kind) else None


class Opened(Closable, ABC):
    """Base of objects that a connector opens: pollers and publishers."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _refuse_outdated(cls)


def _refuse_outdated(cls: type[Any]) -> None:
    bases = {base.__name__ for base in cls.__mro__[1:] if base.__module__.startswith(_OURS)}
    if "Source" in bases:
        _refuse_former_open(cls)
    for contract in bases & CAPABILITIES.keys():
        for capability, members in CAPABILITIES[contract].items():
            member = next((name for name in members.split() if hasattr(cls, name)), None)
            if member is not None and capability not in bases:
                path = f"capabilities.{'publisher' if contract == 'Sink' else contract.lower()}.{capability}"
                raise TypeError(f"{cls.__name__} defines {member}: derive it from {path}, too")


def _refuse_former_open(cls: type[Any]) -> None:
    try:
        inspect.signature(cls.open).bind(None, None, None)
    except TypeError:
        raise ConfigError(
            f"{cls.__module__}.{cls.__qualname__} is written for an earlier version: write open(self, connection, "
            "context), where context is an airflow_provider_connect.source.PollContext. It replaces the "
            "poller's attributes spark, polls_at_once, looks_ahead and is_closed_before_polls"
        ) from None
