"""What every sink asks of Arrow's types and arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def is_list(kind: pa.DataType) -> bool:
    """Tell whether a type is a list of whatever layout; a map is none."""
    from pyarrow import types

    tests = (
        types.is_list,
        types.is_large_list,
        types.is_fixed_size_list,
        types.is_list_view,
        types.is_large_list_view,
    )
    return any(test(kind) for test in tests)


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a type is a string of whatever layout, or a dictionary of such."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Tell whether a type is a binary of whatever layout."""
    from pyarrow import types

    tests = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def parts(kind: pa.DataType) -> list[pa.DataType]:
    """Return the types inside a type, one level down; a leaf has none."""
    from pyarrow import types

    if types.is_dictionary(kind) or is_list(kind):
        return [kind.value_type]
    if types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [field.type for field in kind] if types.is_struct(kind) else []


def json_mark(field: pa.Field) -> str | None:
    """Return ``checked`` or ``unchecked`` for a field of JSON documents (:mod:`.source`), None for any other."""
    mark: bytes | None = (field.metadata or {}).get(b"json")
    return mark.decode() if mark is not None else None


def true_rows(mask: Any) -> Any:
    """Return the indices (numpy) at which a mask, Arrow's or numpy's, is true; NULL is not."""
    import pyarrow as pa

    if isinstance(mask, pa.Array):
        mask = mask.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    return mask.nonzero()[0]


def lists(array: pa.Array) -> tuple[Any, pa.Array]:
    """Return how many elements each list or map has (numpy), NULL none, and all elements; a map's as structs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_map(kind):
        entry = pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])
        array = array.cast(pa.list_(entry))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return lengths, array.flatten()


def not_utf8(texts: pa.Array) -> list[int]:
    """Return the rows of a ``string`` or ``large_string`` array that are no UTF-8, which Arrow lets through."""
    import pyarrow as pa

    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        values = texts.cast(pa.large_binary()).to_pylist()
        return [row for row, value in enumerate(values) if value and not _is_utf8(value)]
    return []


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
