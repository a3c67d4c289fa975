"""Findings of ``airflow connect check``, and the input of ``airflow connect propose``."""

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
    """Result of one check.

    :param result: outcome, without secrets and record values.
    """

    subject: str
    level: Level
    result: str
    todo: str = ""

    def __str__(self) -> str:
        todo = f" To do: {self.todo}." if self.todo else ""
        return f"{self.level.upper()} {self.subject}: {self.result}.{todo}"


def level_of(error: ConnectError) -> Level:
    """Return the level of a check that failed with this error."""
    return "later" if isinstance(error, RetriableError) else "problem"


def passed(findings: Iterable[Finding]) -> bool:
    """Return True if no finding prevents a run."""
    return not any(finding.level in ("problem", "later") for finding in findings)


@dataclass(frozen=True)
class PreflightReport:
    """All findings of one check."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """True if no finding prevents a run."""
        return passed(self.findings)

    def __str__(self) -> str:
        """Return the verdict and the findings, problems first."""
        rows = sorted(self.findings, key=lambda finding: _ORDER.index(finding.level))
        return "\n".join([f"{self.subject} {'works' if self.passed else 'does not work yet'}.", *map(str, rows)])


@dataclass(frozen=True)
class ProposalRequest:
    """Input of a proposal, of which a source reads some fields. None means the source's default.

    :param path: path of a request, such as ``/v1/events``.
    :param openapi: an OpenAPI 3 document, read instead of sending a request.
    :param records: size of the sample.
    :param columns: most columns to propose.
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
    """Source class with its own Airflow connection type."""

    @classmethod
    @abstractmethod
    def access(cls, connection: Connection) -> Any:
        """Return address and credentials of a connection, without network.

        :raises ConfigError: lists every problem of the connection.
        """

    @classmethod
    @abstractmethod
    def inspect_connection(cls, connection: Connection, store: KeyStore | None) -> tuple[bool, str]:
        """Test a connection without loading. Returns whether it works, and the findings as text.

        :param store: of the quota's counts. None counts no requests.
        :raises ConnectError: no access.
        """
