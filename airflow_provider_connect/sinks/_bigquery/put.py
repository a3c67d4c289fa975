"""The executor's half of a publish: one staged Parquet file becomes rows of the staging table.

A file goes into a write stream of its own. The rows of a file that is put twice therefore lie in two streams, and only
the one whose receipt reached the driver is ever committed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.clients.bigquery.api import Api
from airflow_provider_connect.clients.bigquery.place import Place
from airflow_provider_connect.clients.bigquery.streams import Appender, BadRow, RowsError, StreamReceipt
from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sinks._bigquery.columns.rows import Bad, convert, staging_schema, summary
from airflow_provider_connect.sinks._bigquery.columns.types import Column
from airflow_provider_connect.sinks._bigquery.rejects import STAGED_REJECT_FIELDS
from airflow_provider_connect.stage.rows import batches, first_position

if TYPE_CHECKING:
    from airflow_provider_connect.sinks._bigquery.kept import Kept

RESTARTS = 5
"""How often a file is appended from its first row again without rows that BigQuery refused; each time it names many."""
BATCH_BYTES = 5_400_000
"""About what one request holds. Full ones (9 MB) cost a task 50 MB more, and are no faster (measured 2026-11)."""


@dataclass(frozen=True)
class Staging:
    """Where one attempt's rows go, and as what: made by ``begin``, carried to every ``put`` and to ``commit``.

    :param stage: root of the frozen stage.
    :param table: the staging table.
    :param rejects: the staging table of rejects; None where there can be none.
    :param columns: what is written to the target.
    :param staged: what the staging table has; more than ``columns`` only where the files go in as they are.
    :param discarded: source columns that the target does not take.
    :param position_column: of the staging table, for the row's place in the day; None where nobody asks for it.
    :param filter_column: the column that queries on the target must name; None if none.
    :param kept: where an earlier attempt has filled the staging tables: nothing is sent then.
    """

    stage: str
    table: Place
    rejects: Place | None
    columns: list[Column]
    staged: list[Column]
    load_method: Literal["storage_write", "load_job"]
    discarded: tuple[str, ...] = ()
    position_column: str | None = None
    filter_column: str | None = None
    kept: Kept | None = None


@dataclass(frozen=True)
class FileReceipt:
    """What one staged file has become."""

    rows: StreamReceipt
    rejects: StreamReceipt


@dataclass(frozen=True)
class Tolerance:
    """How many rows that BigQuery cannot hold may be set aside: the sink's options of those names."""

    errors: Literal["none", "all"]
    max_rejects: int


def put_file(api: Api, staging: Staging, path: str, tolerance: Tolerance) -> FileReceipt:
    """Append a staged file's rows to the staging table.

    :raises DataError: rows that BigQuery cannot hold, and the tolerance does not allow them, or there is no end of them
        after :data:`RESTARTS`.
    """
    refused: dict[int, tuple[str, str]] = {}
    for restarts in itertools.count():
        attempt = _Attempt(api, staging, path, tolerance, refused)
        try:
            return attempt.run()
        except RowsError as error:
            # Nothing of the refused request is stored, but requests before it are: a new stream, without those rows.
            named = attempt.positions(error.rows)
            known = len(refused)
            refused.update(named)
            if tolerance.errors == "none" or len(refused) > tolerance.max_rejects or len(refused) == known:
                raise RowsError(attempt.spoken(str(error)), error.rows) from None
            if restarts == RESTARTS:
                raise DataError(
                    f"{path}: BigQuery refuses other rows each of the {RESTARTS + 1} times that the file was sent, "
                    f"{len(refused)} by now, the last: {attempt.spoken(str(error))}; mend them in the source"
                ) from None
    raise AssertionError


