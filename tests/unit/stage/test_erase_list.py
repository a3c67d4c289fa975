"""Rows of those on the erase list are left out of batches, and no others."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.erase_list import (
    MAX_ERASED,
    EraseList,
    Eraser,
    ShapingDigest,
    id_texts,
    make_erasers,
)

TEXTS = st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=4), max_size=30)


def on_list(*values: str) -> EraseList:
    return EraseList().with_values("who", values)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
@given(values=TEXTS, erased=st.sets(st.text(st.characters(codec="utf-8"), max_size=4), max_size=5))
def test_exactly_the_rows_of_the_erased_are_left_out(
    kind: pa.DataType, values: list[str | None], erased: set[str]
) -> None:
    plain = pa.array(values, pa.string())
    column = plain.dictionary_encode() if pa.types.is_dictionary(kind) else plain.cast(kind)
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(values))), column], ["n", "who"])
    listed = on_list(*erased)
    kept = Eraser(listed, batch.schema).remove_rows(batch)
    assert kept.column(0).to_pylist() == [n for n, value in enumerate(values) if value not in erased]
    assert kept.schema == batch.schema


def test_a_number_is_named_by_its_text() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1, 12, None])], ["who"])
    assert Eraser(on_list("12"), batch.schema).remove_rows(batch).column(0).to_pylist() == [1, None]


def test_rows_without_the_erase_column_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'whom'.*erased rows would come back"):
        Eraser(on_list("a"), pa.schema([("whom", pa.string())]))


def test_the_same_values_make_no_new_version() -> None:
    listed = on_list("a", "b")
    assert listed.with_values("who", ["b"]) is listed
    assert listed.with_values("who", ["c"]).version == 2


def test_two_streams_lists_have_no_digest_in_common() -> None:
    assert not {*on_list("a").digests} & {*on_list("a").digests}


def test_an_erase_list_has_a_limit() -> None:
    with pytest.raises(ConfigError, match=f"{MAX_ERASED + 1:,} entries, and {MAX_ERASED:,} is the most"):
        on_list(*map(str, range(MAX_ERASED + 1)))


def shaping(digest: str) -> ShapingDigest:
    """Return what tells that shapes of this digest make the column; "" for no shape."""
    return lambda column, context: f"{digest}/{context}" if digest else ""


def test_a_list_keeps_the_digest_of_the_shapes_that_made_its_values() -> None:
    listed = EraseList().with_values("who", ["h1"], shaping("d1"))
    assert listed.shaping == f"d1/{listed.salt}"
    assert listed.shape_problem(shaping("d1")) is None
    for other in ("d2", ""):
        assert "now has other shapes, or another mask key" in (listed.shape_problem(shaping(other)) or "")
        with pytest.raises(ConfigError, match="erased rows would come back"):
            listed.with_values("who", ["h2"], shaping(other))
    assert listed.with_values("who", ["h2"], shaping("d1")).version == 2


def test_people_of_before_a_mask_and_those_after_it_are_parts_of_one_list() -> None:
    raw = on_list("u-1")
    both = raw.with_values("who", ["h2"], shaping("d1"))
    assert (both.version, both.matches(["u-1", "h2", "u-2"])) == (2, [True, True, False])
    assert both.shape_problem(shaping("d1")) is None
    assert both.with_values("who", ["h2"], shaping("d1")) is both
    batch = pa.RecordBatch.from_arrays([pa.array(["u-1", "h2", "x"])], ["who"])
    shaped = pa.schema([pa.field("who", pa.string()), pa.field("more", pa.string())])
    before, behind = make_erasers(both, batch.schema, shaped)
    assert before.remove_rows(batch).column(0).to_pylist() == ["h2", "x"], "a hash is no id of the source's"
    assert behind.remove_rows(batch).column(0).to_pylist() == ["x"]


def test_a_list_of_an_earlier_version_takes_more_people_as_before() -> None:
    earlier = EraseList.model_validate(on_list("a").model_dump(exclude={"shaping", "others"}))
    assert earlier.shaping is None
    longer = earlier.with_values("who", ["b"])
    assert (longer.salt, longer.shaping, longer.version) == (earlier.salt, None, 2)


def test_lists_of_several_streams_are_joined() -> None:
    one, other = on_list("a"), on_list("b").with_values("who", ["c"])
    joined = EraseList.join([one, other], 3)
    assert (joined.version, joined.salt, joined.matches(["a", "b", "c", "d"])) == (
        3,
        other.salt,
        [True, True, True, False],
    )
    assert EraseList.join([], 0) == EraseList()
    assert EraseList.join([EraseList()], 0) == EraseList()


def test_lists_by_two_columns_want_both_of_them() -> None:
    joined = EraseList.join([EraseList().with_values("mail", ["a@b"]), on_list("u")], 2)
    assert "column 'mail'" in (joined.column_problem(["who"]) or "")
    batch = pa.RecordBatch.from_arrays([pa.array(["u", "v", "w"]), pa.array(["x", "a@b", None])], ["who", "mail"])
    assert Eraser(joined, batch.schema).remove_rows(batch).column(0).to_pylist() == ["w"]
    assert joined.for_columns(["mail"]).parts[0].column == "mail"
    assert joined.for_columns([]) == EraseList()


@pytest.mark.parametrize(
    "kind", [pa.float64(), pa.decimal128(10, 2), pa.timestamp("us"), pa.binary(), pa.bool_()], ids=str
)
def test_a_column_without_one_text_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(ConfigError, match=r"'who', which is .*, so its values cannot be compared"):
        Eraser(on_list("17"), pa.schema([("who", kind)]))


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.decimal128(38, 0), pa.decimal256(76, 0)], ids=str)
def test_whole_numbers_are_named_by_their_text(kind: pa.DataType) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1, 17, None]).cast(kind)], ["who"])
    assert Eraser(on_list("17"), batch.schema).remove_rows(batch).column(0).to_pylist() == [1, None]


def test_ids_become_texts_without_duplicates() -> None:
    name = UUID("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11")
    assert id_texts([17, "17", Decimal("17.0"), Decimal("1.7E+1"), name]) == (
        "17",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    )
