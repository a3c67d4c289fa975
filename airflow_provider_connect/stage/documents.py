"""Reads staged files as JSON documents, for sinks that send one for each row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.stage.rows import batches

if TYPE_CHECKING:
    import pyarrow as pa


def document_problems(schema: pa.Schema) -> list[str]:
    """Name every column that has no form in JSON, with what to do; [] when there are none. For ``preflight``."""
    from airflow_provider_connect.values.json.text import JsonConverter  # noqa: PLC0415  # a DAG file does without it

    return JsonConverter(schema, None, "").problems()


def documents(stage: str, path: str, batch_bytes: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the rows of a staged file, each a JSON object, with the position of the first. Executor.

    :param batch_bytes: about how much of the file is read at a time.
    :raises DataError: JSON has no form for a value, such as NaN.
    """
    from airflow_provider_connect.values.json.text import JsonConverter  # noqa: PLC0415  # a DAG file does without it

    for first, batch in batches(stage, path, batch_bytes):
        encoded = JsonConverter(batch.schema, None, "").encode(batch, None)
        for row, (column, reason) in encoded.refused.items():
            raise DataError(f"{path}: row {first + row}, column {column!r} cannot be written as JSON: {reason}")
        yield first, [value for value in encoded.values if value is not None]
