"""The frozen stage: immutable files of one attempt, and the manifest that says a day is whole.

Under a stage root, one attempt of one day leaves ::

    day=<date>/<attempt>-<part>-<copy>.parquet           rows; in place where the sink wants them
    <table>/day=<date>/…                                 the same, where rows are dealt out to tables
    _connect/attempts/<attempt>/progress-<part>.json     alive while its age is small
    _connect/attempts/<attempt>/waiting.json             the same, while other days are published first
    _connect/attempts/<attempt>/deadline.json            its requests took too long: the next try asks for less in each
    _connect/attempts/<attempt>/plan.json, part-….json   what the next try may go on with (:mod:`.plans`)
    _connect/attempts/<attempt>/rejects-<part>.parquet   lines that are not records, if tolerated
    _connect/attempts/<attempt>/manifest.json            written last: everything above is complete

An attempt's name begins with its run token: a retry finds what an earlier attempt of the same intent finished, and
publishes that instead of polling again.
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
    """One immutable file of the stage.

    :param path: relative to the stage root, with ``/``.
    :param size_bytes: its size when it was closed.
    :param stats: column statistics as Delta's JSON has them (``numRecords``, ``minValues``, …).
    """

    path: str
    rows: int
    size_bytes: int
    stats: dict[str, Any] = Field(default_factory=dict)


class PollResult(Wire):
    """What a poll returned for one partition, or for all partitions of a day.

    :param rows_read: records in the answer, before duplicates were dropped.
    :param counts: ``duplicates``, ``rejected`` and the source's own counts.
    :param digest: 32 hex digits; equal multisets of rows have equal digests. None if rows have no key.
    :param contents: 48 hex digits, of all columns and of the rejects: answers with equal ones say the same. None if
        rows have a type that cannot be read.
    :param parts: in how many partitions the day was polled.
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
        """Every count by name, as the ledger keeps them."""
        return {"rows_read": self.rows_read, "wire_bytes": self.wire_bytes, "raw_bytes": self.raw_bytes, **self.counts}

    @classmethod
    def total(cls, parts: list[PollResult]) -> PollResult:
        """Sum partitions into their day."""
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
    """The newest publish that an attempt found before it polled; its own publish must follow that one.

    :param day: the day of that publish; None if there was none.
    :param generation: the generation of that publish; 0 if there was none.
    :param checks: how often it had been confirmed.
    :param erased: the version of the stream's erase list.
    """

    day: dt.date | None = None
    generation: int = 0
    checks: int = 0
    erased: int = 0


class TransformResult(Wire):
    """What a transform made its result of.

    :param rows: how many rows were polled.
    :param contents: their digest, like :class:`PollResult`'s.
    :param seconds: how long the transform took.
    """

    rows: int
    contents: str | None = None
    seconds: float = 0.0


class Manifest(Wire):
    """A whole day, frozen: the only thing that is ever published.

    :param fingerprint: digest of the source's options and columns, the target and this package's version; a manifest
        with another fingerprint is not reused.
    :param seen: read before the poll. Once the ledger has moved on, the manifest is stale and not published.
    :param polled_at: when the poll began, UTC; for people only, it decides nothing.
    :param span: what an increment has read; None of other rows.
    :param transformed: what the rows were made of by a transform; None if they are as they were polled.
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
    def source_answer(self) -> PollResult:
        """What the source answered, as far as rows are counted: a transform makes more or fewer of them."""
        if self.transformed is None:
            return self.polled
        return self.polled.model_copy(update={"rows_written": self.transformed.rows})

    @classmethod
    def read(cls, text: bytes, day: Day, attempt: str) -> Manifest:
        """Read the manifest that an attempt left.

        Others may write into a shared stage, and the files that a manifest names are deleted later. So it may name
        its own attempt's files only.

        :raises ValueError: this version does not write such a manifest, or it belongs to another attempt.
        """
        found = cls.model_validate_json(text)
        if (found.day, found.attempt) != (day, attempt) or not ATTEMPT_PATTERN.fullmatch(attempt):
            raise ValueError("it is the manifest of another day or attempt")
        require_own_files(found.polled, day, attempt)
        return found


def require_own_files(polled: PollResult, day: Day, attempt: str) -> None:
    """Refuse what names files that an attempt did not write.

    :raises ValueError: it does.
    """
    for file in polled.files:
        match = DATA_FILE_PATTERN.fullmatch(file.path) or TABLE_FILE_PATTERN.fullmatch(file.path)
        if match is None or (match["day"], match["attempt"]) != (str(day), attempt):
            raise ValueError("it names a file that is not this attempt's")
    for file in polled.rejects:
        folder, _, name = file.path.rpartition("/")
        if folder != attempt_folder(attempt) or not name.startswith("rejects-"):
            raise ValueError("it names a file of rejects that is not this attempt's")


def day_of_attempt(attempt: str) -> dt.date | None:
    """Return the day in an attempt's name, which ends with it; None if it has none."""
    try:
        return dt.datetime.strptime(attempt.rpartition("-")[2], "%Y%m%d").date()  # noqa: DTZ007  # a date alone
    except ValueError:
        return None


def attempt_folder(attempt: str) -> str:
    """Return the folder of an attempt's own files, relative to the stage root."""
    return f"{CONTROL_FOLDER}/attempts/{attempt}"


def manifest_file(attempt: str) -> str:
    """Return the path of an attempt's manifest, relative to the stage root."""
    return f"{attempt_folder(attempt)}/{MANIFEST_NAME}"


def deadline_file(attempt: str) -> str:
    """Return the path of the note that an attempt's requests ran into their deadline, relative to the stage root."""
    return f"{attempt_folder(attempt)}/{DEADLINE_NAME}"


def progress_file(attempt: str, part: int) -> str:
    """Return the path of the sign of life of a partition's poll, relative to the stage root."""
    return f"{attempt_folder(attempt)}/progress-{part:05d}.json"


def rejects_file(attempt: str, part: int, suffix: str) -> str:
    """Return the path of a file of rejects, relative to the stage root; ``copy`` as in :func:`data_file`."""
    return f"{attempt_folder(attempt)}/rejects-{part:05d}-{suffix}.parquet"


def data_file(day: Day, attempt: str, part: int, suffix: str) -> str:
    """Return the path of a data file, relative to the stage root.

    :param copy: a new random word for every file. Spark may run one task twice while the first run is still alive, and
        neither may touch what the other wrote.
    """
    return f"day={day}/{attempt}-{part:05d}-{suffix}.parquet"


ATTEMPT_PATTERN = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*")
"""An attempt's name; it is part of file names, so it must not lead out of the stage."""

DATA_FILE_PATTERN = re.compile(
    rf"day=(?P<day>\d{{4}}-\d\d-\d\d)/(?P<attempt>{ATTEMPT_PATTERN.pattern})-(?P<part>\d{{5}})-[0-9a-z]+\.parquet"
)
"""The paths that :func:`data_file` returns."""

TABLE_FILE_PATTERN = re.compile(rf"(?P<table>[A-Za-z0-9][A-Za-z0-9._-]*)/{DATA_FILE_PATTERN.pattern}")
"""The same under the folder of a table, where a day's rows are dealt out to several (:mod:`.tables`)."""
