"""Texts with columns in braces, such as ``events_{country}`` or ``events_{time:%Y_%m}``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from airflow_provider_connect.shapes.shape import unknown_columns
from airflow_provider_connect.values.arrays import without_dictionary
from airflow_provider_connect.values.arrow import shape_of

if TYPE_CHECKING:
    import pyarrow as pa

_PART = re.compile(r"\{([^{}:]+)(?::([^{}]+))?\}")
_FORMAT = re.compile(r"(?:%[YmdH]|[A-Za-z0-9_-])+")
_NAMEABLE = ("text", "integer", "boolean", "date")


def _checked(template: str) -> str:
    fixed = _PART.sub("", template)
    if "{" in fixed or "}" in fixed:
        raise ValueError("a brace is open: columns stand in braces, such as {country}")
    for _, form in _PART.findall(template):
        if form and not _FORMAT.fullmatch(form):
            raise ValueError(f"{form!r}: a time has %Y, %m, %d and %H, with letters, digits, '_' and '-' between them")
    return template


Template = Annotated[str, Field(min_length=1), AfterValidator(_checked)]


def columns_in(template: str) -> list[str]:
    """Return the columns that a template names."""
    return [name for name, _ in _PART.findall(template)]


def template_problems(template: str, schema: pa.Schema) -> list[str]:
    """Return what in a template does not fit a schema."""
    found = unknown_columns(columns_in(template), schema)
    for name, form in _PART.findall(template):
        if name not in schema.names:
            continue
        kind = schema.field(name).type
        if form and shape_of(kind) not in ("timestamp", "date"):
            found.append(f"column {name!r}: {form!r} is for times and dates, and it is {kind}")
        elif not form and shape_of(kind) not in _NAMEABLE:
            hint = "; say how, such as {" + name + ":%Y_%m}" if shape_of(kind) == "timestamp" else ""
            found.append(f"column {name!r}: {kind} names no table or topic{hint}")
    return found


def texts_of(template: str, schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.Array | pa.Scalar]:
    """Return what makes each row's text of a template; NULL where a column is. A template without columns is a scalar.

    :param template: without problems in the schema.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    pieces: list[pa.Scalar | tuple[int, str]] = []
    at = 0
    for part in _PART.finditer(template):
        pieces += [pa.scalar(template[at : part.start()]), (schema.get_field_index(part[1]), part[2] or "")]
        at = part.end()
    pieces.append(pa.scalar(template[at:]))

    def texts(batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
        made = [_text(batch.column(piece[0]), piece[1]) if isinstance(piece, tuple) else piece for piece in pieces]
        return made[0] if len(made) == 1 else pc.binary_join_element_wise(*made, pa.scalar(""))

    return texts


def _text(array: pa.Array, form: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    array = without_dictionary(array)
    if not form:
        return array.cast(pa.string())
    if shape_of(array.type) == "timestamp" and array.type.tz is not None:
        array = array.cast(pa.timestamp(array.type.unit, tz="UTC"))
    return pc.strftime(array, format=form)
