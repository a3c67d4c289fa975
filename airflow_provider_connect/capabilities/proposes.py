"""Proposals: a source suggests options from a sample of its system's answers, for a person to read and set."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from airflow_provider_connect.connection import Connection

if TYPE_CHECKING:
    from airflow_provider_connect.polling.quota.turns import Store


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


class Proposes(ABC):
    """A source class that can propose options. ``airflow connect propose`` asks it."""

    proposal_fields: ClassVar[frozenset[str]]
    """Fields of :class:`ProposalRequest` that this source takes."""

    @classmethod
    @abstractmethod
    def propose(cls, request: ProposalRequest, connection: Connection | None, store: Store | None) -> str:
        """Return text to paste into a DAG or declaration file. It shows no value of a record.

        :param connection: None if the request has a document in its place.
        :param store: where the requests of all tasks are counted. With None they are not counted.
        :raises ConnectError: as a poll does.
        """
