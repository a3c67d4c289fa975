"""Findings of a check before the first run, and the input of a proposal."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConnectError, RetriableError

if TYPE_CHECKING:
    from airflow_provider_connect.polling.quota.turns import KeyStore

Level = Literal["ok", "note", "problem", "later", "unknown"]
"""``note``: works, with a remark. ``later``: a retry may work. ``unknown``: could not be checked."""
_ORDER: tuple[Level, ...] = ("problem", "later", "note", "unknown", "ok")


@dataclass(frozen=True)
class Finding:
    """One row of a report.

    :param subject: the thing checked.
    :param result: outcome, without secrets and record values.
    :param todo: action for a person, or "".
    """

    subject: str
    level: Level
    result: str
    todo: str = ""

    def __str__(self) -> str:
        """Return the row as a line."""
        todo = f" To do: {self.todo}." if self.todo else ""
        return f"{self.level.upper()} {self.subject}: {self.result}.{todo}"


def level_of(error: ConnectError) -> Level:
    """Return the level of a step that failed with this error."""
    return "later" if isinstance(error, RetriableError) else "problem"


def passed(findings: Iterable[Finding]) -> bool:
    """Return True if no finding prevents a run."""
    return not any(finding.level in ("problem", "later") for finding in findings)


@dataclass(frozen=True)
class PreflightReport:
    """Findings of one check.

    :param subject: of the verdict, such as ``Stream shop_db.orders``.
    """

    subject: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """True if no finding prevents a run."""
        return passed(self.findings)

    def __str__(self) -> str:
        """Return the verdict and the rows, problems first. Each line is a sentence, so that lines can be joined."""
        rows = sorted(self.findings, key=lambda finding: _ORDER.index(finding.level))
        return "\n".join([f"{self.subject} {'works' if self.passed else 'does not work yet'}.", *map(str, rows)])


@dataclass(frozen=True)
class ProposalRequest:
    """Input of a proposal. A source reads some of the fields. None stands for its default.

    :param path: of the request, such as ``/v1/events``.
    :param openapi: an OpenAPI 3 document, used instead of a request.
    :param stream: name of the stream.
    :param day: day of the sample.
    :param records: size of the sample.
    :param columns: largest number of proposed columns.
    """

    path: str | None = None
    openapi: Path | None = None
    stream: str | None = None
    day: dt.date | None = None
    records: int | None = None
    columns: int | None = None

    @property
    def given(self) -> frozenset[str]:
        """Names of the fields that are set."""
        return frozenset(name for name, value in vars(self).items() if value is not None)


class InspectsConnection(ABC):
    """Source class with its own Airflow connection type. The test button of the type's hook calls it."""

    @classmethod
    @abstractmethod
    def access(cls, connection: Connection) -> Any:
        """Return the address and credentials. No network.

        :raises ConfigError: with every problem of the connection.
        """

    @classmethod
    @abstractmethod
    def inspect_connection(cls, connection: Connection, store: KeyStore | None) -> tuple[bool, str]:
        """Return whether the connection works, and the findings as text. Loads nothing.

        :param store: count of the requests of all tasks, or None for no count.
        :raises ConnectError: the system is unreachable or refuses.
        """
