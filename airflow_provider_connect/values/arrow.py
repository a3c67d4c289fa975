"""Classifies Arrow types, and finds types that cannot be written."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pyarrow as pa

TypeGroup = Literal[
    "null", "boolean", "integer", "float", "decimal", "text", "binary", "date", "time", "timestamp", "struct", "list",
    "map",
]  # fmt: skip
_TYPE_NAMES: dict[TypeGroup, str] = {
    "null": "NA",
    "boolean": "BOOL",
    "integer": "INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64",
    "float": "HALF_FLOAT FLOAT DOUBLE",
    "decimal": "DECIMAL32 DECIMAL64 DECIMAL128 DECIMAL256",
    "text": "STRING LARGE_STRING STRING_VIEW",
    "binary": "BINARY LARGE_BINARY BINARY_VIEW FIXED_SIZE_BINARY",
    "date": "DATE32 DATE64",
    "time": "TIME32 TIME64",
    "timestamp": "TIMESTAMP",
    "struct": "STRUCT",
    "list": "LIST LARGE_LIST FIXED_SIZE_LIST LIST_VIEW LARGE_LIST_VIEW",
    "map": "MAP",
}


def type_group(kind: pa.DataType) -> TypeGroup | None:
    """Return the group of a type, or None if unsupported."""
    from pyarrow import types

    return type_group(kind.value_type) if types.is_dictionary(kind) else _shapes_by_id().get(kind.id)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a dictionary's entries, and other types unchanged."""
    from pyarrow import types

    return kind.value_type if types.is_dictionary(kind) else kind


@lru_cache(maxsize=1)
def _shapes_by_id() -> dict[int, TypeGroup]:
    from pyarrow import lib

    return {getattr(lib, f"Type_{name}"): shape for shape, names in _TYPE_NAMES.items() for name in names.split()}


def is_list(kind: pa.DataType) -> bool:
    """Return True for lists. A map is not a list."""
    return type_group(kind) == "list"


def is_text(kind: pa.DataType) -> bool:
    """Return True for strings."""
    return type_group(kind) == "text"


def inner_types(kind: pa.DataType) -> list[pa.DataType]:
    """Return the types inside a type, one level down."""
    from pyarrow import types

    if types.is_dictionary(kind) or is_list(kind):
        return [kind.value_type]
    if types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [field.type for field in kind] if types.is_struct(kind) else []


def json_mark(field: pa.Field) -> str | None:
    """Return ``checked`` or ``unchecked`` for a column of JSON documents, else None."""
    mark: bytes | None = (field.metadata or {}).get(b"json")
    return mark.decode() if mark is not None else None


def true_rows(mask: Any) -> Any:
    """Return the indices (numpy) of true entries in an Arrow or numpy mask."""
    import pyarrow as pa

    if isinstance(mask, pa.Array):
        mask = mask.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    return mask.nonzero()[0]


def lengths_and_elements(array: pa.Array) -> tuple[Any, pa.Array]:
    """Return each list's or map's length (numpy, 0 for NULL), and all elements, of a map as structs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_map(kind):
        entry = pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])
        array = array.cast(pa.list_(entry))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return lengths, array.flatten()


def unwritable_columns(schema: pa.Schema, format_name: str) -> list[str]:
    """Return a problem for each column that a format cannot hold."""
    return [
        f"column {field.name!r}: {format_name} has no form for Arrow's {kind}: cast it in the source"
        for field in schema
        if (kind := _first_unwritable(field.type)) is not None
    ]


def _first_unwritable(kind: pa.DataType) -> pa.DataType | None:
    from pyarrow import types

    inner = inner_types(kind)
    if type_group(kind) is None or (types.is_map(kind) and types.is_nested(kind.key_type)):
        return kind
    # NULL is allowed at the top alone: `StructArray.flatten` of a map<string, null> ends the process (pyarrow 26).
    if any(types.is_null(part) for part in inner):
        return kind
    return next((unwritable for part in inner if (unwritable := _first_unwritable(part)) is not None), None)
