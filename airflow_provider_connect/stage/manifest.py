"""The stage: files of one attempt that never change, and the manifest.

Under a stage root, one attempt of one day leaves ::

    day=<date>/<attempt>-<part>-<copy>.parquet           rows, at their final place if the sink wants it
    <table>/day=<date>/…                                 the same, if rows are split by table
    _connect/attempts/<attempt>/progress-<part>.json     the attempt is alive while this file is young
    _connect/attempts/<attempt>/waiting.json             the same, while other days are published first
    _connect/attempts/<attempt>/deadline.json            a request took too long: the next try makes smaller requests
    _connect/attempts/<attempt>/plan.json, part-….json   lets the next try continue (:mod:`.poll_plans`)
    _connect/attempts/<attempt>/rejects-<part>.parquet   bad records, if tolerated
    _connect/attempts/<attempt>/manifest.json            written last: all files above are complete

An attempt's name begins with its run token.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from typing import Any

from pydantic import Field

from airflow_provider_connect.stage.answer_digest import combine_answer_digests
from airflow_provider_connect.stage.key_digest import combine_digests
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.window import Day
from airflow_provider_connect.wire import Wire

CONTROL_FOLDER = "_connect"
MANIFEST_NAME = "manifest.json"
DEADLINE_NAME = "deadline.json"


class StagedFile(Wire):
    """One file of the stage.

    :param path: relative to the stage root, with ``/``.
    :param stats: in Delta's JSON form (``numRecords``, ``minValues``, …).
    """

    path: str
    rows: int
    size_bytes: int
    stats: dict[str, Any] = Field(default_factory=dict)


class PollResult(Wire):
    """Result of polling one partition of a day, or all partitions together.

    :param rows_read: records in the answer, including duplicates.
    :param counts: ``duplicates``, ``rejected`` and the source's own.
    :param digest: 32 hex digits over the keys of all rows, in any order. None if rows have no key.
    :param contents: 48 hex digits over all columns and the rejects. None if not computed.
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
    digest: str | None = None
    contents: str | None = None
    parts: int = 1

    @property
    def all_counts(self) -> dict[str, int]:
        """All counts by name, as the ledger keeps them."""
        return {"rows_read": self.rows_read, "wire_bytes": self.wire_bytes, "raw_bytes": self.raw_bytes, **self.counts}

    @classmethod
    def total(cls, parts: list[PollResult]) -> PollResult:
        """Return the results of a day's partitions as one result."""
        counts: Counter[str] = Counter()
        for part in parts:
            counts.update(part.counts)
        return cls(
            files=tuple(file for part in parts for file in part.files),
            rejects=tuple(file for part in parts for file in part.rejects),
            rows_read=sum(part.rows_read for part in parts),
            rows_written=sum(part.rows_written for part in parts),
            counts=dict(counts),
            wire_bytes=sum(part.wire_bytes for part in parts),
            raw_bytes=sum(part.raw_bytes for part in parts),
            retries=sum(part.retries for part in parts),
            seconds=max((part.seconds for part in parts), default=0.0),
            earliest=min((part.earliest for part in parts if part.earliest), default=None),
            latest=max((part.latest for part in parts if part.latest), default=None),
            digest=combine_digests(part.digest for part in parts),
            contents=combine_answer_digests(part.contents for part in parts),
            parts=len(parts),
        )


class SeenPublish(Wire):
    """The newest publish in the ledger before the poll, which the attempt's publish must follow.

    :param day: None without a publish.
    :param generation: 0 without a publish.
    :param checks: number of its confirmations as unchanged.
    :param span: number of its span. None if it is not an increment.
    :param erased: version of the stream's erase list.
    """

    day: dt.date | None = None
    generation: int = 0
    checks: int = 0
    span: int | None = None
    erased: int = 0


class TransformResult(Wire):
    """Input of a transform, and its duration.

    :param contents: their digest, as in :class:`PollResult`.
    """

    rows: int
    contents: str | None = None
    seconds: float = 0.0


