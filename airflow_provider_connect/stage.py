"""The frozen stage: immutable files of one attempt, and the manifest that says a day is whole.

Under a stage root, one attempt of one day leaves ::

    day=<date>/<attempt>-<part>-<copy>.parquet           rows; in place where the sink wants them
    _connect/attempts/<attempt>/progress-<part>.json     alive while its age is small
    _connect/attempts/<attempt>/rejects-<part>.parquet   lines that were no records, if tolerated
    _connect/attempts/<attempt>/manifest.json            written last: everything above is complete

An attempt's name begins with its run token, so that a retry finds what an earlier attempt of the same
intent finished, and publishes that instead of polling again.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from pydantic import Field

from airflow_provider_connect.window import Day
from airflow_provider_connect.wire import Wire

CONTROL = "_connect"


class StagedFile(Wire):
    """One immutable file of the stage.

    :param path: relative to the stage root, with ``/``.
    :param size_bytes: its size when it was closed.
    :param stats: column statistics as Delta's JSON has them (``numRecords``, ``minValues``, …).
    """

    path: str
    rows: int
    size_bytes: int
    stats: dict[str, Any] = Field(default_factory=dict)


class Polled(Wire):
    """What polling brought: of one partition, or summed over the partitions of a day.

    :param rows_read: records in the answer, before duplicates were dropped.
    :param counts: ``duplicates``, ``rejected`` and the source's own counts.
    :param digest: 32 hex digits; equal multisets of rows have equal digests.
    """

    files: tuple[StagedFile, ...] = ()
    rejects: tuple[StagedFile, ...] = ()
    rows_read: int = 0
    rows_written: int = 0
    counts: dict[str, int] = Field(default_factory=dict)
    wire_bytes: int = 0
    raw_bytes: int = 0
    retries: int = 0
    seconds: float = 0.0
    earliest: dt.datetime | None = None
    latest: dt.datetime | None = None
    digest: str = "0" * 32

    @property
    def all_counts(self) -> dict[str, int]:
        """Every count by name, as the ledger keeps them."""
        return {"rows_read": self.rows_read, "wire_bytes": self.wire_bytes, "raw_bytes": self.raw_bytes, **self.counts}

    @classmethod
    def total(cls, parts: list[Polled]) -> Polled:
        """Sum partitions into their day."""
        counts: dict[str, int] = {}
        for part in parts:
            for name, value in part.counts.items():
                counts[name] = counts.get(name, 0) + value
        return cls(
            files=tuple(file for part in parts for file in part.files),
            rejects=tuple(file for part in parts for file in part.rejects),
            rows_read=sum(part.rows_read for part in parts),
            rows_written=sum(part.rows_written for part in parts),
            counts=counts,
            wire_bytes=sum(part.wire_bytes for part in parts),
            raw_bytes=sum(part.raw_bytes for part in parts),
            retries=sum(part.retries for part in parts),
            seconds=max((part.seconds for part in parts), default=0.0),
            earliest=min((part.earliest for part in parts if part.earliest), default=None),
            latest=max((part.latest for part in parts if part.latest), default=None),
            digest=f"{sum(int(part.digest, 16) for part in parts) % 2**128:032x}",
        )


class Manifest(Wire):
    """A whole day, frozen: the only thing that is ever published.

    :param fingerprint: digest of the source's options and this package's version; a manifest of another
        fingerprint is not reused.
    """

    day: Day
    attempt: str
    fingerprint: str
    polled: Polled


def attempt_folder(attempt: str) -> str:
    """Return the folder of an attempt's own files, relative to the stage root."""
    return f"{CONTROL}/attempts/{attempt}"


def data_file(day: Day, attempt: str, part: int, copy: str) -> str:
    """Return the path of a data file, relative to the stage root.

    :param copy: a fresh random word for every file: Spark may run one task twice, the first of them forgotten but
        alive, and neither may write or delete what the other one wrote.
    """
    return f"day={day}/{attempt}-{part:05d}-{copy}.parquet"


DATA_FILE = re.compile(r"day=(?P<day>\d{4}-\d\d-\d\d)/(?P<attempt>.+)-(?P<part>\d{5})-[0-9a-z]+\.parquet")
"""What :func:`data_file` makes."""