class _Attempt:
    """One try to append a file to streams of its own."""

    def __init__(
        self, api: Api, staging: Staging, path: str, tolerance: Tolerance, refused: Mapping[int, tuple[str, str]]
    ) -> None:
        self.api = api
        self.staging = staging
        self.path = path
        self.tolerance = tolerance
        self.refused = refused
        self.spans: list[tuple[int, int, list[int]]] = []  # rows appended before, start in the file, rows left out
        self.rejected = 0
        self._sources = {column.staging["name"]: column.source for column in staging.columns}

    def run(self) -> FileReceipt:
        """Read, convert and append; return when every row is stored."""
        staging = self.staging
        appended = 0
        with ExitStack() as stack:
            schema = staging_schema(staging.columns, staging.position_column)
            rows = stack.enter_context(Appender(self.api, staging.table, schema))
            rejects = RejectsAppender(self.api, staging.rejects) if staging.rejects else None
            if rejects is not None:
                stack.enter_context(rejects)
            for start, batch in batches(staging.stage, self.path, BATCH_BYTES, first_position(self.path)):
                done = convert(
                    batch,
                    staging.columns,
                    start,
                    position_column=staging.position_column,
                    refused=self.refused,
                )
                if done.bad:
                    self._tolerate(done.bad)
                    assert rejects is not None
                    rejects.append("sink", done.bad)
                self.spans.append((appended, start, [each.position for each in done.bad]))
                appended += done.batch.num_rows
                if done.batch.num_rows:
                    rows.append(done.batch)
            return FileReceipt(rows.close(), rejects.close() if rejects else StreamReceipt("", 0))

    def positions(self, rows: Sequence[BadRow]) -> dict[int, tuple[str, str]]:
        """Return column and reason of rows that BigQuery named by their position, not by that among those appended.

        Columns are called as in the source.
        """
        found = {}
        for row in rows:
            appended, start, left_out = next(span for span in reversed(self.spans) if span[0] <= row.offset)
            position = start + row.offset - appended
            for out in left_out:
                position += out <= position
            found[position] = (self._sources.get(row.column or "", ""), f"refused by BigQuery: {row.reason}")
        return found

    def spoken(self, text: str) -> str:
        """Return a text in which the staging table's columns are called as in the source."""
        for staged, source in self._sources.items():
            if staged != source:  # then it ends in a hash, and stands for nothing else
                text = text.replace(staged, source)
        return text

    def _tolerate(self, bad: list[Bad]) -> None:
        self.rejected += len(bad)
        if self.tolerance.errors == "none":
            raise DataError(
                f"BigQuery cannot hold {len(bad)} rows of {self.path}: {summary(bad)}. Mend them in the source, or set "
                "them aside with errors_tolerance='all'"
            )
        if self.rejected > self.tolerance.max_rejects:
            raise DataError(
                f"more than max_rejects={self.tolerance.max_rejects} rows of {self.path} cannot be held by BigQuery: "
                f"{summary(bad)}"
            )


class RejectsAppender:
    """Appends rejected rows to their staging table.

    :param api: to BigQuery.
    :param table: the staging table of rejects.
    """

    def __init__(self, api: Api, table: Place) -> None:
        import pyarrow as pa

        kinds = {"STRING": pa.string(), "INTEGER": pa.int64(), "BYTES": pa.binary()}
        self._schema = pa.schema([(each["name"], kinds[each["type"]]) for each in STAGED_REJECT_FIELDS])
        self._appender = Appender(api, table, self._schema)

    def __enter__(self) -> RejectsAppender:
        self._appender.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._appender.__exit__(*exc)

    def append(self, origin: Literal["source", "sink"], bad: Sequence[Bad]) -> None:
        """Append rejected rows.

        :param origin: who found that they are bad.
        """
        import pyarrow as pa

        columns: list[list[Any]] = [
            [origin] * len(bad),
            [each.position for each in bad],
            [each.column or None for each in bad],
            [each.reason for each in bad],
            [each.record for each in bad],
        ]
        arrays = [pa.array(values, each.type) for values, each in zip(columns, self._schema, strict=True)]
        try:
            self._appender.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        except RowsError as error:
            # Not one of the data's own rows, which a restart could leave out.
            raise DataError(str(error)) from None

    def close(self) -> StreamReceipt:
        """Return when every reject is stored."""
        return self._appender.close()