class Manifest(Wire):
    """A complete staged day. Nothing is published without one.

    :param fingerprint: digest of the source's options and columns, the target and this package's version. A retry
        reuses only an equal one.
    :param seen: the newest publish before the poll. A newer one refuses the publish.
    :param polled_at: start of the poll, UTC. No decision depends on it.
    :param span: the span that an increment read.
    """

    day: Day
    attempt: str
    fingerprint: str
    polled: PollResult
    seen: SeenPublish = Field(default_factory=SeenPublish)
    polled_at: dt.datetime | None = None
    span: Span | None = None
    transformed: TransformResult | None = None

    @property
    def span_number(self) -> int | None:
        """Number of the span that an increment read. None for other sources."""
        return None if self.span is None else self.span.number

    @property
    def source_answer(self) -> PollResult:
        """The poll's result. After a transform, ``rows_written`` is the number of polled rows."""
        if self.transformed is None:
            return self.polled
        return self.polled.model_copy(update={"rows_written": self.transformed.rows})

    @classmethod
    def read(cls, text: bytes, day: Day, attempt: str) -> Manifest:
        """Read the manifest of an attempt.

        :raises ValueError: it has another version, day or attempt, or lists files of another attempt.
        """
        manifest = cls.model_validate_json(text)
        if (manifest.day, manifest.attempt) != (day, attempt) or not ATTEMPT_PATTERN.fullmatch(attempt):
            raise ValueError("the manifest belongs to another day or attempt")
        require_own_files(manifest.polled, day, attempt)
        return manifest


def require_own_files(polled: PollResult, day: Day, attempt: str) -> None:
    """Raise ValueError if a result names a file of another attempt."""
    for file in polled.files:
        match = DATA_FILE_PATTERN.fullmatch(file.path) or TABLE_FILE_PATTERN.fullmatch(file.path)
        if match is None or (match["day"], match["attempt"]) != (str(day), attempt):
            raise ValueError("a file is not this attempt's")
    for file in polled.rejects:
        folder, _, name = file.path.rpartition("/")
        if folder != attempt_folder(attempt) or not name.startswith("rejects-"):
            raise ValueError("a file of rejects is not this attempt's")


def day_of_attempt(attempt: str) -> dt.date | None:
    """Return the day at the end of an attempt's name, or None."""
    try:
        return dt.datetime.strptime(attempt.rpartition("-")[2], "%Y%m%d").date()  # noqa: DTZ007  # a date alone
    except ValueError:
        return None


def attempt_folder(attempt: str) -> str:
    """Return the folder of an attempt's control files, relative to the stage root."""
    return f"{CONTROL_FOLDER}/attempts/{attempt}"


def manifest_file(attempt: str) -> str:
    """Return the path of an attempt's manifest."""
    return f"{attempt_folder(attempt)}/{MANIFEST_NAME}"


def deadline_file(attempt: str) -> str:
    """Return the path of the file that notes an exceeded deadline."""
    return f"{attempt_folder(attempt)}/{DEADLINE_NAME}"


def progress_file(attempt: str, part: int) -> str:
    """Return the path of a partition's progress file."""
    return f"{attempt_folder(attempt)}/progress-{part:05d}.json"


def rejects_file(attempt: str, part: int, suffix: str) -> str:
    """Return the path of a rejects file. ``suffix`` as in :func:`data_file`."""
    return f"{attempt_folder(attempt)}/rejects-{part:05d}-{suffix}.parquet"


def data_file(day: Day, attempt: str, part: int, suffix: str) -> str:
    """Return the path of a data file.

    :param suffix: a new random word.
    """
    return f"day={day}/{attempt}-{part:05d}-{suffix}.parquet"


ATTEMPT_PATTERN = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*")
"""An attempt's name, which cannot lead out of the stage."""

DATA_FILE_PATTERN = re.compile(
    rf"day=(?P<day>\d{{4}}-\d\d-\d\d)/(?P<attempt>{ATTEMPT_PATTERN.pattern})-(?P<part>\d{{5}})-[0-9a-z]+\.parquet"
)
"""Paths from :func:`data_file`."""

TABLE_FILE_PATTERN = re.compile(rf"(?P<table>[A-Za-z0-9][A-Za-z0-9._-]*)/{DATA_FILE_PATTERN.pattern}")
"""Paths from :func:`data_file` under a table's folder (:mod:`.tables`)."""
