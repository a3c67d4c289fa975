"""The executor's half: a piece of a transform's result is frozen as a poll's rows are, batch by batch.

A task returns errors as data: an exception would lose its type on the way through the JVM to the driver.
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
    """What an executor needs to freeze a piece of a result: plain data, no secrets.

    :param root: path or URL of the stage.
    :param erased: whose rows are left out.
    :param tables: which table a row belongs to; None where they share one.
    :param soft_deletes: whether each staged row says that it is not deleted.
    """

    root: str
    day: Day
    attempt: str
    erased: EraseList = Field(default_factory=EraseList)
    tables: TableTemplate | None = None
    soft_deletes: bool = False


class StageResultOutcome(Wire):
    """The answer of a task: what it froze, or why it could not."""

    polled: PollResult | None = None
    failure: Failure | None = None


def make_stage_function(
    task: StageResultTask, schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what ``mapInArrow`` calls with each piece of a result; its only row is an outcome as JSON."""
    text = task.model_dump_json()

    def freeze(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({OUTCOME: [_outcome(text, batches, schema)]})

    return freeze


def empty_result(schema: pa.Schema) -> PollResult:
    """Return a result without rows."""
    return PollResult(digest=KeyDigest(schema).text, contents=AnswerDigest(schema).text)


def _outcome(text: str, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> str:
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
    """Freeze a piece of a result into immutable files.

    What it returns holds only if Spark does not fail the task: the batches of a computation that breaks just end.

    :raises DataError: a column is NULL that never was, or a key is none.
    """
    eraser, digest, contents = Eraser(task.erased, schema), KeyDigest(schema), AnswerDigest(schema)
    share = StagedPart(task.day, task.attempt, partition, secrets.token_hex(4))
    gone = 0
    with open_row_writer(Folder(task.root), schema, task.tables, share, soft_deletes=task.soft_deletes) as writer:
        for batch in batches:
            fitted = _fitted(batch, schema)
            kept = eraser.remove_rows(fitted)
            gone += fitted.num_rows - kept.num_rows
            writer.write(kept)
            _add_key(digest, kept)
            contents.add(kept)
    counts = {ERASED_FROM_RESULT: gone} if gone else {}
    rows = sum(file.rows for file in writer.files)
    return PollResult(files=writer.files, rows_written=rows, counts=counts, digest=digest.text, contents=contents.text)


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns: list[Any] = []
    for array, field in zip(batch.columns, schema, strict=True):
        if not field.nullable and array.null_count:
            raise DataError(
                f"column {field.name!r} of the transform's result is NULL in some rows, and the source's is never: "
                "filter these rows, or give the column another name"
            )
        columns.append(array if array.type == field.type else array.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _add_key(digest: KeyDigest, batch: pa.RecordBatch) -> None:
    try:
        digest.add(batch)
    except ConnectError:
        raise DataError(
            f"column {RECORD_KEY} of the transform's result holds a value that is not a key: make each a string of 32 "
            f"hex digits, such as md5(…), or give the column another name"
        ) from None
