"""Before the first run: what a check looked at, what it saw and what to do, and what a proposal is made of."""

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
"""``note``: it works, but somebody should know. ``later``: a retry may work. ``unknown``: it could not be seen."""
_ORDER: tuple[Level, ...] = ("problem", "later", "note", "unknown", "ok")


@dataclass(frozen=True)
class Finding:
    """One row of a report.

    :param about: what was looked at.
    :param found: what was found: no secret, and no record's value.
    :param todo: what a person should do; "" for nothing.
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
    """Return the level of a step that failed with an error."""
    return "later" if isinstance(error, RetriableError) else "problem"


def passed(findings: Iterable[Finding]) -> bool:
    """Tell whether nothing stands in the way of a run."""
    return not any(finding.level in ("problem", "later") for finding in findings)


@dataclass(frozen=True)
class PreflightReport:
    """Findings of one preflight.

    :param asked: subject of the verdict, such as ``Stream shop_db.orders``.
    """

    subject: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing stands in the way of a run."""
        return passed(self.findings)

    def __str__(self) -> str:
        """Return the verdict and the rows, problems first; each line is a sentence, also where lines are joined."""
        rows = sorted(self.findings, key=lambda finding: _ORDER.index(finding.level))
        return "\n".join([f"{self.subject} {'works' if self.passed else 'does not work yet'}.", *map(str, rows)])


@dataclass(frozen=True)
class ProposalRequest:
    """Sample that a proposal is made of. Every source takes some of the fields; None stands for its default.

    :param path: of the request, such as ``/v1/events``.
    :param openapi: an OpenAPI 3 document. Nothing is requested then.
    :param stream: name of the stream.
    :param day: day of the sample.
    :param records: size of the sample.
    :param columns: how many columns are proposed at most.
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
    """A source class with a connection type of its own: the type's hook asks it."""

    @classmethod
    @abstractmethod
    def access(cls, connection: Connection) -> Any:
        """Return which address to ask, and with which credentials. No network.

        :raises ConfigError: naming everything that is wrong with the connection.
        """

    @classmethod
    @abstractmethod
    def inspect_connection(cls, connection: Connection, store: KeyStore | None) -> tuple[bool, str]:
        """Return whether the connection works, and the findings as text. Loads nothing.

        :param store: where the requests of all tasks are counted. With None they are not counted.
        :raises ConnectError: the system cannot be reached, or refuses.
        """
