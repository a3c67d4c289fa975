"""Rows of those on the erase list are left out of batches, and no others."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.erasing import MAX_ERASED, EraseList, Eraser

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
    kept = Eraser(listed, batch.schema).without(batch)
    assert kept.column(0).to_pylist() == [n for n, value in enumerate(values) if value not in erased]
    assert kept.schema == batch.schema


def test_a_number_is_named_by_its_text() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1, 12, None])], ["who"])
    assert Eraser(on_list("12"), batch.schema).without(batch).column(0).to_pylist() == [1, None]


def test_rows_that_do_not_say_whose_they_are_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'whom'.*erased rows would come back"):
        Eraser(on_list("a"), pa.schema([("whom", pa.string())]))


def test_the_same_values_make_no_new_version() -> None:
    listed = on_list("a", "b")
    assert listed.with_values("who", ["b"]) is listed
    assert listed.with_values("who", ["c"]).version == 2


def test_two_streams_lists_have_no_digest_in_common() -> None:
    assert not {*on_list("a").digests} & {*on_list("a").digests}


def test_a_list_has_an_end() -> None:
    with pytest.raises(ConfigError, match=f"{MAX_ERASED + 1:,} entries, and {MAX_ERASED:,} is the most"):
        on_list(*map(str, range(MAX_ERASED + 1)))
