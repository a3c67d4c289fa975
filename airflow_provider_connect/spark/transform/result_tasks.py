"""The executor's part of a transform: stages a partition of the result batch by batch, like polled rows.

Tasks return errors as data, as in :mod:`..poll`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pydantic import Field

from airflow_provider_connect.errors import ConnectError, DataError, Failure
from airflow_provider_connect.stage.answer_digest import AnswerDigest
from airflow_provider_connect.stage.erase_list import EraseList, Eraser
from airflow_provider_connect.stage.key_digest import RECORD_KEY, KeyDigest
from airflow_provider_connect.stage.manifest import PollResult
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.tables import StagedPart, TableTemplate, open_row_writer
from airflow_provider_connect.stage.transform import ERASED_FROM_RESULT
from airflow_provider_connect.window import Day
from airflow_provider_connect.wire import Wire

OUTCOME = "outcome"


class StageResultTask(Wire):
    """A task to stage a partition of a result: plain data without secrets."""

    root: str
    day: Day
    attempt: str
    erased: EraseList = Field(default_factory=EraseList)
    tables: TableTemplate | None = None
    soft_deletes: bool = False


class StageResultOutcome(Wire):
    """Result of a task: the staged files, or the failure."""

    polled: PollResult | None = None
    failure: Failure | None = None


def make_stage_function(
    task: StageResultTask, schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow``. It stages a partition and yields one row: the outcome as JSON."""
    text = task.model_dump_json()

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({OUTCOME: [_stage_outcome(text, batches, schema)]})

    return stage


def empty_result(schema: pa.Schema) -> PollResult:
    """Return a result without rows."""
    return PollResult(digest=KeyDigest(schema).text, contents=AnswerDigest(schema).text)


def _stage_outcome(text: str, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> str:
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    part = context.partitionId() if context is not None else 0
    try:
        outcome = StageResultOutcome(
            polled=stage_result_partition(StageResultTask.model_validate_json(text), part, batches, schema)
        )
    except Exception as error:  # noqa: BLE001  # every error returns as data, with its type
        outcome = StageResultOutcome(failure=Failure.from_error(error))
    return outcome.model_dump_json()


def stage_result_partition(
    task: StageResultTask, partition: int, batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> PollResult:
    """Stage a partition of a result into immutable files.

    The files are valid only if the Spark task succeeds: if the computation fails, its batches simply end.

    :raises DataError: a NOT NULL column has NULL, or a row key is invalid.
    """
    eraser, digest, contents = Eraser(task.erased, schema), KeyDigest(schema), AnswerDigest(schema)
    share = StagedPart(task.day, task.attempt, partition, secrets.token_hex(4))
    erased_rows = 0
    with open_row_writer(Folder(task.root), schema, task.tables, share, soft_deletes=task.soft_deletes) as writer:
        for batch in batches:
            fitted_batch = _cast_to_schema(batch, schema)
            remaining_batch = eraser.remove_rows(fitted_batch)
            erased_rows += fitted_batch.num_rows - remaining_batch.num_rows
            writer.write(remaining_batch)
            _add_to_digest(digest, remaining_batch)
            contents.add(remaining_batch)
    counts = {ERASED_FROM_RESULT: erased_rows} if erased_rows else {}
    rows = sum(file.rows for file in writer.files)
    return PollResult(files=writer.files, rows_written=rows, counts=counts, digest=digest.text, contents=contents.text)


def _cast_to_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns: list[Any] = []
    for array, field in zip(batch.columns, schema, strict=True):
        if not field.nullable and array.null_count:
            raise DataError(
                f"column {field.name!r} of the transform's result is NULL in some rows, but NOT NULL in the source. "
                "Filter these rows, or rename the column"
            )
        columns.append(array if array.type == field.type else array.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _add_to_digest(digest: KeyDigest, batch: pa.RecordBatch) -> None:
    try:
        digest.add(batch)
    except ConnectError:
        raise DataError(
            f"column {RECORD_KEY} of the transform's result contains a value that is not a key. Make each value a "
            "string of 32 hex digits, such as md5(…), or rename the column"
        ) from None
