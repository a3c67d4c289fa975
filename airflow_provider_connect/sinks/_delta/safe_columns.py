"""Shapes for columns that Delta cannot hold: names without the characters that it refuses, and times of day as text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

ILLEGAL_IN_NAMES = re.compile(r"[ ,;{}()\n\t=]")


def safe_shapes(schema: pa.Schema, *, names: bool, types: bool) -> list[dict[str, Any]]:
    """Return the shapes as in pipeline files. A name that another column has already is refused by the shape.

    :param names: rename columns whose names Delta does not allow.
    :param types: convert times of day to text.
    """
    from pyarrow import types as kinds

    times = [field.name for field in schema if types and kinds.is_time(field.type)]
    new_names = {
        name: ILLEGAL_IN_NAMES.sub("_", name) for name in schema.names if names and ILLEGAL_IN_NAMES.search(name)
    }
    shapes: list[dict[str, Any]] = []
    if times:
        shapes.append({"cast": {"columns": dict.fromkeys(times, "STRING")}})
    if new_names:
        shapes.append({"rename": {"columns": new_names}})
    return shapes
