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
from airflow_provider_connect.stage.contents import Contents
from airflow_provider_connect.stage.digest import RECORD_KEY, Digest
from airflow_provider_connect.stage.erasing import EraseList, Eraser
from airflow_provider_connect.stage.manifest import Polled
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.tables import Share, Tables, staged_rows
from airflow_provider_connect.stage.transform import ERASED_FROM_RESULT
from airflow_provider_connect.window import Day
from airflow_provider_connect.wire import Wire

OUTCOME = "outcome"


class FreezeTask(Wire):
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
    tables: Tables | None = None
    soft_deletes: bool = False


class Frozen(Wire):
    """The answer of a task: what it froze, or why it could not."""

    polled: Polled | None = None
    failure: Failure | None = None


def freezer(task: FreezeTask, schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what ``mapInArrow`` calls with each piece of a result; its only row is an outcome as JSON."""
    text = task.model_dump_json()

    def freeze(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({OUTCOME: [_outcome(text, batches, schema)]})

    return freeze


def empty(schema: pa.Schema) -> Polled:
    """Return a result without rows."""
    return Polled(digest=Digest(schema).text, contents=Contents(schema).text)


def _outcome(text: str, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> str:
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    part = context.partitionId() if context is not None else 0
    try:
        outcome = Frozen(polled=frozen(FreezeTask.model_validate_json(text), part, batches, schema))
    except Exception as error:  # noqa: BLE001  # every error returns as data, with its type
        outcome = Frozen(failure=Failure.of(error))
    return outcome.model_dump_json()


def frozen(task: FreezeTask, part: int, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Polled:
    """Freeze a piece of a result into immutable files.

    What it returns holds only if Spark does not fail the task: the batches of a computation that breaks just end.

    :raises DataError: a column is NULL that never was, or a key is none.
    """
    eraser, digest, contents = Eraser(task.erased, schema), Digest(schema), Contents(schema)
    share = Share(task.day, task.attempt, part, secrets.token_hex(4))
    gone = 0
    with staged_rows(Folder(task.root), schema, task.tables, share, soft_deletes=task.soft_deletes) as writer:
        for batch in batches:
            fitted = _fitted(batch, schema)
            kept = eraser.without(fitted)
            gone += fitted.num_rows - kept.num_rows
            writer.write(kept)
            _add_key(digest, kept)
            contents.add(kept)
    counts = {ERASED_FROM_RESULT: gone} if gone else {}
    rows = sum(file.rows for file in writer.files)
    return Polled(files=writer.files, rows_written=rows, counts=counts, digest=digest.text, contents=contents.text)


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


def _add_key(digest: Digest, batch: pa.RecordBatch) -> None:
    try:
        digest.add(batch)
    except ConnectError:
        raise DataError(
            f"column {RECORD_KEY} of the transform's result holds a value that is not a key: make each a string of 32 "
            f"hex digits, such as md5(…), or give the column another name"
        ) from None
